// What tile_spgemm finds of a product, on the host and of patterns alone: tiles as its first kernel
// leaves them, tasks as the second one cuts them, tiles of C. For the simulator.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "formats/base/matrix.hpp"
#include "kernels/spgemm/tile/tile_spgemm.hpp"

namespace tessera::tile_spgemm::tracing {

/// Sectors of a tile's values, as bits from that of its first value on: of cells with even places
/// in the order of the values, and with odd ones. A lane's two loads take one of each.
struct ValueSectors {
  std::uint16_t even, odd;
};

/// A matrix as tiles. Those of a tile row are from its first nonzero's place on.
struct TiledMatrix {
  TiledMatrix(const CsrMatrix& csr, int value_bytes);

  const CsrMatrix& csr;
  std::vector<TileRow> rows;                    // [tile rows]
  std::vector<Tile> tiles;                      // [nonzeros]; bitmaps by rows
  std::vector<std::uint32_t> first_nonzero;     // [nonzeros] of a tile
  std::vector<std::int32_t> tile_of;            // [nonzeros]: its place in the tile row
  std::vector<std::uint32_t> by_rows, by_cols;  // [nonzeros]: places of values
  std::vector<ValueSectors> sectors_by_rows, sectors_by_cols;  // [nonzeros] of a tile

  std::int64_t tile_rows() const { return std::ssize(rows); }
  std::int32_t longest() const;

 private:
  void fill(std::int32_t tile_row, int value_bytes);
};

/// A tile of C within a task.
struct TileOfC {
  std::uint64_t cells = 0;
  std::uint64_t meeting = 0;  // bit i: the i-th tile of A's row is in a pair
  std::int32_t col = 0;
  std::uint32_t first_step = 0;  // of the thread block's lanes, at which a pair of it comes first
};

/// A part of a tile row of B: factor i's tiles.
struct Factor {
  std::int64_t of_a;        // tile
  std::int64_t begin, end;  // tiles of B
};

/// Columns of C that a thread block has at once, and its tiles there.
struct Columns {
  std::int32_t first, end;
  bool are_all;
  std::int64_t first_tile, last_tile;  // of C
};

struct TaskWork {
  Task task{};
  std::int64_t first_tile = 0, last_tile = 0;  // of C
  std::int64_t products = 0;                   // of tiles, also empty ones
  std::int64_t pairs = 0;
  std::array<std::int64_t, kSide> row_begins{};  // in C
  std::array<std::int64_t, kSide> cells{};       // in each row
};

struct Product {
  Product(const CsrMatrix& a, const CsrMatrix& b, TileArithmetic numbers);

  const TiledMatrix& tiles_of_b() const { return b ? *b : a; }
  std::int64_t slices() const { return std::ssize(tasks) - a.tile_rows(); }
  /// The task that a thread block takes: slices come first.
  const TaskWork& task_of(std::int64_t thread_block) const {
    return tasks[static_cast<std::size_t>(number_of(thread_block))];
  }
  std::int64_t number_of(std::int64_t thread_block) const {
    return thread_block < slices() ? a.tile_rows() + thread_block : thread_block - slices();
  }

  /// What a task has at once, so many columns at a time.
  std::vector<Columns> columns_of(const TaskWork& work, std::int32_t cols_at_once) const;
  /// The factors of a tile row, as far as their tiles of B are in those columns.
  std::vector<Factor> factors_of(const Task& task, const Columns& columns) const;

  TileArithmetic numbers;
  TiledMatrix a;
  std::unique_ptr<TiledMatrix> b;   // where it is not A
  std::vector<TaskWork> tasks;      // as on the device: first slices by tile row, then the others
  std::vector<TileOfC> tiles_of_c;  // by task
  std::int64_t nonzeros_of_c = 0;

 private:
  void cut();
  void find_tiles();
};

/// As many lanes, of 2 to the power of it, take a factor as leaves none without.
constexpr int bits_of_lanes(std::int64_t factors) {
  int bits = 5;
  while (bits > 3 && factors << bits > kThreads) --bits;
  return bits;
}

/// A pair's step: rounds of factors, then tiles of a factor that its lanes take at once.
constexpr std::uint32_t step_of(int factor, std::int64_t tile, int bits) {
  return static_cast<std::uint32_t>(factor >> (7 - bits)) << 16 |
         static_cast<std::uint32_t>(tile >> bits);
}
static_assert(kThreads == 1 << 7);

}  // namespace tessera::tile_spgemm::tracing
