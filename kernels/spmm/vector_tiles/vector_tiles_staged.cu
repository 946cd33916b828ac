// Products of vectors with rows of B through stages in shared memory: asynchronous copies bring
// whole rows, and lanes load fragments of them. Each warp has its own stages, so that no barrier of
// the thread block is needed.

#include "kernels/spmm/vector_tiles/vector_tiles.cuh"

namespace tessera::vector_tiles {
namespace {

/// sums += the task's TC blocks (at least one) times their rows of B. Copies fill every stage
/// except the one that is multiplied; A's values are loaded one TC block ahead, column indices one
/// more.
template <class Operands, int kDepth, int kGroups, bool kAligned>
__device__ void multiply_task(const KernelArguments& product, const Task& task,
                              std::int64_t first_col, int lane, unsigned char* ring,
                              typename Operands::Sum (&sums)[kGroups][2][4]) {
  using RowCopier = Copier<Operands, kDepth, kGroups, kAligned>;
  constexpr int kStage = kDepth * RowCopier::kPitch;
  const RowCopier copier(product, first_col, lane);
  const int stages = product.stages;
  std::uint32_t next = task.first;  // TC block to copy
  std::int32_t index = load_index<kDepth>(product, next, task.last, lane);
  const auto copy_next = [&](int slot) {
    if (next < task.last) copier.copy(index, ring + slot * kStage);
    close_group();
    next += kDepth;
    index = next < task.last ? load_index<kDepth>(product, next, task.last, lane) : kNoColumn;
  };
  for (int s = 0; s + 1 < stages; ++s) copy_next(s);
  RightOperand<Operands, kDepth> ahead;
  ahead.load(product, task.first, task.last, lane);

  int slot = 0;
  for (std::uint32_t first = task.first; first < task.last; first += kDepth) {
    wait_for_oldest(stages);
    __syncwarp();  // the copies of all lanes are done, and no lane reads the previous stage
    const RightOperand<Operands, kDepth> a = ahead;
    if (first + kDepth < task.last) ahead.load(product, first + kDepth, task.last, lane);
    copy_next(slot == 0 ? stages - 1 : slot - 1);
    multiply_stage<Operands, kDepth>(ring + slot * kStage, lane, a, sums);
    slot = slot + 1 == stages ? 0 : slot + 1;
  }
}

template <class Operands, int kDepth, int kGroups, bool kAligned>
__global__ void __launch_bounds__(kThreads, 4) run_staged(KernelArguments product) {
  extern __shared__ __align__(128) unsigned char shared[];
  constexpr int kStage = kDepth * Copier<Operands, kDepth, kGroups, kAligned>::kPitch;
  run_task(product, [&](std::uint32_t index, std::int64_t chunk) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const Task task = product.tasks[index];
    typename Operands::Sum sums[kGroups][2][4] = {};
    if (task.first < task.last)
      multiply_task<Operands, kDepth, kGroups, kAligned>(
          product, task, chunk * kGroups * kGroupCols, lane,
          shared + threadIdx.x / 32 * product.stages * kStage, sums);
    deliver<true>(product, index, chunk, task, lane, sums);
  });
}

/// The kernel of row `i` of kInstances; null for the other pipeline.
template <std::size_t i>
struct KernelAt {
  static Kernel get(bool aligned) {
    constexpr Instance kOf = kInstances[i];
    if constexpr (kOf.pipeline == Pipeline::kStaged) {
      using Operands = typename OperandsOf<kOf.operand>::Type;
      // Rows of a workspace are always aligned.
      if constexpr (!has_workspace(kOf.operand))
        if (!aligned) return run_staged<Operands, kOf.depth, kOf.groups, false>;
      return run_staged<Operands, kOf.depth, kOf.groups, true>;
    }
    return nullptr;
  }
};

}  // namespace

Kernel staged_kernel(const Instance& instance, bool aligned) {
  return find_kernel<KernelAt>(instance, aligned);
}

}  // namespace tessera::vector_tiles
