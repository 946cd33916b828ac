// The widths of merge_spgemm's groups, for its host and its device half.
#pragma once

#include <cstdint>

#include "formats/base/params.hpp"

namespace tessera::merge_spgemm {

inline constexpr int kWidths = 5;  // 2, 4, 8, 16, 32
constexpr int width_of_class(int width_class) { return 2 << width_class; }

/// The class of the smallest width that merges `rows` rows at once; rows is at most 32.
constexpr int width_class_for(std::int64_t rows) {
  int width_class = 0;
  while (width_class + 1 < kWidths && width_of_class(width_class) < rows) ++width_class;
  return width_class;
}

/// The largest number of rows that are merged at once.
inline int most_rows(const Params& params) { return static_cast<int>(params.integer("width")); }

}  // namespace tessera::merge_spgemm
