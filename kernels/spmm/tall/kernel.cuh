// The kernel of tall_spmm: a thread block multiplies its tiles one after another.
//
// While a tile is multiplied, rows of B of the tile after the next are copied, the nonzeros of the
// next one are written to its cells and those of the one behind it are loaded: one barrier a tile.
// Nothing waits for a load of the same turn.
#pragma once

#include "kernels/device/bulk_copies.cuh"
#include "kernels/spmm/tall/operands.cuh"
#include "kernels/spmm/tall/store.cuh"

namespace tessera::tall_spmm {

/// Begins the MMAs of a tile.
template <class Numbers>
__device__ void begin_mmas(Sums& sums, std::uint32_t tile_at, std::uint32_t rows_at, int steps,
                           bool adds) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  const std::uint64_t tile = tile_descriptor(tile_at), rows = rows_descriptor(rows_at);
  const auto multiply = [&](int step) {
    Numbers::multiply(sums, tile + step * kTileStep, rows + step * kRowsStep, step > 0 || adds);
  };
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  // The compiler has to see that all lanes take the same branch.
  steps = __shfl_sync(~0u, steps, 0);
  if (steps == kSteps) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) multiply(step);
  } else {
    static_assert(kSteps == 4);
    multiply(0);
    if (steps > 1) multiply(1);
    if (steps > 2) multiply(2);
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

/// Waits for them.
__device__ inline void end_mmas(Sums& sums) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#endif
  // The MMAs write these registers until here, of which the compiler knows nothing.
#pragma unroll
  for (float4& vector : sums)
    asm volatile("" : "+f"(vector.x), "+f"(vector.y), "+f"(vector.z), "+f"(vector.w)::"memory");
}

/// Stores the sums of a window, or leaves those of a part of it.
template <class Numbers, bool kAligned>
__device__ void finish(const Arguments& arguments, const ColumnScales& scales, const Turn& turn,
                       std::uint32_t chunk, Sums& sums) {
  const std::uint32_t warp = threadIdx.x / 32;
  if (turn.split != 0) {
    const std::uint32_t split = kWarps * (turn.split - 1) + warp;
    if (!window_tasks::combine_split_window(arguments.split_windows,
                                            {.split = split,
                                             .part = turn.part(),
                                             .parts = arguments.split_windows.splits[split].parts},
                                            chunk, static_cast<int>(threadIdx.x) % 32, sums))
      return;
  }
  store_sums<Numbers, kAligned>(arguments.dense, scales,
                                turn.window * kWindowRows + warp * kWarpRows, chunk * kCols, sums);
}

template <class Numbers, bool kAligned>
__global__ void __launch_bounds__(kThreads, kResident) multiply(const Arguments arguments) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const std::uint32_t worker = blockIdx.x / arguments.chunks, chunk = blockIdx.x % arguments.chunks;
  const std::uint32_t first = __ldg(arguments.first_turn + worker);
  const std::uint32_t count = __ldg(arguments.first_turn + worker + 1) - first;
  const std::uint32_t base = shared_address(memory);
  const Turns turns(arguments.turns + first, base + kTurnsAt);
  Records records(arguments.records, base + kRecordsAt);
  const RowsOfB<kAligned> rows(arguments.dense, chunk, base);
  Tiles tiles(arguments.nonzeros, base + kTilesAt);

  turns.fill();
  close_group();
  tiles.clear_all();
  wait_groups<0>();
  __syncthreads();
  for (int i = 0; i < kStages; ++i) records.fetch(turns.tile(i), i);
  close_group();
  wait_groups<0>();
  __syncthreads();
  Extent now = records.extent(0), next = records.extent(1);
  tiles.load(now);
  // Products of 16 bits are narrowed ones or always run. A is there before B is narrowed.
  if constexpr (Numbers::kScales)
    if (!is_to_run(arguments.dense.narrowing)) return;
  begin_product();
  const ColumnScales scales(base);
  if constexpr (Numbers::kScales) scales.fill(arguments.dense, chunk);
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) {
    if (i < count) rows.copy(i, records, i, records.extent(i).columns);
    if (i == kStages - 2) records.fetch(turns.tile(kStages), kStages);
    close_group();
  }
  tiles.expand(now);
  tiles.load(next);
  Turn turn = turns.at(0);
  Sums sums = {};
  int stage = 0;
#pragma unroll 1
  for (std::uint32_t i = 0; i < count; ++i) {
    wait_groups<kStages - 2>();
    fence_for_bulk_copies();
    __syncthreads();
    const Extent after = records.extent(records.slot(2));
    const std::uint32_t fetched = turns.tile(i + kStages + 1);
    begin_mmas<Numbers>(sums, tiles.address(), base + stage * kStageBytes, now.steps(),
                        !turn.is_first());
    static_assert(kStages == 3);  // `after` is the tile whose rows are copied
    if (i + kStages - 1 < count)
      rows.copy(stage > 0 ? stage - 1 : kStages - 1, records, records.slot(kStages - 1),
                after.columns);
    records.fetch(fetched, records.slot(kStages + 1));
    turns.refill(i);
    close_group();
    tiles.clear_last();
    tiles.advance();
    tiles.expand(next);
    tiles.load(after);
    now = next, next = after;
    records.advance();
    stage = stage + 1 < kStages ? stage + 1 : 0;
    const Turn following = turns.at(i + 1);
    end_mmas(sums);
    if (turn.is_last()) finish<Numbers, kAligned>(arguments, scales, turn, chunk, sums);
    turn = following;
  }
}

}  // namespace tessera::tall_spmm
