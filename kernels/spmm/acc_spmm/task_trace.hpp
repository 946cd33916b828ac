// The part of acc_spmm's warp trace that does not depend on the pipeline: the tasks, the encoding
// of A's nonzeros, and the stores of sums to C.
#pragma once

#include <algorithm>
#include <bit>
#include <memory>

#include "kernels/spmm/acc_spmm/trace.hpp"
#include "kernels/spmm/row_windows/split_windows_trace.hpp"
#include "kernels/spmm/row_windows/task_work.hpp"

namespace tessera::acc_spmm {

using window_tasks::Task;

/// The lengths of the pieces of the machine code of a warp, in instructions with those of memory
/// and the MMAs, for aligned operands (CUDA 13.0, sm_90a).
struct InstructionCounts : row_windows::TaskInstructionCounts {
  static constexpr int kTask = 15;  // around a task, with its load
  static constexpr int store(int groups) { return 28 + 24 * groups; }
  static constexpr int kPromotedStore = 8;  // more to add the accumulators a last time

  struct Staged {
    int start;  // before the first TC block
    int tile;   // of a TC block
    int copy;   // more of the rows of B of a later one
    int ids;    // more of ME-TCF, to load the local ids of a later one

    /// More of a warp with a share, before its first task.
    static constexpr int kShare = 46;

    static constexpr Staged of(bool bitmaps, bool shares, int stages, int groups) {
      const int wide = groups > 1 ? 12 : 0;
      if (!bitmaps) return {113 + 22 * groups, 68 + 24 * groups, 11 + 14 * groups, 20};
      if (shares) return {60 + 22 * groups, 76 + 26 * groups + wide, 11 + 14 * groups, 0};
      return {52 + 24 * stages + 22 * groups, 60 + 26 * groups + (stages > 2 ? 7 : 0) + wide,
              11 + 14 * groups + (stages > 2 ? 2 : 0), 0};
    }
    /// More of a TC block in another precision than tf32, for each group.
    static constexpr int precision(Tf32Precision precision, bool promotes) {
      const int product = precision == Tf32Precision::kRaw     ? -21
                          : precision == Tf32Precision::kSplit ? 105
                                                               : 0;
      return product + (promotes ? precision == Tf32Precision::kSplit ? 28 : 15 : 0);
    }
  };
  /// A task of several TC blocks enters a loop, which is left before the MMAs of the last one.
  struct Registers {
    int start, enter, tile, last;
    static constexpr Registers of(Tf32Precision precision, bool promotes) {
      switch (precision) {
        case Tf32Precision::kRaw:  // two at a time
          return promotes ? Registers{100, 13, 92, 30} : Registers{96, 12, 77, 15};
        case Tf32Precision::kSplit:
          return promotes ? Registers{95, 36, 224, 153} : Registers{96, 11, 205, 136};
        default:
          break;
      }
      return promotes ? Registers{102, 22, 130, 52} : Registers{94, 17, 107, 34};
    }
  };
  /// With buffers of a warp. Two TC blocks of least_bubble are one pass of its loop.
  struct Buffered {
    int start;
    int tile[2];  // of an even and of an odd TC block
    int next;     // more, to copy the next one
    int ids;      // more of ME-TCF, to load the local ids of the one after the next

    static constexpr Buffered of(bool bitmaps, bool ahead, bool shares) {
      if (bitmaps && ahead)
        return shares ? Buffered{125, {79, 75}, 49, 0} : Buffered{125, {64, 60}, 50, 0};
      if (bitmaps) return shares ? Buffered{85, {106, 106}, 32, 0} : Buffered{84, {88, 88}, 28, 0};
      if (ahead) return shares ? Buffered{142, {81, 85}, 54, 22} : Buffered{141, {69, 71}, 52, 22};
      return shares ? Buffered{103, {109, 109}, 34, 20} : Buffered{100, {88, 88}, 33, 20};
    }
  };
  /// The same with buffers of a thread block, besides loads, copies and MMAs.
  struct Team {
    int start;         // of every warp,
    int start_decode;  // and more of those that decode
    int tile;          // of every warp for a TC block,
    int rows;          // of them for the next TC block's rows of B,
    int decode;        // and more of those that decode the next one

    static constexpr Team of(bool bitmaps, bool ahead, bool shares) {
      if (bitmaps && ahead) return shares ? Team{105, 26, 102, 26, 22} : Team{95, 26, 77, 21, 22};
      if (bitmaps) return shares ? Team{76, 26, 108, 0, 27} : Team{59, 26, 85, 0, 24};
      if (ahead) return shares ? Team{108, 44, 107, 29, 45} : Team{108, 42, 87, 24, 45};
      return {72, 47, 88, 0, 45};
    }
  };
};

/// The trace of all pipelines before and after a task's TC blocks.
class AccTrace : public BitTcfTrace {
 public:
  AccTrace(std::shared_ptr<const BitTcf> a, std::int64_t n, const AccSpmmOptions& options,
           std::shared_ptr<const window_tasks::Tasks> tasks, const BitTcfAddresses& at,
           const TaskAddresses& task_at)
      : BitTcfTrace(*a, n, at),
        bitmaps_(options.encoding == NonzeroEncoding::kBitmap),
        schedule_(options.schedule(n)),
        groups_(schedule_.groups),
        mmas_(window_tile::kMmas * groups_ * static_cast<int>(options.precision.mmas.size())),
        precision_(tf32_precision(options.precision.name)),
        promotes_(options.precision.promote > 0),
        shares_(!tasks->shares.empty()),
        atomic_(options.combine == CombineMethod::kAtomic),
        reloads_(schedule_.team > 1 && !tasks->shares.empty()),
        owned_(std::move(a)),
        tasks_(std::move(tasks)),
        task_at_(task_at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    if (shares_ && cursor.part == 0 && cursor.step == 0 && share_start() > 0)
      trace.issue(share_start());
    return row_windows::trace_share(
        schedule_, *tasks_, task_at_.shares, kTaskBoard, thread_block, warp, cursor, trace,
        [&](std::int64_t index, const row_windows::WorkItem& item) {
          return advance_task(index, item.chunk, cursor, trace);
        },
        [&] {
          if (schedule_.team > 1 && !tasks_->shares.empty()) trace.barrier();
        });
  }

 protected:
  // Scoreboards 0 to 3 belong to the pipelines.
  static constexpr int kTaskBoard = 4, kPartBoard = 5;

  /// Appends the operations before a task's first TC block; `col` is the warp's first column.
  virtual void start(const Task& task, std::int64_t col, WarpTrace& trace) const = 0;
  /// Appends the multiplication of TC block `step` of a task.
  virtual void advance(const Task& task, std::int64_t step, std::int64_t col,
                       WarpTrace& trace) const = 0;

  /// Loads fields of a task, one each, where registers do not hold it: the machine code of a team
  /// with shares loads them when it needs them.
  void reload(const Task& task, int loads, WarpTrace& trace) const {
    if (!reloads_) return;
    for (int i = 0; i < loads; ++i) {
      trace.load(kTaskBoard);
      trace.touch(address_of(task), 4);
    }
    trace.wait(kTaskBoard);
  }
  bool reloads() const { return reloads_; }

  /// The number of columns of a group that C has.
  std::int64_t cols_of(int group, std::int64_t col) const {
    return std::clamp<std::int64_t>(n_ - col - group * kWarpCols, 0, kWarpCols);
  }

  /// Loads the encoding of a TC block's nonzeros, and the start of its values.
  void load_encoding(std::int64_t tile, int board, WarpTrace& trace) const {
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

  /// The same for a task's first TC block. For ME-TCF, the start of its values and the end of the
  /// next TC block's are two loads more.
  void load_first_encoding(std::int64_t tile, int board, WarpTrace& trace) const {
    for (int i = 0; !bitmaps_ && i < 2; ++i) {
      trace.load(board);
      trace.touch(at_.tc_offset + 4 * static_cast<std::uint64_t>(tile), 4);
    }
    load_encoding(tile, board, trace);
  }

  /// Calls visit(first value, number of values) for the values of a TC block that the lanes read at
  /// once: 32 of ME-TCF, or those of four rows of a bitmap. Skips empty halves.
  template <class Visit>
  void for_each_half(std::int64_t tile, Visit visit) const {
    const std::int64_t first = a_.tc_offset[tile], nnz = a_.tc_offset[tile + 1] - first;
    const std::int64_t half = bitmaps_ ? low_half(tile) : std::min<std::int64_t>(nnz, 32);
    if (half > 0) visit(first, half);
    if (half < nnz) visit(first + half, nnz - half);
  }

  /// The number of nonzeros in the first four rows of a bitmap.
  std::int64_t low_half(std::int64_t tile) const {
    return std::popcount(static_cast<std::uint32_t>(a_.tc_local_bit[tile]));
  }

  std::uint64_t value_at(std::int64_t index) const {
    return at_.values + 4 * static_cast<std::uint64_t>(index);
  }

  bool bitmaps_;
  row_windows::Schedule schedule_;
  int groups_;
  int mmas_;  // of a TC block
  Tf32Precision precision_;
  bool promotes_, shares_;

  /// Instructions of a warp with a share besides those of all kernels, before its first task.
  virtual int share_start() const { return 0; }

 private:
  /// Returns false at the end of the task.
  bool advance_task(std::int64_t index, std::int64_t chunk, WarpCursor& cursor,
                    WarpTrace& trace) const {
    const Task& task = tasks_->tasks[index];
    const std::int64_t col = schedule_.first_col(chunk);
    if (cursor.step == 0) {
      const std::size_t begin = trace.ops.size();
      trace.load(kTaskBoard);
      trace.touch(address_of(task), sizeof(Task));
      reload(task, 1, trace);
      trace.wait(kTaskBoard);
      trace.complete(begin, InstructionCounts::kTask);
      if (task.first < task.last) start(task, col, trace);
    }
    const std::int64_t step = cursor.step++;
    if (task.first + step < task.last) advance(task, step, col, trace);
    if (task.first + cursor.step < task.last) return true;
    if (col >= n_) return false;  // a warp of a team beyond the edge
    trace.wait_mma();
    store_task(task, index, chunk, col, trace);
    return false;
  }

  void store_task(const Task& task, std::int64_t index, std::int64_t chunk, std::int64_t col,
                  WarpTrace& trace) const {
    if (promotes_) trace.issue(InstructionCounts::kPromotedStore);
    reload(task, 1, trace);
    if (task.split != 0 && !atomic_) load_split(task, trace);
    if (task.split != 0 && !atomic_ &&
        !window_tasks::trace_combine_split_window(*tasks_, index, chunk, schedule_.lane_vectors(),
                                                  task_at_.slots, kPartBoard, trace))
      return;
    const std::size_t begin = trace.ops.size();
    reload(task, 1, trace);
    for (int group = 0; group < groups_; ++group) {
      const std::int64_t cols = cols_of(group, col);
      if (cols == 0) continue;
      if (task.split == 0 || !atomic_)
        store(task.window, col + group * kWarpCols, cols, 1, trace);
      else
        add(task.window, col + group * kWarpCols, cols, trace);
    }
    trace.complete(begin, InstructionCounts::store(groups_));
  }

  /// Loads the fields of a split window.
  void load_split(const Task& task, WarpTrace& trace) const {
    reload(task, 1, trace);
    for (int i = 0; i < 3; ++i) {
      trace.load(kPartBoard);
      trace.touch(element(task_at_.splits, task.split - 1, sizeof(window_tasks::Split)) + 4 * i, 4);
    }
    trace.wait(kPartBoard);
  }

  std::uint64_t address_of(const Task& task) const {
    return element(task_at_.tasks, &task - tasks_->tasks.data(), sizeof(Task));
  }

  bool atomic_;
  bool reloads_;
  std::shared_ptr<const BitTcf> owned_;
  std::shared_ptr<const window_tasks::Tasks> tasks_;

 protected:
  TaskAddresses task_at_;
};

}  // namespace tessera::acc_spmm
