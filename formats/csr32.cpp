#include "formats/csr32.hpp"

#include "formats/base/registry.hpp"
#include "formats/statistics/footprint_formula.hpp"

namespace tessera {
namespace {

class Csr32Format final : public Format {
 public:
  std::unique_ptr<PackedMatrix> build(const CsrMatrix& matrix,
                                      const PackLimits& limits) const override {
    limits.require_offset(Csr32::kFormat, "nonzeros", matrix.nnz());
    auto packed = std::make_unique<Csr32>(matrix.rows, matrix.cols, matrix.nnz());
    packed->row_offsets.assign(matrix.row_offsets.begin(), matrix.row_offsets.end());
    packed->col_indices = matrix.col_indices;
    packed->values = matrix.values;
    return packed;
  }
};

const Register<Format> entry{{
    .name = Csr32::kFormat,
    .summary = "compressed sparse rows with 32-bit row offsets, whose bytes the papers count",
    .make = [](const Params&) { return std::make_unique<Csr32Format>(); },
}};

const Register<FootprintFormula> footprint{
    footprint_formula(Csr32::kFormat, [](const MatrixExtents& a) {
      return Footprint{4 * (a.rows + 1 + a.nnz), 4 * a.nnz};
    })};

}  // namespace

CsrMatrix Csr32::unpack() const {
  return {rows(), cols(), std::vector<std::int64_t>(row_offsets.begin(), row_offsets.end()),
          col_indices, values};
}

std::vector<ArrayInfo> Csr32::arrays() const {
  return {array_info("row_offsets", row_offsets), array_info("col_indices", col_indices),
          array_info("values", values, true)};
}

std::string Csr32::locate(std::int32_t row) const {
  return fmt::format("row {}, nonzeros {} to {}", row, row_offsets[row], row_offsets[row + 1]);
}

}  // namespace tessera
