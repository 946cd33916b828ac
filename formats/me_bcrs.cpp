#include "formats/me_bcrs.hpp"

#include "formats/base/registry.hpp"
#include "formats/condense.hpp"
#include "formats/explicit_zeros.hpp"
#include "formats/statistics/footprint_formula.hpp"
#include "formats/unpack.hpp"

namespace tessera {
namespace {

class MeBcrsFormat final : public Format {
 public:
  MeBcrsFormat(int vector_rows, int tile_cols) : vector_rows_(vector_rows), tile_cols_(tile_cols) {}

  std::unique_ptr<PackedMatrix> build(const CsrMatrix& matrix,
                                      const PackLimits& limits) const override {
    Condensed condensed = condense(matrix, vector_rows_);
    const std::int64_t vectors = condensed.offsets.back();
    limits.require_offset(MeBcrs::kFormat, "vectors", vectors);
    limits.require_bytes(MeBcrs::kFormat, 4 * (static_cast<double>(condensed.windows() + 1) +
                                               static_cast<double>(vectors) * (1 + vector_rows_)));

    auto packed = std::make_unique<MeBcrs>(matrix.rows, matrix.cols, matrix.nnz());
    packed->vector_rows = vector_rows_;
    packed->tile_cols = tile_cols_;
    packed->row_window_offset.assign(condensed.offsets.begin(), condensed.offsets.end());
    packed->values.resize(static_cast<std::size_t>(vectors * vector_rows_));
    ExplicitZeros zeros(matrix);
    const Tiling tiling = tile(matrix, condensed, tile_cols_);
    for_each_cell(matrix, condensed, tiling, tile_cols_, [&](const TileCell& cell) {
      const std::int64_t index = cell.tile - tiling.tile_offsets[cell.window];
      const std::int64_t place =
          packed->cell(packed->tc_block(cell.window, index), cell.row, cell.col);
      packed->values[place] = matrix.values[cell.nonzero];
      if (matrix.values[cell.nonzero] == 0) zeros.place(cell.nonzero, place);
    });
    packed->col_indices = std::move(condensed.cols);
    packed->explicit_zeros = zeros.take_cells();
    return packed;
  }

 private:
  int vector_rows_, tile_cols_;
};

const Register<Format> entry{{
    .name = MeBcrs::kFormat,
    .summary = "8 x 1 vectors stored whole, without padded columns (FlashSparse)",
    .params = {{"vector_rows", std::int64_t{8}, "rows of a vector", {"8", "16"}},
               {"tile_cols", std::int64_t{8}, "vectors of a TC block", {"4", "8", "16"}}},
    .make =
        [](const Params& params) {
          return std::make_unique<MeBcrsFormat>(static_cast<int>(params.integer("vector_rows")),
                                                static_cast<int>(params.integer("tile_cols")));
        },
}};

// The formula is that of the default vectors of 8 x 1.
const Register<FootprintFormula> footprint{
    footprint_formula(MeBcrs::kFormat, [](const MatrixExtents& a) {
      const std::int64_t vectors = a.tiles(8, 1);
      return Footprint{4 * (a.windows(8) + 1 + vectors), 4 * 8 * vectors};
    })};

}  // namespace

std::int64_t MeBcrs::first_tc_block(std::int64_t window) const {
  std::int64_t blocks = 0;
  for (std::int64_t w = 0; w < window; ++w) blocks += tc_blocks(w);
  return blocks;
}

CsrMatrix MeBcrs::unpack() const {
  return unpack_windows(*this, num_row_windows(), [&](std::int64_t window, auto visit) {
    for (std::int64_t b = 0; b < tc_blocks(window); ++b) {
      const TcBlock block = tc_block(window, b);
      for (int r = 0; r < vector_rows; ++r)
        for (int c = 0; c < block.width; ++c)
          if (holds_nonzero(values, explicit_zeros, cell(block, r, c)))
            visit(window * vector_rows + r, col_indices[block.first_vector + c],
                  values[cell(block, r, c)]);
    }
  });
}

std::vector<ArrayInfo> MeBcrs::arrays() const {
  std::vector<ArrayInfo> arrays{array_info("row_window_offset", row_window_offset),
                                array_info("col_indices", col_indices),
                                array_info("values", values, true)};
  if (!explicit_zeros.empty()) arrays.push_back(array_info("explicit_zeros", explicit_zeros));
  return arrays;
}

TileInfo MeBcrs::tiles() const {
  return {vector_rows, tile_cols, first_tc_block(num_row_windows()), std::ssize(values)};
}

std::string MeBcrs::locate(std::int32_t row) const {
  const std::int32_t window = row / vector_rows, row_in_window = row % vector_rows;
  const std::int64_t first = first_tc_block(window);
  return locate_in_tiles(
      row, {"TC block", vector_rows, first, first + tc_blocks(window)}, [&](std::int64_t block) {
        const TcBlock place = tc_block(window, block - first);
        for (int c = 0; c < place.width; ++c)
          if (holds_nonzero(values, explicit_zeros, cell(place, row_in_window, c))) return true;
        return false;
      });
}

}  // namespace tessera
