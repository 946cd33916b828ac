// The device half of kernels/spmm/row_windows/window_launch.hpp: the arguments of a launch, the
// tasks of a warp, and the sums of split windows.
#pragma once

#include "kernels/device/store_operator.hpp"
#include "kernels/spmm/row_windows/split_windows.cuh"
#include "kernels/spmm/row_windows/window_launch.hpp"
#include "kernels/spmm/row_windows/window_tile.cuh"

namespace tessera::row_windows {

using window_tasks::Split;
using window_tasks::Task;
using window_tile::View;

/// A product: operands, tasks, and where the sums of split windows meet.
struct KernelArguments {
  View view;
  const Task* tasks;            // [num_tasks]
  const std::uint32_t* shares;  // [num_shares + 1] first task of a warp, where it has several
  std::uint32_t num_shares;
  const Split* splits;  // [num_splits]
  std::uint32_t num_splits;
  std::int64_t num_slots;
  float4* slots;            // [chunks][num_slots][2 groups][32]
  std::uint32_t* arrivals;  // [chunks][num_splits] zero between launches
  bool atomic;
  Store store;
  int promote;
  const float* b;
  float* c;
  Scaling scaling;
};

/// A warp's place in the product.
struct WorkItem {
  std::uint32_t task;
  std::int64_t chunk;
};

/// Calls run(place, task) for what the warp has to do: a task, or those of its share one after
/// another, which takes registers. Those of one chunk of columns come before those of the next:
/// what is gathered from B at a time is narrower than B and stays in the L2.
template <bool kShares, class Run>
__device__ void for_each_task(const KernelArguments& product, Run run) {
  const std::int64_t warp = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  const std::uint32_t padded = (product.num_shares + kWarps - 1) / kWarps * kWarps;
  const auto chunk = static_cast<std::uint32_t>(warp / padded);
  const auto share = static_cast<std::uint32_t>(warp - std::int64_t{chunk} * padded);
  if (share >= product.num_shares) return;
  if constexpr (!kShares) {
    const Task task = product.tasks[share];
    run(WorkItem{share, chunk}, task);
  } else {
    const std::uint32_t last = product.shares[share + 1];
    for (std::uint32_t index = product.shares[share]; index < last; ++index) {
      const Task task = product.tasks[index];
      run(WorkItem{index, chunk}, task);
      __syncwarp();  // the warp's shared memory is free
    }
  }
}

/// beta C where atomics add: a thread block for a split window.
template <int kWindowRows>
__global__ void clear_split_windows(KernelArguments product) {
  const std::int64_t row =
      std::int64_t{product.tasks[product.splits[blockIdx.x].first_task].window} * kWindowRows;
  const std::int64_t rows = min(std::int64_t{kWindowRows}, product.view.rows - row);
  float* c = product.c + row * product.view.n;
  begin_adding(c, threadIdx.x, rows * product.view.n, product.scaling);
}

/// As window_tasks::meet, for a lane's accumulators.
template <int kGroups>
__device__ bool meet(const KernelArguments& product, const WorkItem& place, const Task& task,
                     int lane, float (&acc)[kGroups][2][4]) {
  float4 sums[2 * kGroups];
  for (int i = 0; i < 2 * kGroups; ++i) sums[i] = window_tile::row_of(acc[i / 2], i % 2);
  const window_tasks::Meeting meeting{product.splits, product.num_splits, product.num_slots,
                                      product.slots, product.arrivals};
  if (!window_tasks::meet(meeting, place.task, place.chunk, task, lane, sums)) return false;
  for (int group = 0; group < kGroups; ++group) {
    for (int j = 0; j < 2; ++j) {
      const float4 sum = sums[2 * group + j];
      acc[group][0][j] = sum.x, acc[group][0][2 + j] = sum.y;
      acc[group][1][j] = sum.z, acc[group][1][2 + j] = sum.w;
    }
  }
  return true;
}

}  // namespace tessera::row_windows
