// acc_spmm's staged pipeline: whole rows of B are copied to shared memory asynchronously, 512 bytes
// by one instruction of a warp, and are read from there as fragments.
//
// Lanes that load fragments from the L2 take a wavefront of the L1 for every sector of 32 bytes;
// copies of whole lines take a quarter of that, and so do the reads of stages. Each warp has stages
// of its own and synchronises itself alone.
#pragma once

#include "kernels/spmm/acc_spmm/nonzero_reader.cuh"
#include "kernels/spmm/row_windows/staged_rows.cuh"

namespace tessera::acc_spmm {

/// sums += the task's TC blocks, of which there is at least one, times their rows of B. ME-TCF's
/// nonzeros are exchanged through `tile_memory`.
template <class V, class WarpSums>
__device__ void multiply_staged(const KernelArguments& arguments, const Task& task,
                                std::int64_t first_col, int lane, float* stages, float* tile_memory,
                                WarpSums& sums) {
  constexpr int kGroups = V::kVariant.groups, kStages = V::kVariant.stages;
  constexpr int kStageFloats = row_windows::stage_floats(kGroups);
  const row_windows::RowCopier<V::kVariant.aligned, kGroups, copy_cache(V::kVariant.cache)> copier(
      arguments.view.sparse_a_to_b, arguments.b_fp32(), arguments.view.n, first_col, lane);
  const auto memory = static_cast<std::uint32_t>(__cvta_generic_to_shared(stages));
  const std::uint32_t end = task.last - 1;

  auto rows = copier.rows(task.first);
#pragma unroll
  for (int stage = 0; stage < kStages - 1; ++stage) {
    if (task.first + stage < task.last) copier.copy(rows, memory + 4 * stage * kStageFloats);
    asm volatile("cp.async.commit_group;" ::: "memory");
    rows = copier.rows(min(task.first + stage + 1, end));
  }
  NonzeroReader<V::kVariant.encoding> reader(arguments, task, lane);
  auto loaded = reader.load();
  reader.advance();

  int stage = 0;
  for (std::uint32_t tile = task.first; tile < task.last; ++tile) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
    __syncwarp();  // all lanes' copies are complete, and the stage before is free
    Tf32Operand<V::kVariant.precision, 2> operand;
    const FragmentA fragment = reader.fragment_of(loaded, tile_memory);
    for (int half = 0; half < 2; ++half) operand.set(half, fragment.value[half]);
    loaded = reader.load();
    reader.advance();

    const int free = stage == 0 ? kStages - 1 : stage - 1;
    if (tile + kStages - 1 < task.last) copier.copy(rows, memory + 4 * free * kStageFloats);
    asm volatile("cp.async.commit_group;" ::: "memory");
    rows = copier.rows(min(tile + kStages, end));

    const float* b = stages + stage * kStageFloats + lane % 4 * row_pitch(kGroups) + lane / 4 * 4;
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      float rows_of_b[2][4];
      for (int half = 0; half < 2; ++half) {
        const float4 vector =
            *reinterpret_cast<const float4*>(b + 4 * half * row_pitch(kGroups) + group * kWarpCols);
        rows_of_b[half][0] = vector.x, rows_of_b[half][1] = vector.y;
        rows_of_b[half][2] = vector.z, rows_of_b[half][3] = vector.w;
      }
      sums.add(group, rows_of_b, operand);
    }
    sums.end_tile();
    stage = stage + 1 == kStages ? 0 : stage + 1;
  }
}

/// Thread blocks of a multiprocessor that the registers must suffice for.
template <class V>
constexpr int kResidentBlocks =
    V::kVariant.precision == Tf32Precision::kSplit || V::kVariant.promotes ? 3 : 4;

template <class V>
__global__ void __launch_bounds__(V::schedule().threads(), kResidentBlocks<V>)
    run_staged(KernelArguments arguments) {
  extern __shared__ __align__(16) float memory[];
  constexpr StagedMemory kMemory{.groups = V::kVariant.groups,
                                 .stages = V::kVariant.stages,
                                 .has_tiles = V::kVariant.encoding == NonzeroEncoding::kBytes};
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const auto run = [&](const TaskItem& item, const Task& task) {
    Accumulators<V::kVariant.groups, V::kVariant.promotes> sums(arguments.promote);
    if (task.first < task.last)
      multiply_staged<V>(arguments, task, V::schedule().first_col(item.chunk), lane,
                         memory + kMemory.stages_of(warp), memory + kMemory.tile_of(warp), sums);
    store_task<V>(arguments, item, task, lane, sums.finish());
  };
  row_windows::for_each_task<V, V::kVariant.equal_shares>(arguments, run);
}

}  // namespace tessera::acc_spmm
