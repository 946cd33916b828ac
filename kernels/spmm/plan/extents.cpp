#include "kernels/spmm/plan/extents.hpp"

#include <algorithm>

namespace tessera {

Extent::Extent(const void* data, ElementType type, const Placed& matrix, const Batch& batch)
    : first(reinterpret_cast<std::uintptr_t>(data)),
      last(first + bytes_of(type) * static_cast<std::uint64_t>(matrix.span() +
                                                               (batch.count - 1) * batch.stride)),
      dense(bytes_of(type) * static_cast<std::uint64_t>(matrix.rows * matrix.cols * batch.count)) {}

bool are_apart(const Placed& matrix, const Batch& batch) {
  if (batch.count == 1 || batch.stride >= matrix.span()) return true;
  const bool by_rows = matrix.col_stride == 1;
  const std::int64_t line = by_rows ? matrix.cols : matrix.rows;
  const std::int64_t next = by_rows ? matrix.row_stride : matrix.col_stride;
  return batch.stride >= line && next >= (batch.count - 1) * batch.stride + line;
}

}  // namespace tessera
