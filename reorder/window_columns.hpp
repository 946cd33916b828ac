// The columns of row windows, which orders that fill windows compare and count.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "formats/base/parallel.hpp"
#include "formats/base/raw_vector.hpp"
#include "formats/base/scratch_pool.hpp"
#include "formats/base/shared_grain.hpp"
#include "reorder/inverted.hpp"
#include "reorder/row_pattern.hpp"

namespace tessera {

/// Rows in an order, cut into windows of one height. The last one may be short.
struct Windows {
  std::span<const std::int32_t> order;  // [rows]
  std::int32_t height;

  std::int32_t count() const {
    return static_cast<std::int32_t>((std::ssize(order) + height - 1) / height);
  }
  /// The number of windows with `height` rows.
  std::int32_t whole() const { return static_cast<std::int32_t>(std::ssize(order) / height); }
  std::span<const std::int32_t> rows(std::int32_t window) const {
    const std::int64_t begin = std::int64_t{window} * height;
    return order.subspan(begin, std::min<std::int64_t>(height, std::ssize(order) - begin));
  }
};

/// The number of TC blocks, eight columns wide, for a window's condensed columns.
constexpr std::int64_t tc_blocks(std::int64_t active_cols) { return (active_cols + 7) / 8; }

/// The set of columns seen in the current window.
class SeenColumns {
 public:
  void begin_window(std::int32_t cols) {
    last_.resize(cols, 0);
    ++window_;
  }
  bool is_new(std::int32_t col) { return std::exchange(last_[col], window_) != window_; }

 private:
  std::vector<std::int32_t> last_;  // [cols] the last window that held the column
  std::int32_t window_ = 0;
};

/// The windows of a parallel chunk.
inline std::int64_t window_grain(const Windows& windows) {
  return shared_grain(windows.count(), 8, 64);
}

/// Calls body(window, seen) for every window, in parallel chunks of window_grain().
template <class Body>
void for_each_window(std::int32_t cols, const Windows& windows, Body body) {
  ScratchPool<SeenColumns> pool;
  parallel_for(windows.count(), window_grain(windows), [&](std::int64_t begin, std::int64_t end) {
    pool.use([&](SeenColumns& seen) {
      for (auto window = static_cast<std::int32_t>(begin); window < end; ++window) {
        seen.begin_window(cols);
        body(window, seen);
      }
    });
  });
}

/// Calls visit(col) for the active columns of a window, once each.
template <class Visit>
void for_each_column(const RowPattern& pattern, std::span<const std::int32_t> rows,
                     SeenColumns& seen, Visit visit) {
  seen.begin_window(pattern.cols);
  for (const std::int32_t row : rows)
    for (const std::int32_t col : pattern.row_cols(row))
      if (seen.is_new(col)) visit(col);
}

/// The number of active columns of a window; `matrix` is a CsrMatrix or a RowPattern.
template <class Matrix>
std::int64_t count_columns(const Matrix& matrix, std::span<const std::int32_t> rows,
                           SeenColumns& seen) {
  std::int64_t count = 0;
  for (const std::int32_t row : rows)
    for (const std::int32_t col : matrix.row_cols(row)) count += seen.is_new(col);
  return count;
}

/// The number of TC blocks of all windows.
template <class Matrix>
std::int64_t count_tc_blocks(const Matrix& matrix, const Windows& windows) {
  const std::int64_t grain = window_grain(windows);
  std::vector<std::int64_t> blocks((windows.count() + grain - 1) / grain, 0);
  for_each_window(matrix.cols, windows, [&](std::int32_t window, SeenColumns& seen) {
    blocks[window / grain] += tc_blocks(count_columns(matrix, windows.rows(window), seen));
  });
  return std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0});
}

/// The number of active columns of each window. Parallel.
std::vector<std::int32_t> count_window_columns(const RowPattern& pattern, const Windows& windows);

/// The windows of each column. Windows are read twice, so that their columns need no memory beside
/// it. Parallel.
Inverted windows_of_columns(const RowPattern& pattern, const Windows& windows);

}  // namespace tessera
