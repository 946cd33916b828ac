// The warp trace of acc_spmm's staged pipeline (staged.cuh), and the choice of a pipeline's trace.

#include "kernels/spmm/acc_spmm/trace.hpp"

#include "kernels/spmm/acc_spmm/buffered_trace.hpp"
#include "kernels/spmm/acc_spmm/registers_trace.hpp"
#include "kernels/spmm/acc_spmm/task_trace.hpp"

namespace tessera::acc_spmm {
namespace {

/// Rows of B are copied one or more stages ahead, their indices are loaded one TC block earlier,
/// and elements of A one TC block ahead.
class StagedTrace final : public AccTrace {
 public:
  StagedTrace(std::shared_ptr<const BitTcf> a, std::int64_t n, const AccSpmmOptions& options,
              std::shared_ptr<const window_tasks::Tasks> tasks, const BitTcfAddresses& at,
              const TaskAddresses& task_at)
      : AccTrace(std::move(a), n, options, std::move(tasks), at, task_at),
        stages_(options.stages),
        code_(Counts::of(bitmaps_, shares_, stages_, groups_)),
        through_l1_(options.cache == Cache::kL1) {}

 private:
  using Counts = InstructionCounts::Staged;
  static constexpr int kIndexBoard = 0, kElementBoard = 1;
  static constexpr int kFirstStageBoard = 8;
  int stage_board(std::int64_t step) const {
    return kFirstStageBoard + static_cast<int>(step % stages_);
  }

  void start(const Task& task, std::int64_t col, WarpTrace& trace) const override {
    const std::size_t begin = trace.ops.size();
    load_rows(task.first, trace);
    load_first_encoding(task.first, kIndexBoard, trace);
    trace.issue(code_.start / 2);
    for (int step = 0; step + 1 < stages_; ++step) {
      trace.wait(kIndexBoard);
      if (task.first + step < task.last) copy(task.first + step, step, col, trace);
      load_rows(std::min<std::int64_t>(task.first + step + 1, task.last - 1), trace);
    }
    trace.pause(kPopulationCounts);
    load_elements(task.first, trace);
    load_encoding(std::min<std::int64_t>(task.first + 1, task.last - 1), kIndexBoard, trace);
    trace.complete(begin, code_.start + (task.first + 1 < task.last ? code_.ids : 0));
  }

  void advance(const Task& task, std::int64_t step, std::int64_t col,
               WarpTrace& trace) const override {
    const std::int64_t tile = task.first + step, end = task.last - 1;
    const std::size_t begin = trace.ops.size();
    const int length = code_.tile + groups_ * Counts::precision(precision_, promotes_) +
                       (tile + stages_ - 1 <= end ? code_.copy : 0) +
                       (tile + 1 < end ? code_.ids : 0);
    trace.wait(stage_board(step));
    trace.wait(kElementBoard);
    trace.wait(kIndexBoard);
    trace.issue(length / 4);
    trace.pause(kPopulationCounts + 2 * kConstantCycles);
    exchange_elements(tile, trace);
    if (tile + 1 <= end) load_elements(tile + 1, trace);
    load_encoding(std::min(tile + 2, end), kIndexBoard, trace);
    // The machine code has half of its cycles before the last copy, and loads indices behind it.
    trace.issue(length / 4);
    if (tile + stages_ - 1 <= end) {
      copy(tile + stages_ - 1, step + stages_ - 1, col, trace);
      if (n_ % 4 == 0) trace.pause(address_cycles(kTileCols / rows_at_once()));
    }
    load_rows(std::min(tile + stages_, end), trace);
    trace.shared(row_windows::kWideReadWavefronts * 2 * groups_);
    trace.complete(begin, length - mmas_);
    trace.mma(mmas_);
  }

  int share_start() const override { return Counts::kShare; }
  int rows_at_once() const { return row_windows::rows_per_copy(groups_); }

  /// Loads two elements a lane; those of ME-TCF are exchanged when they are multiplied.
  void load_elements(std::int64_t tile, WarpTrace& trace) const {
    if (bitmaps_) {
      for (int half = 0; half < 2; ++half) load_values(tile, half, kElementBoard, trace);
      return;
    }
    for_each_half(tile, [&](std::int64_t first, std::int64_t count) {
      trace.load(kElementBoard);
      trace.touch(value_at(first), 4 * count);
    });
  }

  /// Exchanges the elements of ME-TCF through shared memory: cleared, written by position, read.
  void exchange_elements(std::int64_t tile, WarpTrace& trace) const {
    if (bitmaps_) return;
    trace.shared(2);
    for_each_half(tile, [&](std::int64_t, std::int64_t) { trace.shared(2); });
    for (int half = 0; half < 2; ++half) trace.shared(2);
  }

  /// The address of a row of B in the warp's shared memory.
  std::uint64_t staged_row(std::int64_t step, int row) const {
    const std::int64_t floats = step % stages_ * row_windows::stage_floats(groups_);
    return sizeof(float) * static_cast<std::uint64_t>(floats + row * row_pitch(groups_));
  }

  /// Loads the column indices of a TC block: by two wide loads where all lanes need all of them,
  /// else by one load for each copy.
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
      // Padding is at the end, and nothing is read for it.
      if (a_.sparse_a_to_b[tile * kTileCols + row] == kNoColumn) continue;
      const bool past_l1 = n_ % 4 == 0 && !through_l1_;
      for (int i = 0; i < (n_ % 4 == 0 ? 1 : 4); ++i) {
        if (past_l1)
          trace.async_copy(board);
        else
          trace.load(board);
        for (int r = row; r < row + rows_at_once(); ++r) {
          const std::int32_t b_row = a_.sparse_a_to_b[tile * kTileCols + r];
          if (b_row == kNoColumn) continue;
          const auto from = at_.b + 4 * (static_cast<std::uint64_t>(b_row) * n_ + col);
          if (past_l1)
            trace.copy_to_shared(from, 4 * cols, staged_row(step, r));
          else
            trace.touch(from, 4 * cols);
        }
      }
    }
  }

  int stages_;
  Counts code_;
  bool through_l1_;
};

}  // namespace

std::unique_ptr<LaunchTrace> make_trace(std::shared_ptr<const BitTcf> a, std::int64_t n,
                                        const AccSpmmOptions& options,
                                        std::shared_ptr<const window_tasks::Tasks> tasks,
                                        const BitTcfAddresses& at, const TaskAddresses& task_at) {
  if (options.pipeline == Pipeline::kStaged)
    return std::make_unique<StagedTrace>(std::move(a), n, options, std::move(tasks), at, task_at);
  if (options.pipeline == Pipeline::kRegisters)
    return std::make_unique<RegistersTrace>(std::move(a), n, options, std::move(tasks), at,
                                            task_at);
  return std::make_unique<BufferedTrace>(std::move(a), n, options, std::move(tasks), at, task_at);
}

}  // namespace tessera::acc_spmm
