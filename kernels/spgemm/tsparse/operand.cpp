// The operands of tSparse on the host: a matrix becomes bitmap tiles, and two operands a list of
// products of tiles.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "formats/bitmap_tile.hpp"
#include "kernels/spgemm/tsparse/tsparse.hpp"
#include "kernels/tensor_core/number_format.hpp"

namespace tessera::tsparse {
namespace {

constexpr std::int64_t kMostTasks = std::numeric_limits<std::int32_t>::max();
constexpr int kLargestExponent = 14;  // of the largest magnitude, once scaled

std::int32_t tiles_across(std::int32_t length) {
  return static_cast<std::int32_t>((std::int64_t{length} + kSide - 1) / kSide);
}

/// Refuses infinities and NaN, which the multiplied zeros of a tile would spread.
void require_finite(const CsrMatrix& matrix, char name) {
  for (const float value : matrix.values)
    require<Unsupported>(std::isfinite(value),
                         "{} holds the value {}, which the zeros of a tile would spread", name,
                         value);
}

/// Returns the exponent of the power of two that scales a matrix before its conversion to FP16.
int scaling_exponent(const CsrMatrix& matrix, char name, bool scales) {
  float largest = 0;
  for (const float value : matrix.values) largest = std::max(largest, std::abs(value));
  if (scales) return largest == 0 ? 0 : kLargestExponent - std::ilogb(largest);
  require<Unsupported>(
      std::isfinite(convert(largest, Conversion::kFp16)),
      "the largest magnitude of {} is {}, which exceeds 65504, the largest FP16 number", name,
      largest);
  return 0;
}

/// Reorders the bits and the values of a tile by columns.
void transpose_tile(Tile& tile, std::span<float> values) {
  std::array<float, kSide * kSide> cells{};
  std::uint64_t transposed = 0;
  auto value = values.begin();
  for (std::uint64_t rest = tile.bitmap; rest != 0; rest &= rest - 1) {
    const int bit = std::countr_zero(rest), cell = bit % kSide * kSide + bit / kSide;
    transposed |= std::uint64_t{1} << cell;
    cells[static_cast<std::size_t>(cell)] = *value++;
  }
  value = values.begin();
  for (std::uint64_t rest = transposed; rest != 0; rest &= rest - 1)
    *value++ = cells[static_cast<std::size_t>(std::countr_zero(rest))];
  tile.bitmap = transposed;
}

void fill_tiles(const BitmapTile& packed, Side side, TileOperand& operand) {
  operand.tiles.resize(packed.bitmap.size());
  parallel_for(packed.num_tiles(), 1 << 12, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      Tile& tile = operand.tiles[t];
      tile = {packed.bitmap[t], packed.value_offset[t], packed.tile_col[t]};
      if (side == Side::kB)
        transpose_tile(
            tile, std::span(operand.values).subspan(tile.first_value, std::popcount(tile.bitmap)));
    }
  });
}

}  // namespace

TileOperand make_operand(const CsrMatrix& matrix, Side side, const TsparseOptions& options) {
  const char name = side == Side::kA ? 'A' : 'B';
  require<Unsupported>(matrix.nnz() <= kMostTasks,
                       "tsparse counts nonzeros in 32 bits, and {} has {}", name, matrix.nnz());
  const auto format = Registry<Format>::instance().make(BitmapTile::kFormat);
  const auto packed = format->pack(matrix);
  const auto& tiles = packed_as<BitmapTile>(*packed);
  TileOperand operand{.tile_rows = tiles_across(matrix.rows),
                      .tile_cols = tiles_across(matrix.cols),
                      .row_of_tile = tiles.tile_row,
                      .values = tiles.values};
  if (options.multiplies_zeros()) require_finite(matrix, name);
  if (options.on_tensor_cores) {
    operand.exponent = scaling_exponent(matrix, name, options.scales);
    for (float& value : operand.values) value = std::ldexp(value, operand.exponent);
  }
  fill_tiles(tiles, side, operand);
  operand.row_begin.assign(static_cast<std::size_t>(operand.tile_rows) + 1, 0);
  for (const std::int32_t row : operand.row_of_tile) ++operand.row_begin[row + 1];
  for (std::int32_t row = 0; row < operand.tile_rows; ++row)
    operand.row_begin[row + 1] += operand.row_begin[row];
  return operand;
}

void round_to_fp16(TileOperand& operand) {
  for (float& value : operand.values) value = convert(value, Conversion::kFp16);
}

std::vector<TileTask> sorted_tasks(const TileOperand& a, const TileOperand& b, std::int32_t row) {
  std::vector<TileTask> tasks;
  for (std::uint32_t t = a.row_begin[row]; t < a.row_begin[row + 1]; ++t) {
    const std::uint32_t inner = inner_indices(a.tiles[t].bitmap);
    const std::int32_t of_b = a.tiles[t].col;
    for (std::uint32_t u = b.row_begin[of_b]; u < b.row_begin[of_b + 1]; ++u)
      if ((inner & inner_indices(b.tiles[u].bitmap)) != 0) tasks.push_back({t, u});
  }
  std::ranges::stable_sort(tasks, {}, [&](const TileTask& task) { return b.tiles[task.b].col; });
  return tasks;
}

std::uint64_t pattern_of(const TileOperand& a, const TileOperand& b,
                         std::span<const TileTask> tasks) {
  std::uint64_t pattern = 0;
  for (int row = 0; row < kSide; ++row) {
    std::uint64_t bytes = 0;
    for (const TileTask& task : tasks)
      bytes |= products_of_row(a.tiles[task.a].bitmap, b.tiles[task.b].bitmap, row);
    pattern |= std::uint64_t{nonzero_bytes(bytes)} << kSide * row;
  }
  return pattern;
}

std::vector<std::int32_t> cut_slices(std::span<const std::int64_t> first_task, std::int64_t most) {
  std::vector<std::int32_t> begins{0};
  const auto rows = static_cast<std::int32_t>(first_task.size() - 1);
  for (std::int32_t row = 0; row < rows; ++row) {
    const std::int64_t of_row = first_task[row + 1] - first_task[row];
    require<Unsupported>(of_row <= kMostTasks,
                         "tile row {} has {} products of tiles, more than 32 bits count", row,
                         of_row);
    if (row > begins.back() && first_task[row + 1] - first_task[begins.back()] > most)
      begins.push_back(row);
  }
  begins.push_back(rows);
  return begins;
}

}  // namespace tessera::tsparse
