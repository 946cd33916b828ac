// The work description of a kernel with the schedule of row_windows/schedule.hpp: the work of its
// thread blocks, and the launch that clears split windows before atomics add to them.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/spmm/row_windows/schedule.hpp"
#include "kernels/spmm/row_windows/split_windows.hpp"
#include "kernels/spmm/row_windows/window_tasks.hpp"
#include "kernels/work.hpp"

namespace tessera::row_windows {

using window_tasks::CombineMethod;

/// Appends the work of the schedule's thread blocks for a C of n columns, in their order.
/// `add_task(task index, columns of C, ThreadBlockWork&)` adds a task of a team to its thread
/// block.
template <class AddTask>
void add_thread_blocks(const Schedule& schedule, const window_tasks::Tasks& tasks, std::int64_t n,
                       AddTask add_task, std::vector<ThreadBlockWork>& all) {
  constexpr std::int64_t kShareBytes = 8;  // the share's first task and the next share's
  const auto num_shares = static_cast<std::uint32_t>(tasks.num_shares());
  const std::int64_t thread_blocks = schedule.thread_blocks(num_shares, n);
  for (std::int64_t thread_block = 0; thread_block < thread_blocks; ++thread_block) {
    ThreadBlockWork& work = all.emplace_back();
    for (int warp = 0; warp < schedule.warps(); warp += schedule.team) {
      const WorkItem item = schedule.item_of(static_cast<std::uint32_t>(thread_block),
                                             static_cast<std::uint32_t>(warp), num_shares);
      if (item.share >= num_shares) continue;
      const std::int64_t cols =
          std::min<std::int64_t>(schedule.team_cols(), n - schedule.first_col(item.chunk));
      if (!tasks.shares.empty()) work.a_bytes += kShareBytes;
      for (std::int64_t i = tasks.first_of(item.share); i < tasks.first_of(item.share + 1); ++i)
        add_task(i, cols, work);
    }
  }
}

/// Adds what task `index` writes to C: `cols` columns of the window's `rows` rows, by atomics or
/// by the last of the window's tasks.
void add_stores(const window_tasks::Tasks& tasks, std::int64_t index, CombineMethod combine,
                std::int64_t rows, std::int64_t cols, ThreadBlockWork& work, int bytes = 4);

/// Instructions of a warp of these kernels besides memory instructions and MMAs, counted in machine
/// code (CUDA 13.0, sm_90a).
struct TaskInstructionCounts {
  static constexpr int kIdle = 30;   // a warp without a share
  static constexpr int kStart = 15;  // until the first task of a warp with one,
  static constexpr int kShare = 18;  // and more until that of a share, with its loads
  // Where tasks of a team meet in shared memory: each, one that leaves its vectors of sums, and one
  // that adds those of a part.
  static constexpr int kTeam = 50, kLeaveVector = 4;
  static constexpr int kAddPart = 6, kAddVector = 4;
  static constexpr int kClear = 30;       // clearing a split window: until the first store
  static constexpr int kClearStore = 12;  // with the store
};

/// Windows of `window_rows` rows of C [rows x n]; the addresses of the tasks and of C.
struct ClearedWindows {
  int window_rows;
  std::int64_t rows, n;
  std::uint64_t tasks, c;
  int instructions = TaskInstructionCounts::kClear;  // of a warp until its first store
};

/// Appends the launch that clears split windows and the work of its thread blocks, one for each
/// split window; nothing where no window is split or `combine` is ordered. Returns the number of
/// its thread blocks.
std::int64_t add_clear_launch(const ClearedWindows& windows,
                              const std::shared_ptr<const window_tasks::Tasks>& tasks,
                              CombineMethod combine, WorkDescription& work);

/// Appends a warp's operations before its first task: indices, and the extent of its share.
void trace_share_extent(const window_tasks::Tasks& tasks, std::int64_t share, std::uint64_t shares,
                        int board, WarpTrace& trace);

/// LaunchTrace::next() of a warp that computes the tasks of its share one after another.
/// `advance(task, item)` appends a chunk of a task's operations and returns false at the task's
/// end, `end_task()` appends what follows a task. `shares` is the address of the array, `board` a
/// free scoreboard.
template <class Advance, class EndTask>
bool trace_share(const Schedule& schedule, const window_tasks::Tasks& tasks, std::uint64_t shares,
                 int board, std::int64_t thread_block, int warp, WarpCursor& cursor,
                 WarpTrace& trace, Advance advance, EndTask end_task) {
  const auto num_shares = static_cast<std::uint32_t>(tasks.num_shares());
  const WorkItem item = schedule.item_of(static_cast<std::uint32_t>(thread_block),
                                         static_cast<std::uint32_t>(warp), num_shares);
  if (item.share >= num_shares) {
    trace.issue(TaskInstructionCounts::kIdle);
    return false;
  }
  if (cursor.part == 0 && cursor.step == 0)
    trace_share_extent(tasks, item.share, shares, board, trace);
  const std::int64_t task = tasks.first_of(item.share) + cursor.part;
  if (advance(task, item)) return true;
  end_task();
  ++cursor.part, cursor.step = 0;
  return task + 1 < tasks.first_of(item.share + 1);
}

}  // namespace tessera::row_windows
