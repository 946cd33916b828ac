// Where the dense operands of a plan lie in memory: one matrix, or a batch of them.
#pragma once

#include <cstdint>

#include "kernels/storage.hpp"

namespace tessera {

/// `count` matrices of one layout; the first element of each is `stride` elements behind that of
/// the one before it.
struct Batch {
  std::int64_t count = 1, stride = 0;
};

/// A matrix of at least one element; one of the strides, in elements, is 1.
struct Placed {
  std::int64_t rows, cols, row_stride, col_stride;

  /// Elements from the first to the last one, and one more.
  std::int64_t span() const { return (rows - 1) * row_stride + (cols - 1) * col_stride + 1; }
};

/// The bytes [first, last) from the first element of an operand to its last one.
struct Extent {
  std::uintptr_t first, last;
  std::uint64_t dense;  // bytes of the elements

  Extent(const void* data, ElementType type, const Placed& matrix, const Batch& batch);
  bool meets(const Extent& other) const { return first < other.last && other.first < last; }
  /// True when some bytes of the extent are of no element.
  bool has_gaps() const { return last - first > dense; }
};

/// Whether no two matrices of a batch share an element: each begins behind the one before it, or
/// they lie side by side, the first rows (columns) of all before the second ones.
bool are_apart(const Placed& matrix, const Batch& batch);

}  // namespace tessera
