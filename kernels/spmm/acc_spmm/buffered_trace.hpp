// The warp trace of acc_spmm's pipelines least_bubble and dtc (buffered.cuh), with buffers of a
// warp or of a thread block.
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
        past_l1_(options.cache == Cache::kL2),
        scope_(options.scope),
        warp_(InstructionCounts::Buffered::of(bitmaps_, ahead_, shares_)),
        team_(InstructionCounts::Team::of(bitmaps_, ahead_, reloads())),
        decoders_(decoding_warps(options.scope, options.encoding)) {}

 private:
  static constexpr int kEncodingBoard = 0, kCopyBoard = 1;
  static constexpr int kRowsBoard = 2;          // and 3
  static constexpr int kElementWavefronts = 2;  // of a read: rows of 32 bytes share banks
  static constexpr int kClearWavefronts = 2;

  void start(const Task& task, std::int64_t col, WarpTrace& trace) const override {
    const std::size_t begin = trace.ops.size();
    load_first_encoding(task.first, kEncodingBoard, trace);
    reload(task, 1, trace);
    trace.issue(schedule_.team > 1 ? team_.start + (decodes(col) ? team_.start_decode : 0)
                                   : warp_.start / 2);
    copy_tile(task, 0, col, trace);
    copy_row_ids(task, 0, col, trace);
    if (ahead_) copy_row_ids(task, 1, col, trace);
    wait_for_copies(col, trace);
    synchronize(trace);
    reload(task, 2, trace);
    if (ahead_) {
      load_rows(task, 0, col, trace);
      synchronize(trace);
    }
    if (schedule_.team == 1)
      trace.complete(begin, warp_.start + (task.first + 1 < task.last ? warp_.ids : 0));
  }

  void advance(const Task& task, std::int64_t step, std::int64_t col,
               WarpTrace& trace) const override {
    const bool more = task.first + step + 1 < task.last;
    const std::size_t begin = trace.ops.size();
    const int instructions =
        schedule_.team > 1 ? tile_instructions(decodes(col), more) : warp_.tile[step % 2] / 2;
    trace.issue(instructions / 2);
    if (!ahead_) load_rows(task, step, col, trace);
    if (ahead_ && more) load_rows(task, step + 1, col, trace);
    if (more) copy_tile(task, step + 1, col, trace);
    copy_row_ids(task, step + (ahead_ ? 2 : 1), col, trace);
    for (int half = 0; half < 2; ++half) trace.shared(kElementWavefronts);
    // The compiler puts the wait of a warp for its own copies before the MMAs.
    if (schedule_.team == 1) wait_for_copies(col, trace);
    trace.wait(rows_board(step));
    if (schedule_.team > 1)
      trace.issue(instructions - instructions / 2);
    else
      trace.complete(begin, warp_.tile[step % 2] - mmas_ + (more ? warp_.next : 0) +
                                (task.first + step + 2 < task.last ? warp_.ids : 0));
    trace.mma(mmas_);
    if (schedule_.team > 1 && more) {
      wait_for_copies(col, trace);
      trace.barrier();
    }
    // Two TC blocks of least_bubble, at a time, need the end of the task twice.
    if (ahead_)
      reload(task, (step % 2 == 0 ? 1 : 0) + (step % 2 == 1 || !more ? 1 : 0), trace);
    else
      reload(task, 3, trace);
  }

  /// `more`: there is a next TC block, whose rows of B may be loaded and which may be decoded.
  int tile_instructions(bool decodes, bool more) const {
    return team_.tile + (more ? decodes ? team_.decode : 0 : -team_.rows);
  }

  /// The number in its team of the warp whose first column is `col`.
  int warp_of(std::int64_t col) const {
    return static_cast<int>(col / schedule_.warp_cols() % schedule_.team);
  }
  bool decodes(std::int64_t col) const { return warp_of(col) < decoders_; }
  bool copies_row_ids(std::int64_t col) const { return warp_of(col) == index_warp(scope_); }

  void wait_for_copies(std::int64_t col, WarpTrace& trace) const {
    if (decodes(col) || copies_row_ids(col)) trace.wait(kCopyBoard);
  }
  void synchronize(WarpTrace& trace) const {
    if (schedule_.team > 1) trace.barrier();
  }

  static int rows_board(std::int64_t step) { return kRowsBoard + static_cast<int>(step % 2); }

  /// Copies TC block `step` of the task and loads the encoding of the one after it.
  void copy_tile(const Task& task, std::int64_t step, std::int64_t col, WarpTrace& trace) const {
    if (!decodes(col)) return;
    const std::int64_t tile = task.first + step;
    trace.wait(kEncodingBoard);
    if (bitmaps_)
      trace.pause(kPopulationCounts);
    else
      trace.shared(kClearWavefronts);
    if (decoders_ == 1)
      for_each_half(tile, [&](std::int64_t first, std::int64_t count) {
        trace.load(kCopyBoard);
        trace.touch(value_at(first), 4 * count);
      });
    else
      copy_half(tile, warp_of(col), trace);
    // The last bitmap is loaded again.
    if (bitmaps_ || tile + 1 < task.last)
      load_encoding(std::min<std::int64_t>(tile + 1, task.last - 1), kEncodingBoard, trace);
  }

  /// Copies the values of half a bitmap, of which there may be none.
  void copy_half(std::int64_t tile, int half, WarpTrace& trace) const {
    const std::int64_t first = a_.tc_offset[tile], low = low_half(tile);
    const std::int64_t count = half == 0 ? low : a_.tc_offset[tile + 1] - first - low;
    trace.load(kCopyBoard);
    if (count > 0) trace.touch(value_at(half == 0 ? first : first + low), 4 * count);
  }

  void copy_row_ids(const Task& task, std::int64_t step, std::int64_t col, WarpTrace& trace) const {
    const std::int64_t tile = task.first + step;
    if (tile >= task.last || !copies_row_ids(col)) return;
    trace.load(kCopyBoard);
    trace.touch(at_.sparse_a_to_b + 4 * kTileCols * static_cast<std::uint64_t>(tile),
                4 * kTileCols);
  }

  void load_rows(const Task& task, std::int64_t step, std::int64_t col, WarpTrace& trace) const {
    const std::int64_t tile = task.first + step;
    const std::int64_t cols = cols_of(0, col);  // 0 for a warp of a team beyond the edge
    const int loads = n_ % 4 == 0 ? 1 : 4;      // a lane's four columns, at once or one by one
    for (int half = 0; half < 2; ++half) {
      trace.shared(1);
      if (!has_cols(tile, half)) continue;  // no lane loads
      for (int i = 0; i < loads; ++i) {
        if (past_l1_ && n_ % 4 == 0) {
          // A load past the L1, traced as a copy that splits no sector.
          trace.async_copy(rows_board(step));
          for_each_row_of_b(tile, half, col, [&](int, std::uint64_t address) {
            trace.copy_to_shared(address, 4 * cols, address);
          });
        } else {
          trace.load(rows_board(step));
          if (cols > 0) touch_b(tile, half, col, cols, trace);
        }
        add_fragment_wavefronts(trace);
      }
    }
  }

  bool ahead_;
  bool past_l1_;
  Scope scope_;
  InstructionCounts::Buffered warp_;
  InstructionCounts::Team team_;
  int decoders_;
};

}  // namespace tessera::acc_spmm
