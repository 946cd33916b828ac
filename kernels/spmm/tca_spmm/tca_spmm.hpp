// How tca_spmm cuts C up and lays a row out as an MMA's operands (TCA-SpMM, sections 4.1 and 4.2);
// its host and its device half both go by this.
//
// A chunk is 8 p nonzeros of a row, p of 1, 2, 4 or 8. They are the p columns of an MMA's right
// operand; a column of B at the same 8 p rows is p rows of the left one, and the trace of the p x p
// block of the result is an element of C: 16 / p of them an MMA, called a fragment here.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/params.hpp"

namespace tessera::tca_spmm {

constexpr int kWarps = 8;  // of a thread block
constexpr int kThreads = 32 * kWarps;
constexpr int kDepth = 8;         // nonzeros in a column of the right operand
constexpr int kMaxTraceRows = 8;  // p of a row longer than 32
constexpr int kMmaRows = 16;
constexpr int kMaxSharedBytes = 96 << 10;  // of any plan: two stages of a row that one warp does
constexpr int kPadding = 8;                // floats between rows of B in shared memory

/// Of a thread, as they are allocated: in eights.
constexpr int registers_of(int tile_cols) { return tile_cols == 64 ? 80 : 112; }

/// The least power of two, as its logarithm, that is no less; up to 32.
constexpr int ceil_log2(int value) {
  return (value > 1) + (value > 2) + (value > 4) + (value > 8) + (value > 16);
}

/// p of a row of so many nonzeros, as its logarithm: its chunk holds them, or p is 8.
constexpr int log_trace_rows(std::int64_t nnz) {
  return ceil_log2(
      static_cast<int>(std::min<std::int64_t>((nnz + kDepth - 1) / kDepth, kMaxTraceRows)));
}

/// What a warp does: its part of a row. Powers of two are given by their logarithms, so that the
/// device divides by shifting.
struct alignas(8) Task {
  std::int32_t row = -1;       // none: the warp has nothing to do
  std::uint8_t log_p = 0;      // p columns of the right operand are a chunk
  std::uint8_t log_warps = 0;  // of the row
  std::uint8_t warp = 0;       // which of them
  std::uint8_t unused = 0;

  constexpr int p() const { return 1 << log_p; }
  constexpr int warps() const { return 1 << log_warps; }
};
static_assert(sizeof(Task) == 8, "a warp reads it at once");

/// Columns of C that a row's warps do at a time, of the tile_cols of a thread block: where there
/// are fewer warps than p, as many fewer, so that no warp has more than tile_cols / 16 fragments.
constexpr int group_cols(int tile_cols, int log_p, int log_warps) {
  return tile_cols >> std::max(log_p - log_warps, 0);
}

/// From one row of B in shared memory to the next.
constexpr int pitch_of(int tile_cols, int log_p, int log_warps) {
  return group_cols(tile_cols, log_p, log_warps) + kPadding;
}

/// Fragments of so many columns, and columns of so many fragments.
constexpr int count_fragments(int log_p, int cols) {
  return ((cols << log_p) + kMmaRows - 1) / unsigned{kMmaRows};
}
constexpr int cols_of(int log_p, int fragments) { return (fragments * kMmaRows) >> log_p; }

/// Fragments [first, last) of a row's columns.
struct Fragments {
  int first, last;
};
constexpr Fragments fragments_of(int tile_cols, int log_p, int log_warps, int warp, int cols) {
  const int whole = count_fragments(log_p, group_cols(tile_cols, log_p, log_warps));
  const int share = std::max(1, whole >> log_warps), all = count_fragments(log_p, cols);
  return {std::min(warp * share, all), std::min((warp + 1) * share, all)};
}

/// Pieces of four columns of B that the fragments of `cols` columns read, as a power of two.
constexpr int log_pieces_of(int log_p, int cols) {
  return ceil_log2((cols_of(log_p, count_fragments(log_p, cols)) + 3) / 4);
}

/// Where a stage has column `col` of the row of B of nonzero 8 r + k, k being the depth that lane
/// 4 g + t holds in value `half` of an operand. Every other four rows have the two pieces of 16
/// bytes of any 32 the other way round: eight lanes of two g that read four columns each find them
/// in different banks, for every p, and cp.async takes no 32 bytes apart, which it would read
/// twice.
constexpr int place_of(int log_p, int r, int t, int half, int col, int pitch) {
  const int four = (half << log_p) + r;
  return (4 * four + t) * pitch + (col ^ 4 * (four & 1));
}

/// Which rows are done by whom.
struct Options {
  enum class Method { kAuto, kMultirow, kMultiblock };
  Method method = Method::kAuto;
  int warps_per_row = 0;  // of rows that share thread blocks; 0: p of them
  int tile_cols = 64;     // columns of C of a thread block
};

/// From the parameters of the kernel.
Options options_of(const Params& params);

struct Plan {
  std::vector<Task> tasks;  // [thread blocks of a tile of columns * kWarps]
  int warp_floats = 0;      // of shared memory; a row has those of its warps

  std::int64_t blocks() const { return static_cast<std::int64_t>(tasks.size()) / kWarps; }
  std::int64_t shared_bytes() const { return std::int64_t{4} * kWarps * warp_floats; }
};

/// Rows in their order, as many to a thread block as have warps in it.
Plan plan(const CsrMatrix& a, const Options& options);

}  // namespace tessera::tca_spmm
