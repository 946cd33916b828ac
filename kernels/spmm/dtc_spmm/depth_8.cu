// The compiled variants of dtc_spmm with m16n8k8.

#include "kernels/spmm/dtc_spmm/kernels.cuh"

namespace tessera::dtc_spmm {

Kernel kernel_of_depth_8(Fetch fetch, const Geometry& shape, bool aligned) {
  return find_kernel<8>(fetch, shape, aligned);
}

}  // namespace tessera::dtc_spmm
