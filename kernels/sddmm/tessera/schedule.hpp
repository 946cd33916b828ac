// The schedule of tessera_sddmm: which warp takes which TC blocks, in which order the columns of X
// and Y are multiplied, and where S goes. The device code, the emulation, the work description and
// the warp trace read it.
//
// A row of X or Y is read by four lanes in steps of 64 bytes, 16 bytes a lane, which are the
// operands of two MMAs: of a lane's four words, MMA j takes words 2j and 2j + 1. The columns of X
// and Y are assigned to the depth of an MMA accordingly, which is the same for both operands.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/host_device.hpp"

namespace tessera::tessera_sddmm {

constexpr int kWarps = 4;  // of a thread block, a task each
constexpr int kWindowRows = 16, kTileCols = 8;
constexpr int kStepBytes = 64;    // of a row of X or Y
constexpr int kVectorBytes = 16;  // of a lane
constexpr int kMmasPerStep = 2;
constexpr int kWindowTiles = 32;   // most TC blocks of a task
constexpr int kPartialTiles = 16;  // the same where the columns take several chunks: its sums stay
                                   // in shared memory between them
constexpr int kLeastTiles = 4;     // shorter tasks load X too often

/// Most steps of a row of X that a warp keeps in registers; operands of two parts take twice as
/// many.
TESSERA_HOST_DEVICE constexpr int most_steps(bool split) { return split ? 4 : 8; }

/// TC blocks whose rows of Y a warp has in registers or on the way there.
TESSERA_HOST_DEVICE constexpr int blocks_in_flight(int steps) { return steps == 2 ? 2 : 1; }

/// TC blocks after a task's last whose columns a warp loads, and does not use.
constexpr int kBlocksAhead = blocks_in_flight(2) + 1;

/// Warps of a multiprocessor that the registers of a kernel must suffice for.
TESSERA_HOST_DEVICE constexpr int resident_warps(int steps, bool split) {
  return steps == 8 || (split && steps == 4) ? 16 : steps == 4 || split ? 20 : 28;
}

/// The warps that an H200 holds at a time, at least: tasks aim at a share of the TC blocks for
/// each.
constexpr std::int64_t kWarpsOfGpu = 132 * 16;

/// The column of X and Y at depth `slot` of MMA `mma` of a step, for elements of 4 or 2 bytes.
TESSERA_HOST_DEVICE constexpr std::int64_t column_of(std::int64_t step, int mma, int slot,
                                                     int element_bytes) {
  const int per_word = 4 / element_bytes, half_depth = 4 * per_word;
  const int word = 2 * mma + slot / half_depth;
  const int lane = slot % half_depth / per_word, in_word = slot % per_word;
  return step * (kStepBytes / element_bytes) + lane * (kVectorBytes / element_bytes) +
         word * per_word + in_word;
}

/// The chunks of columns that one after another are in registers, and the steps of each; the last
/// one may have fewer columns, and the rest of its steps multiplies zeros.
struct Schedule {
  int steps;            // of a chunk: 2, 4 or 8
  std::int64_t chunks;  // of a row of X

  static constexpr Schedule of(std::int64_t row_bytes, bool split) {
    const std::int64_t all = (row_bytes + kStepBytes - 1) / kStepBytes;
    int steps = 2;
    while (steps < all && steps < most_steps(split)) steps *= 2;
    return {steps, (all + steps - 1) / steps};
  }

  constexpr std::int64_t all_steps() const { return steps * chunks; }
  constexpr std::int64_t chunk_bytes() const { return std::int64_t{steps} * kStepBytes; }
  constexpr int most_tiles() const { return chunks > 1 ? kPartialTiles : kWindowTiles; }
  /// Shared memory of a thread block, in bytes.
  constexpr std::int64_t shared_bytes() const {
    return chunks > 1 ? std::int64_t{kWarps} * kPartialTiles * 32 * 16 : 0;
  }
};

/// TC blocks [first, last) of a window, for one warp. starts[r] is the place in S of the first
/// nonzero that row r of the window has in them: the rows of a TC block are pieces of S.
struct alignas(16) Task {
  std::uint32_t window, first, last, unused;
  std::uint32_t starts[kWindowRows];
};

/// The bits of row `row` of eight in a TC block, by ascending columns: of columns 0 to 3 and 4 to
/// 7, words of the bitmap (formats/mosaic.hpp).
TESSERA_HOST_DEVICE constexpr std::uint32_t row_bits(std::uint32_t low, std::uint32_t high,
                                                     int row) {
  return (low >> (4 * row) & 15) | (high >> (4 * row) & 15) << 4;
}

}  // namespace tessera::tessera_sddmm
