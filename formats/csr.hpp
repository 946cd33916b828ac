// CSR as a packed form: the format that changes nothing, and the baseline of every footprint.
#pragma once

#include "formats/format.hpp"

namespace tessera {

struct CsrPacked final : PackedMatrix {
  static constexpr const char* kFormat = "csr";

  explicit CsrPacked(CsrMatrix source)
      : PackedMatrix(source.rows, source.cols, source.nnz()), matrix(std::move(source)) {}

  CsrMatrix unpack() const override { return matrix; }
  std::vector<ArrayInfo> arrays() const override;
  std::string locate(std::int32_t row) const override;
  std::vector<std::int64_t> row_lengths() const;  // [rows]

  CsrMatrix matrix;
};

}  // namespace tessera
