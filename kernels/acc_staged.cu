// The compiled variants of acc_spmm's staged pipeline.

#include "kernels/acc_staged.cuh"

#include "kernels/acc_kernels.cuh"

namespace tessera::acc_spmm {
namespace {

template <int kGroups, int kStages>
Kernel aligned_bitmaps(Cache cache) {
  constexpr auto kRounded = Tf32Precision::kRounded;
  return cache == Cache::kL1 ? run_staged<true, kRounded, false, kGroups, kStages, Cache::kL1,
                                          Names::kBitmap, false>
                             : run_staged<true, kRounded, false, kGroups, kStages, Cache::kL2,
                                          Names::kBitmap, false>;
}

template <bool kAligned, Tf32Precision kPrecision, bool kPromotes, int kGroups>
Kernel variant(const Choices& choices) {
  if constexpr (is_plain(kPrecision, kPromotes)) {
    if (choices.names == Names::kBytes)
      return run_staged<kAligned, kPrecision, false, kGroups, 2, Cache::kL2, Names::kBytes, false>;
    if (choices.deals())
      return run_staged<kAligned, kPrecision, false, kGroups, 2, Cache::kL2, Names::kBitmap, true>;
    if constexpr (kAligned) {
      if (choices.stages == 2) return aligned_bitmaps<kGroups, 2>(choices.cache);
      if (choices.stages == 3) return aligned_bitmaps<kGroups, 3>(choices.cache);
      return aligned_bitmaps<kGroups, 4>(choices.cache);
    }
  }
  return run_staged<kAligned, kPrecision, kPromotes, kGroups, 2, Cache::kL2, Names::kBitmap, false>;
}

}  // namespace

Kernel staged_kernel(const Choices& choices, int groups, bool aligned) {
  return for_precision(choices, aligned,
                       [&]<bool kAligned, Tf32Precision kPrecision, bool kPromotes>() -> Kernel {
                         if (groups == 1)
                           return variant<kAligned, kPrecision, kPromotes, 1>(choices);
                         if (groups == 2)
                           return variant<kAligned, kPrecision, kPromotes, 2>(choices);
                         return variant<kAligned, kPrecision, kPromotes, 4>(choices);
                       });
}

}  // namespace tessera::acc_spmm
