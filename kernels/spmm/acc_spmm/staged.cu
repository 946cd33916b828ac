// The compiled kernels of acc_spmm's staged pipeline.

#include "kernels/spmm/acc_spmm/staged.cuh"

#include "kernels/spmm/acc_spmm/compiled.cuh"

namespace tessera::acc_spmm {

row_windows::TaskKernel<> staged_kernel(const Variant& variant) {
  return find_kernel<Pipeline::kStaged>(variant, [](auto compiled) -> row_windows::TaskKernel<> {
    return run_staged<decltype(compiled)>;
  });
}

}  // namespace tessera::acc_spmm
