#include "reorder/window_columns.hpp"

namespace tessera {

WindowColumns window_columns(const RowPattern& pattern, const Windows& windows) {
  WindowColumns result;
  result.offsets.resize(std::size_t(windows.count()) + 1);
  for_each_window(pattern.cols, windows, [&](std::int32_t window, SeenColumns& seen) {
    result.offsets[window + 1] = count_columns(pattern, windows.rows(window), seen);
  });
  for (std::int32_t w = 0; w < windows.count(); ++w) result.offsets[w + 1] += result.offsets[w];
  result.cols.resize(result.offsets.back());
  for_each_window(pattern.cols, windows, [&](std::int32_t window, SeenColumns& seen) {
    std::int64_t place = result.offsets[window];
    for (const std::int32_t row : windows.rows(window))
      for (const std::int32_t col : pattern.row_cols(row))
        if (seen.is_new(col)) result.cols[place++] = col;
  });
  return result;
}

}  // namespace tessera
