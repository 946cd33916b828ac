// Combines the sums of a split window's tasks (window_tasks.hpp): each task writes its sums to a
// slot, and the last task to arrive adds all of them, in the order of the tasks.
#pragma once

#include "kernels/spmm/row_windows/split_windows.hpp"
#include "kernels/spmm/row_windows/window_tasks.hpp"

namespace tessera::window_tasks {

/// Device arrays of the split windows' sums.
struct SplitWindowSums {
  const Split* splits;  // [num_splits]
  std::uint32_t num_splits;
  std::int64_t num_slots;
  float4* slots;            // [chunks][num_slots][lane vectors][32]
  std::uint32_t* arrivals;  // [chunks][num_splits] zero between launches
};

/// One of the parts of a split window that take a slot.
struct SplitPart {
  std::uint32_t split;  // of SplitWindowSums::splits
  std::uint32_t part, parts;
};

/// Writes a lane's sums, of a part of a split window and a chunk of columns, to their slot. Returns
/// true for the last part of the window to arrive, whose `sums` then hold those of all parts.
template <int kVectors>
__device__ bool combine_split_window(const SplitWindowSums& window_sums, const SplitPart& part,
                                     std::int64_t chunk, int lane, float4 (&sums)[kVectors]) {
  constexpr int kSlotVectors = slot_vectors(kVectors);
  const std::uint32_t first_slot = window_sums.splits[part.split].first_slot;
  float4* first =
      window_sums.slots + (chunk * window_sums.num_slots + first_slot) * kSlotVectors + lane;
  float4* mine = first + part.part * kSlotVectors;
  for (int i = 0; i < kVectors; ++i) __stcg(mine + 32 * i, sums[i]);
  __threadfence();
  __syncwarp();
  std::uint32_t* arrivals = window_sums.arrivals + chunk * window_sums.num_splits + part.split;
  std::uint32_t before = 0;
  if (lane == 0) before = atomicAdd(arrivals, 1);
  before = __shfl_sync(~0u, before, 0);
  if (before + 1 < part.parts) return false;
  __threadfence();
  if (lane == 0) *arrivals = 0;  // for the next launch
  for (int i = 0; i < kVectors; ++i) sums[i] = __ldcg(first + 32 * i);
  constexpr int kPartsAtOnce = kVectors > 8 ? 1 : 2;  // limited by registers
#pragma unroll kPartsAtOnce
  for (std::uint32_t next = 1; next < part.parts; ++next) {
    const float4* from = first + next * kSlotVectors;
    for (int i = 0; i < kVectors; ++i) {
      const float4 vector = __ldcg(from + 32 * i);
      sums[i].x += vector.x, sums[i].y += vector.y, sums[i].z += vector.z, sums[i].w += vector.w;
    }
  }
  return true;
}

}  // namespace tessera::window_tasks
