// The compiled variants of dtc_spmm with m16n8k4.

#include "kernels/spmm/dtc_spmm/kernels.cuh"

namespace tessera::dtc_spmm {

Kernel kernel_of_depth_4(Fetch fetch, const Geometry& shape, bool aligned) {
  return find_kernel<4>(fetch, shape, aligned);
}

}  // namespace tessera::dtc_spmm
