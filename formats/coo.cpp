#include "formats/coo.hpp"

#include <algorithm>
#include <numeric>

#include "formats/base/registry.hpp"
#include "formats/entry_rows.hpp"

namespace tessera {
namespace {

class CooFormat final : public Format {
 public:
  std::unique_ptr<PackedMatrix> build(const CsrMatrix& matrix, const PackLimits&) const override {
    auto packed = std::make_unique<Coo>(matrix.rows, matrix.cols, matrix.nnz());
    packed->row_indices = entry_rows(matrix);
    packed->col_indices = matrix.col_indices;
    packed->values = matrix.values;
    return packed;
  }
};

const Register<Format> entry{{
    .name = Coo::kFormat,
    .summary = "row, column and value of every nonzero",
    .make = [](const Params&) { return std::make_unique<CooFormat>(); },
}};

}  // namespace

CsrMatrix Coo::unpack() const {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(rows()) + 1, 0);
  for (const std::int32_t row : row_indices) ++offsets[row + 1];
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  return {rows(), cols(), std::move(offsets), col_indices, values};
}

std::vector<ArrayInfo> Coo::arrays() const {
  return {array_info("row_indices", row_indices), array_info("col_indices", col_indices),
          array_info("values", values, true)};
}

std::string Coo::locate(std::int32_t row) const {
  const auto [first, last] = std::ranges::equal_range(row_indices, row);
  return fmt::format("row {}, entries {} to {}", row, first - row_indices.begin(),
                     last - row_indices.begin());
}

}  // namespace tessera
