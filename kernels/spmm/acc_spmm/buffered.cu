// The compiled variants of acc_spmm's pipelines least_bubble and dtc.

#include "kernels/spmm/acc_spmm/buffered.cuh"

#include "kernels/spmm/acc_spmm/variants.cuh"

namespace tessera::acc_spmm {
namespace {

template <bool kAligned, NonzeroEncoding kEncoding, Pipeline kPipeline>
Kernel variant(const AccSpmmOptions& choices) {
  if (choices.equal_shares())
    return run_buffered<kAligned, kEncoding, CopyCache::kL1, kPipeline, true>;
  if constexpr (kAligned)
    if (choices.cache == CopyCache::kL2)
      return run_buffered<true, kEncoding, CopyCache::kL2, kPipeline, false>;
  return run_buffered<kAligned, kEncoding, CopyCache::kL1, kPipeline, false>;
}

template <bool kAligned, NonzeroEncoding kEncoding>
Kernel variant(const AccSpmmOptions& choices) {
  return choices.pipeline == Pipeline::kDtc
             ? variant<kAligned, kEncoding, Pipeline::kDtc>(choices)
             : variant<kAligned, kEncoding, Pipeline::kLeastBubble>(choices);
}

template <bool kAligned>
Kernel variant(const AccSpmmOptions& choices) {
  return choices.encoding == NonzeroEncoding::kBitmap
             ? variant<kAligned, NonzeroEncoding::kBitmap>(choices)
             : variant<kAligned, NonzeroEncoding::kBytes>(choices);
}

}  // namespace

Kernel buffered_kernel(const AccSpmmOptions& choices, bool aligned) {
  return aligned ? variant<true>(choices) : variant<false>(choices);
}

}  // namespace tessera::acc_spmm
