// The work description and the warp trace of rows_spmm.
#pragma once

#include <cstdint>

#include "formats/base/matrix.hpp"
#include "kernels/spmm/rows/schedule.hpp"
#include "kernels/storage.hpp"
#include "kernels/work.hpp"

namespace tessera::rows_spmm {

/// Adds the launches, their thread blocks and their arrays to `work`. The traces refer to `a`.
void describe_launches(const CsrMatrix& a, const Launches& launches, const Storage& storage,
                       std::int64_t n, WorkDescription& work);

}  // namespace tessera::rows_spmm
