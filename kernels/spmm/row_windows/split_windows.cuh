// Where the sums of a split window's tasks meet (kernels/spmm/row_windows/window_tasks.hpp): each
// task leaves its own in a slot, and whichever is the last to arrive adds all, in the order of the
// tasks.
#pragma once

#include "kernels/spmm/row_windows/window_tasks.hpp"

namespace tessera::window_tasks {

struct Meeting {
  const Split* splits;  // [num_splits]
  std::uint32_t num_splits;
  std::int64_t num_slots;
  float4* slots;            // [chunks][num_slots][pieces][32]
  std::uint32_t* arrivals;  // [chunks][num_splits] zero between launches
};

/// Leaves a lane's sums, of task number `index` and a chunk of columns, in their slot. True for the
/// last task of the window to arrive, which then has the sums of all.
template <int kPieces>
__device__ bool meet(const Meeting& meeting, std::uint32_t index, std::int64_t chunk,
                     const Task& task, int lane, float4 (&sums)[kPieces]) {
  const Split split = meeting.splits[task.split - 1];
  float4* first =
      meeting.slots + (chunk * meeting.num_slots + split.first_slot) * (32 * kPieces) + lane;
  float4* mine = first + (index - split.first_task) * (32 * kPieces);
  for (int i = 0; i < kPieces; ++i) __stcg(mine + 32 * i, sums[i]);
  __threadfence();
  __syncwarp();
  std::uint32_t* arrivals = meeting.arrivals + chunk * meeting.num_splits + task.split - 1;
  std::uint32_t before = 0;
  if (lane == 0) before = atomicAdd(arrivals, 1);
  before = __shfl_sync(~0u, before, 0);
  if (before + 1 < split.parts) return false;
  __threadfence();
  if (lane == 0) *arrivals = 0;  // for the next launch
  for (int i = 0; i < kPieces; ++i) sums[i] = __ldcg(first + 32 * i);
  constexpr int kPartsAtOnce = kPieces > 8 ? 1 : 2;  // as far as there are registers
#pragma unroll kPartsAtOnce
  for (std::uint32_t part = 1; part < split.parts; ++part) {
    const float4* from = first + part * (32 * kPieces);
    for (int i = 0; i < kPieces; ++i) {
      const float4 piece = __ldcg(from + 32 * i);
      sums[i].x += piece.x, sums[i].y += piece.y, sums[i].z += piece.z, sums[i].w += piece.w;
    }
  }
  return true;
}

}  // namespace tessera::window_tasks
