#include "formats/statistics/statistics.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/statistics/footprint_formula.hpp"

namespace tessera {
namespace {

using Cols = std::vector<std::int32_t>;

constexpr int kGroupRows = kWindowHeights.back();  // every height divides it
constexpr std::int64_t kGroupGrain = 16;
constexpr std::int64_t kRowGrain = 1 << 12;
constexpr int kTcBlockCols = 8;
constexpr int kBrickRows = 16, kBrickCols = 4;
constexpr int kTileCells = 64;  // of an 8 x 8 tile

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The columns of rows [begin, begin + height), ascending, each as often as rows have it; rows
/// beyond the matrix are empty.
Cols all_cols(const CsrMatrix& matrix, std::int64_t begin, int height) {
  const std::int64_t first = matrix.row_offsets[std::min<std::int64_t>(begin, matrix.rows)];
  const std::int64_t last = matrix.row_offsets[std::min<std::int64_t>(begin + height, matrix.rows)];
  Cols cols(matrix.col_indices.begin() + first, matrix.col_indices.begin() + last);
  std::ranges::sort(cols);
  return cols;
}

/// The distinct columns of rows [begin, begin + height), ascending. Calls
/// at_window(begin, height, columns) for that window and, recursively, for its halves down to the
/// least height, where it calls at_all(columns) with the columns of all_cols().
template <class AtWindow, class AtAll>
Cols distinct_cols(const CsrMatrix& matrix, std::int64_t begin, int height, AtWindow at_window,
                   AtAll at_all) {
  if (begin >= matrix.rows) return {};
  Cols cols;
  if (height == kWindowHeights.front()) {
    cols = all_cols(matrix, begin, height);
    at_all(cols);
    cols.erase(std::ranges::unique(cols).begin(), cols.end());
  } else {
    const Cols upper = distinct_cols(matrix, begin, height / 2, at_window, at_all);
    const Cols lower = distinct_cols(matrix, begin + height / 2, height / 2, at_window, at_all);
    cols.reserve(upper.size() + lower.size());
    std::ranges::set_union(upper, lower, std::back_inserter(cols));
  }
  at_window(begin, height, cols);
  return cols;
}

/// The number of groups of `width` columns that hold one of the ascending columns.
std::int32_t count_groups(const Cols& cols, int width) {
  std::int32_t groups = 0, last = -1;
  for (const std::int32_t col : cols) {
    if (col / width != last) ++groups;
    last = col / width;
  }
  return groups;
}

template <class Counts>
Spread spread(const Counts& counts) {
  const auto n = static_cast<std::int64_t>(std::ranges::size(counts));
  if (n == 0) return {};
  Spread result{counts[0], counts[0], 0, 0};
  std::int64_t sum = 0;
  for (const std::int64_t count : counts) {
    sum += count;
    result.min = std::min(result.min, count);
    result.max = std::max(result.max, count);
  }
  result.mean = static_cast<double>(sum) / static_cast<double>(n);
  double squares = 0;
  for (const std::int64_t count : counts)
    squares += std::pow(static_cast<double>(count) - result.mean, 2);
  result.stddev = std::sqrt(squares / static_cast<double>(n));
  return result;
}

template <class Counts>
std::int64_t sum_of(const Counts& counts) {
  std::int64_t sum = 0;
  for (const std::int64_t count : counts) sum += count;
  return sum;
}

/// The mean absolute deviation from the mean.
double mean_deviation(const std::vector<std::int32_t>& counts) {
  if (counts.empty()) return 0;
  const double mean = spread(counts).mean;
  double sum = 0;
  for (const std::int32_t count : counts) sum += std::abs(count - mean);
  return sum / static_cast<double>(counts.size());
}

TileCount tile_count(int rows, int cols, const std::vector<std::int32_t>& per_block_row) {
  TileCount count{rows, cols, sum_of(per_block_row), spread(per_block_row)};
  for (const std::int32_t tiles : per_block_row) count.per_block_row_histogram.add(tiles);
  return count;
}

/// The number of tiles for each number of nonzeros.
using FillCounts = std::array<std::int64_t, kTileCells + 1>;

/// Adds the tiles of eight rows, given the columns of all their nonzeros, ascending.
void count_fill(const Cols& cols, FillCounts& counts) {
  for (std::size_t begin = 0, end = 0; begin < cols.size(); begin = end) {
    while (end < cols.size() && cols[end] / 8 == cols[begin] / 8) ++end;
    ++counts[end - begin];
  }
}

TileFill tile_fill(const FillCounts& counts) {
  const std::int64_t tiles = sum_of(counts);
  if (tiles == 0) return {};
  /// The nonzeros of the tile at `rank` in ascending order.
  const auto at_rank = [&](std::int64_t rank) {
    int fill = 0;
    for (std::int64_t before = counts[0]; before <= rank; before += counts[fill]) ++fill;
    return fill;
  };
  TileFill result;
  result.median = (at_rank((tiles - 1) / 2) + at_rank(tiles / 2)) / 2.0;
  for (int fill = 1; fill <= kTileCells; ++fill)
    result.mean += fill * static_cast<double>(counts[fill]) / static_cast<double>(tiles);
  for (int fill = 1; fill <= kTileCells; ++fill)
    result.stddev += std::pow(fill - result.mean, 2) * static_cast<double>(counts[fill]);
  result.stddev = std::sqrt(result.stddev / static_cast<double>(tiles));
  return result;
}

double ratio(std::int64_t a, std::int64_t b) {
  return b > 0 ? static_cast<double>(a) / static_cast<double>(b) : 0;
}

/// Counts per window, filled by the pass over the nonzeros.
struct Windows {
  explicit Windows(std::int64_t rows) {
    for (std::size_t i = 0; i < kWindowHeights.size(); ++i)
      active_cols[i].resize(ceil_div(rows, kWindowHeights[i]));
    tiles_8x8.resize(ceil_div(rows, 8));
    tiles_16x8.resize(ceil_div(rows, 16));
    tiles_16x16.resize(ceil_div(rows, 16));
  }

  void add(std::int64_t begin, int height, const Cols& cols) {
    const auto found = std::ranges::find(kWindowHeights, height);
    if (found == kWindowHeights.end()) return;
    const std::int64_t window = begin / height;
    active_cols[found - kWindowHeights.begin()][window] = static_cast<std::int32_t>(cols.size());
    if (height == 8) tiles_8x8[window] = count_groups(cols, 8);
    if (height == 16) tiles_16x8[window] = count_groups(cols, 8);
    if (height == 16) tiles_16x16[window] = count_groups(cols, 16);
  }

  std::array<std::vector<std::int32_t>, kWindowHeights.size()> active_cols;  // [height][windows]
  std::vector<std::int32_t> tiles_8x8, tiles_16x8, tiles_16x16;              // [block rows]
  FillCounts fill = {};
};

Windows count_windows(const CsrMatrix& matrix) {
  Windows windows(matrix.rows);
  std::mutex adding;
  const auto count_groups_of_rows = [&](std::int64_t first, std::int64_t last) {
    FillCounts fill = {};
    for (std::int64_t group = first; group < last; ++group)
      distinct_cols(
          matrix, group * kGroupRows, kGroupRows,
          [&](std::int64_t begin, int height, const Cols& cols) {
            windows.add(begin, height, cols);
          },
          [&](const Cols& cols) { count_fill(cols, fill); });
    const std::lock_guard lock(adding);
    for (std::size_t i = 0; i < fill.size(); ++i) windows.fill[i] += fill[i];
  };
  parallel_for(ceil_div(matrix.rows, kGroupRows), kGroupGrain, count_groups_of_rows);
  return windows;
}

WindowCount window_count(int height, const std::vector<std::int32_t>& active_cols,
                         std::int64_t nnz) {
  std::vector<std::int32_t> blocks;
  blocks.reserve(active_cols.size());
  for (const std::int32_t cols : active_cols)
    blocks.push_back(static_cast<std::int32_t>(ceil_div(cols, kTcBlockCols)));
  const std::int64_t tc_blocks = sum_of(blocks);
  return {height,
          static_cast<std::int64_t>(blocks.size()),
          sum_of(active_cols),
          tc_blocks,
          ratio(nnz, tc_blocks),
          mean_deviation(blocks)};
}

Synergy synergy(const std::vector<std::int32_t>& active_cols, std::int64_t nnz) {
  Synergy result;
  for (const std::int32_t cols : active_cols) result.bricks += ceil_div(cols, kBrickCols);
  result.alpha = ratio(nnz, kBrickRows * kBrickCols * result.bricks);
  result.level = result.alpha < 0.125 ? "low" : result.alpha < 0.25 ? "medium" : "high";
  return result;
}

/// Measures row lengths, bandwidth and profile.
void measure_rows(const CsrMatrix& matrix, MatrixStatistics& result) {
  std::vector<std::int64_t> lengths(matrix.rows);
  for (std::int32_t row = 0; row < matrix.rows; ++row) {
    lengths[row] = matrix.row_length(row);
    if (lengths[row] == 0) {
      ++result.empty_rows;
      continue;
    }
    const std::int64_t left = std::int64_t{row} - matrix.row_cols(row).front();
    const std::int64_t right = std::int64_t{matrix.row_cols(row).back()} - row;
    result.bandwidth = std::max({result.bandwidth, left, right});
    result.profile += std::max<std::int64_t>(0, left);
  }
  result.row_length = spread(lengths);
}

/// The footprints of all formats that have a closed form, in the order of their names.
std::vector<PredictedFootprint> predicted_footprints(const MatrixStatistics& s,
                                                     const Windows& windows) {
  const auto tiles = [&](int height, int width) {
    const auto found = std::ranges::find(kWindowHeights, height);
    require(found != kWindowHeights.end(), "row windows of {} rows are not counted", height);
    std::int64_t sum = 0;
    for (const std::int32_t cols : windows.active_cols[found - kWindowHeights.begin()])
      sum += ceil_div(cols, width);
    return sum;
  };
  const MatrixExtents extents{.rows = s.rows, .nnz = s.nnz, .tiles = tiles};
  std::vector<PredictedFootprint> footprints;
  for (const auto& [name, entry] : Registry<FootprintFormula>::instance().entries()) {
    const Footprint bytes = entry.make({})->footprint(extents);
    footprints.push_back({name, bytes.index_bytes, bytes.index_bytes + bytes.value_bytes});
  }
  return footprints;
}

}  // namespace

MatrixStatistics statistics(const CsrMatrix& matrix) {
  MatrixStatistics result{.rows = matrix.rows, .cols = matrix.cols, .nnz = matrix.nnz()};
  measure_rows(matrix, result);
  result.symmetric_pattern = has_symmetric_pattern(matrix);
  const Windows windows = count_windows(matrix);
  result.tiles = {tile_count(8, 8, windows.tiles_8x8), tile_count(16, 8, windows.tiles_16x8),
                  tile_count(16, 16, windows.tiles_16x16)};
  for (std::size_t i = 0; i < kWindowHeights.size(); ++i) {
    result.windows.push_back(window_count(kWindowHeights[i], windows.active_cols[i], matrix.nnz()));
    if (kWindowHeights[i] == kBrickRows)
      result.synergy = synergy(windows.active_cols[i], matrix.nnz());
  }
  result.tile_fill = tile_fill(windows.fill);
  result.footprints = predicted_footprints(result, windows);
  return result;
}

TileCount count_tiles(const CsrMatrix& matrix, int tile_rows, int tile_cols) {
  require(tile_rows > 0 && tile_cols > 0, "a tile cannot be {} x {}", tile_rows, tile_cols);
  std::vector<std::int32_t> per_block_row(ceil_div(matrix.rows, tile_rows));
  parallel_for(static_cast<std::int64_t>(per_block_row.size()), kRowGrain / tile_rows + 1,
               [&](std::int64_t first, std::int64_t last) {
                 Cols groups;
                 for (std::int64_t block_row = first; block_row < last; ++block_row) {
                   groups.clear();
                   const std::int64_t end =
                       std::min<std::int64_t>(matrix.rows, (block_row + 1) * tile_rows);
                   for (std::int64_t row = block_row * tile_rows; row < end; ++row)
                     for (const std::int32_t col : matrix.row_cols(row))
                       groups.push_back(col / tile_cols);
                   std::ranges::sort(groups);
                   per_block_row[block_row] = count_groups(groups, 1);
                 }
               });
  return tile_count(tile_rows, tile_cols, per_block_row);
}

bool has_symmetric_pattern(const CsrMatrix& matrix) {
  if (matrix.rows != matrix.cols) return false;
  std::atomic<bool> symmetric = true;
  parallel_for(matrix.rows, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end && symmetric; ++row) {
      for (const std::int32_t col : matrix.row_cols(row)) {
        const auto mirror = matrix.row_cols(col);
        if (!std::binary_search(mirror.begin(), mirror.end(), static_cast<std::int32_t>(row)))
          symmetric = false;
      }
    }
  });
  return symmetric;
}

}  // namespace tessera
