// The warp trace of acc_spmm's pipelines least_bubble and dtc (buffered.cuh).
#pragma once

#include "kernels/spmm/acc_spmm/task_trace.hpp"

namespace tessera::acc_spmm {

/// Elements and column indices of the next TC block are copied; rows of B of the next TC block
/// (least_bubble) or of this one (dtc) are loaded to registers.
class BufferedTrace final : public AccTrace {
 public:
  BufferedTrace(std::shared_ptr<const BitTcf> a, std::int64_t n, const AccSpmmOptions& options,
                std::shared_ptr<const window_tasks::Tasks> tasks, const BitTcfAddresses& at,
                const TaskAddresses& task_at)
      : AccTrace(std::move(a), n, options, std::move(tasks), at, task_at),
        ahead_(options.pipeline == Pipeline::kLeastBubble),
        past_l1_(options.cache == CopyCache::kL2) {}

 private:
  static constexpr int kEncodingBoard = 0, kCopyBoard = 1;
  static constexpr int kRowsBoard = 2;          // and 3
  static constexpr int kElementWavefronts = 2;  // of a read: rows of 32 bytes share banks
  static constexpr int kClearWavefronts = 2;

  void start(const Task& task, std::int64_t col, WarpTrace& trace) const override {
    load_first_encoding(task.first, kEncodingBoard, trace);
    trace.issue(InstructionCounts::Buffered::start(bitmaps_, ahead_));
    copy_tile(task, 0, trace);
    copy_row_ids(task, 0, trace);
    if (ahead_) copy_row_ids(task, 1, trace);
    trace.wait(kCopyBoard);
    if (ahead_) load_rows(task, 0, col, trace);
  }

  void advance(const Task& task, std::int64_t step, std::int64_t col,
               WarpTrace& trace) const override {
    const bool more = task.first + step + 1 < task.last;
    const int instructions = InstructionCounts::Buffered::tile(bitmaps_, ahead_);
    trace.issue(instructions / 2);
    if (!ahead_) load_rows(task, step, col, trace);
    if (ahead_ && more) load_rows(task, step + 1, col, trace);
    if (more) copy_tile(task, step + 1, trace);
    copy_row_ids(task, step + (ahead_ ? 2 : 1), trace);
    for (int half = 0; half < 2; ++half) trace.shared(kElementWavefronts);
    trace.wait(kCopyBoard);  // which the compiler puts before the MMAs
    trace.wait(rows_board(step));
    trace.issue(instructions - instructions / 2);
    trace.mma(mmas_);
  }

  static int rows_board(std::int64_t step) { return kRowsBoard + static_cast<int>(step % 2); }

  /// Copies TC block `step` of the task and loads the encoding of the one after it.
  void copy_tile(const Task& task, std::int64_t step, WarpTrace& trace) const {
    const std::int64_t tile = task.first + step;
    trace.wait(kEncodingBoard);
    if (bitmaps_)
      trace.pause(kPopulationCounts);
    else
      trace.shared(kClearWavefronts);
    for_each_half(tile, [&](std::int64_t first, std::int64_t count) {
      trace.load(kCopyBoard);
      trace.touch(value_at(first), 4 * count);
    });
    if (tile + 1 < task.last) load_encoding(tile + 1, kEncodingBoard, trace);
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
    const int loads = n_ % 4 == 0 ? 1 : 4;  // a lane's four columns, at once or one by one
    for (int half = 0; half < 2; ++half) {
      trace.shared(1);
      if (!has_cols(tile, half)) continue;  // no lane loads
      for (int i = 0; i < loads; ++i) {
        if (past_l1_ && n_ % 4 == 0) {
          // A load past the L1, traced as a copy that splits no sector.
          trace.async_copy(rows_board(step));
          for_each_row_of_b(tile, half, col, [&](int, std::uint64_t address) {
            trace.copy_to_shared(address, 4 * cols_of(0, col), address);
          });
        } else {
          trace.load(rows_board(step));
          touch_b(tile, half, col, cols_of(0, col), trace);
        }
        add_fragment_wavefronts(trace);
      }
    }
  }

  bool ahead_;
  bool past_l1_;
};

}  // namespace tessera::acc_spmm
