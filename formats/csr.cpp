#include "formats/csr.hpp"

#include "formats/base/registry.hpp"
#include "formats/statistics/footprint_formula.hpp"

namespace tessera {
namespace {

class Csr final : public Format {
 public:
  std::unique_ptr<PackedMatrix> build(const CsrMatrix& matrix, const PackLimits&) const override {
    return std::make_unique<CsrPacked>(matrix);
  }
};

const Register<Format> entry{{
    .name = CsrPacked::kFormat,
    .summary = "compressed sparse rows, unchanged: the baseline",
    .make = [](const Params&) { return std::make_unique<Csr>(); },
}};

const Register<FootprintFormula> footprint{
    footprint_formula(CsrPacked::kFormat, [](const MatrixExtents& a) {
      return Footprint{8 * (a.rows + 1) + 4 * a.nnz, 4 * a.nnz};
    })};

}  // namespace

std::vector<ArrayInfo> CsrPacked::arrays() const {
  return {array_info("row_offsets", matrix.row_offsets),
          array_info("col_indices", matrix.col_indices), array_info("values", matrix.values, true)};
}

std::vector<std::int64_t> CsrPacked::row_lengths() const {
  std::vector<std::int64_t> lengths(matrix.rows);
  for (std::int32_t row = 0; row < matrix.rows; ++row) lengths[row] = matrix.row_length(row);
  return lengths;
}

std::string CsrPacked::locate(std::int32_t row) const {
  return fmt::format("row {}, nonzeros {} to {}", row, matrix.row_offsets[row],
                     matrix.row_offsets[row + 1]);
}

}  // namespace tessera
