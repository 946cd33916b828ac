// The device half of row_windows/schedule.hpp: the arguments of a launch, the tasks of a warp, and
// the sums of split windows.
#pragma once

#include "kernels/device/store_operator.hpp"
#include "kernels/early_fetch.hpp"
#include "kernels/spmm/row_windows/schedule.hpp"
#include "kernels/spmm/row_windows/split_windows.cuh"
#include "kernels/spmm/row_windows/window_tile.cuh"

namespace tessera::row_windows {

using window_tasks::Task;
using window_tile::View;

/// The operands of a product, its tasks, and the sums of split windows.
struct KernelArguments {
  View view;
  const Task* tasks;            // [num_tasks]
  const std::uint32_t* shares;  // [num_shares + 1] first task of a warp; null: one task each
  std::uint32_t num_shares;
  window_tasks::SplitWindowSums split_windows;
  bool atomic;
  std::uint32_t chunks_at_once;  // Schedule::chunks_at_once
  Store store;
  int promote;
  const void* b;
  void* c;
  Scaling scaling;
  const std::int32_t* places = nullptr;  // [rows] the row of C of each row; null: the same one
  Narrowing narrowing = {};
  EarlyFetch early = {};    // of kernels that fetch A early
  bool ends_first = false;  // of kernels that overlap: the next launch waits for their end

  /// Of a kernel that stores them as FP32.
  __device__ const float* b_fp32() const { return static_cast<const float*>(b); }
  __device__ float* c_fp32() const { return static_cast<float*>(c); }
};

/// A task of a warp and the chunk of columns of C that the warp computes.
struct TaskItem {
  std::uint32_t task;
  std::int64_t chunk;
};

/// Synchronises the warps of a team of `kTeam` warps.
template <int kTeam>
__device__ void synchronize_team() {
  if constexpr (kTeam == 1)
    __syncwarp();
  else
    __syncthreads();
}

/// Calls run(item, task) for the tasks of a warp: one task without `kShares`, else those of its
/// share one after another, which takes registers. `V::schedule()` is the kernel's schedule.
template <class V, bool kShares, class Run>
__device__ void for_each_task(const KernelArguments& arguments, Run run) {
  constexpr Schedule kSchedule = V::schedule();
  const WorkItem item = kSchedule.item_of(blockIdx.x, threadIdx.x / 32, arguments.num_shares);
  const std::int64_t chunk = item.chunk;
  if (kSchedule.team == 1 && item.share >= arguments.num_shares) return;
  if constexpr (!kShares) {
    const Task task = arguments.tasks[item.share];
    run(TaskItem{item.share, chunk}, task);
  } else {
    const std::uint32_t last = arguments.shares[item.share + 1];
    for (std::uint32_t index = arguments.shares[item.share]; index < last; ++index) {
      if constexpr (kSchedule.team == 1) {
        const Task task = arguments.tasks[index];
        run(TaskItem{index, chunk}, task);
      } else {
        run(TaskItem{index, chunk}, arguments.tasks[index]);  // which takes no registers
      }
      synchronize_team<kSchedule.team>();  // the team's shared memory is free
    }
  }
}

/// Combines the sums of a split window's parts from a lane's accumulators of `kGroups` groups of 32
/// columns. Returns true for the last part to arrive, whose accumulators then hold all sums.
template <int kGroups>
__device__ bool combine_split_window(const KernelArguments& arguments,
                                     const window_tasks::SplitPart& part, std::int64_t chunk,
                                     int lane, float (&acc)[kGroups][2][4]) {
  float4 sums[2 * kGroups];
  for (int i = 0; i < 2 * kGroups; ++i) sums[i] = window_tile::row_of(acc[i / 2], i % 2);
  if (!window_tasks::combine_split_window(arguments.split_windows, part, chunk, lane, sums))
    return false;
  for (int group = 0; group < kGroups; ++group) {
    for (int j = 0; j < 2; ++j) {
      const float4 sum = sums[2 * group + j];
      acc[group][0][j] = sum.x, acc[group][0][2 + j] = sum.y;
      acc[group][1][j] = sum.z, acc[group][1][2 + j] = sum.w;
    }
  }
  return true;
}

/// As above, where every task of a split window is a part.
template <int kGroups>
__device__ bool combine_split_window(const KernelArguments& arguments, const TaskItem& item,
                                     const Task& task, int lane, float (&acc)[kGroups][2][4]) {
  const window_tasks::Split split = arguments.split_windows.splits[task.split - 1];
  return combine_split_window(arguments,
                              {task.split - 1, item.task - split.first_task, split.parts},
                              item.chunk, lane, acc);
}

}  // namespace tessera::row_windows
