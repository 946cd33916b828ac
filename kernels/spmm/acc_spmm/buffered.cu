// The compiled kernels of acc_spmm's pipelines least_bubble and dtc.

#include "kernels/spmm/acc_spmm/buffered.cuh"

#include "kernels/spmm/acc_spmm/compiled.cuh"

namespace tessera::acc_spmm {

row_windows::TaskKernel<> buffered_kernel(const Variant& variant) {
  const auto kernel_of = [](auto compiled) -> row_windows::TaskKernel<> {
    return run_buffered<decltype(compiled)>;
  };
  return variant.pipeline == Pipeline::kDtc
             ? find_kernel<Pipeline::kDtc>(variant, kernel_of)
             : find_kernel<Pipeline::kLeastBubble>(variant, kernel_of);
}

}  // namespace tessera::acc_spmm
