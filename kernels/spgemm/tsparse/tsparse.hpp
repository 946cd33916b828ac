// tSparse's SpGEMM (Zachariadis et al., 2020): the options, operands and tasks that its host half
// and its device half share. See kernels/spgemm/tsparse/tsparse.cpp.
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
  bool counts_by_products;   // of zeros and ones, by the cores that multiply values
  bool multiplies_in_pairs;  // the published multiplication: a thread block for two tiles of C
  bool drops_zeros;
  bool scales;                  // operands are scaled into the range of FP16
  std::int64_t tasks_of_slice;  // at most, unless a single tile row has more

  /// True where the empty cells of A's and B's tiles are multiplied as zeros.
  bool multiplies_zeros() const { return on_tensor_cores || multiplies_in_pairs; }
};

/// The indices of two tiles that are multiplied.
struct alignas(8) TileTask {
  std::uint32_t a, b;
};

/// A matrix as the kernel reads it: bitmap tiles by row, with the values of a tile in the order of
/// its bits.
struct TileOperand {
  std::int32_t tile_rows = 0, tile_cols = 0;
  std::vector<Tile> tiles = {};
  std::vector<std::int32_t> row_of_tile = {};  // [tiles]
  std::vector<std::uint32_t> row_begin = {};   // [tile_rows + 1] first tile
  std::vector<float> values = {};              // [nnz] scaled
  int exponent = 0;                            // of the power of two that scales them
};

enum class Side { kA, kB };

/// Packs a matrix. Throws Unsupported where values do not fit FP16, are infinite or NaN, or where
/// 32 bits do not count the nonzeros.
TileOperand make_operand(const CsrMatrix& matrix, Side side, const TsparseOptions& options);

/// Rounds the values to FP16, as the device does: to nearest, ties to even.
void round_to_fp16(TileOperand& operand);

/// Returns the products of tiles in one tile row of C by tile column, those of a tile in A's order.
std::vector<TileTask> sorted_tasks(const TileOperand& a, const TileOperand& b, std::int32_t row);

/// Returns the cells of the tile of C that is the sum of these products.
std::uint64_t pattern_of(const TileOperand& a, const TileOperand& b,
                         std::span<const TileTask> tasks);

/// Returns the tile rows at which the slices of a product begin, and the end of the last slice. A
/// slice has as many rows as have at most `most` tasks, or one row. first_task [tile rows + 1]
/// holds prefix sums. Throws Unsupported where a single tile row has more tasks than 32 bits count.
std::vector<std::int32_t> cut_slices(std::span<const std::int64_t> first_task, std::int64_t most);

}  // namespace tessera::tsparse
