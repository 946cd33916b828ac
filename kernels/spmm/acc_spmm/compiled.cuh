// The compiled kernels of acc_spmm, selected by their variant. Each pipeline has a source file of
// its own, so that they compile in parallel.
#pragma once

#include <cassert>
#include <cstddef>
#include <utility>

#include "kernels/spmm/acc_spmm/schedule.hpp"
#include "kernels/spmm/acc_spmm/variants.hpp"
#include "kernels/spmm/row_windows/task_multiplication.cuh"

namespace tessera::acc_spmm {

/// A variant as a type: nvcc 13.0 does not compile a __global__ function whose template argument is
/// the value itself.
template <Variant kValue>
struct Compiled {
  static constexpr Variant kVariant = kValue;
  TESSERA_HOST_DEVICE static constexpr row_windows::Schedule schedule() {
    return schedule_of(kValue.groups, kValue.scope);
  }
};

row_windows::TaskKernel<> staged_kernel(const Variant& variant);
row_windows::TaskKernel<> registers_kernel(const Variant& variant);
row_windows::TaskKernel<> buffered_kernel(const Variant& variant);  // least_bubble, dtc

/// The kernel that `kernel_of(Compiled<variant>{})` returns; null where no variant of kPipeline
/// equals `wanted`.
template <Pipeline kPipeline, class KernelOf>
row_windows::TaskKernel<> find_kernel(const Variant& wanted, KernelOf kernel_of) {
  static constexpr VariantList kList = list_variants(kPipeline);
  row_windows::TaskKernel<> found = nullptr;
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    ((kList.variants[kIndex] == wanted
          ? static_cast<void>(found = kernel_of(Compiled<kList.variants[kIndex]>{}))
          : static_cast<void>(0)),
     ...);
  }
  (std::make_index_sequence<kList.count>());
  return found;
}

}  // namespace tessera::acc_spmm
