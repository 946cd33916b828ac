// An analysis of a product by tile_spgemm, for the simulator. The host computes from the patterns
// of A and B the tiles of fill_tiles(), the tasks of make_tasks() and the tiles of C.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "formats/base/matrix.hpp"
#include "kernels/spgemm/tile/tile_spgemm.hpp"

namespace tessera::tile_spgemm::tracing {

/// Sectors of a tile's values, as bits counted from the sector of its first value: those of cells
/// at even indices in the order of the values, and at odd ones. A lane's two loads take one each.
struct ValueSectors {
  std::uint16_t even, odd;
};

/// A matrix as tiles. The tiles of a tile row begin at the index of its first nonzero.
struct TiledMatrix {
  TiledMatrix(const CsrMatrix& csr, int value_bytes);

  std::int64_t tile_rows() const { return std::ssize(rows); }
  /// The most tiles in a tile row.
  std::int32_t longest() const;
  std::uint32_t inner_indices_of(std::int64_t tile) const {
    return inner_indices(tiles[tile].bitmap);
  }
  /// The tile row of this matrix that a tile of its left factor selects.
  const TileRow& row_of(const Tile& of_left) const { return rows[of_left.col]; }
  /// The first of the tiles [begin, end) whose column is not before `col`; visit(tile) is called
  /// for each tile that the search reads.
  template <class Visit>
  std::int64_t find(std::int64_t begin, std::int64_t end, std::int32_t col, Visit visit) const {
    return first_not_before(begin, end, [&](std::int64_t tile) {
      visit(tile);
      return tiles[tile].col < col;
    });
  }

  const CsrMatrix& csr;
  std::vector<TileRow> rows;                    // [tile rows]
  std::vector<Tile> tiles;                      // [nonzeros]; bitmaps by rows
  std::vector<std::uint32_t> first_nonzero;     // [nonzeros] of a tile
  std::vector<std::int32_t> tile_of;            // [nonzeros] index of the tile in its tile row
  std::vector<std::uint32_t> by_rows, by_cols;  // [nonzeros] index of the value in either order
  std::vector<ValueSectors> sectors_by_rows, sectors_by_cols;  // [nonzeros] of a tile

 private:
  void fill(std::int32_t tile_row, int value_bytes);
};

/// A tile of C within a task.
struct TileOfC {
  std::uint64_t cells = 0;
  std::uint64_t matches = 0;  // bit i: tile i of A's tile row has a pair
  std::int32_t col = 0;
  std::uint32_t first_step = 0;  // FactorLanes::step_of() the first of its pairs
};

/// A tile of A with the tiles [begin, end) of B that it is multiplied by.
struct FactorTiles {
  std::int64_t of_a;
  std::int64_t begin, end;

  std::int64_t count() const { return end - begin; }
};

/// Columns of C that a thread block handles at once, and its tiles of C there.
struct TaskColumns : ColumnRange {
  std::int64_t first_tile, last_tile;

  std::int64_t tiles() const { return last_tile - first_tile; }
  std::int64_t slots() const { return slots_of(count()); }
  std::int64_t slot_of(std::int32_t col) const { return (col - first) / kColsOfSlot; }
};

struct TaskWork {
  Task task{};
  std::int64_t first_tile = 0, last_tile = 0;    // of C
  std::int64_t products = 0;                     // of tiles, empty ones included
  std::int64_t pairs = 0;                        // products that are not empty
  std::array<std::int64_t, kSide> row_begins{};  // index in C of the task's first cell in each row
  std::array<std::int64_t, kSide> cells{};       // in each row
};

struct ProductAnalysis {
  /// Refers to A and B. Throws Unsupported where a tile row of A has more than kShortRow tiles.
  ProductAnalysis(const CsrMatrix& a, const CsrMatrix& b, TileArithmetic arithmetic);

  const TiledMatrix& tiles_of_b() const { return b ? *b : a; }
  const TileRow& row_of_a(const Task& task) const { return a.rows[task.tile_row]; }
  std::int64_t slices() const { return std::ssize(tasks) - a.tile_rows(); }
  /// The task of a thread block, and its number.
  const TaskWork& task_of(std::int64_t thread_block) const {
    return tasks[number_of(thread_block)];
  }
  std::int64_t number_of(std::int64_t thread_block) const {
    return number_of_task(thread_block, a.tile_rows(), slices());
  }

  /// The columns of a task, `cols_at_once` at a time.
  std::vector<TaskColumns> columns_of(const TaskWork& work, std::int32_t cols_at_once) const;
  /// The factors of a task, restricted to these columns.
  std::vector<FactorTiles> factors_of(const Task& task, const ColumnRange& columns) const;

  TileArithmetic arithmetic;
  TiledMatrix a;
  std::unique_ptr<TiledMatrix> b;   // where it is not A
  std::vector<TaskWork> tasks;      // in the order of number_of_task()'s results
  std::vector<TileOfC> tiles_of_c;  // by task
  std::int64_t nonzeros_of_c = 0;

 private:
  void make_tasks();
  void find_tiles();
};

}  // namespace tessera::tile_spgemm::tracing
