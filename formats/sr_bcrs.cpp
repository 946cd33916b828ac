#include "formats/sr_bcrs.hpp"

#include "formats/base/registry.hpp"
#include "formats/condense.hpp"
#include "formats/explicit_zeros.hpp"
#include "formats/statistics/footprint_formula.hpp"
#include "formats/unpack.hpp"

namespace tessera {
namespace {

class SrBcrsFormat final : public Format {
 public:
  SrBcrsFormat(int vector_rows, int stride) : vector_rows_(vector_rows), stride_(stride) {}

  std::unique_ptr<PackedMatrix> build(const CsrMatrix& matrix,
                                      const PackLimits& limits) const override {
    const Condensed condensed = condense(matrix, vector_rows_);
    const Tiling tiling = tile(matrix, condensed, stride_);
    const std::int64_t vectors = tiling.tiles() * stride_;
    limits.require_offset(SrBcrs::kFormat, "vectors", vectors);
    limits.require_bytes(SrBcrs::kFormat, 4 * (2.0 * static_cast<double>(condensed.windows()) +
                                               static_cast<double>(vectors) * (1 + vector_rows_)));

    auto packed = std::make_unique<SrBcrs>(matrix.rows, matrix.cols, matrix.nnz());
    packed->vector_rows = vector_rows_;
    packed->stride = stride_;
    packed->row_begin.resize(static_cast<std::size_t>(condensed.windows()));
    packed->row_end.resize(static_cast<std::size_t>(condensed.windows()));
    for (std::int64_t w = 0; w < condensed.windows(); ++w) {
      const std::int64_t begin = tiling.tile_offsets[w] * stride_;
      packed->row_begin[w] = static_cast<std::uint32_t>(begin);
      packed->row_end[w] = static_cast<std::uint32_t>(begin + condensed.active_cols(w));
    }
    packed->col_indices = padded_columns(condensed, tiling, stride_);
    packed->values.resize(static_cast<std::size_t>(vectors * vector_rows_));
    ExplicitZeros zeros(matrix);
    for_each_cell(matrix, condensed, tiling, stride_, [&](const TileCell& cell) {
      const std::int64_t place = packed->cell(cell.tile, cell.row, cell.col);
      packed->values[place] = matrix.values[cell.nonzero];
      if (matrix.values[cell.nonzero] == 0) zeros.place(cell.nonzero, place);
    });
    packed->explicit_zeros = zeros.take_cells();
    return packed;
  }

 private:
  int vector_rows_, stride_;
};

const Register<Format> entry{{
    .name = SrBcrs::kFormat,
    .summary = "V x 1 vectors stored whole, padded to the MMA's depth (Magicube)",
    .params = {{"vector_rows", std::int64_t{8}, "rows of a vector", {"2", "4", "8", "16"}},
               {"stride", std::int64_t{16}, "vectors stored together", {"16", "32"}}},
    .make =
        [](const Params& params) {
          return std::make_unique<SrBcrsFormat>(static_cast<int>(params.integer("vector_rows")),
                                                static_cast<int>(params.integer("stride")));
        },
}};

// The formula is that of the default vectors of 8 x 1 in strides of 16.
const Register<FootprintFormula> footprint{
    footprint_formula(SrBcrs::kFormat, [](const MatrixExtents& a) {
      const std::int64_t vectors = 16 * a.tiles(8, 16);
      return Footprint{4 * (2 * a.windows(8) + vectors), 4 * 8 * vectors};
    })};

}  // namespace

CsrMatrix SrBcrs::unpack() const {
  return unpack_windows(*this, num_row_windows(), [&](std::int64_t window, auto visit) {
    const std::int64_t first = row_begin[window] / stride;
    for (std::int64_t b = first; b < first + tc_blocks(window); ++b)
      for (int r = 0; r < vector_rows; ++r)
        for (int c = 0; c < stride; ++c)
          if (holds_nonzero(values, explicit_zeros, cell(b, r, c)))
            visit(window * vector_rows + r, col_indices[b * stride + c], values[cell(b, r, c)]);
  });
}

std::vector<ArrayInfo> SrBcrs::arrays() const {
  std::vector<ArrayInfo> arrays{array_info("row_begin", row_begin), array_info("row_end", row_end),
                                array_info("col_indices", col_indices),
                                array_info("values", values, true)};
  if (!explicit_zeros.empty()) arrays.push_back(array_info("explicit_zeros", explicit_zeros));
  return arrays;
}

TileInfo SrBcrs::tiles() const {
  return {vector_rows, stride, num_vectors() / stride, std::ssize(values)};
}

std::string SrBcrs::locate(std::int32_t row) const {
  const std::int32_t window = row / vector_rows, row_in_window = row % vector_rows;
  const std::int64_t first = row_begin[window] / stride;
  return locate_in_tiles(
      row, {"TC block", vector_rows, first, first + tc_blocks(window)}, [&](std::int64_t block) {
        for (int c = 0; c < stride; ++c)
          if (holds_nonzero(values, explicit_zeros, cell(block, row_in_window, c))) return true;
        return false;
      });
}

}  // namespace tessera
