#include "kernels/spmm/row_windows/task_work.hpp"

namespace tessera::row_windows {
namespace {

/// Cycles beyond two an instruction until a warp has found its item, which divides the number of
/// its thread block: the stall counts in machine code, and 25 for each wait for a constant, a
/// special register or a conversion of the division (CUDA 13.0, sm_90a: 210 to 230 for dtc_spmm and
/// acc_spmm).
constexpr int kItemCycles = 225;

constexpr int kClearRegisters = 24;  // allocated for a thread

/// The window that a thread block clears.
std::int64_t cleared_window(const window_tasks::Tasks& tasks, std::int64_t thread_block) {
  return tasks.tasks[tasks.splits[thread_block].first_task].window;
}

std::int64_t rows_of(const ClearedWindows& windows, std::int64_t window) {
  return std::min<std::int64_t>(windows.window_rows,
                                windows.rows - window * std::int64_t{windows.window_rows});
}

/// A warp writes 128 bytes of zeros at a time.
class ClearTrace final : public LaunchTrace {
 public:
  ClearTrace(const ClearedWindows& windows, std::shared_ptr<const window_tasks::Tasks> tasks)
      : windows_(windows), tasks_(std::move(tasks)) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor&, WarpTrace& trace) const override {
    constexpr int kTaskBoard = 0;
    const std::uint64_t index = tasks_->splits[thread_block].first_task;
    const std::int64_t window = cleared_window(*tasks_, thread_block);
    const std::int64_t first_row = window * std::int64_t{windows_.window_rows};
    const std::int64_t values = rows_of(windows_, window) * windows_.n;
    trace.issue(windows_.instructions);
    trace.load(kTaskBoard);
    trace.touch(windows_.tasks + sizeof(window_tasks::Task) * index, 4);
    trace.wait(kTaskBoard);
    for (std::int64_t at = 32 * warp; at < values; at += kClearThreads) {
      trace.issue(TaskInstructionCounts::kClearStore - 1);
      trace.store();
      trace.touch(windows_.c + 4 * static_cast<std::uint64_t>(first_row * windows_.n + at),
                  4 * std::min<std::int64_t>(32, values - at));
    }
    return false;
  }

 private:
  ClearedWindows windows_;
  std::shared_ptr<const window_tasks::Tasks> tasks_;
};

}  // namespace

void add_stores(const window_tasks::Tasks& tasks, std::int64_t index, CombineMethod combine,
                std::int64_t rows, std::int64_t cols, ThreadBlockWork& work, int bytes) {
  if (tasks.tasks[index].is_part() && combine == CombineMethod::kAtomic)
    work.atomics += rows * cols;
  else if (tasks.is_last_part(index))
    work.c_bytes += bytes * rows * cols;
}

std::int64_t add_clear_launch(const ClearedWindows& windows,
                              const std::shared_ptr<const window_tasks::Tasks>& tasks,
                              CombineMethod combine, WorkDescription& work) {
  if (combine != CombineMethod::kAtomic || tasks->splits.empty()) return 0;
  const std::int64_t thread_blocks = std::ssize(tasks->splits);
  for (std::int64_t i = 0; i < thread_blocks; ++i)
    work.thread_blocks.push_back(
        {.a_bytes = sizeof(window_tasks::Task),
         .c_bytes = 4 * rows_of(windows, cleared_window(*tasks, i)) * windows.n});
  work.launches.push_back({.name = "clear",
                           .thread_blocks = thread_blocks,
                           .threads_per_block = kClearThreads,
                           .registers_per_thread = kClearRegisters,
                           .trace = std::make_shared<ClearTrace>(windows, tasks)});
  return thread_blocks;
}

void trace_share_extent(const window_tasks::Tasks& tasks, std::int64_t share, std::uint64_t shares,
                        int board, WarpTrace& trace) {
  trace.issue(TaskInstructionCounts::kStart);
  trace.pause(kItemCycles);
  if (tasks.shares.empty()) return;
  for (int i = 0; i < 2; ++i) {
    trace.load(board);
    trace.touch(shares + 4 * static_cast<std::uint64_t>(share + i), 4);
  }
  trace.issue(TaskInstructionCounts::kShare - 2);
  trace.wait(board);
}

}  // namespace tessera::row_windows
