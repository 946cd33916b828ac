// The warp trace of dtc_spmm: TC blocks of A are scattered into shared memory by their local ids.
#pragma once

#include "kernels/spmm/dtc_spmm/dtc_spmm.hpp"
#include "kernels/spmm/row_windows/staged_rows.hpp"
#include "kernels/spmm/row_windows/window16_tile.hpp"
#include "kernels/spmm/row_windows/window16_trace.hpp"

namespace tessera::dtc_spmm {

/// The lengths of the pieces of the machine code (CUDA 13.0, sm_90a), in instructions with those of
/// memory, of a warp with `groups` of 32 columns whose lanes take a TC block of A in `rounds`.
/// Nonzeros that a lane lacks are predicated: rounds without any are executed.
struct CodeLengths {
  Fetch fetch;
  int depth, groups, rounds;

  bool staged() const { return fetch == Fetch::kStaged; }
  /// Around a task, and before its first TC block; with double buffers to copy it and to ask for
  /// the next ids.
  int start() const { return 77 + (staged() ? 81 + 19 * groups : 49); }
  int first_copy() const { return 13 * rounds + (staged() ? 0 : 2); }
  int first_ids() const { return staged() ? 24 : 30; }
  /// Of a TC block that is copied: with double buffers, or when it is multiplied.
  int copy(bool double_buffer) const { return 6 + 13 * rounds + (double_buffer ? 0 : 11); }
  int ids() const { return 8 + 5 * rounds; }
  int copy_rows() const { return 22 + 13 * groups; }  // staged
  /// Places of a TC block that wait for a pointer or a size loaded from the constants.
  int constant_waits() const { return fetch == Fetch::kFloat4 ? 8 + 2 * groups : 8; }
  int tile() const {
    if (staged()) return 67 + 57 * groups + (depth == 8 ? 2 : 0);
    if (fetch == Fetch::kFloat4) return 65 + 100 * groups + (depth == 8 ? 5 : 0);
    if (fetch == Fetch::kFloat2) return 118 + 75 * groups + (depth == 8 ? 2 : 0);
    return 122 + 75 * groups - (depth == 8 ? 2 : 0);
  }
};

class Trace final : public window16_tile::TileTrace {
 public:
  using TileTrace::TileTrace;

 private:
  static constexpr int kIdBoard = 0, kFragmentBoard = 3;
  static constexpr int kTileCols = MeTcf::kTileCols;
  using Task = window_tasks::Task;

  bool staged() const { return launch_.staged; }
  CodeLengths code() const {
    const Fetch fetch = staged()             ? Fetch::kStaged
                        : launch_.width == 4 ? Fetch::kFloat4
                        : launch_.width == 2 ? Fetch::kFloat2
                                             : Fetch::kFloat;
    return {fetch, launch_.depth, schedule_.groups, 4 / schedule_.team};
  }

  void start(const Task& task, const TaskItem& item, WarpTrace& trace) const override {
    const CodeLengths lengths = code();
    const std::size_t begin = trace.ops.size();
    for (int i = 0; i < 3; ++i) {
      trace.load(kIdBoard);
      trace.touch(at_.offsets + 4 * std::uint64_t{std::min(task.first + i, task.last)}, 4);
    }
    trace.wait(kIdBoard);
    load_ids(task.first, item, trace);
    load_row_ids(task.first, trace);
    trace.shared(2 * lengths.rounds);
    synchronize(trace);
    if (launch_.double_buffer) scatter(task, task.first, item, trace);
    trace.wait(kRowBoard);
    if (staged()) copy_rows(task.first, 0, item, trace);
    load_row_ids(std::min(task.first + 1, task.last - 1), trace);
    int length = lengths.start();
    if (launch_.double_buffer)
      length += lengths.first_copy() + (task.first + 1 < task.last ? lengths.first_ids() : 0);
    trace.complete(begin, length);
  }

  void multiply(const Task& task, std::int64_t tile, const TaskItem& item,
                WarpTrace& trace) const override {
    const std::int64_t end = task.last;
    const CodeLengths lengths = code();
    const std::size_t begin = trace.ops.size();
    const std::int64_t copied = launch_.double_buffer ? tile + 1 : tile;
    int length = lengths.tile();
    if (copied < end) length += lengths.copy(launch_.double_buffer);
    if (copied + 1 < end) length += lengths.ids();
    if (staged() && tile + 1 < end) length += lengths.copy_rows();
    if (!launch_.double_buffer) scatter(task, tile, item, trace);
    trace.wait(kCopyBoard);
    synchronize(trace);
    trace.shared(lengths.rounds);
    // The machine code has a quarter of its cycles before it copies A, and two thirds before rows
    // of B.
    trace.issue(length / 4);
    if (launch_.double_buffer && tile + 1 < end) scatter(task, tile + 1, item, trace);
    trace.wait(kRowBoard);
    if (staged()) trace.issue(length * 2 / 5);
    if (!staged()) load_fragments(tile, item, trace);
    if (staged() && tile + 1 < end) copy_rows(tile + 1, tile + 1 - task.first, item, trace);
    load_row_ids(std::min(tile + 2, end - 1), trace);
    if (first_col(item) >= n_) return trace.complete(begin, length / 2);
    trace.pause(kConstantCycles * lengths.constant_waits());
    // Reads of shared memory are in flight together.
    trace.shared(4 + (staged() ? 2 * schedule_.groups * row_windows::kWideReadWavefronts : 0));
    if (!staged()) trace.wait(kFragmentBoard);
    const int mmas = window16_tile::kMmas * schedule_.groups * kTileCols / launch_.depth *
                     launch_.mmas_per_product;
    trace.complete(begin, length - mmas);
    trace.mma(mmas);
  }

  /// Loads the indices of a TC block's rows of B: of the rows of a copy, or of half a TC block.
  void load_row_ids(std::int64_t tile, WarpTrace& trace) const {
    const int at_once = staged() ? row_windows::rows_per_copy(lines()) : kTileCols / 2;
    for (int first = 0; first < kTileCols; first += at_once) {
      trace.load(kRowBoard);
      trace.touch(at_.sparse_a_to_b + 4 * static_cast<std::uint64_t>(tile * kTileCols + first),
                  4 * at_once);
    }
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
      if (first >= a_.tc_offset[tile] + 32 * schedule_.team) trace.load(kCopyBoard);
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
