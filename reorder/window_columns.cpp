#include "reorder/window_columns.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "formats/base/parallel.hpp"
#include "formats/base/scratch_pool.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kWindowGrain = 512;

/// Columns seen in the current window.
class Seen {
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

/// Calls body(window, seen) for every window, in pieces of kWindowGrain.
template <class Body>
void for_each_window(const CsrMatrix& matrix, const Windows& windows, Body body) {
  ScratchPool<Seen> pool;
  parallel_for(windows.count(), kWindowGrain, [&](std::int64_t begin, std::int64_t end) {
    pool.use([&](Seen& seen) {
      for (auto window = static_cast<std::int32_t>(begin); window < end; ++window) {
        seen.begin_window(matrix.cols);
        body(window, seen);
      }
    });
  });
}

std::int64_t count_columns(const CsrMatrix& matrix, std::span<const std::int32_t> rows,
                           Seen& seen) {
  std::int64_t count = 0;
  for (const std::int32_t row : rows)
    for (const std::int32_t col : matrix.row_cols(row)) count += seen.is_new(col);
  return count;
}

}  // namespace

WindowColumns window_columns(const CsrMatrix& matrix, const Windows& windows) {
  WindowColumns result;
  result.offsets.resize(std::size_t(windows.count()) + 1);
  for_each_window(matrix, windows, [&](std::int32_t window, Seen& seen) {
    result.offsets[window + 1] = count_columns(matrix, windows.rows(window), seen);
  });
  for (std::int32_t w = 0; w < windows.count(); ++w) result.offsets[w + 1] += result.offsets[w];
  result.cols.resize(result.offsets.back());
  for_each_window(matrix, windows, [&](std::int32_t window, Seen& seen) {
    std::int64_t place = result.offsets[window];
    for (const std::int32_t row : windows.rows(window))
      for (const std::int32_t col : matrix.row_cols(row))
        if (seen.is_new(col)) result.cols[place++] = col;
  });
  return result;
}

std::int64_t count_tc_blocks(const CsrMatrix& matrix, const Windows& windows) {
  std::vector<std::int64_t> blocks((windows.count() + kWindowGrain - 1) / kWindowGrain, 0);
  for_each_window(matrix, windows, [&](std::int32_t window, Seen& seen) {
    blocks[window / kWindowGrain] += tc_blocks(count_columns(matrix, windows.rows(window), seen));
  });
  return std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0});
}

}  // namespace tessera
