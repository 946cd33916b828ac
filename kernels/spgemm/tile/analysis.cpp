#include "kernels/spgemm/tile/analysis.hpp"

#include <algorithm>
#include <bit>
#include <climits>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "kernels/warp_trace.hpp"

namespace tessera::tile_spgemm::tracing {

namespace {

constexpr std::int64_t kRowsOfChunk = 16;

/// `bitmap` is in the order of the values.
ValueSectors sectors_of(std::uint64_t bitmap, std::uint32_t first_value, int value_bytes) {
  ValueSectors sectors{};
  const std::int64_t in_sector = std::int64_t{first_value} * value_bytes % kSectorBytes;
  std::int64_t before = 0;
  for (std::uint64_t rest = bitmap; rest != 0; rest &= rest - 1, ++before) {
    const auto bit =
        static_cast<std::uint16_t>(1u << ((in_sector + before * value_bytes) / kSectorBytes));
    (std::countr_zero(rest) % 2 == 0 ? sectors.even : sectors.odd) |= bit;
  }
  return sectors;
}

/// The products and the tile columns of a tile row of C.
struct RowSize {
  std::int64_t products = 0;
  std::int32_t first_col = INT_MAX, end_col = 0;
};

RowSize size_of_row(const ProductAnalysis& product, std::int64_t row) {
  const TiledMatrix &a = product.a, &b = product.tiles_of_b();
  RowSize size;
  const auto [begin, count] = a.rows[row];
  for (std::uint32_t t = begin; t < begin + static_cast<std::uint32_t>(count); ++t) {
    const auto [first, of_b] = b.row_of(a.tiles[t]);
    if (of_b == 0) continue;
    size.products += of_b;
    size.first_col = std::min(size.first_col, b.tiles[first].col);
    size.end_col = std::max(size.end_col, b.tiles[first + of_b - 1].col + 1);
  }
  if (size.products == 0) size.first_col = size.end_col = 0;
  return size;
}

/// Finds the tiles of C of one task after another.
class TileFinder {
 public:
  std::vector<TileOfC> find(const ProductAnalysis& product, TaskWork& work) {
    std::vector<TileOfC> tiles;
    for (const TaskColumns& columns :
         product.columns_of(work, work.task.slots_at_once * kColsOfSlot)) {
      const auto before = std::ssize(tiles);
      add(product, work, columns, tiles);
      std::sort(tiles.begin() + before, tiles.end(),
                [](const TileOfC& x, const TileOfC& y) { return x.col < y.col; });
    }
    for (const TileOfC& tile : tiles)
      for (int row = 0; row < kSide; ++row)
        work.cells[row] += std::popcount(tile.cells >> kSide * row & 0xff);
    return tiles;
  }

 private:
  void add(const ProductAnalysis& product, TaskWork& work, const ColumnRange& columns,
           std::vector<TileOfC>& tiles) {
    const TiledMatrix &a = product.a, &b = product.tiles_of_b();
    index_of_.assign(columns.count(), -1);
    const std::vector<FactorTiles> factors = product.factors_of(work.task, columns);
    const FactorLanes share(static_cast<int>(std::ssize(factors)));
    for (int i = 0; i < static_cast<int>(std::ssize(factors)); ++i) {
      const std::uint64_t of_a = a.tiles[factors[i].of_a].bitmap;
      work.products += factors[i].count();
      for (std::int64_t u = factors[i].begin; u < factors[i].end; ++u) {
        const Tile& of_b = b.tiles[u];
        if ((inner_indices(of_a) & nonzero_bytes(of_b.bitmap)) == 0) continue;
        ++work.pairs;
        const std::uint32_t step = share.step_of(i, u - factors[i].begin);
        std::int64_t& index = index_of_[of_b.col - columns.first];
        if (index < 0) {
          index = std::ssize(tiles);
          tiles.push_back({.col = of_b.col, .first_step = step});
        }
        TileOfC& tile = tiles[index];
        tile.cells |= multiply_bitmaps(of_a, of_b.bitmap);
        tile.matches |= std::uint64_t{1} << i;
        tile.first_step = std::min(tile.first_step, step);
      }
    }
  }

  std::vector<std::int64_t> index_of_;  // [columns] of the tile in a column
};

}  // namespace

TiledMatrix::TiledMatrix(const CsrMatrix& matrix, int value_bytes)
    : csr(matrix),
      rows(tiles_across(matrix.rows)),
      tiles(matrix.nnz()),
      first_nonzero(tiles.size()),
      tile_of(tiles.size()),
      by_rows(tiles.size()),
      by_cols(tiles.size()),
      sectors_by_rows(tiles.size()),
      sectors_by_cols(tiles.size()) {
  parallel_for(tile_rows(), kRowsOfChunk, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      fill(static_cast<std::int32_t>(row), value_bytes);
  });
}

std::int32_t TiledMatrix::longest() const {
  std::int32_t longest = 0;
  for (const TileRow& row : rows) longest = std::max(longest, row.count);
  return longest;
}

void TiledMatrix::fill(std::int32_t tile_row, int value_bytes) {
  const std::int64_t first_row = std::int64_t{tile_row} * kSide;
  const std::int64_t last_row = std::min<std::int64_t>(first_row + kSide, csr.rows);
  const std::int64_t begin = csr.row_offsets[first_row], end = csr.row_offsets[last_row];
  std::vector<std::int32_t> cols;
  for (std::int64_t k = begin; k < end; ++k) cols.push_back(csr.col_indices[k] / kSide);
  std::ranges::sort(cols);
  cols.erase(std::unique(cols.begin(), cols.end()), cols.end());
  rows[tile_row] = {static_cast<std::uint32_t>(begin), static_cast<std::int32_t>(cols.size())};
  for (std::int64_t i = 0; i < std::ssize(cols); ++i) {
    tiles[begin + i] = {.bitmap = 0, .first_value = 0, .col = cols[i]};
    first_nonzero[begin + i] = UINT_MAX;
  }
  const auto each = [&](auto visit) {
    for (std::int64_t row = first_row; row < last_row; ++row)
      for (std::int64_t k = csr.row_offsets[row]; k < csr.row_offsets[row + 1]; ++k)
        visit(k, static_cast<int>(row - first_row), csr.col_indices[k] % kSide);
  };
  each([&](std::int64_t k, int row, int col) {
    tile_of[k] = static_cast<std::int32_t>(
        std::ranges::lower_bound(cols, csr.col_indices[k] / kSide) - cols.begin());
    tiles[begin + tile_of[k]].bitmap |= std::uint64_t{1} << (kSide * row + col);
    std::uint32_t& first = first_nonzero[begin + tile_of[k]];
    first = std::min(first, static_cast<std::uint32_t>(k));
  });
  auto first_value = static_cast<std::uint32_t>(begin);
  for (std::int64_t i = begin; i < begin + std::ssize(cols); ++i) {
    Tile& tile = tiles[i];
    tile.first_value = first_value;
    first_value += static_cast<std::uint32_t>(std::popcount(tile.bitmap));
    sectors_by_rows[i] = sectors_of(tile.bitmap, tile.first_value, value_bytes);
    sectors_by_cols[i] = sectors_of(transposed(tile.bitmap), tile.first_value, value_bytes);
  }
  each([&](std::int64_t k, int row, int col) {
    const Tile& tile = tiles[begin + tile_of[k]];
    const auto index = [&](std::uint64_t before) {
      return tile.first_value + static_cast<std::uint32_t>(std::popcount(tile.bitmap & before));
    };
    by_rows[k] = index(before_by_rows(row, col));
    by_cols[k] = index(before_by_cols(row, col));
  });
}

ProductAnalysis::ProductAnalysis(const CsrMatrix& of_a, const CsrMatrix& of_b,
                                 TileArithmetic of_mmas)
    : arithmetic(of_mmas), a(of_a, value_bytes(of_mmas)) {
  if (&of_a != &of_b) b = std::make_unique<TiledMatrix>(of_b, value_bytes(of_mmas));
  require<Unsupported>(a.longest() <= kShortRow,
                       "a tile row of A has {} tiles; the work of tile_spgemm is described only up "
                       "to {} tiles, whose values fit into shared memory",
                       a.longest(), kShortRow);
  make_tasks();
  find_tiles();
}

/// Makes the tasks as the kernel does if it reaches the tile rows in their order.
void ProductAnalysis::make_tasks() {
  const std::int64_t tile_rows = a.tile_rows();
  std::vector<RowSize> sizes(tile_rows);
  parallel_for(tile_rows, kRowsOfChunk, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) sizes[row] = size_of_row(*this, row);
  });
  const CsrMatrix& of_b = tiles_of_b().csr;
  const long long most_pairs = pairs_of_task(a.csr.nnz(), of_b.nnz(), of_b.rows);
  const std::int64_t room = most_slices(tile_rows, tiles_across(of_b.cols));
  tasks.resize(tile_rows);
  std::vector<TaskWork> further;
  std::int64_t reserved = 0;  // slices after the first ones
  for (std::int64_t row = 0; row < tile_rows; ++row) {
    const auto [pairs, first_col, end_col] = sizes[row];
    TileRowCut cut(first_col, end_col, pairs, most_pairs);
    if (cut.is_cut()) {
      const std::int64_t first = reserved;
      reserved += cut.further_slices();
      if (reserved > room) {
        cut.keep_whole();
        if (first < room) further.resize(room);  // the remaining tasks have no columns
      }
    }
    Task task{};
    task.tile_row = static_cast<std::int32_t>(row);
    task.is_sliced = cut.slices() > 1;
    task.slots_at_once =
        static_cast<std::uint32_t>(slots_at_once(cut.slots, pairs, a.rows[row].count)) & 0x7fff;
    for (int slice = 0; slice < cut.slices(); ++slice) {
      cut.place(task, slice, cut.slices());
      if (slice == 0)
        tasks[row].task = task;
      else
        further.push_back({.task = task});
    }
  }
  tasks.insert(tasks.end(), further.begin(), further.end());
}

void ProductAnalysis::find_tiles() {
  std::vector<std::vector<TileOfC>> found(tasks.size());
  parallel_for(std::ssize(tasks), kRowsOfChunk, [&](std::int64_t begin, std::int64_t end) {
    TileFinder finder;
    for (std::int64_t id = begin; id < end; ++id) found[id] = finder.find(*this, tasks[id]);
  });
  for (std::size_t id = 0; id < tasks.size(); ++id) {
    tasks[id].first_tile = std::ssize(tiles_of_c);
    tiles_of_c.insert(tiles_of_c.end(), found[id].begin(), found[id].end());
    tasks[id].last_tile = std::ssize(tiles_of_c);
    found[id] = {};
  }
  // Rows of C: their lengths, then where they begin, then where each slice begins in them.
  std::vector<std::int64_t> at(kSide * a.tile_rows() + 1);
  const auto first_of = [](const TaskWork& work) {
    return static_cast<std::size_t>(work.task.tile_row) * kSide;
  };
  for (const TaskWork& work : tasks)
    for (std::size_t row = 0; row < kSide; ++row) at[first_of(work) + row + 1] += work.cells[row];
  for (std::size_t row = 1; row < at.size(); ++row) at[row] += at[row - 1];
  nonzeros_of_c = at.back();
  for (TaskWork& work : tasks)  // slices of a tile row follow each other
    for (std::size_t row = 0; row < kSide; ++row) {
      work.row_begins[row] = at[first_of(work) + row];
      at[first_of(work) + row] += work.cells[row];
    }
}

std::vector<TaskColumns> ProductAnalysis::columns_of(const TaskWork& work,
                                                     std::int32_t cols_at_once) const {
  std::vector<TaskColumns> all;
  std::int64_t tile = work.first_tile;
  for_column_ranges(work.task, cols_at_once, [&](const ColumnRange& columns) {
    const std::int64_t first = tile;
    while (tile < work.last_tile && tiles_of_c[tile].col < columns.end) ++tile;
    all.push_back({columns, first, tile});
  });
  return all;
}

std::vector<FactorTiles> ProductAnalysis::factors_of(const Task& task,
                                                     const ColumnRange& columns) const {
  const TiledMatrix& right = tiles_of_b();
  const auto [begin, count] = row_of_a(task);
  std::vector<FactorTiles> factors;
  for (std::int64_t t = begin; t < std::int64_t{begin} + count; ++t) {
    const TileRow row = right.row_of(a.tiles[t]);
    FactorTiles factor{t, row.begin, std::int64_t{row.begin} + row.count};
    if (!columns.are_all) {
      const auto skip = [](std::int64_t) {};
      factor.begin = right.find(factor.begin, factor.end, columns.first, skip);
      factor.end = right.find(factor.begin, factor.end, columns.end, skip);
    }
    factors.push_back(factor);
  }
  return factors;
}

}  // namespace tessera::tile_spgemm::tracing
