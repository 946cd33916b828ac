// Sorting with all threads: runs are sorted, then merged two by two.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "formats/base/parallel.hpp"

namespace tessera {

/// The number of elements of `a` among the first `count` of the merged ranges, equal elements of
/// `a` first.
template <class Iterator, class Less>
std::ptrdiff_t share_of_first(Iterator a, std::ptrdiff_t a_size, Iterator b, std::ptrdiff_t b_size,
                              std::ptrdiff_t count, Less less) {
  std::ptrdiff_t low = std::max<std::ptrdiff_t>(0, count - b_size), high = std::min(count, a_size);
  while (low < high) {
    const std::ptrdiff_t middle = low + (high - low) / 2;
    if (less(b[count - middle - 1], a[middle]))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/// Sorts by less(a, b). The result is the same at any number of threads when `less` orders any two
/// different elements. Allocates a second array of the same size.
template <class T, class Allocator, class Less = std::less<T>>
void parallel_sort(std::vector<T, Allocator>& values, Less less = {}) {
  constexpr std::int64_t kLeast = 1 << 11;  // elements worth a thread
  const auto size = std::ssize(values);
  std::int64_t stretch = size;
  for (std::int64_t pieces = 1; pieces < 2 * num_threads() && stretch > 2 * kLeast; pieces *= 2)
    stretch = (stretch + 1) / 2;
  if (stretch == size || num_threads() == 1) return std::sort(values.begin(), values.end(), less);

  parallel_for(size, stretch, [&](std::int64_t begin, std::int64_t end) {
    std::sort(values.begin() + begin, values.begin() + end, less);
  });
  std::vector<T, Allocator> merged(values.size());
  for (; stretch < size; stretch *= 2) {
    // A piece of the merged run takes a part of each of the two runs.
    parallel_for(size, kLeast, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t begin = first / (2 * stretch) * 2 * stretch; begin < last;
           begin += 2 * stretch) {
        const std::int64_t middle = std::min(size, begin + stretch);
        const std::int64_t end = std::min(size, begin + 2 * stretch);
        const auto a = values.begin() + begin, b = values.begin() + middle;
        const auto share = [&](std::int64_t place) {
          return share_of_first(a, middle - begin, b, end - middle, place - begin, less);
        };
        const std::int64_t from = std::max(first, begin), to = std::min(last, end);
        const std::int64_t a_from = share(from), a_to = share(to);
        std::merge(a + a_from, a + a_to, b + (from - begin - a_from), b + (to - begin - a_to),
                   merged.begin() + from, less);
      }
    });
    values.swap(merged);
  }
}

}  // namespace tessera
