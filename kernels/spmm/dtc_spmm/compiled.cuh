// The compiled kernels of dtc_spmm, selected by their variant. Each depth of the MMAs has a source
// file of its own, so that they compile in parallel.
#pragma once

#include "kernels/spmm/dtc_spmm/dtc_spmm.hpp"
#include "kernels/spmm/row_windows/task_multiplication.cuh"

namespace tessera::dtc_spmm {

/// The arguments of a product, and whether A is double-buffered.
using Kernel = row_windows::TaskKernel<bool>;

Kernel kernel_of_depth_4(const Variant& variant);
Kernel kernel_of_depth_8(const Variant& variant);

}  // namespace tessera::dtc_spmm
