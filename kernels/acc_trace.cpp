#include "kernels/acc_trace.hpp"

#include <algorithm>

namespace tessera::acc_spmm {
namespace {

using window_tasks::Split;
using window_tasks::Task;
using window_tile::kTileCols;
using window_tile::kWarpCols;

/// What both pipelines do before and after their TC blocks.
class AccTrace : public BitTcfTrace {
 public:
  AccTrace(const BitTcf& a, std::int64_t n, const Choices& choices,
           std::shared_ptr<const window_tasks::Tasks> tasks, const BitTcfAddresses& at,
           const TaskAddresses& task_at)
      : BitTcfTrace(a, n, at),
        groups_(choices.groups(n)),
        mmas_(2 * groups_ * static_cast<int>(choices.precision.mmas.size())),
        atomic_(choices.combine == Combine::kAtomic),
        tasks_(std::move(tasks)),
        task_at_(task_at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const auto count = static_cast<std::int64_t>(tasks_->tasks.size());
    const std::int64_t padded = (count + kWarps - 1) / kWarps * kWarps;
    const std::int64_t id = thread_block * kWarps + warp;
    const std::int64_t index = id % padded, chunk = id / padded;
    if (index >= count) {
      trace.issue(kIdleInstructions);
      return false;
    }
    const Task& task = tasks_->tasks[index];
    const std::int64_t col = chunk * groups_ * kWarpCols;
    if (cursor.step == 0) {
      trace.issue(kWarpInstructions);
      trace.pause(kSpecialRegisters);
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

 protected:
  // Scoreboards 0 to 3 are a pipeline's.
  static constexpr int kTaskBoard = 4, kPartBoard = 5;

  virtual void start(const Task& task, std::int64_t col, WarpTrace& trace) const = 0;
  virtual void advance(const Task& task, std::int64_t step, std::int64_t col,
                       WarpTrace& trace) const = 0;

  std::int64_t cols_of(int group, std::int64_t col) const {
    return std::clamp<std::int64_t>(n_ - col - group * kWarpCols, 0, kWarpCols);
  }

  int groups_;
  int mmas_;  // of a TC block

 private:
  // Of the machine code (CUDA 13.0, sm_90a).
  static constexpr int kIdleInstructions = 30, kWarpInstructions = 70, kStoreInstructions = 20,
                       kMeetInstructions = 40;

  void deliver(const Task& task, std::int64_t index, std::int64_t chunk, std::int64_t col,
               WarpTrace& trace) const {
    trace.issue(kStoreInstructions * (1 + groups_));
    if (task.split != 0 && !atomic_ && !meet(task, index, chunk, trace)) return;
    for (int group = 0; group < groups_; ++group) {
      const std::int64_t cols = cols_of(group, col);
      if (cols == 0) continue;
      if (task.split == 0 || !atomic_) {
        store(task.window, col + group * kWarpCols, cols, 1, trace);
        continue;
      }
      for (int j = 0; j < 2; ++j) {
        trace.atomic(n_ % 4 == 0 ? 1 : 4);
        touch_c(task.window, j, col + group * kWarpCols, cols, trace);
      }
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
  std::shared_ptr<const window_tasks::Tasks> tasks_;
  TaskAddresses task_at_;
};

/// As the compiled loop has it: the next TC block's loads are behind the wait for the last ones, so
/// that only the indices are a TC block ahead of their use.
class RegistersTrace final : public AccTrace {
 public:
  using AccTrace::AccTrace;

 private:
  static constexpr int kFirstInstructions = 116;
  // Besides loads and MMAs, in the machine code (CUDA 13.0, sm_90a).
  static constexpr int kTileInstructions = 91;
  static constexpr int kIndexBoard = 0, kDataBoard = 1;

  void start(const Task& task, std::int64_t, WarpTrace& trace) const override {
    trace.issue(kFirstInstructions);
    load_index(task.first, trace);
  }

  void advance(const Task& task, std::int64_t step, std::int64_t col,
               WarpTrace& trace) const override {
    const std::int64_t tile = task.first + step;
    trace.wait(kIndexBoard);
    trace.issue(kTileInstructions / 2);
    trace.pause(kPopulationCounts);
    for (int half = 0; half < 2; ++half) load_b(tile, half, col, trace);
    for (int half = 0; half < 2; ++half) load_values(tile, half, kDataBoard, trace);
    load_index(std::min<std::int64_t>(tile + 1, task.last - 1), trace);
    trace.wait(kDataBoard);
    trace.issue(kTileInstructions - kTileInstructions / 2);
    trace.mma(mmas_);
  }

  void load_index(std::int64_t tile, WarpTrace& trace) const {
    trace.load(kIndexBoard);
    trace.touch(at_.tc_local_bit + 8 * tile, 8);
    trace.load(kIndexBoard);
    trace.touch(at_.tc_offset + 4 * tile, 4);
    for (int half = 0; half < 2; ++half) {
      trace.load(kIndexBoard);
      trace.touch(at_.sparse_a_to_b + 4 * (tile * kTileCols + 4 * half), 16);
    }
  }

  /// Four rows of B.
  void load_b(std::int64_t tile, int half, std::int64_t col, WarpTrace& trace) const {
    if (!has_cols(tile, half)) return;       // no lane loads
    const int pieces = n_ % 4 == 0 ? 1 : 4;  // a lane's four columns, at once or one by one
    for (int piece = 0; piece < pieces; ++piece) {
      trace.load(kDataBoard);
      touch_b(tile, half, col, cols_of(0, col), trace);
      lies_as_fragments(trace);
    }
  }
};

/// Rows of B a stage ahead (or more), their indices one more, cells of A one TC block.
class StagedTrace final : public AccTrace {
 public:
  StagedTrace(const BitTcf& a, std::int64_t n, const Choices& choices,
              std::shared_ptr<const window_tasks::Tasks> tasks, const BitTcfAddresses& at,
              const TaskAddresses& task_at)
      : AccTrace(a, n, choices, std::move(tasks), at, task_at),
        stages_(choices.stages),
        through_l1_(choices.through_l1) {}

 private:
  // Of the machine code (CUDA 13.0, sm_90a): a TC block takes 80 and 40 for each group of 32
  // columns of B, loads, copies and MMAs among them.
  static constexpr int kTileInstructions = 80, kGroupInstructions = 40;
  static constexpr int kStartInstructions = 60, kCopyInstructions = 7;
  static constexpr int kIndexBoard = 0, kCellBoard = 1;
  static constexpr int kFirstStageBoard = 8;
  int stage_board(std::int64_t step) const {
    return kFirstStageBoard + static_cast<int>(step % stages_);
  }

  void start(const Task& task, std::int64_t col, WarpTrace& trace) const override {
    load_rows(task.first, trace);
    load_bitmap(task.first, trace);
    trace.issue(kStartInstructions);
    for (int step = 0; step + 1 < stages_; ++step) {
      trace.wait(kIndexBoard);
      if (task.first + step < task.last) copy(task.first + step, step, col, trace);
      load_rows(std::min<std::int64_t>(task.first + step + 1, task.last - 1), trace);
    }
    trace.pause(kPopulationCounts);
    for (int half = 0; half < 2; ++half) load_values(task.first, half, kCellBoard, trace);
    load_bitmap(std::min<std::int64_t>(task.first + 1, task.last - 1), trace);
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
    if (tile + 1 <= end)
      for (int half = 0; half < 2; ++half) load_values(tile + 1, half, kCellBoard, trace);
    load_bitmap(std::min(tile + 2, end), trace);
    if (tile + stages_ - 1 <= end) copy(tile + stages_ - 1, step + stages_ - 1, col, trace);
    load_rows(std::min(tile + stages_, end), trace);
    trace.shared(kWideWavefronts * 2 * groups_);
    trace.issue(instructions - instructions / 3);
    trace.mma(mmas_);
  }

  static constexpr int kWideWavefronts = 4;  // of 16 bytes a lane, without conflicts: row_pitch

  int rows_at_once() const { return 4 / groups_; }

  /// Of a row of B, in the warp's shared memory.
  std::uint64_t place_of_row(std::int64_t step, int row) const {
    const std::int64_t in_stages = step % stages_ * kTileCols + row;
    return sizeof(float) * static_cast<std::uint64_t>(in_stages * row_pitch(groups_));
  }

  void load_bitmap(std::int64_t tile, WarpTrace& trace) const {
    trace.load(kIndexBoard);
    trace.touch(at_.tc_local_bit + 8 * tile, 8);
    trace.load(kIndexBoard);
    trace.touch(at_.tc_offset + 4 * tile, 4);
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
      const bool past_l1 = n_ % 4 == 0 && !through_l1_;
      for (int piece = 0; piece < (n_ % 4 == 0 ? 1 : 4); ++piece) {
        if (past_l1)
          trace.async_copy(board);
        else
          trace.load(board);
        for (int r = row; r < row + rows_at_once(); ++r) {
          const std::int32_t b_row = a_.sparse_a_to_b[tile * kTileCols + r];
          if (b_row == kNoColumn) continue;
          const auto from = at_.b + 4 * (static_cast<std::uint64_t>(b_row) * n_ + col);
          if (past_l1)
            trace.copy_to_shared(from, 4 * cols, place_of_row(step, r));
          else
            trace.touch(from, 4 * cols);
        }
      }
    }
  }

  int stages_;
  bool through_l1_;
};

}  // namespace

std::unique_ptr<LaunchTrace> make_trace(const BitTcf& a, std::int64_t n, const Choices& choices,
                                        std::shared_ptr<const window_tasks::Tasks> tasks,
                                        const BitTcfAddresses& at, const TaskAddresses& task_at) {
  if (choices.pipeline == Pipeline::kStaged)
    return std::make_unique<StagedTrace>(a, n, choices, std::move(tasks), at, task_at);
  return std::make_unique<RegistersTrace>(a, n, choices, std::move(tasks), at, task_at);
}

}  // namespace tessera::acc_spmm
