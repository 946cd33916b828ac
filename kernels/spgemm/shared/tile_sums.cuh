// Prefix sums over items from their sums over tiles, which earlier launches add up: one launch, and
// no scratch memory.
#pragma once

#include <cstdint>

#include "kernels/spgemm/shared/thread_groups.cuh"
#include "kernels/spgemm/shared/tiles.hpp"

namespace tessera::spgemm {

/// The sum over a launch's threads of a value of each thread of the block before this one, after
/// the sums of the tiles before this block. Every thread has to call it.
template <class Sum>
__device__ Sum sum_before(Sum own, const Sum* of_tiles) {
  constexpr int kWarp = 32;
  __shared__ Sum of_warps[kTile / kWarp], before_tile;
  Sum tiles = 0;
  for (unsigned i = threadIdx.x; i < blockIdx.x; i += kTile) tiles += of_tiles[i];
  Sum sum = own;
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const Sum below = __shfl_up_sync(kAllLanes, sum, step);
    if (lane_of_warp() >= step) sum += below;
    tiles += __shfl_xor_sync(kAllLanes, tiles, step);
  }
  if (threadIdx.x == 0) before_tile = 0;
  if (lane_of_warp() == kWarp - 1) of_warps[threadIdx.x / kWarp] = sum;
  __syncthreads();
  if (lane_of_warp() == 0 && tiles > 0) atomicAdd(&before_tile, tiles);
  __syncthreads();
  Sum before = before_tile + sum - own;
  for (unsigned w = 0; w < threadIdx.x / kWarp; ++w) before += of_warps[w];
  return before;
}

}  // namespace tessera::spgemm
