#include "kernels/spgemm/tile/work.hpp"

#include <algorithm>
#include <bit>
#include <climits>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "kernels/warp_trace.hpp"

namespace tessera::tile_spgemm::tracing {

namespace {

constexpr std::int64_t kRowsOfPiece = 16;

/// `bitmap` in the order of the values.
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

/// Of a tile row of C.
struct RowSize {
  std::int64_t products = 0;
  std::int32_t first_col = INT_MAX, end_col = 0;
};

RowSize size_of_row(const Product& product, std::int64_t row) {
  const TiledMatrix &a = product.a, &b = product.tiles_of_b();
  RowSize size;
  const auto [begin, count] = a.rows[static_cast<std::size_t>(row)];
  for (std::uint32_t t = begin; t < begin + static_cast<std::uint32_t>(count); ++t) {
    const auto [first, of_b] = b.rows[static_cast<std::size_t>(a.tiles[t].col)];
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
  std::vector<TileOfC> find(const Product& product, TaskWork& work) {
    std::vector<TileOfC> tiles;
    for (const Columns& columns : product.columns_of(work, work.task.slots_at_once * kColsOfSlot)) {
      const auto before = std::ssize(tiles);
      add(product, work, columns, tiles);
      std::sort(tiles.begin() + before, tiles.end(),
                [](const TileOfC& x, const TileOfC& y) { return x.col < y.col; });
    }
    for (const TileOfC& tile : tiles)
      for (int row = 0; row < kSide; ++row)
        work.cells[static_cast<std::size_t>(row)] +=
            std::popcount(tile.cells >> kSide * row & 0xff);
    return tiles;
  }

 private:
  void add(const Product& product, TaskWork& work, const Columns& columns,
           std::vector<TileOfC>& tiles) {
    const TiledMatrix &a = product.a, &b = product.tiles_of_b();
    place_of_.resize(static_cast<std::size_t>(columns.end - columns.first));
    std::ranges::fill(place_of_, -1);
    const std::vector<Factor> factors = product.factors_of(work.task, columns);
    const int bits = bits_of_lanes(std::ssize(factors));
    for (int i = 0; i < static_cast<int>(std::ssize(factors)); ++i) {
      const Factor& factor = factors[static_cast<std::size_t>(i)];
      const std::uint64_t of_a = a.tiles[static_cast<std::size_t>(factor.of_a)].bitmap;
      work.products += factor.end - factor.begin;
      for (std::int64_t u = factor.begin; u < factor.end; ++u) {
        const Tile& of_b = b.tiles[static_cast<std::size_t>(u)];
        if ((inner_indices(of_a) & nonzero_bytes(of_b.bitmap)) == 0) continue;
        ++work.pairs;
        const std::uint32_t step = step_of(i, u - factor.begin, bits);
        std::int64_t& place = place_of_[static_cast<std::size_t>(of_b.col - columns.first)];
        if (place < 0) {
          place = std::ssize(tiles);
          tiles.push_back({.col = of_b.col, .first_step = step});
        }
        TileOfC& tile = tiles[static_cast<std::size_t>(place)];
        tile.cells |= multiply_bitmaps(of_a, of_b.bitmap);
        tile.meeting |= std::uint64_t{1} << i;
        tile.first_step = std::min(tile.first_step, step);
      }
    }
  }

  std::vector<std::int64_t> place_of_;  // of a column's tile
};

}  // namespace

TiledMatrix::TiledMatrix(const CsrMatrix& matrix, int value_bytes)
    : csr(matrix),
      rows(static_cast<std::size_t>(tiles_across(matrix.rows))),
      tiles(static_cast<std::size_t>(matrix.nnz())),
      first_nonzero(tiles.size()),
      tile_of(tiles.size()),
      by_rows(tiles.size()),
      by_cols(tiles.size()),
      sectors_by_rows(tiles.size()),
      sectors_by_cols(tiles.size()) {
  parallel_for(std::ssize(rows), kRowsOfPiece, [&](std::int64_t begin, std::int64_t end) {
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
  rows[static_cast<std::size_t>(tile_row)] = {static_cast<std::uint32_t>(begin),
                                              static_cast<std::int32_t>(std::ssize(cols))};
  const auto tile_at = [&](std::int64_t place) { return static_cast<std::size_t>(begin + place); };
  for (std::int64_t i = 0; i < std::ssize(cols); ++i) {
    tiles[tile_at(i)] = {.bitmap = 0, .first_value = 0, .col = cols[static_cast<std::size_t>(i)]};
    first_nonzero[tile_at(i)] = UINT_MAX;
  }
  const auto each = [&](auto visit) {
    for (std::int64_t row = first_row; row < last_row; ++row)
      for (std::int64_t k = csr.row_offsets[row]; k < csr.row_offsets[row + 1]; ++k)
        visit(k, static_cast<int>(row - first_row), csr.col_indices[k] % kSide);
  };
  each([&](std::int64_t k, int row, int col) {
    const auto at = static_cast<std::size_t>(k);
    tile_of[at] = static_cast<std::int32_t>(
        std::ranges::lower_bound(cols, csr.col_indices[k] / kSide) - cols.begin());
    tiles[tile_at(tile_of[at])].bitmap |= std::uint64_t{1} << (kSide * row + col);
    std::uint32_t& first = first_nonzero[tile_at(tile_of[at])];
    first = std::min(first, static_cast<std::uint32_t>(k));
  });
  auto first_value = static_cast<std::uint32_t>(begin);
  for (std::int64_t i = 0; i < std::ssize(cols); ++i) {
    Tile& tile = tiles[tile_at(i)];
    tile.first_value = first_value;
    first_value += static_cast<std::uint32_t>(std::popcount(tile.bitmap));
    sectors_by_rows[tile_at(i)] = sectors_of(tile.bitmap, tile.first_value, value_bytes);
    sectors_by_cols[tile_at(i)] =
        sectors_of(transposed(tile.bitmap), tile.first_value, value_bytes);
  }
  each([&](std::int64_t k, int row, int col) {
    const auto at = static_cast<std::size_t>(k);
    const Tile& tile = tiles[tile_at(tile_of[at])];
    const auto place = [&](std::uint64_t before) {
      return tile.first_value + static_cast<std::uint32_t>(std::popcount(tile.bitmap & before));
    };
    by_rows[at] = place(before_by_rows(row, col));
    by_cols[at] = place(before_by_cols(row, col));
  });
}

Product::Product(const CsrMatrix& of_a, const CsrMatrix& of_b, TileArithmetic of_mmas)
    : numbers(of_mmas), a(of_a, of_mmas == TileArithmetic::kFp16 ? 2 : 4) {
  if (&of_a != &of_b)
    b = std::make_unique<TiledMatrix>(of_b, of_mmas == TileArithmetic::kFp16 ? 2 : 4);
  require<Unsupported>(a.longest() <= kShortRow,
                       "a tile row of A has {} tiles; tile_spgemm describes its work for those of "
                       "at most {}, whose values it has in shared memory",
                       a.longest(), kShortRow);
  cut();
  find_tiles();
}

/// As make_tasks() does, tile rows one after another.
void Product::cut() {
  const std::int64_t tile_rows = a.tile_rows();
  std::vector<RowSize> sizes(static_cast<std::size_t>(tile_rows));
  parallel_for(tile_rows, kRowsOfPiece, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      sizes[static_cast<std::size_t>(row)] = size_of_row(*this, row);
  });
  const CsrMatrix& of_b = tiles_of_b().csr;
  const long long most_pairs = pairs_of_task(a.csr.nnz(), of_b.nnz(), of_b.rows);
  const std::int64_t room = most_slices(tile_rows, tiles_across(of_b.cols));
  tasks.resize(static_cast<std::size_t>(tile_rows));
  std::vector<TaskWork> others;
  std::int64_t wanted = 0;  // slices, but the first ones
  for (std::int64_t row = 0; row < tile_rows; ++row) {
    const auto [pairs, first_col, end_col] = sizes[static_cast<std::size_t>(row)];
    const std::int32_t begin = first_col / kColsOfSlot * kColsOfSlot;
    const std::int32_t slots = (end_col - begin + kColsOfSlot - 1) / kColsOfSlot;
    std::int32_t width = slots_of_slice(slots, pairs, most_pairs);
    if (width < slots) {
      const std::int64_t first = wanted;
      wanted += (slots + width - 1) / width - 1;
      if (wanted > room) {
        width = slots;
        // What room there was is left to tasks without columns.
        if (first < room) others.resize(static_cast<std::size_t>(room));
      }
    }
    const std::int32_t slices = width == 0 ? 1 : (slots + width - 1) / width;
    const std::int32_t of_a = a.rows[static_cast<std::size_t>(row)].count;
    Task task{};
    task.tile_row = static_cast<std::int32_t>(row);
    task.is_sliced = slices > 1;
    task.slots_at_once = static_cast<std::uint32_t>(slots_at_once(slots, pairs, of_a)) & 0x7fff;
    for (std::int32_t slice = 0; slice < slices; ++slice) {
      task.slice = static_cast<std::uint32_t>(slice) & 0xffff;
      task.first_col = begin + slice * width * kColsOfSlot;
      task.end_col = slice + 1 < slices ? task.first_col + width * kColsOfSlot : end_col;
      if (slice == 0)
        tasks[static_cast<std::size_t>(row)].task = task;
      else
        others.push_back({.task = task});
    }
  }
  tasks.insert(tasks.end(), others.begin(), others.end());
}

void Product::find_tiles() {
  std::vector<std::vector<TileOfC>> found(tasks.size());
  parallel_for(std::ssize(tasks), kRowsOfPiece, [&](std::int64_t begin, std::int64_t end) {
    TileFinder finder;
    for (std::int64_t id = begin; id < end; ++id)
      found[static_cast<std::size_t>(id)] = finder.find(*this, tasks[static_cast<std::size_t>(id)]);
  });
  for (std::size_t id = 0; id < tasks.size(); ++id) {
    tasks[id].first_tile = std::ssize(tiles_of_c);
    tiles_of_c.insert(tiles_of_c.end(), found[id].begin(), found[id].end());
    tasks[id].last_tile = std::ssize(tiles_of_c);
    found[id] = {};
  }
  // Rows of C: their lengths, where they begin, where each slice begins in them.
  std::vector<std::int64_t> at(static_cast<std::size_t>(kSide * a.tile_rows()) + 1);
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

std::vector<Columns> Product::columns_of(const TaskWork& work, std::int32_t cols_at_once) const {
  const Task& task = work.task;
  const bool are_all = !task.is_sliced && task.end_col - task.first_col <= cols_at_once;
  std::vector<Columns> all;
  std::int64_t tile = work.first_tile;
  for (std::int32_t first = task.first_col; first < task.end_col; first += cols_at_once) {
    const std::int32_t end = std::min(task.end_col, first + cols_at_once);
    std::int64_t last = tile;
    while (last < work.last_tile && tiles_of_c[static_cast<std::size_t>(last)].col < end) ++last;
    all.push_back({first, end, are_all, tile, last});
    tile = last;
  }
  return all;
}

std::vector<Factor> Product::factors_of(const Task& task, const Columns& columns) const {
  const TiledMatrix& right = tiles_of_b();
  const auto [begin, count] = a.rows[static_cast<std::size_t>(task.tile_row)];
  std::vector<Factor> factors;
  for (std::int64_t t = begin; t < std::int64_t{begin} + count; ++t) {
    const TileRow row =
        right.rows[static_cast<std::size_t>(a.tiles[static_cast<std::size_t>(t)].col)];
    Factor factor{t, row.begin, std::int64_t{row.begin} + row.count};
    if (!columns.are_all) {
      const auto where = [&](std::int32_t col) {
        return std::lower_bound(right.tiles.begin() + factor.begin,
                                right.tiles.begin() + factor.end, col,
                                [](const Tile& tile, std::int32_t to) { return tile.col < to; }) -
               right.tiles.begin();
      };
      factor.begin = where(columns.first);
      factor.end = where(columns.end);
    }
    factors.push_back(factor);
  }
  return factors;
}

}  // namespace tessera::tile_spgemm::tracing
