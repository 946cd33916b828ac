// The compiled variants of acc_spmm, by what was chosen. Each pipeline has a source file of its
// own, for the sake of whoever waits for the compiler.
#pragma once

#include "kernels/spmm/acc_spmm/tasks.cuh"

namespace tessera::acc_spmm {

using Kernel = void (*)(KernelArguments);

/// `aligned`: rows of B and C come in pieces of 16 bytes.
Kernel staged_kernel(const AccSpmmOptions& choices, int groups, bool aligned);
Kernel registers_kernel(const AccSpmmOptions& choices, bool aligned);
Kernel buffered_kernel(const AccSpmmOptions& choices, bool aligned);  // least_bubble, dtc

/// The paper's precision, for which alone there are variants that only the speed depends on.
constexpr bool is_plain(Tf32Precision precision, bool promotes) {
  return precision == Tf32Precision::kRounded && !promotes;
}

/// pick.template operator()<aligned, precision, promotes>() for what was chosen of them.
template <class Pick>
Kernel for_precision(const AccSpmmOptions& choices, bool aligned, Pick pick) {
  const auto with = [&]<Tf32Precision kPrecision>() {
    if (choices.precision.promote > 0)
      return aligned ? pick.template operator()<true, kPrecision, true>()
                     : pick.template operator()<false, kPrecision, true>();
    return aligned ? pick.template operator()<true, kPrecision, false>()
                   : pick.template operator()<false, kPrecision, false>();
  };
  switch (tf32_precision(choices.precision.name)) {
    case Tf32Precision::kRounded:
      return with.template operator()<Tf32Precision::kRounded>();
    case Tf32Precision::kRaw:
      return with.template operator()<Tf32Precision::kRaw>();
    case Tf32Precision::kSplit:
      return with.template operator()<Tf32Precision::kSplit>();
  }
  return nullptr;
}

}  // namespace tessera::acc_spmm
