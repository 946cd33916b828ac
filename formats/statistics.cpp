#include "formats/statistics.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <span>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"

namespace tessera {
namespace {

using Cols = std::vector<std::int32_t>;

constexpr int kGroupRows = kWindowHeights.back();  // every height divides it
constexpr std::int64_t kGroupGrain = 16;
constexpr std::int64_t kRowGrain = 1 << 12;
constexpr int kTcBlockCols = 8;
constexpr int kBrickRows = 16, kBrickCols = 4;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The distinct columns of rows [begin, begin + height), ascending; rows beyond the matrix are
/// empty. Calls at_window(begin, height, columns) for that window and for every one it is halved
/// into, down to two rows.
template <class AtWindow>
Cols distinct_cols(const CsrMatrix& matrix, std::int64_t begin, int height, AtWindow at_window) {
  if (begin >= matrix.rows) return {};
  if (height == 1) {
    const auto row = matrix.row_cols(begin);
    return {row.begin(), row.end()};
  }
  const Cols upper = distinct_cols(matrix, begin, height / 2, at_window);
  const Cols lower = distinct_cols(matrix, begin + height / 2, height / 2, at_window);
  Cols both;
  both.reserve(upper.size() + lower.size());
  std::ranges::set_union(upper, lower, std::back_inserter(both));
  at_window(begin, height, both);
  return both;
}

/// How many groups of `width` columns the ascending columns fall into.
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

template <class T>
std::int64_t sum_of(const std::vector<T>& counts) {
  std::int64_t sum = 0;
  for (const std::int64_t count : counts) sum += count;
  return sum;
}

/// Mean absolute deviation from the mean.
double mean_deviation(const std::vector<std::int32_t>& counts) {
  if (counts.empty()) return 0;
  const double mean = spread(counts).mean;
  double sum = 0;
  for (const std::int32_t count : counts) sum += std::abs(count - mean);
  return sum / static_cast<double>(counts.size());
}

TileCount tile_count(int rows, int cols, const std::vector<std::int32_t>& per_block_row) {
  return {rows, cols, sum_of(per_block_row), spread(per_block_row)};
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
};

Windows count_windows(const CsrMatrix& matrix) {
  Windows windows(matrix.rows);
  parallel_for(ceil_div(matrix.rows, kGroupRows), kGroupGrain,
               [&](std::int64_t first, std::int64_t last) {
                 for (std::int64_t group = first; group < last; ++group) {
                   distinct_cols(matrix, group * kGroupRows, kGroupRows,
                                 [&](std::int64_t begin, int height, const Cols& cols) {
                                   windows.add(begin, height, cols);
                                 });
                 }
               });
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

/// Row lengths and everything that hangs on a row's first and last column.
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

std::vector<std::pair<std::string, ParamValue>> named_values(const MatrixStatistics& s) {
  std::vector<std::pair<std::string, ParamValue>> values{
      {"rows", std::int64_t{s.rows}},
      {"cols", std::int64_t{s.cols}},
      {"nnz", s.nnz},
      {"row_length_min", s.row_length.min},
      {"row_length_max", s.row_length.max},
      {"row_length_mean", s.row_length.mean},
      {"row_length_stddev", s.row_length.stddev},
      {"row_length_cv", s.row_length.cv()},
      {"empty_rows", s.empty_rows},
      {"bandwidth", s.bandwidth},
      {"profile", s.profile},
      {"symmetric_pattern", s.symmetric_pattern},
  };
  for (const TileCount& t : s.tiles) {
    const std::string size = fmt::format("{}x{}", t.rows, t.cols);
    values.emplace_back("tiles_" + size, t.tiles);
    values.emplace_back("tiles_per_block_row_mean_" + size, t.per_block_row.mean);
    values.emplace_back("tiles_per_block_row_stddev_" + size, t.per_block_row.stddev);
  }
  for (const WindowCount& w : s.windows) {
    const std::string size = fmt::format("{}x{}", w.height, kTcBlockCols);
    values.emplace_back(fmt::format("active_cols_{}", w.height), w.active_cols);
    values.emplace_back("tc_blocks_" + size, w.tc_blocks);
    values.emplace_back("mean_nnz_tc_" + size, w.mean_nnz_tc);
    values.emplace_back("ibd_" + size, w.ibd);
  }
  values.emplace_back("synergy_alpha", s.synergy.alpha);
  values.emplace_back("synergy", s.synergy.level);
  return values;
}

}  // namespace tessera
