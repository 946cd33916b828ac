// The compiled variants of acc_spmm's staged pipeline.

#include "kernels/spmm/acc_spmm/staged.cuh"

#include "kernels/spmm/acc_spmm/variants.cuh"

namespace tessera::acc_spmm {
namespace {

template <int kGroups, int kStages, CopyCache kCache, bool kAnyStore = false>
constexpr Kernel kAlignedBitmaps =
    run_staged<true, Tf32Precision::kRounded, false, kGroups, kStages, kCache,
               NonzeroEncoding::kBitmap, false, kAnyStore>;

template <int kGroups, int kStages>
Kernel aligned_bitmaps(CopyCache cache) {
  return cache == CopyCache::kL1 ? kAlignedBitmaps<kGroups, kStages, CopyCache::kL1>
                                 : kAlignedBitmaps<kGroups, kStages, CopyCache::kL2>;
}

template <bool kAligned, Tf32Precision kPrecision, bool kPromotes, int kGroups>
Kernel variant(const AccSpmmOptions& choices) {
  if constexpr (is_plain(kPrecision, kPromotes)) {
    if (choices.encoding == NonzeroEncoding::kBytes)
      return run_staged<kAligned, kPrecision, false, kGroups, 2, CopyCache::kL2,
                        NonzeroEncoding::kBytes, false, false>;
    if (choices.equal_shares())
      return run_staged<kAligned, kPrecision, false, kGroups, 2, CopyCache::kL2,
                        NonzeroEncoding::kBitmap, true, false>;
    if constexpr (kAligned) {
      if (choices.store != Store::kWriteBack)
        return kAlignedBitmaps<kGroups, 2, CopyCache::kL2, true>;
      if (choices.stages == 2) return aligned_bitmaps<kGroups, 2>(choices.cache);
      if (choices.stages == 3) return aligned_bitmaps<kGroups, 3>(choices.cache);
      return aligned_bitmaps<kGroups, 4>(choices.cache);
    }
  }
  return run_staged<kAligned, kPrecision, kPromotes, kGroups, 2, CopyCache::kL2,
                    NonzeroEncoding::kBitmap, false, false>;
}

}  // namespace

Kernel staged_kernel(const AccSpmmOptions& choices, int groups, bool aligned) {
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
