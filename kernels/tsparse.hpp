// tSparse's SpGEMM (Zachariadis et al., 2020): what its two halves share.
// See kernels/tsparse.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/params.hpp"
#include "kernels/scaling.hpp"

namespace tessera::tsparse_spgemm {

constexpr int kSide = 8;  // of a tile

struct Choices {
  explicit Choices(const Params& params);

  bool on_tensor_cores;
  bool drops_zeros;
  bool scales;                  // into the range of FP16
  std::int64_t tasks_of_slice;  // at most, where a tile row has no more
};

/// A tile of A, of B or of C. Of A and C bit 8 row + col is a cell, of B bit 8 col + row: as an
/// operand of an MMA a lane then has two neighbouring bits of either.
struct alignas(16) Tile {
  std::uint64_t bitmap;
  std::uint32_t first_value;
  std::int32_t col;  // of the grid of tiles
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
TileOperand make_operand(const CsrMatrix& matrix, Side side, const Choices& choices);

/// The products of tiles in one tile row of C, by tile column; those of a tile in A's order.
std::vector<TileTask> sorted_tasks(const TileOperand& a, const TileOperand& b, std::int32_t row);

/// The cells of the tile of C that these products make.
std::uint64_t pattern_of(const TileOperand& a, const TileOperand& b,
                         std::span<const TileTask> tasks);

/// Tiles of C, by row and column.
struct TilesOfC {
  std::vector<std::int32_t> tile_row, tile_col;  // [tiles]
  std::vector<std::uint64_t> bitmap;             // [tiles]
  std::vector<std::int64_t> first_value;         // [tiles + 1]
  std::vector<float> values;
};

/// C from its slices, which follow each other by rows.
CsrMatrix to_csr(std::int32_t rows, std::int32_t cols, std::span<const TilesOfC> slices);

/// Tiles with a nonzero in the row: the MMAs that its elements are sums of, at most. [rows]
std::vector<std::int64_t> tiles_per_row(const CsrMatrix& matrix);

/// Tile rows at which the slices of a product begin, and the last one's end: as many rows as have
/// no more than `most` tasks, or one. first_task [tile rows + 1] are running sums. Throws
/// Unsupported where a single tile row has more tasks than 32 bits count.
std::vector<std::int32_t> cut_slices(std::span<const std::int64_t> first_task, std::int64_t most);

/// The OR of a bitmap's bytes: columns of A's tile, or rows of B's, that hold anything.
TESSERA_HOST_DEVICE constexpr std::uint32_t inner_indices(std::uint64_t bitmap) {
  std::uint64_t folded = bitmap | bitmap >> 32;
  folded |= folded >> 16;
  folded |= folded >> 8;
  return static_cast<std::uint32_t>(folded & 0xff);
}

/// A byte for each column of C's tile, nonzero where the tile's row has a product there. Bytes of
/// several products are joined by OR.
TESSERA_HOST_DEVICE constexpr std::uint64_t products_of_row(std::uint64_t a, std::uint64_t b,
                                                            int row) {
  return (a >> kSide * row & 0xff) * 0x0101010101010101u & b;
}

/// The bits, one a column, of bytes that are not zero.
TESSERA_HOST_DEVICE constexpr std::uint32_t nonzero_bytes(std::uint64_t bytes) {
  bytes |= bytes >> 4;
  bytes |= bytes >> 2;
  bytes |= bytes >> 1;
  return static_cast<std::uint32_t>((bytes & 0x0101010101010101u) * 0x0102040810204080u >> 56);
}

/// The value of a cell: an exact scaling undone, rounded once where FP32 underflows.
TESSERA_HOST_DEVICE constexpr float unscaled(float sum, double factor) {
  return factor == 1 ? sum : static_cast<float>(static_cast<double>(sum) * factor);
}

}  // namespace tessera::tsparse_spgemm
