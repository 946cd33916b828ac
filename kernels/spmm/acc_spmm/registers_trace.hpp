// What a warp of acc_spmm's pipeline registers does, for the performance simulator: as
// registers.cuh has it.
#pragma once

#include "kernels/spmm/acc_spmm/task_trace.hpp"

namespace tessera::acc_spmm {

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

}  // namespace tessera::acc_spmm
