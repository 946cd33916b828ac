#include "kernels/spmm/row_windows/window16_work.hpp"

#include <algorithm>

#include "kernels/spmm/row_windows/me_tcf_kernel.hpp"
#include "kernels/spmm/row_windows/task_work.hpp"
#include "kernels/spmm/row_windows/window16_tile.hpp"

namespace tessera::window16_tile {
namespace {

using window_tasks::Task;
using window_tasks::Tasks;

template <class T>
std::int64_t bytes_of(const std::vector<T>& array) {
  return static_cast<std::int64_t>(array.size() * sizeof(T));
}

/// Adds the work of a task to its thread block, for `cols` columns of B and C.
void add_task(const MeTcf& a, const Tasks& tasks, std::int64_t index, const TileLaunch& launch,
              std::int64_t cols, ThreadBlockWork& work) {
  const row_windows::Schedule& schedule = launch.schedule;
  const Task& task = tasks.tasks[index];
  const std::int64_t blocks = task.last - task.first;
  const std::int64_t warps = (cols + schedule.warp_cols() - 1) / schedule.warp_cols();
  // Columns beyond the edge are multiplied, too, except by warps that have no others.
  work.mma +=
      blocks * warps * schedule.groups * kMmas * kTileCols / launch.depth * launch.mmas_per_product;
  // A's nonzeros and bitmaps once; offsets, column indices and the task for every warp. With
  // bitmaps, the offset of the first TC block is enough.
  const std::int64_t offsets = launch.bytes.bitmap > 0 ? std::min<std::int64_t>(blocks, 1) : blocks;
  work.a_bytes +=
      (4 + launch.bytes.position) * (a.tc_offset[task.last] - a.tc_offset[task.first]) +
      launch.bytes.bitmap * blocks +
      schedule.team * (4 * offsets + 4 * MeTcf::kTileCols * blocks + std::int64_t{sizeof(task)});
  work.b_bytes +=
      launch.b_bytes() * row_windows::count_active_cols(a, task.first, task.last) * cols;
  if (schedule.team > 1) work.barriers += schedule.team * (blocks + (blocks > 0 ? 2 : 1));
  if (task.is_joined()) work.a_bytes += 4 * std::int64_t{task.windows()};  // their ends
  std::int64_t rows = 0;
  for (std::uint32_t w = task.window; w < task.window + task.windows(); ++w)
    rows += row_windows::rows_of_window(a, w);
  row_windows::add_stores(tasks, index, launch.combine, rows, cols, work, launch.c_bytes());
}

}  // namespace

Addresses::Addresses(const MeTcf& a, const Tasks& tasks, std::int64_t n, const TileLaunch& launch,
                     AddressSpace& space)
    : tasks(space.add("tasks", bytes_of(tasks.tasks))),
      shares(space.add("shares", bytes_of(tasks.shares))),
      slots(space.add("slots", tasks.slots * launch.schedule.chunks(n) *
                                   window_tasks::slot_bytes(launch.schedule.lane_vectors()))),
      windows(space.add("row_window_offset", bytes_of(a.row_window_offset))),
      offsets(space.add("tc_offset", bytes_of(a.tc_offset))),
      positions(space.add(
          "positions", launch.bytes.position * a.nnz() + launch.bytes.bitmap * a.num_tc_blocks())),
      sparse_a_to_b(space.add("sparse_a_to_b", bytes_of(a.sparse_a_to_b))),
      values(space.add("values", bytes_of(a.values))),
      b(space.add("b", launch.b_bytes() * n * a.cols())),
      c(space.add("c", launch.c_bytes() * n * a.rows())) {}

WorkDescription describe_without_trace(const std::string& kernel, const MeTcf& a, std::int64_t n,
                                       const std::shared_ptr<const Tasks>& tasks,
                                       const TileLaunch& launch, std::optional<Addresses>& at) {
  WorkDescription work = me_tcf_kernel::describe(kernel, a, launch.depth, n, launch.storage);
  at.emplace(a, *tasks, n, launch, work.memory);
  const std::int64_t cleared = row_windows::add_clear_launch(
      {.window_rows = a.window_rows, .rows = a.rows(), .n = n, .tasks = at->tasks, .c = at->c},
      tasks, launch.combine, work);
  row_windows::add_thread_blocks(
      launch.schedule, *tasks, n,
      [&](std::int64_t task, std::int64_t cols, ThreadBlockWork& thread_block) {
        add_task(a, *tasks, task, launch, cols, thread_block);
      },
      work.thread_blocks);
  work.launches.push_back({.name = "multiply",
                           .thread_blocks = std::ssize(work.thread_blocks) - cleared,
                           .threads_per_block = launch.schedule.threads(),
                           .registers_per_thread = launch.registers,
                           .shared_bytes = launch.shared_bytes,
                           .overlaps = launch.overlaps});
  return work;
}

}  // namespace tessera::window16_tile
