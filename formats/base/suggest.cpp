#include "formats/base/suggest.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tessera {

int edit_distance(std::string_view a, std::string_view b) {
  // Optimal string alignment over three rolling rows of the usual table.
  const int n = static_cast<int>(b.size());
  std::vector<int> before(n + 1), previous(n + 1), current(n + 1);
  for (int j = 0; j <= n; ++j) previous[j] = j;
  for (int i = 1; i <= static_cast<int>(a.size()); ++i) {
    current[0] = i;
    for (int j = 1; j <= n; ++j) {
      const int substitution = a[i - 1] == b[j - 1] ? 0 : 1;
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, previous[j - 1] + substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        current[j] = std::min(current[j], before[j - 2] + 1);
    }
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return previous[n];
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  const int length = static_cast<int>(name.size());
  std::string best;
  int best_distance = std::min(length, length <= 3 ? 2 : std::max(2, length / 3) + 1);
  for (const std::string& candidate : known) {
    const int distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  if (!best.empty() || length < 3) return best;
  const auto begins = [&](const std::string& candidate) { return candidate.starts_with(name); };
  return std::ranges::count_if(known, begins) == 1 ? *std::ranges::find_if(known, begins) : "";
}

std::string unknown_name_message(std::string_view kind, std::string_view name,
                                 const std::vector<std::string>& known) {
  const std::string near = nearest_name(name, known);
  return fmt::format("unknown {} '{}'{}; known: {}", kind, name,
                     near.empty() ? "" : fmt::format(", did you mean '{}'", near),
                     known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
}

}  // namespace tessera
