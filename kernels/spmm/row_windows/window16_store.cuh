// The end of a task of a kernel whose windows have 16 rows: its sums are written to C or to the
// slot of a split window.
#pragma once

#include <cstdint>

#include "kernels/spmm/row_windows/task_kernel.cuh"
#include "kernels/spmm/row_windows/window16_tile.cuh"

namespace tessera::window16_tile {

using row_windows::KernelArguments;
using row_windows::TaskItem;
using window_tasks::Task;

/// Writes the sums of a task to C, or to the slot of its split window. Lanes read kWidth columns of
/// B at once.
template <int kWidth, bool kAligned, int kGroups>
__device__ void store_task(const KernelArguments& arguments, const TaskItem& item, const Task& task,
                           std::int64_t first_col, int lane, float (&sums)[kGroups][2][4]) {
  const bool adds = task.split != 0 && arguments.atomic;
  if (task.split != 0 && !arguments.atomic &&
      !row_windows::combine_split_window(arguments, item, task, lane, sums))
    return;
  for_each_sum<kWidth>(arguments.c_fp32(), arguments.view.rows, arguments.view.n, task.window,
                       first_col, lane, sums, [&](float* to, const float4& values, int cols) {
                         if (adds)
                           add_16_bytes(to, values, cols, arguments.scaling.alpha, kAligned);
                         else
                           store_16_bytes<kAligned>(to, values, cols, arguments.scaling);
                       });
}

}  // namespace tessera::window16_tile
