// The warp trace of acc_spmm's pipeline registers (registers.cuh).
#pragma once

#include "kernels/spmm/acc_spmm/task_trace.hpp"

namespace tessera::acc_spmm {

/// In the order of the machine code: the next TC block's loads follow the wait for the last ones,
/// so that only the indices are loaded one TC block ahead.
class RegistersTrace final : public AccTrace {
 public:
  using AccTrace::AccTrace;

 private:
  using Counts = InstructionCounts::Registers;
  static constexpr int kIndexBoard = 0, kDataBoard = 1;

  Counts code() const { return Counts::of(precision_, promotes_); }

  void start(const Task& task, std::int64_t, WarpTrace& trace) const override {
    const std::size_t begin = trace.ops.size();
    load_index(task.first, trace);
    trace.complete(begin, code().start + (task.first + 1 < task.last ? code().enter : 0));
  }

  void advance(const Task& task, std::int64_t step, std::int64_t col,
               WarpTrace& trace) const override {
    const std::int64_t tile = task.first + step;
    const std::size_t begin = trace.ops.size();
    trace.wait(kIndexBoard);
    const bool last = tile + 1 == task.last;
    const int length = last ? code().last : code().tile;
    trace.issue(length / 3);
    trace.pause(kPopulationCounts);
    for (int half = 0; half < 2; ++half) load_b(tile, half, col, trace);
    for (int half = 0; half < 2; ++half) load_values(tile, half, kDataBoard, trace);
    if (task.first + 1 < task.last)
      load_index(std::min<std::int64_t>(tile + 1, task.last - 1), trace);
    trace.wait(kDataBoard);
    trace.complete(begin, length - mmas_);
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

  /// Loads four rows of B.
  void load_b(std::int64_t tile, int half, std::int64_t col, WarpTrace& trace) const {
    if (!has_cols(tile, half)) return;      // no lane loads
    const int loads = n_ % 4 == 0 ? 1 : 4;  // a lane's four columns, at once or one by one
    for (int i = 0; i < loads; ++i) {
      trace.load(kDataBoard);
      touch_b(tile, half, col, cols_of(0, col), trace);
      add_fragment_wavefronts(trace);
    }
  }
};

}  // namespace tessera::acc_spmm
