// The trace of a warp that feeds its MMAs through stages in shared memory
// (kernels/spmm/row_windows/staged_tiles.cuh), in the order of the machine code (CUDA 13.0,
// sm_90a).
#pragma once

#include "kernels/spmm/row_windows/bit_tcf_kernel.hpp"
#include "kernels/spmm/row_windows/staged_tiles.hpp"

namespace tessera::staged_tiles {

/// Instructions of a warp, memory instructions and MMAs included, that differ between the
/// kernels: counted in machine code for aligned operands (CUDA 13.0, sm_90a). An H200 executes
/// within 0.2 % of their sum.
struct StageInstructionCounts {
  int start;               // from the first index to the first copy
  int first_copy[kAhead];  // of each of the first TC blocks
  int between_copies;      // and after the last
  int wait;                // before a TC block is multiplied
  int copy;                // of the TC block that is multiplied kAhead later
  int product;             // with the index loads for the TC block after that
};

/// The columns of B that a warp multiplies TC blocks with, at most 32.
struct Columns {
  std::int64_t first, count;
};

class StagedTrace : public BitTcfTrace {
 protected:
  StagedTrace(const BitTcf& a, std::int64_t n, const BitTcfAddresses& at,
              const StageInstructionCounts& instructions)
      : BitTcfTrace(a, n, at), instructions_(instructions) {}

  // Scoreboards 0 to kStages - 1 are the stages'.
  static constexpr int kIndexBoard = kStages, kExtentBoard = kStages + 1;

  /// The columns of warp `warp` in pass `pass`; none beyond the edge.
  Columns columns(int warp, std::int64_t pass) const;

  /// Starts the copies of the first TC blocks of [first, last), which is not empty.
  void start(std::int64_t first, std::int64_t last, const Columns& columns, WarpTrace& trace) const;

  /// Multiplies TC block first + step and copies the one that takes its predecessor's stage.
  void advance(std::int64_t first, std::int64_t last, std::int64_t step, const Columns& columns,
               WarpTrace& trace) const;

  void load_index(std::int64_t tile, WarpTrace& trace) const;

 private:
  /// The copies of a TC block, at most five, as part of `instructions`.
  void copy(std::int64_t tile, std::int64_t step, const Columns& columns, int instructions,
            WarpTrace& trace) const;
  int copy_b(std::int64_t tile, int half, int stage, const Columns& columns,
             WarpTrace& trace) const;
  int copy_values(std::int64_t tile, int stage, WarpTrace& trace) const;

  StageInstructionCounts instructions_;
};

/// Adds the work of a thread block that multiplies TC blocks [first, last) with all n columns of B.
void add_staged_work(const BitTcf& a, std::int64_t first, std::int64_t last, std::int64_t n,
                     ThreadBlockWork& work);

}  // namespace tessera::staged_tiles
