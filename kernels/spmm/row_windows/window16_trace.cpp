#include "kernels/spmm/row_windows/window16_trace.hpp"

#include "kernels/spmm/row_windows/split_windows_trace.hpp"
#include "kernels/spmm/row_windows/staged_rows.hpp"
#include "kernels/spmm/row_windows/task_work.hpp"
#include "kernels/spmm/row_windows/window16_tile.hpp"
#include "kernels/spmm/row_windows/window_tiles.hpp"

namespace tessera::window16_tile {

using row_windows::TaskInstructionCounts;
using window_tasks::CombineMethod;
using window_tasks::Task;

bool TileTrace::next(std::int64_t thread_block, int warp, WarpCursor& cursor,
                     WarpTrace& trace) const {
  if (cursor.part == 0 && cursor.step == 0 && launch_.instructions.warp > 0)
    trace.issue(launch_.instructions.warp);
  return row_windows::trace_share(
      schedule_, *tasks_, at_.shares, kTaskBoard, thread_block, warp, cursor, trace,
      [&](std::int64_t index, const row_windows::WorkItem& item) {
        return advance_task(TaskItem{index, item.chunk, warp % schedule_.team}, cursor, trace);
      },
      [&] { synchronize(trace); });
}

void TileTrace::synchronize(WarpTrace& trace) const {
  if (schedule_.team > 1)
    trace.barrier();
  else
    trace.issue(1);
}

bool TileTrace::advance_task(const TaskItem& item, WarpCursor& cursor, WarpTrace& trace) const {
  const Task& task = tasks_->tasks[item.task];
  const bool has_cols = first_col(item) < n_;
  if (cursor.step == 0) {
    trace.load(kTaskBoard);
    trace.touch(at_.tasks + 16 * static_cast<std::uint64_t>(item.task), 16);
    trace.wait(kTaskBoard);
    if (task.is_joined()) load_end(task.window, trace);
    if (task.first < task.last) start(task, item, trace);
    if (has_cols) store_ended(task, task.first, item, trace);
  }
  const std::int64_t tile = task.first + cursor.step++;
  if (tile < task.last) multiply(task, tile, item, trace);
  if (has_cols && tile + 1 <= task.last) store_ended(task, tile + 1, item, trace);
  if (task.first + cursor.step < task.last) return true;
  if (!has_cols) return false;
  trace.wait_mma();
  Task last = task;
  last.window += task.windows() - 1;
  store_task(last, item, trace);
  return false;
}

void TileTrace::load_end(std::int64_t window, WarpTrace& trace) const {
  trace.load(kEndBoard);
  trace.touch(at_.windows + 4 * static_cast<std::uint64_t>(window + 1), 4);
}

/// Stores the windows of a joined task that end before TC block `end`, all but the task's last one.
void TileTrace::store_ended(const Task& task, std::int64_t end, const TaskItem& item,
                            WarpTrace& trace) const {
  if (!task.is_joined()) return;
  const auto ends = std::span(a_.row_window_offset).subspan(task.window + 1, task.windows() - 1);
  for (const std::uint32_t& ending : std::ranges::equal_range(ends, end)) {
    const auto window = static_cast<std::uint32_t>(task.window + (&ending - ends.data()));
    trace.wait(kEndBoard);
    trace.wait_mma();
    store_task({.window = window, .first = task.first, .last = task.last, .split = 0}, item, trace);
    load_end(window + 1, trace);
  }
}

void TileTrace::load_rows(std::int64_t tile, WarpTrace& trace) const {
  trace.load(kRowBoard);
  trace.touch(at_.sparse_a_to_b + 4 * static_cast<std::uint64_t>(tile * kTileCols), 4 * kTileCols);
}

void TileTrace::copy_rows(std::int64_t tile, std::int64_t step, const TaskItem& item,
                          WarpTrace& trace, int board) const {
  const std::int64_t col = first_col(item);
  const std::int64_t cols = std::min<std::int64_t>(schedule_.warp_cols(), n_ - col);
  const std::int64_t bytes = launch_.b_bytes() * cols;
  const int at_once = row_windows::rows_per_copy(lines());
  for (int first = 0; first < kTileCols; first += at_once) {
    if (launch_.instructions.copy > 0) trace.issue(launch_.instructions.copy);
    for (int i = 0; i < (aligned() ? 1 : piece_cols()); ++i) {
      if (aligned())
        trace.async_copy(board);
      else
        trace.load(board);
      if (cols <= 0) continue;
      for_each_row(tile, first, at_once, col, [&](int k, std::uint64_t from) {
        const std::int64_t row = step % launch_.stages * kTileCols + k;
        const auto to = 4 * static_cast<std::uint64_t>(row * row_windows::row_pitch(lines()));
        if (aligned())
          trace.copy_to_shared(from, bytes, to);
        else
          trace.touch(from, bytes);
      });
    }
  }
  if (aligned()) trace.pause(address_cycles(kTileCols / at_once));
}

void TileTrace::store_task(const Task& task, const TaskItem& item, WarpTrace& trace) const {
  const bool atomic = launch_.combine == CombineMethod::kAtomic;
  if (task.is_part() && !atomic && !combine(item, trace)) return;
  const WarpInstructions& of = launch_.instructions;
  trace.issue(of.store + of.store_group * schedule_.groups);
  if (task.is_part() && atomic) trace.issue(of.add + of.add_group * schedule_.groups);
  const int cols_at_once = launch_.width == 1 ? 8 : 4 * piece_cols();
  for (int half = 0; half < 2; ++half)
    for (std::int64_t col = 0; col < schedule_.warp_cols(); col += cols_at_once)
      store(task, half, first_col(item) + col,
            std::min<std::int64_t>(cols_at_once, n_ - first_col(item) - col),
            task.is_part() && atomic, trace);
}

/// Returns true for the task that then has the window's sums: in the simulator, the last.
bool TileTrace::combine(const TaskItem& item, WarpTrace& trace) const {
  const int vectors = schedule_.lane_vectors();
  const window_tasks::Tasks::TeamPlace place = tasks_->place_in_team(item.task);
  if (place.size > 1) {
    // A task leaves its sums, and the last one of the team adds those of the others.
    const std::int64_t parts = place.is_last ? place.size - 1 : 1;
    for (std::int64_t i = 0; i < vectors * parts; ++i)
      trace.shared(row_windows::kWideReadWavefronts);
    trace.issue(TaskInstructionCounts::kTeam);
    if (!place.is_last) {
      trace.issue(TaskInstructionCounts::kLeaveVector * vectors);
      return false;
    }
    trace.issue(static_cast<int>(
        (TaskInstructionCounts::kAddPart + TaskInstructionCounts::kAddVector * vectors) * parts));
  }
  return place.teams == 1 ||
         window_tasks::trace_combine_split_window(*tasks_, item.task, item.chunk, vectors,
                                                  at_.slots, kPartBoard, trace);
}

/// Stores or adds `cols` columns of eight rows of a window.
void TileTrace::store(const Task& task, int half, std::int64_t col, std::int64_t cols, bool adds,
                      WarpTrace& trace) const {
  const std::int64_t rows = std::min<std::int64_t>(
      kMmaRows, row_windows::rows_of_window(a_, task.window) - kMmaRows * half);
  if (rows <= 0 || cols <= 0) return;
  if (adds)
    trace.atomic(static_cast<int>(rows * cols));
  else
    trace.store(launch_.width == 1 ? 2
                : aligned()        ? std::max(1, piece_cols() * launch_.c_bytes() / 16)
                                   : piece_cols());
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t row = task.window * std::int64_t{a_.window_rows} + kMmaRows * half + r;
    trace.touch(at_.c + static_cast<std::uint64_t>(launch_.c_bytes() * (row * n_ + col)),
                launch_.c_bytes() * cols);
  }
  if (!adds) trace.wavefronts(std::max(1, trace.touched_sectors()));
}

}  // namespace tessera::window16_tile
