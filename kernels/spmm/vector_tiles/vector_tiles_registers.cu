// Products of vectors with rows of B straight from global memory to the lanes that multiply them,
// as in FlashSparse. A warp has 32 columns.

#include "kernels/spmm/vector_tiles/vector_tiles.cuh"

namespace tessera::vector_tiles {
namespace {

/// The lane's four columns of a row of B; zeros where there is no row or column.
template <class Operands, bool kMapped, bool kAligned>
__device__ typename Operands::Columns4 load_columns(const KernelArguments& product,
                                                    std::int32_t row, std::int64_t group_col,
                                                    int lane) {
  using Element = typename Operands::Element;
  using Columns4 = typename Operands::Columns4;
  const Element* from = static_cast<const Element*>(product.b) +
                        std::uint64_t{static_cast<std::uint32_t>(max(row, 0))} * product.pitch;
  const std::int64_t col = group_col + col_of<kMapped>(lane, 0);
  if constexpr (kMapped && kAligned) {
    if (row < 0 || col >= product.pitch) return Columns4{};
    return *reinterpret_cast<const Columns4*>(from + col);
  } else {
    Element each[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::int64_t at = group_col + col_of<kMapped>(lane, i);
      each[i] = row >= 0 && at < product.pitch ? from[at] : Element{};
    }
    return Operands::join(each);
  }
}

template <class Operands, int kDepth, bool kMapped, bool kAligned>
__global__ void __launch_bounds__(kThreads) run_registers(KernelArguments product) {
  constexpr int kPack = Operands::kPack, kRegisters = RightOperand<Operands, kDepth>::kRegisters;
  run_task(product, [&](std::uint32_t task_index, std::int64_t chunk) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const Task task = product.tasks[task_index];
    float sums[1][2][4] = {};
    std::int32_t index = load_index<kDepth>(product, task.first, task.last, lane);
    RightOperand<Operands, kDepth> ahead;
    if (task.first < task.last) ahead.load(product, task.first, task.last, lane);
    for (std::uint32_t first = task.first; first < task.last; first += kDepth) {
      typename Operands::Columns4 rows[kRegisters][kPack];
#pragma unroll
      for (int r = 0; r < kRegisters; ++r)
#pragma unroll
        for (int i = 0; i < kPack; ++i) {
          const std::int32_t row = __shfl_sync(~0u, index, (4 * r + lane % 4) * kPack + i);
          rows[r][i] =
              load_columns<Operands, kMapped, kAligned>(product, row, chunk * kGroupCols, lane);
        }
      const RightOperand<Operands, kDepth> a = ahead;
      const std::uint32_t next = first + kDepth;
      if (next < task.last) {
        index = load_index<kDepth>(product, next, task.last, lane);
        ahead.load(product, next, task.last, lane);
      }
      multiply<Operands, kDepth>(rows, a, sums[0]);
    }
    deliver<kMapped>(product, task_index, chunk, task, lane, sums);
  });
}

/// The kernel of row `i` of kInstances; null for the other pipeline.
template <std::size_t i>
struct KernelAt {
  static Kernel get(bool aligned) {
    constexpr Instance kOf = kInstances[i];
    if constexpr (kOf.pipeline == Pipeline::kRegisters) {
      using Operands = typename OperandsOf<kOf.operand>::Type;
      // Without the map, lanes load single elements; rows of a workspace are always aligned.
      if constexpr (kOf.mapped && !has_workspace(kOf.operand))
        if (!aligned) return run_registers<Operands, kOf.depth, true, false>;
      return run_registers<Operands, kOf.depth, kOf.mapped, kOf.mapped>;
    }
    return nullptr;
  }
};

}  // namespace

Kernel registers_kernel(const Instance& instance, bool aligned) {
  return find_kernel<KernelAt>(instance, aligned);
}

}  // namespace tessera::vector_tiles
