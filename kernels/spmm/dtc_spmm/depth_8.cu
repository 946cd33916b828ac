// The compiled kernels of dtc_spmm with m16n8k8.

#include "kernels/spmm/dtc_spmm/kernel.cuh"

namespace tessera::dtc_spmm {

Kernel kernel_of_depth_8(const Variant& variant) { return find_kernel<8>(variant); }

}  // namespace tessera::dtc_spmm
