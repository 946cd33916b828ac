// The compiled variants of acc_spmm's pipelines least_bubble and dtc.

#include "kernels/acc_buffered.cuh"

#include "kernels/acc_kernels.cuh"

namespace tessera::acc_spmm {
namespace {

template <bool kAligned, Names kNames, Pipeline kPipeline>
Kernel variant(const Choices& choices) {
  if (choices.deals()) return run_buffered<kAligned, kNames, Cache::kL1, kPipeline, true>;
  if constexpr (kAligned)
    if (choices.cache == Cache::kL2)
      return run_buffered<true, kNames, Cache::kL2, kPipeline, false>;
  return run_buffered<kAligned, kNames, Cache::kL1, kPipeline, false>;
}

template <bool kAligned, Names kNames>
Kernel variant(const Choices& choices) {
  return choices.pipeline == Pipeline::kDtc
             ? variant<kAligned, kNames, Pipeline::kDtc>(choices)
             : variant<kAligned, kNames, Pipeline::kLeastBubble>(choices);
}

template <bool kAligned>
Kernel variant(const Choices& choices) {
  return choices.names == Names::kBitmap ? variant<kAligned, Names::kBitmap>(choices)
                                         : variant<kAligned, Names::kBytes>(choices);
}

}  // namespace

Kernel buffered_kernel(const Choices& choices, bool aligned) {
  return aligned ? variant<true>(choices) : variant<false>(choices);
}

}  // namespace tessera::acc_spmm
