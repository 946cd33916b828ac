// The rungs of smat's ladder and how each cuts C up; its host and its device half both go by this.
#pragma once

#include <cstdint>
#include <string_view>

#include "formats/base/params.hpp"
#include "kernels/spmm/smat/pieces.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera::smat {

/// What a warp does and with what; kernels/spmm/smat/smat.cpp says it of each.
enum class Rung { kNaive, kB, kT, kBt, kCbt };

constexpr int kWarps = 2;  // per thread block
constexpr int kThreads = 32 * kWarps;
constexpr int kGroupCols = 32;  // columns of C that two MMAs make: four in a lane, 16 bytes
constexpr int kMaxStages = 4;

/// Floats from one row of B to the next in a stage that holds so many columns: eight more, so that
/// what four rows one after another have in the same two pieces of 16 bytes lies in different
/// banks, and all rows begin at multiples of 32 bytes: what cp.async takes apart it reads twice.
constexpr int stage_pitch(int cols) { return cols + 8; }

/// Which row of a stage row k of B is: of the rows that eight lanes read at once, 2t and two apart,
/// it makes rows one after another.
constexpr int row_in_stage(int k) { return k / 2 + k % 2 * (kDepth / 2); }

/// Rows of B and the fragment of one piece.
constexpr std::int64_t stage_bytes(int cols, int height) {
  return 4 * kDepth * stage_pitch(cols) + 2 * kDepth * height;
}

/// What a user chooses.
struct SmatOptions {
  Rung rung = Rung::kCbt;
  Precision precision;
  bool read_padding = false;
  int warp_cols = 0;  // 0: by the width of B
  int stages = 0;

  explicit SmatOptions(const Params& params);

  bool on_tensor_cores() const { return rung != Rung::kNaive && rung != Rung::kB; }
  /// Whether a warp has more than 32 columns, and A comes as fragments.
  bool by_blocks() const { return rung == Rung::kBt || rung == Rung::kCbt; }
  /// Columns of C of a warp, where B has n.
  int cols_of_warp(std::int64_t n) const;
  /// Registers of a thread, in eights; as compiled for sm_90a with aligned operands.
  int registers(std::int64_t n, int height) const;
  /// Shared memory of a thread block.
  std::int64_t shared_bytes(std::int64_t n, int height) const {
    return rung == Rung::kCbt ? kWarps * stages * stage_bytes(cols_of_warp(n), height) : 0;
  }
};

}  // namespace tessera::smat
