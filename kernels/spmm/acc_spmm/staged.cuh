// acc_spmm's staged pipeline: whole rows of B come to shared memory by asynchronous copies, a row
// of 512 bytes with one instruction of a warp, and leave it as fragments.
//
// Lanes that load fragments from the L2 themselves take a wavefront of the L1 for every sector of
// 32 bytes; copies in the order of the lines take a quarter of that, and so do the loads from
// stages. A warp has stages of its own and needs no barrier but its own.
#pragma once

#include "kernels/spmm/acc_spmm/cells.cuh"
#include "kernels/spmm/row_windows/staged_rows.cuh"

namespace tessera::acc_spmm {

/// sums += the task's TC blocks, of which there are some, times their rows of B. ME-TCF's cells go
/// through `tile_memory`.
template <bool kAligned, Tf32Precision kPrecision, int kGroups, int kStages, CopyCache kCache,
          NonzeroEncoding kEncoding, class WarpSums>
__device__ void multiply_staged(const KernelArguments& product, const Task& task,
                                std::int64_t first_col, int lane, float* stages, float* tile_memory,
                                WarpSums& sums) {
  constexpr int kStageFloats = kTileCols * row_pitch(kGroups);
  const RowCopier<kAligned, kGroups, kCache> copier(product.view.sparse_a_to_b, product.b,
                                                    product.view.n, first_col, lane);
  const auto memory = static_cast<std::uint32_t>(__cvta_generic_to_shared(stages));
  const std::uint32_t end = task.last - 1;

  auto rows = copier.rows(task.first);
#pragma unroll
  for (int stage = 0; stage < kStages - 1; ++stage) {
    if (task.first + stage < task.last) copier.copy(rows, memory + 4 * stage * kStageFloats);
    asm volatile("cp.async.commit_group;" ::: "memory");
    rows = copier.rows(min(task.first + stage + 1, end));
  }
  Places<kEncoding> places(product, task, lane);
  auto loaded = places.load();
  places.move_on();

  int stage = 0;
  for (std::uint32_t tile = task.first; tile < task.last; ++tile) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
    __syncwarp();  // all lanes' copies are there, and the stage before is free
    Tf32Operand<kPrecision, 2> operand;
    const Cells cells = places.take(loaded, tile_memory);
    for (int half = 0; half < 2; ++half) operand.set(half, cells.value[half]);
    loaded = places.load();
    places.move_on();

    const int free = stage == 0 ? kStages - 1 : stage - 1;
    if (tile + kStages - 1 < task.last) copier.copy(rows, memory + 4 * free * kStageFloats);
    asm volatile("cp.async.commit_group;" ::: "memory");
    rows = copier.rows(min(tile + kStages, end));

    const float* b = stages + stage * kStageFloats + lane % 4 * row_pitch(kGroups) + lane / 4 * 4;
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      float piece[2][4];
      for (int half = 0; half < 2; ++half) {
        const float4 loaded =
            *reinterpret_cast<const float4*>(b + 4 * half * row_pitch(kGroups) + group * kWarpCols);
        piece[half][0] = loaded.x, piece[half][1] = loaded.y;
        piece[half][2] = loaded.z, piece[half][3] = loaded.w;
      }
      sums.add(group, piece, operand);
    }
    sums.end_tile();
    stage = stage + 1 == kStages ? 0 : stage + 1;
  }
}

template <bool kAligned, Tf32Precision kPrecision, bool kPromotes, int kGroups, int kStages,
          CopyCache kCache, NonzeroEncoding kEncoding, bool kShares, bool kAnyStore>
__global__ void __launch_bounds__(kThreads,
                                  kPrecision == Tf32Precision::kSplit || kPromotes ? 3 : 4)
    run_staged(KernelArguments product) {
  extern __shared__ __align__(16) float memory[];
  constexpr int kWarpFloats = kStages * kTileCols * row_pitch(kGroups);
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  for_each_task<kShares>(product, [&](const WorkItem& place, const Task& task) {
    Sums<kGroups, kPromotes> sums(product.promote);
    if (task.first < task.last)
      multiply_staged<kAligned, kPrecision, kGroups, kStages, kCache, kEncoding>(
          product, task, place.chunk * kGroups * kWarpCols, lane, memory + warp * kWarpFloats,
          memory + kWarps * kWarpFloats + warp * kTileCells, sums);
    deliver<kAligned, kAnyStore>(product, place, task, lane, sums.finish());
  });
}

}  // namespace tessera::acc_spmm
