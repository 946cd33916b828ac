// What a warp of acc_spmm's pipelines least_bubble and dtc does, for the performance simulator: as
// buffered.cuh has it.
#pragma once

#include "kernels/spmm/acc_spmm/task_trace.hpp"

namespace tessera::acc_spmm {

/// Cells and columns of the next TC block come by copies, rows of B to registers: those of the next
/// TC block, too, or of this one.
class BufferedTrace final : public AccTrace {
 public:
  BufferedTrace(std::shared_ptr<const BitTcf> a, std::int64_t n, const AccSpmmOptions& choices,
                std::shared_ptr<const window_tasks::Tasks> tasks, const BitTcfAddresses& at,
                const TaskAddresses& task_at)
      : AccTrace(std::move(a), n, choices, std::move(tasks), at, task_at),
        ahead_(choices.pipeline == Pipeline::kLeastBubble),
        past_l1_(choices.cache == CopyCache::kL2) {}

 private:
  // Of the machine code (CUDA 13.0, sm_90a), besides loads, copies and MMAs.
  int tile_instructions() const { return bitmaps_ ? (ahead_ ? 99 : 103) : 125; }
  int start_instructions() const { return bitmaps_ ? (ahead_ ? 120 : 83) : (ahead_ ? 156 : 121); }
  static constexpr int kNameBoard = 0, kCopyBoard = 1;
  static constexpr int kRowsBoard = 2;       // and 3
  static constexpr int kCellWavefronts = 2;  // of a read: rows of 32 bytes meet in the banks
  static constexpr int kClearWavefronts = 2;

  void start(const Task& task, std::int64_t col, WarpTrace& trace) const override {
    load_first_names(task.first, kNameBoard, trace);
    trace.issue(start_instructions());
    copy_cells(task, 0, trace);
    copy_row_ids(task, 0, trace);
    if (ahead_) copy_row_ids(task, 1, trace);
    trace.wait(kCopyBoard);
    if (ahead_) load_rows(task, 0, col, trace);
  }

  void advance(const Task& task, std::int64_t step, std::int64_t col,
               WarpTrace& trace) const override {
    const bool more = task.first + step + 1 < task.last;
    trace.issue(tile_instructions() / 2);
    if (!ahead_) load_rows(task, step, col, trace);
    if (ahead_ && more) load_rows(task, step + 1, col, trace);
    if (more) copy_cells(task, step + 1, trace);
    copy_row_ids(task, step + (ahead_ ? 2 : 1), trace);
    for (int half = 0; half < 2; ++half) trace.shared(kCellWavefronts);
    trace.wait(kCopyBoard);  // the compiler has it before the MMAs
    trace.wait(rows_board(step));
    trace.issue(tile_instructions() - tile_instructions() / 2);
    trace.mma(mmas_);
  }

  static int rows_board(std::int64_t step) { return kRowsBoard + static_cast<int>(step % 2); }

  /// Of TC block `step` of the task, and the names of the one after it.
  void copy_cells(const Task& task, std::int64_t step, WarpTrace& trace) const {
    const std::int64_t tile = task.first + step;
    trace.wait(kNameBoard);
    if (bitmaps_)
      trace.pause(kPopulationCounts);
    else
      trace.shared(kClearWavefronts);
    for_each_half(tile, [&](std::int64_t first, std::int64_t count) {
      trace.load(kCopyBoard);
      trace.touch(value_at(first), 4 * count);
    });
    if (tile + 1 < task.last) load_names(tile + 1, kNameBoard, trace);
  }

  void copy_row_ids(const Task& task, std::int64_t step, WarpTrace& trace) const {
    const std::int64_t tile = task.first + step;
    if (tile >= task.last) return;
    trace.load(kCopyBoard);
    trace.touch(at_.sparse_a_to_b + 4 * kTileCols * static_cast<std::uint64_t>(tile),
                4 * kTileCols);
  }

  void load_rows(const Task& task, std::int64_t step, std::int64_t col, WarpTrace& trace) const {
    const std::int64_t tile = task.first + step;
    const int pieces = n_ % 4 == 0 ? 1 : 4;  // a lane's four columns, at once or one by one
    for (int half = 0; half < 2; ++half) {
      trace.shared(1);
      if (!has_cols(tile, half)) continue;  // no lane loads
      for (int piece = 0; piece < pieces; ++piece) {
        if (past_l1_ && n_ % 4 == 0) {
          trace.async_copy(
              rows_board(step));  // as past the L1 as a copy, and nothing is taken apart
          for_each_row_of_b(tile, half, col, [&](int, std::uint64_t address) {
            trace.copy_to_shared(address, 4 * cols_of(0, col), address);
          });
        } else {
          trace.load(rows_board(step));
          touch_b(tile, half, col, cols_of(0, col), trace);
        }
        lies_as_fragments(trace);
      }
    }
  }

  bool ahead_;
  bool past_l1_;
};

}  // namespace tessera::acc_spmm
