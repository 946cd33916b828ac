// The schedule of tca_spmm: the part of C of every warp and the layout of a row as the operands of
// an MMA (TCA-SpMM, sections 4.1 and 4.2). The device code, the work description and the warp trace
// read it.
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
#include "kernels/host_device.hpp"

namespace tessera::tca_spmm {

constexpr int kWarps = 8;  // of a thread block
constexpr int kThreads = 32 * kWarps;
constexpr int kDepth = 8;         // nonzeros in a column of the right operand
constexpr int kMaxTraceRows = 8;  // p of a row longer than 32
constexpr int kMmaRows = 16;
constexpr int kMaxSharedBytes = 96 << 10;  // of any plan: two stages of a row of one warp
constexpr int kPadding = 8;                // floats between rows of B in shared memory
constexpr int kSectorCols = 8;             // of C, in 32 bytes

constexpr int kNarrowTile = 64;  // columns of C of a thread block, by default
constexpr std::int64_t kMaxCols = std::int64_t{65535} * 2 * kNarrowTile;  // of C, as a grid holds
constexpr int kNonzerosOfBlock = kDepth * kMaxTraceRows;  // of a row, for a thread block of its own
/// Columns of C for which each warp of a thread block has a fragment of p = 8.
constexpr int kColsOfBlock = kWarps * kMmaRows / kMaxTraceRows;

/// Registers of a thread, as the hardware allocates them.
constexpr int registers_of(int tile_cols) { return tile_cols == kNarrowTile ? 80 : 112; }

/// The logarithm of the least power of two that is not below `value`, which is at most 32.
constexpr int ceil_log2(int value) {
  return (value > 1) + (value > 2) + (value > 4) + (value > 8) + (value > 16);
}

/// The logarithm of p for a row of `nnz` nonzeros: a chunk holds them all, or p is 8.
constexpr int log_trace_rows(std::int64_t nnz) {
  return ceil_log2(
      static_cast<int>(std::min<std::int64_t>((nnz + kDepth - 1) / kDepth, kMaxTraceRows)));
}

/// The part of a row of a warp. Powers of two are stored as logarithms, so that the device divides
/// by shifting.
struct alignas(8) Task {
  std::int32_t row = -1;       // -1: the warp has no work
  std::uint8_t log_p = 0;      // p columns of the right operand are a chunk
  std::uint8_t log_warps = 0;  // warps of the row
  std::uint8_t warp = 0;       // index among the warps of the row
  std::uint8_t unused = 0;

  constexpr int p() const { return 1 << log_p; }
  constexpr int warps() const { return 1 << log_warps; }
};
static_assert(sizeof(Task) == 8, "a warp reads a task in one load");

/// Columns of C that the warps of a row compute at a time, of the tile_cols of a thread block:
/// fewer in proportion where there are fewer warps than p, so that no warp has more than tile_cols
/// / 16 fragments.
constexpr int group_cols(int tile_cols, int log_p, int log_warps) {
  return tile_cols >> std::max(log_p - log_warps, 0);
}

/// Floats from one row of B in shared memory to the next.
constexpr int pitch_of(int tile_cols, int log_p, int log_warps) {
  return group_cols(tile_cols, log_p, log_warps) + kPadding;
}

/// The number of fragments of `cols` columns, and of columns of `fragments` fragments.
constexpr int count_fragments(int log_p, int cols) {
  return ((cols << log_p) + kMmaRows - 1) / unsigned{kMmaRows};
}
constexpr int cols_of(int log_p, int fragments) { return (fragments * kMmaRows) >> log_p; }

/// Fragments [first, last) of the columns of a row, of one of its warps: one, or an even number,
/// which it multiplies by twos. A warp that stores to C has at least eight columns, a sector.
struct Fragments {
  int first, last;
};
constexpr Fragments fragments_of(bool buffered, int log_p, int log_warps, int warp, int cols) {
  const int all = count_fragments(log_p, cols);
  const int least = buffered ? 1 : count_fragments(log_p, kSectorCols);
  const int even = std::max((all + (1 << log_warps) - 1) >> log_warps, least);
  const int share = even > 1 ? even + even % 2 : 1;
  return {std::min(warp * share, all), std::min((warp + 1) * share, all)};
}

/// The logarithm of the number of fours of columns of B that the fragments of `cols` columns read,
/// rounded up to a power of two.
constexpr int log_fours_of(int log_p, int cols) {
  return ceil_log2((cols_of(log_p, count_fragments(log_p, cols)) + 3) / 4);
}

/// The place in a stage of column `col` of the row of B of nonzero 8 r + k, where k is the depth
/// that lane 4 g + t holds in value `half` of an operand. Every other four rows have the two halves
/// of any 32 bytes exchanged: eight lanes of two g that read four columns each read different banks
/// for every p, and cp.async takes no 32 bytes apart, which it would read twice.
constexpr int place_of(int log_p, int r, int t, int half, int col, int pitch) {
  const int four = (half << log_p) + r;
  return (4 * four + t) * pitch + (col ^ 4 * (four & 1));
}

/// The assignment of rows to warps.
struct TcaSpmmOptions {
  enum class Method { kAuto, kMultirow, kMultiblock };
  Method method = Method::kAuto;
  int warps_per_row = 0;            // of rows that share thread blocks; 0: p
  int tile_cols = kNarrowTile;      // columns of C of a thread block, at a time
  bool blocks_by_nonzeros = false;  // thread blocks of a row by its length, not by tiles of columns
  bool output_buffer = false;       // C goes through shared memory
};

/// The options of the kernel's parameters. Throws Unsupported for an output buffer of other
/// operands and tiles than the paper's.
TcaSpmmOptions options_of(const Params& params);

/// Columns [first, end) of C of a thread block.
struct alignas(8) BlockCols {
  std::int32_t first, end;
};

/// The columns of a tile of a C of n columns.
TESSERA_HOST_DEVICE constexpr BlockCols cols_of_tile(std::int32_t tile, int tile_cols,
                                                     std::int32_t n) {
  const std::int32_t first = tile * tile_cols;
  return {first, n - first < tile_cols ? n : first + tile_cols};
}

/// Floats of the output buffer of a row: the columns that its warps compute at a time.
constexpr int output_floats(bool buffered, int tile_cols, int log_p, int log_warps) {
  return buffered ? group_cols(tile_cols, log_p, log_warps) : 0;
}

struct Plan {
  std::int32_t n = 0;
  int tile_cols = kNarrowTile;
  std::vector<Task> tasks = {};  // [blocks * kWarps]
  // [blocks]; empty: every tile of columns has `blocks` thread blocks.
  std::vector<BlockCols> cols = {};
  int warp_floats = 0;  // of shared memory, of a warp; a row has those of its warps

  /// Thread blocks of a tile of columns, or all of them.
  std::int64_t blocks() const { return static_cast<std::int64_t>(tasks.size()) / kWarps; }
  std::int64_t tiles() const {
    return cols.empty() ? (std::int64_t{n} + tile_cols - 1) / tile_cols : 1;
  }
  std::int64_t thread_blocks() const { return n == 0 ? 0 : tiles() * blocks(); }
  /// The columns of a thread block; those of a tile follow each other.
  BlockCols cols_of(std::int64_t thread_block) const {
    if (!cols.empty()) return cols[static_cast<std::size_t>(thread_block)];
    return cols_of_tile(static_cast<std::int32_t>(thread_block / blocks()), tile_cols, n);
  }
  std::int64_t shared_bytes() const { return std::int64_t{4} * kWarps * warp_floats; }
};

/// Index in Plan::tasks of the task of a warp of thread block `block` of its tile.
TESSERA_HOST_DEVICE constexpr std::int64_t task_of(std::int64_t block, int warp) {
  return block * kWarps + warp;
}

/// Assigns the rows in their order, for a C of n columns. A thread block takes as many rows as have
/// warps in it; with blocks_by_nonzeros a row of more than 64 nonzeros has a thread block for every
/// 64 of them, as long as each gets kColsOfBlock columns, and others have all columns in one.
/// Throws Unsupported for more than kMaxCols columns.
Plan plan(const CsrMatrix& a, const TcaSpmmOptions& options, std::int64_t n);

}  // namespace tessera::tca_spmm
