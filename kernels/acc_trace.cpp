#include "kernels/acc_trace.hpp"

#include <algorithm>
#include <bit>

namespace tessera::acc_spmm {
namespace {

using window_tasks::Split;
using window_tasks::Task;
using window_tile::kTileCols;
using window_tile::kWarpCols;

/// What both pipelines do before and after their TC blocks.
class AccTrace : public BitTcfTrace {
 public:
  AccTrace(std::shared_ptr<const BitTcf> a, std::int64_t n, const Choices& choices,
           std::shared_ptr<const window_tasks::Tasks> tasks, const BitTcfAddresses& at,
           const TaskAddresses& task_at)
      : BitTcfTrace(*a, n, at),
        bitmaps_(choices.names == Names::kBitmap),
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
  static constexpr int kIdleInstructions = 30, kWarpInstructions = 70, kStoreInstructions = 20,
                       kMeetInstructions = 40;

  /// The extent of the share, where it is one of several tasks.
  void begin(std::int64_t share, WarpTrace& trace) const {
    trace.issue(kWarpInstructions);
    trace.pause(kSpecialRegisters);
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
    if (task.split != 0 && !atomic_ && !meet(task, index, chunk, trace)) return;
    for (int group = 0; group < groups_; ++group) {
      const std::int64_t cols = cols_of(group, col);
      if (cols == 0) continue;
      if (task.split == 0 || !atomic_)
        store(task.window, col + group * kWarpCols, cols, 1, trace);
      else
        add(task.window, col + group * kWarpCols, cols, trace);
    }
  }

  /// A slot of the task's own; the last part is taken for the last to arrive, which reads all.
  bool meet(const Task& task, std::int64_t index, std::int64_t chunk, WarpTrace& trace) const {
    const Split& split = tasks_->splits[task.split - 1];
    const std::int64_t pieces = 2 * groups_, part = index - split.first_task;
    const auto slot = [&](std::int64_t p) {
      return task_at_.slots + static_cast<std::uint64_t>(
                                  (chunk * tasks_->slots + split.first_slot + p) * pieces * 512);
    };
    trace.issue(kMeetInstructions);
    for (std::int64_t i = 0; i < pieces; ++i) {
      trace.store();
      trace.touch(slot(part) + 512 * static_cast<std::uint64_t>(i), 512);
    }
    if (part + 1 < split.parts) return false;
    for (std::int64_t p = 0; p < split.parts; ++p) {
      for (std::int64_t i = 0; i < pieces; ++i) {
        trace.load(kPartBoard);
        trace.touch(slot(p) + 512 * static_cast<std::uint64_t>(i), 512);
      }
      if (p % 2 == 1 || p + 1 == split.parts) trace.wait(kPartBoard);
      trace.issue(static_cast<int>(5 * pieces));
    }
    return true;
  }

  bool atomic_;
  std::shared_ptr<const BitTcf> owned_;
  std::shared_ptr<const window_tasks::Tasks> tasks_;

 protected:
  TaskAddresses task_at_;
};

/// Cells and columns of the next TC block come by copies, rows of B to registers: those of the next
/// TC block, too, or of this one.
class RegistersTrace final : public AccTrace {
 public:
  RegistersTrace(std::shared_ptr<const BitTcf> a, std::int64_t n, const Choices& choices,
                 std::shared_ptr<const window_tasks::Tasks> tasks, const BitTcfAddresses& at,
                 const TaskAddresses& task_at)
      : AccTrace(std::move(a), n, choices, std::move(tasks), at, task_at),
        ahead_(choices.pipeline == Pipeline::kRegisters),
        past_l1_(choices.cache == Cache::kL2) {}

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
        if (past_l1_ && n_ % 4 == 0)
          trace.async_copy(rows_board(step));
        else
          trace.load(rows_board(step));
        touch_b(tile, half, col, cols_of(0, col), trace);
        lies_as_fragments(trace);
      }
    }
  }

  bool ahead_;
  bool past_l1_;
};

/// Rows of B a stage ahead (or more), their indices one more, cells of A one TC block.
class StagedTrace final : public AccTrace {
 public:
  StagedTrace(std::shared_ptr<const BitTcf> a, std::int64_t n, const Choices& choices,
              std::shared_ptr<const window_tasks::Tasks> tasks, const BitTcfAddresses& at,
              const TaskAddresses& task_at)
      : AccTrace(std::move(a), n, choices, std::move(tasks), at, task_at),
        stages_(choices.stages),
        through_l1_(choices.cache == Cache::kL1) {}

 private:
  // Of the machine code (CUDA 13.0, sm_90a): a TC block takes 80 and 40 for each group of 32
  // columns of B, loads, copies and MMAs among them.
  static constexpr int kTileInstructions = 80, kGroupInstructions = 40;
  static constexpr int kStartInstructions = 60, kCopyInstructions = 7;
  static constexpr int kPassInstructions = 15;  // more for ME-TCF
  static constexpr int kIndexBoard = 0, kCellBoard = 1;
  static constexpr int kFirstStageBoard = 8;
  int stage_board(std::int64_t step) const {
    return kFirstStageBoard + static_cast<int>(step % stages_);
  }

  void start(const Task& task, std::int64_t col, WarpTrace& trace) const override {
    load_rows(task.first, trace);
    load_first_names(task.first, kIndexBoard, trace);
    trace.issue(kStartInstructions);
    for (int step = 0; step + 1 < stages_; ++step) {
      trace.wait(kIndexBoard);
      if (task.first + step < task.last) copy(task.first + step, step, col, trace);
      load_rows(std::min<std::int64_t>(task.first + step + 1, task.last - 1), trace);
    }
    trace.pause(kPopulationCounts);
    load_cells(task.first, trace);
    load_names(std::min<std::int64_t>(task.first + 1, task.last - 1), kIndexBoard, trace);
  }

  void advance(const Task& task, std::int64_t step, std::int64_t col,
               WarpTrace& trace) const override {
    const std::int64_t tile = task.first + step, end = task.last - 1;
    const int copies = rows_at_once() == 0 ? 0 : kTileCols / rows_at_once();
    const int instructions =
        kTileInstructions + kGroupInstructions * groups_ - 2 * groups_ - copies - 2 * groups_ - 8;
    trace.wait(stage_board(step));
    trace.wait(kCellBoard);
    trace.wait(kIndexBoard);
    trace.issue(instructions / 3);
    trace.pause(kPopulationCounts);
    pass_cells(tile, trace);
    if (tile + 1 <= end) load_cells(tile + 1, trace);
    load_names(std::min(tile + 2, end), kIndexBoard, trace);
    if (tile + stages_ - 1 <= end) copy(tile + stages_ - 1, step + stages_ - 1, col, trace);
    load_rows(std::min(tile + stages_, end), trace);
    trace.shared(kWideWavefronts * 2 * groups_);
    trace.issue(instructions - instructions / 3);
    trace.mma(mmas_);
  }

  static constexpr int kWideWavefronts = 4;  // of 16 bytes a lane, without conflicts: row_pitch

  int rows_at_once() const { return 4 / groups_; }

  /// Two cells a lane; ME-TCF's go through shared memory when they are multiplied.
  void load_cells(std::int64_t tile, WarpTrace& trace) const {
    if (bitmaps_) {
      for (int half = 0; half < 2; ++half) load_values(tile, half, kCellBoard, trace);
      return;
    }
    for_each_half(tile, [&](std::int64_t first, std::int64_t count) {
      trace.load(kCellBoard);
      trace.touch(value_at(first), 4 * count);
    });
  }

  /// Cleared, written by places, read as two cells a lane.
  void pass_cells(std::int64_t tile, WarpTrace& trace) const {
    if (bitmaps_) return;
    trace.shared(2);
    for_each_half(tile, [&](std::int64_t, std::int64_t) { trace.shared(2); });
    for (int half = 0; half < 2; ++half) trace.shared(2);
    trace.issue(kPassInstructions);
  }

  /// Column indices of a TC block: two wide loads where all lanes need all, else one a copy.
  void load_rows(std::int64_t tile, WarpTrace& trace) const {
    const int loads = groups_ == 4 ? 2 : kTileCols / rows_at_once();
    for (int i = 0; i < loads; ++i) {
      trace.load(kIndexBoard);
      trace.touch(at_.sparse_a_to_b + 4 * (tile * kTileCols) + 4 * (kTileCols / loads) * i,
                  4 * (kTileCols / loads));
    }
  }

  void copy(std::int64_t tile, std::int64_t step, std::int64_t col, WarpTrace& trace) const {
    const int board = stage_board(step);
    const std::int64_t cols = std::min<std::int64_t>(groups_ * kWarpCols, n_ - col);
    for (int row = 0; row < kTileCols; row += rows_at_once()) {
      trace.issue(kCopyInstructions - 1);
      // Padding is at the end and nothing is read for it.
      if (a_.sparse_a_to_b[tile * kTileCols + row] == kNoColumn) continue;
      for (int piece = 0; piece < (n_ % 4 == 0 ? 1 : 4); ++piece) {
        if (n_ % 4 == 0 && !through_l1_)
          trace.async_copy(board);
        else
          trace.load(board);
        for (int r = row; r < row + rows_at_once(); ++r) {
          const std::int32_t b_row = a_.sparse_a_to_b[tile * kTileCols + r];
          if (b_row != kNoColumn)
            trace.touch(at_.b + 4 * (static_cast<std::uint64_t>(b_row) * n_ + col), 4 * cols);
        }
      }
    }
  }

  int stages_;
  bool through_l1_;
};

}  // namespace

std::unique_ptr<LaunchTrace> make_trace(std::shared_ptr<const BitTcf> a, std::int64_t n,
                                        const Choices& choices,
                                        std::shared_ptr<const window_tasks::Tasks> tasks,
                                        const BitTcfAddresses& at, const TaskAddresses& task_at) {
  if (choices.pipeline == Pipeline::kStaged)
    return std::make_unique<StagedTrace>(std::move(a), n, choices, std::move(tasks), at, task_at);
  return std::make_unique<RegistersTrace>(std::move(a), n, choices, std::move(tasks), at, task_at);
}

}  // namespace tessera::acc_spmm
