// How many columns each row window has in common with something, counted column by column.
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
  /// As if it had not been counted; still among those found.
  void remove(std::int32_t window) { common_[window] = 0; }

  /// Calls visit(window, common) for all that were counted and forgets them.
  template <class Visit>
  void for_all(Visit visit) {
    for (const std::int32_t window : found_)
      if (const std::int32_t common = std::exchange(common_[window], 0); common > 0)
        visit(window, common);
    found_.clear();
  }

  /// The same for those with the most columns, at most so many, of equal ones the first windows.
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
  std::vector<Scored> best_;  // the first ones, in order
};

}  // namespace tessera
