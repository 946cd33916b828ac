// Products of extents that a user chooses: checked, because they can overflow.
#pragma once

#include <cstdint>
#include <limits>

#include "formats/base/check.hpp"

namespace tessera {

/// rows * cols. Throws an Error where a dense matrix of so many doubles fits no memory, instead of
/// a product that overflows.
inline std::int64_t element_count(std::int64_t rows, std::int64_t cols) {
  constexpr std::int64_t kMost =
      std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(sizeof(double));
  require(rows >= 0 && cols >= 0, "a matrix cannot be {} x {}", rows, cols);
  require(cols == 0 || rows <= kMost / cols, "a dense matrix of {} x {} fits no memory", rows,
          cols);
  return rows * cols;
}

}  // namespace tessera
