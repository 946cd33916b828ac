#include "reorder/window_columns.hpp"

namespace tessera {

std::vector<std::int32_t> count_window_columns(const RowPattern& pattern, const Windows& windows) {
  std::vector<std::int32_t> counts(windows.count());
  for_each_window(pattern.cols, windows, [&](std::int32_t window, SeenColumns& seen) {
    counts[window] = static_cast<std::int32_t>(count_columns(pattern, windows.rows(window), seen));
  });
  return counts;
}

Inverted windows_of_columns(const RowPattern& pattern, const Windows& windows) {
  const std::vector<std::int32_t> counts = count_window_columns(pattern, windows);
  const std::int64_t entries = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const auto make_reader = [&] {
    return [&, seen = SeenColumns()](std::int32_t window, auto visit) mutable {
      for_each_column(pattern, windows.rows(window), seen, visit);
    };
  };
  return invert_read_sets(windows.count(), pattern.cols, entries, make_reader);
}

}  // namespace tessera
