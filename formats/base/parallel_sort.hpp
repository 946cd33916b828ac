// Sorting with all threads: runs are sorted, then merged two by two.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "formats/base/parallel.hpp"

namespace tessera {

/// Sorts by less(a, b). The result is the same at any number of threads when `less` orders any two
/// different elements. Allocates a second array of the same size.
template <class T, class Less = std::less<T>>
void parallel_sort(std::vector<T>& values, Less less = {}) {
  constexpr std::int64_t kLeast = 1 << 14;  // elements worth a thread
  const auto size = std::ssize(values);
  std::int64_t stretch = size;
  for (std::int64_t pieces = 1; pieces < num_threads() && stretch > 2 * kLeast; pieces *= 2)
    stretch = (stretch + 1) / 2;
  if (stretch == size) return std::sort(values.begin(), values.end(), less);

  const auto at = [](std::vector<T>& of, std::int64_t place) {
    return of.begin() + static_cast<std::ptrdiff_t>(place);
  };
  parallel_for(size, stretch, [&](std::int64_t begin, std::int64_t end) {
    std::sort(at(values, begin), at(values, end), less);
  });
  std::vector<T> merged(values.size());
  for (; stretch < size; stretch *= 2) {
    parallel_for(size, 2 * stretch, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t middle = std::min(end, begin + stretch);
      std::merge(at(values, begin), at(values, middle), at(values, middle), at(values, end),
                 at(merged, begin), less);
    });
    values.swap(merged);
  }
}

}  // namespace tessera
