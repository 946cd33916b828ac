// The compiled variants of acc_spmm's pipeline registers.

#include "kernels/spmm/acc_spmm/registers.cuh"

#include "kernels/spmm/acc_spmm/variants.cuh"

namespace tessera::acc_spmm {

Kernel registers_kernel(const AccSpmmOptions& choices, bool aligned) {
  return for_precision(choices, aligned,
                       [&]<bool kAligned, Tf32Precision kPrecision, bool kPromotes>() -> Kernel {
                         if constexpr (kAligned && is_plain(kPrecision, kPromotes))
                           if (choices.store != Store::kWriteBack)
                             return run_registers<true, kPrecision, false, true>;
                         return run_registers<kAligned, kPrecision, kPromotes, false>;
                       });
}

}  // namespace tessera::acc_spmm
