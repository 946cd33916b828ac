// The warp trace of dtc_spmm: TC blocks of A are scattered into shared memory by their local ids.
#pragma once

#include "kernels/spmm/row_windows/staged_rows.hpp"
#include "kernels/spmm/row_windows/window16_tile.hpp"
#include "kernels/spmm/row_windows/window16_trace.hpp"

namespace tessera::dtc_spmm {

class Trace final : public window16_tile::TileTrace {
 public:
  using TileTrace::TileTrace;

 private:
  static constexpr int kIdBoard = 0, kFragmentBoard = 3;
  static constexpr int kTileCols = MeTcf::kTileCols;
  // Instructions for further nonzeros of a TC block than a warp's lanes, copied and scattered.
  static constexpr int kFurtherRound = 40;
  using Task = window_tasks::Task;

  bool staged() const { return launch_.staged; }

  void start(const Task& task, const TaskItem& item, WarpTrace& trace) const override {
    for (int i = 0; i < 3; ++i) {
      trace.load(kIdBoard);
      trace.touch(at_.offsets + 4 * std::uint64_t{std::min(task.first + i, task.last)}, 4);
    }
    trace.wait(kIdBoard);
    load_ids(task.first, item, trace);
    load_rows(task.first, trace);
    trace.issue(launch_.instructions.task_start);
    trace.shared(2);
    synchronize(trace);
    if (launch_.double_buffer) scatter(task, task.first, item, trace);
    trace.wait(kRowBoard);
    if (staged()) copy_rows(task.first, 0, item, trace);
    load_rows(std::min(task.first + 1, task.last - 1), trace);
  }

  void multiply(const Task& task, std::int64_t tile, const TaskItem& item,
                WarpTrace& trace) const override {
    const std::int64_t end = task.last;
    if (!launch_.double_buffer) scatter(task, tile, item, trace);
    trace.wait(kCopyBoard);
    synchronize(trace);
    trace.shared(1);
    if (launch_.double_buffer && tile + 1 < end) scatter(task, tile + 1, item, trace);
    trace.wait(kRowBoard);
    if (!staged()) load_fragments(tile, item, trace);
    if (staged() && tile + 1 < end) copy_rows(tile + 1, tile + 1 - task.first, item, trace);
    load_rows(std::min(tile + 2, end - 1), trace);
    trace.issue(launch_.instructions.tile);
    if (first_col(item) >= n_) return;
    for (int i = 0; i < 4; ++i) trace.shared(1);
    if (staged())
      for (int i = 0; i < 2 * schedule_.groups; ++i) trace.shared(row_windows::kWideReadWavefronts);
    if (!staged()) trace.wait(kFragmentBoard);
    trace.issue(launch_.instructions.group * schedule_.groups);
    trace.mma(window16_tile::kMmas * schedule_.groups * kTileCols / launch_.depth *
              launch_.mmas_per_product);
  }

  /// Calls visit(first nonzero, number of nonzeros) for those of a TC block that the warp's lanes
  /// read at once.
  template <class Visit>
  void for_each_round(std::int64_t tile, const TaskItem& item, Visit visit) const {
    const std::int64_t last = a_.tc_offset[tile + 1];
    for (std::int64_t first = a_.tc_offset[tile] + 32 * item.warp; first < last;
         first += 32 * schedule_.team)
      visit(first, std::min<std::int64_t>(32, last - first));
  }

  void load_ids(std::int64_t tile, const TaskItem& item, WarpTrace& trace) const {
    for_each_round(tile, item, [&](std::int64_t first, std::int64_t count) {
      trace.load(kIdBoard);
      trace.touch(at_.positions + static_cast<std::uint64_t>(first), count);
    });
  }

  /// Copies a TC block of A to shared memory and loads the local ids of the next.
  void scatter(const Task& task, std::int64_t tile, const TaskItem& item, WarpTrace& trace) const {
    trace.wait(kIdBoard);
    trace.load(kCopyBoard);
    for_each_round(tile, item, [&](std::int64_t first, std::int64_t count) {
      if (first >= a_.tc_offset[tile] + 32 * schedule_.team) {
        trace.issue(kFurtherRound);
        trace.load(kCopyBoard);
      }
      trace.touch(at_.values + 4 * static_cast<std::uint64_t>(first), 4 * count);
    });
    if (tile + 1 >= task.last) return;
    trace.load(kIdBoard);
    trace.touch(
        at_.offsets + 4 * static_cast<std::uint64_t>(std::min<std::int64_t>(tile + 3, task.last)),
        4);
    load_ids(tile + 1, item, trace);
  }

  /// Loads rows of B to the lanes that multiply them: a wavefront for every sector.
  void load_fragments(std::int64_t tile, const TaskItem& item, WarpTrace& trace) const {
    const int cols_at_once = 8 * launch_.width;
    for (int half = 0; half < 2; ++half) {
      for (std::int64_t col = 0; col < schedule_.warp_cols(); col += cols_at_once) {
        trace.load(kFragmentBoard);
        const std::int64_t at = first_col(item) + col;
        const std::int64_t cols = std::min<std::int64_t>(cols_at_once, n_ - at);
        if (cols <= 0) continue;
        for_each_row(tile, 4 * half, 4, at,
                     [&](int, std::uint64_t from) { trace.touch(from, 4 * cols); });
        trace.wavefronts(std::max(1, trace.touched_sectors()));
      }
    }
  }
};

}  // namespace tessera::dtc_spmm
