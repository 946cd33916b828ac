// The launches of tsparse on tensor cores that take its time, cells counted and tiles of C
// multiplied, in numbers and as traces of their warps. The task list, sorting, scans, compaction
// and the host's waits are left out.
#pragma once

#include "formats/base/matrix.hpp"
#include "kernels/spgemm/tsparse/tsparse.hpp"
#include "kernels/work.hpp"

namespace tessera::tsparse {

/// Throws Unsupported where the product takes several slices, or scalar cores.
WorkDescription describe_work(const CsrMatrix& a, const CsrMatrix& b,
                              const TsparseOptions& choices);

}  // namespace tessera::tsparse
