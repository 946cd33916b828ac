// Products of vectors, rows of B by way of stages in shared memory: whole rows come by asynchronous
// copies and leave as fragments. A warp has stages of its own and needs no barrier but its own.

#include "kernels/spmm/vector_tiles/vector_tiles.cuh"

namespace tessera::vector_tiles {
namespace {

/// sums += the task's TC blocks, of which there are some, times their rows of B: one on its way in
/// every stage but the one that is multiplied, A's values one ahead, column indices one more.
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
    __syncwarp();  // all lanes' copies are there, and nobody reads the stage before
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

template <class Operands, int kDepth, bool kAligned>
Kernel instance(int groups) {
  if (groups == 1) return run_staged<Operands, kDepth, 1, kAligned>;
  if (groups == 2) return run_staged<Operands, kDepth, 2, kAligned>;
  return run_staged<Operands, kDepth, 4, kAligned>;
}

/// Rows of FP32 may lie anywhere, those of a workspace do not.
template <class Operands, int kDepth>
Kernel instance(int groups, bool aligned) {
  return aligned ? instance<Operands, kDepth, true>(groups)
                 : instance<Operands, kDepth, false>(groups);
}

}  // namespace

Kernel staged_kernel(Operand operand, int depth, int groups, bool aligned) {
  switch (operand) {
    case Operand::kTf32:
      return depth == 4 ? instance<Tf32Operands, 4>(groups, aligned)
                        : instance<Tf32Operands, 8>(groups, aligned);
    case Operand::kFp16AsIs:
      return depth == 8 ? instance<Fp16OfFp32Operands, 8>(groups, aligned)
                        : instance<Fp16OfFp32Operands, 16>(groups, aligned);
    case Operand::kFp16:
      return depth == 8 ? instance<Fp16Operands, 8, true>(groups)
                        : instance<Fp16Operands, 16, true>(groups);
    case Operand::kInt8:
      return instance<Int8Operands, 32, true>(groups);
  }
  return nullptr;
}

}  // namespace tessera::vector_tiles
