// What a warp of acc_spmm does whatever its pipeline, for the performance simulator: how it comes
// by its tasks and the names of A's nonzeros, and how sums come into C.
#pragma once

#include <algorithm>
#include <bit>
#include <memory>

#include "kernels/spmm/acc_spmm/trace.hpp"
#include "kernels/spmm/row_windows/split_windows_trace.hpp"

namespace tessera::acc_spmm {

using window_tasks::Split;
using window_tasks::Task;
using window_tile::kTileCols;
using window_tile::kWarpCols;

/// What all pipelines do before and after their TC blocks.
class AccTrace : public BitTcfTrace {
 public:
  AccTrace(std::shared_ptr<const BitTcf> a, std::int64_t n, const AccSpmmOptions& choices,
           std::shared_ptr<const window_tasks::Tasks> tasks, const BitTcfAddresses& at,
           const TaskAddresses& task_at)
      : BitTcfTrace(*a, n, at),
        bitmaps_(choices.encoding == NonzeroEncoding::kBitmap),
        groups_(choices.groups(n)),
        mmas_(2 * groups_ * static_cast<int>(choices.precision.mmas.size())),
        atomic_(choices.combine == Combine::kAtomic),
        owned_(std::move(a)),
        tasks_(std::move(tasks)),
        task_at_(task_at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::int64_t count = tasks_->num_shares();
    const std::int64_t padded = (count + kWarps - 1) / kWarps * kWarps;
    const std::int64_t id = thread_block * kWarps + warp;
    const std::int64_t share = id % padded, chunk = id / padded;
    if (share >= count) {
      trace.issue(kIdleInstructions);
      return false;
    }
    if (cursor.part == 0 && cursor.step == 0) begin(share, trace);
    const std::int64_t index = tasks_->first_of(share) + cursor.part;
    if (advance_task(index, chunk, cursor, trace)) return true;
    ++cursor.part, cursor.step = 0;
    return index + 1 < tasks_->first_of(share + 1);
  }

 protected:
  // Scoreboards 0 to 3 are a pipeline's.
  static constexpr int kTaskBoard = 4, kPartBoard = 5;

  virtual void start(const Task& task, std::int64_t col, WarpTrace& trace) const = 0;
  virtual void advance(const Task& task, std::int64_t step, std::int64_t col,
                       WarpTrace& trace) const = 0;

  std::int64_t cols_of(int group, std::int64_t col) const {
    return std::clamp<std::int64_t>(n_ - col - group * kWarpCols, 0, kWarpCols);
  }

  /// The names of a TC block's nonzeros, and where its values begin.
  void load_names(std::int64_t tile, int board, WarpTrace& trace) const {
    trace.load(board);
    trace.touch(at_.tc_offset + 4 * (tile + (bitmaps_ ? 0 : 1)), 4);
    if (bitmaps_) {
      trace.load(board);
      trace.touch(at_.tc_local_bit + 8 * tile, 8);
      return;
    }
    for_each_half(tile, [&](std::int64_t first, std::int64_t count) {
      trace.load(board);
      trace.touch(task_at_.tc_local_id + static_cast<std::uint64_t>(first), count);
    });
  }

  /// Those of a task's first TC block, whose values begin where nobody has asked yet.
  void load_first_names(std::int64_t tile, int board, WarpTrace& trace) const {
    if (!bitmaps_) {
      trace.load(board);
      trace.touch(at_.tc_offset + 4 * static_cast<std::uint64_t>(tile), 4);
    }
    load_names(tile, board, trace);
  }

  /// Calls visit(first value, number of them) for what the lanes take of a TC block at once, in
  /// their order: 32 values of ME-TCF, four rows of a bitmap. Of one without any, nothing.
  template <class Visit>
  void for_each_half(std::int64_t tile, Visit visit) const {
    const std::int64_t first = a_.tc_offset[tile], nnz = a_.tc_offset[tile + 1] - first;
    const std::int64_t half = bitmaps_
                                  ? std::popcount(static_cast<std::uint32_t>(a_.tc_local_bit[tile]))
                                  : std::min<std::int64_t>(nnz, 32);
    if (half > 0) visit(first, half);
    if (half < nnz) visit(first + half, nnz - half);
  }

  std::uint64_t value_at(std::int64_t index) const {
    return at_.values + 4 * static_cast<std::uint64_t>(index);
  }

  bool bitmaps_;
  int groups_;
  int mmas_;  // of a TC block

 private:
  // Of the machine code (CUDA 13.0, sm_90a).
  static constexpr int kIdleInstructions = 30, kWarpInstructions = 70, kStoreInstructions = 20;

  /// The extent of the share, where it is one of several tasks.
  void begin(std::int64_t share, WarpTrace& trace) const {
    trace.issue(kWarpInstructions);
    trace.pause(kSpecialRegisterCycles);
    if (tasks_->shares.empty()) return;
    for (int i = 0; i < 2; ++i) {
      trace.load(kTaskBoard);
      trace.touch(task_at_.shares + 4 * static_cast<std::uint64_t>(share + i), 4);
    }
    trace.wait(kTaskBoard);
  }

  /// False at its end.
  bool advance_task(std::int64_t index, std::int64_t chunk, WarpCursor& cursor,
                    WarpTrace& trace) const {
    const Task& task = tasks_->tasks[index];
    const std::int64_t col = chunk * groups_ * kWarpCols;
    if (cursor.step == 0) {
      trace.load(kTaskBoard);
      trace.touch(task_at_.tasks + 16 * static_cast<std::uint64_t>(index), 16);
      trace.wait(kTaskBoard);
      if (task.first < task.last) start(task, col, trace);
    }
    const std::int64_t step = cursor.step++;
    if (task.first + step < task.last) advance(task, step, col, trace);
    if (task.first + cursor.step < task.last) return true;
    trace.wait_mma();
    deliver(task, index, chunk, col, trace);
    return false;
  }

  void deliver(const Task& task, std::int64_t index, std::int64_t chunk, std::int64_t col,
               WarpTrace& trace) const {
    trace.issue(kStoreInstructions * (1 + groups_));
    if (task.split != 0 && !atomic_ &&
        !window_tasks::trace_meeting(*tasks_, index, chunk, 2 * groups_, task_at_.slots, kPartBoard,
                                     trace))
      return;
    for (int group = 0; group < groups_; ++group) {
      const std::int64_t cols = cols_of(group, col);
      if (cols == 0) continue;
      if (task.split == 0 || !atomic_)
        store(task.window, col + group * kWarpCols, cols, 1, trace);
      else
        add(task.window, col + group * kWarpCols, cols, trace);
    }
  }

  bool atomic_;
  std::shared_ptr<const BitTcf> owned_;
  std::shared_ptr<const window_tasks::Tasks> tasks_;

 protected:
  TaskAddresses task_at_;
};

}  // namespace tessera::acc_spmm
