// What dasp's launches do, for models and the performance simulator.
#pragma once

#include <memory>

#include "kernels/spmm/dasp/dasp.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera::dasp {

/// Of at most kMaxCols columns of B; `packing` is that of the matrix.
WorkDescription describe_work(const PackedMatrix& packed, std::shared_ptr<const Packing> packing,
                              std::int64_t n);

}  // namespace tessera::dasp
