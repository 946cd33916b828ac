// The work and the warp traces of the launches that take most of tsparse's time: the counting and
// the multiplication. They exclude the task list, sorting, prefix sums, compaction and the host's
// waits.
#pragma once

#include "formats/base/matrix.hpp"
#include "kernels/spgemm/tsparse/tsparse.hpp"
#include "kernels/work.hpp"

namespace tessera::tsparse {

/// Describes the product of A and B. Throws an Error where the shapes do not match, and Unsupported
/// where the product takes several slices, or scalar cores multiply nonzeros only.
WorkDescription describe_work(const CsrMatrix& a, const CsrMatrix& b,
                              const TsparseOptions& options);

}  // namespace tessera::tsparse
