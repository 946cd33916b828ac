// The compiled kernels of dtc_spmm with m16n8k4.

#include "kernels/spmm/dtc_spmm/kernel.cuh"

namespace tessera::dtc_spmm {

Kernel kernel_of_depth_4(const Variant& variant) { return find_kernel<4>(variant); }

}  // namespace tessera::dtc_spmm
