#include "kernels/spgemm/shared/bitmap_tiles.hpp"

#include "formats/base/parallel.hpp"

namespace tessera::spgemm {

CsrMatrix to_csr(std::int32_t rows, std::int32_t cols, std::span<const TilesOfC> slices) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(rows) + 1, 0);
  const auto for_each_cell = [&](auto visit) {
    for (const TilesOfC& slice : slices)
      for (std::size_t t = 0; t < slice.bitmap.size(); ++t) {
        std::int64_t k = slice.first_value[t];
        for (std::uint64_t rest = slice.bitmap[t]; rest != 0; rest &= rest - 1, ++k) {
          const int bit = std::countr_zero(rest);
          visit(std::int64_t{slice.tile_row[t]} * kSide + bit / kSide,
                slice.tile_col[t] * kSide + bit % kSide, slice.values[k]);
        }
      }
  };
  for_each_cell([&](std::int64_t row, std::int32_t, float) { ++offsets[row + 1]; });
  for (std::int32_t row = 0; row < rows; ++row) offsets[row + 1] += offsets[row];
  std::vector<std::int32_t> col_indices(static_cast<std::size_t>(offsets.back()));
  std::vector<float> values(col_indices.size());
  std::vector<std::int64_t> at(offsets.begin(), offsets.end() - 1);
  for_each_cell([&](std::int64_t row, std::int32_t col, float value) {
    col_indices[at[row]] = col;
    values[at[row]++] = value;
  });
  return {rows, cols, std::move(offsets), std::move(col_indices), std::move(values)};
}

std::vector<std::int64_t> tiles_per_row(const CsrMatrix& matrix) {
  std::vector<std::int64_t> tiles(matrix.rows, 0);
  for (std::int32_t row = 0; row < matrix.rows; ++row) {
    std::int32_t last = -1;
    for (const std::int32_t col : matrix.row_cols(row)) {
      tiles[row] += col / kSide != last ? 1 : 0;
      last = col / kSide;
    }
  }
  return tiles;
}

}  // namespace tessera::spgemm
