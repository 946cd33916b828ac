// The work description and the warp traces of dasp.
#pragma once

#include <memory>

#include "kernels/spmm/dasp/dasp.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera::dasp {

/// For a B of n columns; `packing` is that of the matrix. Throws Unsupported as instance_for does.
WorkDescription describe_work(const PackedMatrix& packed, std::shared_ptr<const Packing> packing,
                              std::int64_t n);

}  // namespace tessera::dasp
