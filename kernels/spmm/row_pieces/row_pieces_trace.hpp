// The launches of a kernel over row parts: the work of their thread blocks and, for the performance
// simulator, the traces of their warps.
#pragma once

#include <memory>

#include "kernels/spmm/row_pieces/row_pieces.hpp"
#include "kernels/work.hpp"

namespace tessera::row_pieces {

/// Adds launches, thread blocks and arrays to `work`. The traces refer to `a`, and keep `plan`.
void describe_launches(const CsrMatrix& a, std::shared_ptr<const Plan> plan, const Method& method,
                       std::int64_t n, WorkDescription& work);

}  // namespace tessera::row_pieces
