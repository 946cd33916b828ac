// The columns of row windows: what orders that fill windows compare and count.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/base/matrix.hpp"
#include "reorder/inverted.hpp"

namespace tessera {

/// Rows in an order, cut into windows of one height. The last one may be short.
struct Windows {
  std::span<const std::int32_t> order;  // [rows] old indices
  std::int32_t height;

  std::int32_t count() const {
    return static_cast<std::int32_t>((std::ssize(order) + height - 1) / height);
  }
  /// Those that have all their rows.
  std::int32_t whole() const { return static_cast<std::int32_t>(std::ssize(order) / height); }
  std::span<const std::int32_t> rows(std::int32_t window) const {
    const std::int64_t begin = std::int64_t{window} * height;
    return order.subspan(begin, std::min<std::int64_t>(height, std::ssize(order) - begin));
  }
};

/// The active columns of each window, each once, in no order.
struct WindowColumns {
  std::vector<std::int64_t> offsets{0};  // [windows + 1]
  std::vector<std::int32_t> cols;        // [offsets.back()]

  std::span<const std::int32_t> of(std::int32_t window) const {
    return {cols.data() + offsets[window],
            static_cast<std::size_t>(offsets[window + 1] - offsets[window])};
  }
  std::int64_t count(std::int32_t window) const { return offsets[window + 1] - offsets[window]; }
};

/// Parallel.
WindowColumns window_columns(const CsrMatrix& matrix, const Windows& windows);

/// TC blocks eight wide that hold so many condensed columns.
constexpr std::int64_t tc_blocks(std::int64_t active_cols) { return (active_cols + 7) / 8; }

/// TC blocks of all windows. Parallel.
std::int64_t count_tc_blocks(const CsrMatrix& matrix, const Windows& windows);

}  // namespace tessera
