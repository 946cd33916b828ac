// What a warp does that feeds its MMAs through stages in shared memory
// (kernels/spmm/row_windows/staged_tiles.cuh), in the order of the compiled code (CUDA 13.0,
// sm_90a): the same for every schedule of TC blocks.
#pragma once

#include "kernels/spmm/row_windows/bit_tcf_kernel.hpp"
#include "kernels/spmm/row_windows/staged_tiles.hpp"

namespace tessera::staged_tiles {

/// Instructions of the compiled code that differ between the kernels, memory instructions and MMAs
/// among them. Counted in the machine code for aligned operands; an H200 executes within 0.2 % of
/// their sum.
struct Instructions {
  int start;               // from the first index to the first copy
  int first_copy[kAhead];  // of one of the first TC blocks, where there is one
  int between_copies;      // and after the last
  int wait;                // at a TC block's turn
  int copy;                // of the one that is kAhead behind, where there is one
  int product;             // with the index loads for the one after that
};

/// 32 columns of B that a warp goes through TC blocks with.
struct Columns {
  std::int64_t first, count;
};

class StagedTrace : public BitTcfTrace {
 protected:
  StagedTrace(const BitTcf& a, std::int64_t n, const BitTcfAddresses& at,
              const Instructions& instructions)
      : BitTcfTrace(a, n, at), instructions_(instructions) {}

  // Scoreboards 0 to kStages - 1 are the stages'.
  static constexpr int kIndexBoard = kStages, kExtentBoard = kStages + 1;

  /// Columns of warp `warp` in pass `pass`; none beyond the edge.
  Columns columns(int warp, std::int64_t pass) const;

  /// The first TC blocks of [first, last), of which there are some, on their way.
  void start(std::int64_t first, std::int64_t last, const Columns& columns, WarpTrace& trace) const;

  /// TC block first + step, and the copies of the one that takes its predecessor's stage.
  void advance(std::int64_t first, std::int64_t last, std::int64_t step, const Columns& columns,
               WarpTrace& trace) const;

  void load_index(std::int64_t tile, WarpTrace& trace) const;

 private:
  /// The copies of a TC block, at most five, among `instructions`.
  void copy(std::int64_t tile, std::int64_t step, const Columns& columns, int instructions,
            WarpTrace& trace) const;
  int copy_b(std::int64_t tile, int half, int stage, const Columns& columns,
             WarpTrace& trace) const;
  int copy_values(std::int64_t tile, int stage, WarpTrace& trace) const;

  Instructions instructions_;
};

/// What `warps` warps ask for that go through TC blocks [first, last) for all columns of B between
/// them, each for up to 32.
void add_staged_work(const BitTcf& a, std::int64_t first, std::int64_t last, std::int64_t n,
                     ThreadBlockWork& work);

}  // namespace tessera::staged_tiles
