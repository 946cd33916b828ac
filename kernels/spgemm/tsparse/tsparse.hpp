// tSparse's SpGEMM (Zachariadis et al., 2020): what its two halves share.
// See kernels/spgemm/tsparse/tsparse.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/params.hpp"
#include "kernels/scaling.hpp"
#include "kernels/spgemm/shared/bitmap_tiles.hpp"

namespace tessera::tsparse {

using namespace spgemm;

struct TsparseOptions {
  explicit TsparseOptions(const Params& params);

  bool on_tensor_cores;
  bool drops_zeros;
  bool scales;                  // into the range of FP16
  std::int64_t tasks_of_slice;  // at most, where a tile row has no more
};

/// One product of tiles.
struct alignas(8) TileTask {
  std::uint32_t a, b;
};

/// A matrix as the kernel reads it: bitmap tiles by row, the values of a tile in the order of its
/// bits.
struct TileOperand {
  std::int32_t tile_rows = 0, tile_cols = 0;
  std::vector<Tile> tiles = {};
  std::vector<std::int32_t> row_of_tile = {};  // [tiles]
  std::vector<std::uint32_t> row_begin = {};   // [tile_rows + 1] first tile
  std::vector<float> values = {};              // [nnz] as the multiplication meets them
  int exponent = 0;                            // they were multiplied by two to the power of it
};

enum class Side { kA, kB };

/// Throws Unsupported where the numbers are beyond FP16, or too many.
TileOperand make_operand(const CsrMatrix& matrix, Side side, const TsparseOptions& choices);

/// The products of tiles in one tile row of C, by tile column; those of a tile in A's order.
std::vector<TileTask> sorted_tasks(const TileOperand& a, const TileOperand& b, std::int32_t row);

/// The cells of the tile of C that these products make.
std::uint64_t pattern_of(const TileOperand& a, const TileOperand& b,
                         std::span<const TileTask> tasks);

/// Tile rows at which the slices of a product begin, and the last one's end: as many rows as have
/// no more than `most` tasks, or one. first_task [tile rows + 1] are running sums. Throws
/// Unsupported where a single tile row has more tasks than 32 bits count.
std::vector<std::int32_t> cut_slices(std::span<const std::int64_t> first_task, std::int64_t most);

}  // namespace tessera::tsparse
