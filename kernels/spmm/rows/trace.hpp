// The work description and the warp trace of rows_spmm.
#pragma once

#include <cstdint>

#include "formats/base/matrix.hpp"
#include "kernels/spmm/rows/schedule.hpp"
#include "kernels/storage.hpp"
#include "kernels/work.hpp"

namespace tessera::rows_spmm {

/// Adds the launch, its thread blocks and its arrays to `work`. The trace refers to `a`.
void describe_launch(const CsrMatrix& a, const Schedule& schedule, const Storage& storage,
                     std::int64_t n, WorkDescription& work);

}  // namespace tessera::rows_spmm
