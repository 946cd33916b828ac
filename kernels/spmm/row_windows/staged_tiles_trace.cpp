#include "kernels/spmm/row_windows/staged_tiles_trace.hpp"

#include <algorithm>

#include "kernels/spmm/row_windows/staged_rows.hpp"

namespace tessera::staged_tiles {
namespace {

constexpr int kTileCols = window_tile::kTileCols;
constexpr int kIndexLoads = 4;  // of a TC block: two column indices a lane, two offsets
constexpr int kMmas = window_tile::kMmas;

/// Wavefronts of the read of an element of A a lane, four condensed columns. Lanes without a
/// nonzero read the next value, so that the ranks that are read are a range with gaps; ranks 32
/// apart are in the same bank.
int element_wavefronts(std::uint64_t bitmap, int half) {
  std::uint64_t ranks = 0;
  for (int row = 0; row < window_tile::kWindowRows; ++row)
    for (int t = 0; t < 4; ++t)
      ranks |= std::uint64_t{1} << BitTcf::value_rank(bitmap, row, t + 4 * half);
  return (ranks & (ranks >> 32)) != 0 ? 2 : 1;
}

}  // namespace

Columns StagedTrace::columns(int warp, std::int64_t pass) const {
  const std::int64_t first = first_col(warp, pass);
  return {first, std::clamp<std::int64_t>(n_ - first, 0, window_tile::kWarpCols)};
}

void StagedTrace::load_index(std::int64_t tile, WarpTrace& trace) const {
  for (int half = 0; half < 2; ++half) {
    trace.load(kIndexBoard);
    trace.touch(at_.sparse_a_to_b + 4 * (tile * kTileCols + 4 * half), 16);
  }
  for (int end = 0; end < 2; ++end) {
    trace.load(kIndexBoard);
    trace.touch(at_.tc_offset + 4 * (tile + end), 4);
  }
}

void StagedTrace::start(std::int64_t first, std::int64_t last, const Columns& columns,
                        WarpTrace& trace) const {
  trace.issue(instructions_.start - kIndexLoads * (kAhead + 1));
  for (int i = 0; i <= kAhead; ++i) load_index(std::min(first + i, last - 1), trace);
  trace.wait(kIndexBoard);
  for (int i = 0; i < kAhead && first + i < last; ++i)
    copy(first + i, i, columns, instructions_.first_copy[i], trace);
  trace.issue(instructions_.between_copies);
}

void StagedTrace::advance(std::int64_t first, std::int64_t last, std::int64_t step,
                          const Columns& columns, WarpTrace& trace) const {
  const std::int64_t tile = first + step;
  trace.wait(static_cast<int>(step % kStages));
  trace.issue(instructions_.wait);
  if (tile + kAhead < last) {
    trace.wait(kIndexBoard);
    copy(tile + kAhead, step + kAhead, columns, instructions_.copy, trace);
  }
  // After the bitmap, four reads of shared memory are in flight together.
  const std::uint64_t bitmap = a_.tc_local_bit[tile];
  constexpr int kSharedLoads = 2;
  const int others = instructions_.product - kIndexLoads - kSharedLoads - kMmas;
  trace.shared(1);  // the bitmap, the same for all lanes
  load_index(std::min(tile + kAhead + 1, last - 1), trace);
  trace.issue(others / 2);
  trace.pause(kPopulationCounts);
  trace.shared(element_wavefronts(bitmap, 0) + element_wavefronts(bitmap, 1) +
               2 * row_windows::kWideReadWavefronts);
  trace.issue(others - others / 2);
  trace.mma(kMmas);
}

void StagedTrace::copy(std::int64_t tile, std::int64_t step, const Columns& columns,
                       int instructions, WarpTrace& trace) const {
  const int stage = static_cast<int>(step % kStages);
  // Copies of less than 16 bytes are loads to the L1, which keeps the lines. All instructions but
  // these precede the first copy: they compute addresses and predicates.
  constexpr int kCopies = 5, kAmongCopies = 6;
  trace.issue(instructions - kCopies - kAmongCopies);
  int idle = kAmongCopies + kCopies;
  for (int half = 0; half < 2; ++half) idle -= copy_b(tile, half, stage, columns, trace);
  idle -= copy_values(tile, stage, trace);
  trace.load(stage);
  trace.touch(at_.tc_local_bit + 8 * tile, 8);
  if (--idle > 0) trace.issue(idle);
}

/// Both functions return the number of copy instructions that they stand for.
int StagedTrace::copy_b(std::int64_t tile, int half, int stage, const Columns& columns,
                        WarpTrace& trace) const {
  if (!has_cols(tile, half)) return 0;
  if (n_ % 4 == 0) {
    trace.async_copy(stage);
    for_each_row_of_b(tile, half, columns.first, [&](int k, std::uint64_t address) {
      const std::size_t to = stage * sizeof(Stage) + sizeof(float) * b_position(k + 4 * half, 0);
      trace.copy_to_shared(address, 4 * columns.count, to);
    });
    return 1;
  }
  for (int i = 0; i < 4; ++i) {  // a lane's four columns one by one
    trace.load(stage);
    touch_b(tile, half, columns.first, columns.count, trace);
  }
  return 1;
}

int StagedTrace::copy_values(std::int64_t tile, int stage, WarpTrace& trace) const {
  const std::int64_t first = a_.tc_offset[tile], last = a_.tc_offset[tile + 1];
  int copies = 0;
  for (std::int64_t at = first; at < last; at += 32, ++copies) {
    trace.load(stage);
    trace.touch(at_.values + 4 * at, 4 * std::min<std::int64_t>(32, last - at));
  }
  return copies;
}

void add_staged_work(const BitTcf& a, std::int64_t first, std::int64_t last, std::int64_t n,
                     ThreadBlockWork& work) {
  const std::int64_t tiles = last - first, warps = window_tile::num_col_chunks(n);
  const std::int64_t nnz = a.tc_offset[last] - a.tc_offset[first];
  // Column indices and offsets, including those that are loaded ahead but not used; bitmaps,
  // values.
  const std::int64_t indices = (tiles + kAhead + 1) * (4 * kTileCols + 8);
  work.mma += tiles * kMmas * warps;
  work.a_bytes += (indices + 8 * tiles + 4 * nnz) * warps;
  work.b_bytes += 4 * count_active_cols(a, first, last) * n;
}

}  // namespace tessera::staged_tiles
