// The compiled variants of acc_spmm's pipelines registers and dtc.

#include "kernels/acc_registers.cuh"

#include "kernels/acc_kernels.cuh"

namespace tessera::acc_spmm {
namespace {

template <bool kAligned, Names kNames, Pipeline kPipeline>
Kernel plain(const Choices& choices) {
  constexpr auto kRounded = Tf32Precision::kRounded;
  if (choices.deals())
    return run_registers<kAligned, kRounded, false, kNames, Cache::kL1, kPipeline, true>;
  if constexpr (kAligned)
    if (choices.cache == Cache::kL2)
      return run_registers<true, kRounded, false, kNames, Cache::kL2, kPipeline, false>;
  return run_registers<kAligned, kRounded, false, kNames, Cache::kL1, kPipeline, false>;
}

}  // namespace

Kernel registers_kernel(const Choices& choices, bool aligned) {
  return for_precision(choices, aligned,
                       [&]<bool kAligned, Tf32Precision kPrecision, bool kPromotes>() -> Kernel {
                         constexpr auto kAhead = Pipeline::kRegisters, kWhenLoaded = Pipeline::kDtc;
                         if constexpr (!is_plain(kPrecision, kPromotes)) {
                           return run_registers<kAligned, kPrecision, kPromotes, Names::kBitmap,
                                                Cache::kL1, kAhead, false>;
                         } else {
                           const bool bitmaps = choices.names == Names::kBitmap;
                           if (choices.pipeline == kAhead)
                             return bitmaps ? plain<kAligned, Names::kBitmap, kAhead>(choices)
                                            : plain<kAligned, Names::kBytes, kAhead>(choices);
                           return bitmaps ? plain<kAligned, Names::kBitmap, kWhenLoaded>(choices)
                                          : plain<kAligned, Names::kBytes, kWhenLoaded>(choices);
                         }
                       });
}

}  // namespace tessera::acc_spmm
