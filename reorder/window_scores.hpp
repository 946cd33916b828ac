// The number of columns that each row window has in common with a row or window, counted column by
// column.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

namespace tessera {

class WindowScores {
 public:
  void resize(std::int32_t windows) { common_.resize(windows, 0); }

  void count(std::int32_t window) {
    if (common_[window]++ == 0) found_.push_back(window);
  }
  /// Resets the count of a window to zero.
  void remove(std::int32_t window) { common_[window] = 0; }

  /// Calls visit(window, common) for all windows with a count and clears the counts.
  template <class Visit>
  void for_all(Visit visit) {
    for (const std::int32_t window : found_)
      if (const std::int32_t common = std::exchange(common_[window], 0); common > 0)
        visit(window, common);
    found_.clear();
  }

  /// Calls visit(window, common) for the `most` windows with the largest counts, ties by window,
  /// and clears all counts.
  template <class Visit>
  void for_best(std::int32_t most, Visit visit) {
    best_.clear();
    for_all([&](std::int32_t window, std::int32_t common) {
      if (std::ssize(best_) == most && !goes_before({window, common}, best_.back())) return;
      if (std::ssize(best_) == most) best_.pop_back();
      const Scored scored{window, common};
      best_.insert(std::ranges::upper_bound(best_, scored, goes_before), scored);
    });
    for (const Scored& scored : best_) visit(scored.window, scored.common);
  }

 private:
  struct Scored {
    std::int32_t window, common;
  };
  static bool goes_before(const Scored& a, const Scored& b) {
    return std::tuple(-a.common, a.window) < std::tuple(-b.common, b.window);
  }

  std::vector<std::int32_t> common_;  // [windows]
  std::vector<std::int32_t> found_;
  std::vector<Scored> best_;  // the best so far, in order
};

}  // namespace tessera
