// The compiled kernels of acc_spmm's pipeline registers.

#include "kernels/spmm/acc_spmm/registers.cuh"

#include "kernels/spmm/acc_spmm/compiled.cuh"

namespace tessera::acc_spmm {

row_windows::TaskKernel<> registers_kernel(const Variant& variant) {
  return find_kernel<Pipeline::kRegisters>(variant, [](auto compiled) -> row_windows::TaskKernel<> {
    return run_registers<decltype(compiled)>;
  });
}

}  // namespace tessera::acc_spmm
