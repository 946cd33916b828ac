#include "kernels/spmm/tcgnn/trace.hpp"

#include <algorithm>

#include "kernels/spmm/row_windows/window_tiles.hpp"

namespace tessera::tcgnn {
namespace {

using window16_tile::kMmaRows;

class TcgnnTrace final : public LaunchTrace {
 public:
  TcgnnTrace(const Tcf& edges, std::shared_ptr<const MeTcf> tiles, std::int64_t n,
             const Schedule& schedule, const Addresses& at)
      : edges_(edges), tiles_(std::move(tiles)), n_(n), schedule_(schedule), at_(at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const auto windows = static_cast<std::uint32_t>(tiles_->num_row_windows());
    const auto [window, first_col] =
        schedule_.item_of(static_cast<std::uint32_t>(thread_block), warp, windows);
    const WarpItem item{window, warp, first_col};
    const std::int64_t blocks = edges_.block_partition[window];
    if (cursor.step == 0) start(item, blocks, trace);
    const std::int64_t block = cursor.step++;
    if (block < blocks) advance(item, block, blocks, trace);
    if (cursor.step < blocks) return true;
    if (item.first_col >= n_) return false;
    trace.wait_mma();
    store(item, trace);
    return false;
  }

 private:
  /// Instructions of a warp besides memory instructions and MMAs, counted in machine code
  /// (CUDA 13.0, sm_90a). A round takes the next edges of four of the warp's rows.
  struct InstructionCounts {
    static constexpr int kStart = 66, kStartRound = 24, kScatter = 7, kScatterRound = 29,
                         kClear = 10, kClearRound = 1, kCopy = 16, kScalarCopy = 47, kBlock = 12,
                         kTile = 59, kStore = 20;
  };
  static constexpr int kEdgeBoard = 0, kCopyBoard = 1, kWindowBoard = 2;
  static constexpr int kRoundRows = 4;
  static constexpr int kRowsAtOnce = row_windows::rows_per_copy(1);

  struct WarpItem {
    std::int64_t window;
    int warp;
    std::int64_t first_col;
  };

  /// Calls visit(first row of the window) for the rounds of a warp, none beyond the fourth warp.
  template <class Visit>
  void for_each_round(const WarpItem& item, Visit visit) const {
    const int step = kRoundRows * schedule_.warps;
    for (int r = kRoundRows * item.warp; r < window16_tile::kWindowRows; r += step) visit(r);
  }

  /// Calls visit(row, its first edge of TC block `block` or later) for the rows of A of a round.
  template <class Visit>
  void for_each_row(const WarpItem& item, std::int64_t round, std::int64_t block,
                    Visit visit) const {
    const std::int64_t height = row_windows::rows_of_window(*tiles_, item.window);
    for (std::int64_t i = round; i < std::min(round + kRoundRows, height); ++i) {
      const std::int64_t row = item.window * window16_tile::kWindowRows + i;
      const auto condensed = edges_.edge_to_column.begin();
      const auto first = std::lower_bound(condensed + edges_.row_offsets[row],
                                          condensed + edges_.row_offsets[row + 1],
                                          static_cast<std::int32_t>(block * kTileCols));
      visit(row, first - condensed);
    }
  }

  void start(const WarpItem& item, std::int64_t blocks, WarpTrace& trace) const {
    trace.issue(InstructionCounts::kStart);
    trace.pause(kSpecialRegisterCycles);
    trace.load(kWindowBoard);
    trace.touch(at_.block_partition + 4 * static_cast<std::uint64_t>(item.window), 4);
    trace.wait(kWindowBoard);
    if (blocks == 0) return;
    for_each_round(item, [&](std::int64_t round) {
      trace.issue(InstructionCounts::kStartRound);
      for (const int end : {0, 1}) {
        trace.load(kWindowBoard);
        for_each_row(item, round, 0, [&](std::int64_t row, std::int64_t) {
          trace.touch(at_.row_offsets + 4 * static_cast<std::uint64_t>(row + end), 4);
        });
      }
    });
    trace.wait(kWindowBoard);
    load_edges(item, 0, trace);
    clear(item, trace);
    clear(item, trace);
    trace.barrier();
    scatter(item, 0, trace);
    trace.barrier();
    copy_rows(item, 0, trace);
  }

  void advance(const WarpItem& item, std::int64_t block, std::int64_t blocks,
               WarpTrace& trace) const {
    if (block + 1 < blocks) scatter(item, block + 1, trace);
    clear(item, trace);
    trace.barrier();
    trace.issue(InstructionCounts::kBlock);
    if (item.first_col < n_) trace.wait(kCopyBoard);
    if (block + 1 < blocks) copy_rows(item, block + 1, trace);
    if (item.first_col >= n_) return;
    trace.issue(InstructionCounts::kTile);
    for (int i = 0; i < 4; ++i) trace.shared(1);
    for (int half = 0; half < 2; ++half) trace.shared(row_windows::kWideReadWavefronts);
    trace.mma(window16_tile::kMmas);
  }

  void clear(const WarpItem& item, WarpTrace& trace) const {
    trace.issue(InstructionCounts::kClear);
    for_each_round(item, [&](std::int64_t) {
      trace.issue(InstructionCounts::kClearRound);
      trace.shared(1);
    });
    trace.shared(1);
  }

  /// Loads the next eight edges of each row, or fewer where it has fewer, from three arrays.
  void load_edges(const WarpItem& item, std::int64_t block, WarpTrace& trace) const {
    for_each_round(item, [&](std::int64_t round) {
      for (const std::uint64_t array : {at_.edge_to_column, at_.col_indices, at_.values}) {
        trace.load(kEdgeBoard);
        for_each_row(item, round, block, [&](std::int64_t row, std::int64_t first) {
          const std::int64_t count =
              std::min<std::int64_t>(kEdges, edges_.row_offsets[row + 1] - first);
          if (count > 0) trace.touch(array + 4 * static_cast<std::uint64_t>(first), 4 * count);
        });
      }
    });
  }

  void scatter(const WarpItem& item, std::int64_t block, WarpTrace& trace) const {
    trace.issue(InstructionCounts::kScatter);
    for_each_round(item, [&](std::int64_t) {
      trace.wait(kEdgeBoard);
      trace.issue(InstructionCounts::kScatterRound);
      for (int i = 0; i < 2; ++i) trace.shared(2);
    });
    load_edges(item, block + 1, trace);
  }

  void copy_rows(const WarpItem& item, std::int64_t block, WarpTrace& trace) const {
    if (item.first_col >= n_) return;
    const bool aligned = n_ % 4 == 0;
    const std::int64_t cols = std::min<std::int64_t>(kWarpCols, n_ - item.first_col);
    const std::int64_t tile = tiles_->row_window_offset[item.window] + block;
    for (int first = 0; first < kTileCols; first += kRowsAtOnce) {
      trace.shared(1);  // the column indices
      trace.issue(aligned ? InstructionCounts::kCopy : InstructionCounts::kScalarCopy);
      for (int i = 0; i < (aligned ? 1 : 4); ++i) {
        if (aligned)
          trace.async_copy(kCopyBoard);
        else
          trace.load(kCopyBoard);
        for (int k = first; k < first + kRowsAtOnce && cols > 0; ++k) {
          const std::int32_t row = tiles_->sparse_a_to_b[tile * kTileCols + k];
          if (row == kNoColumn) continue;
          const auto from =
              at_.b + 4 * static_cast<std::uint64_t>(std::int64_t{row} * n_ + item.first_col);
          const std::int64_t to =
              Schedule::stage_of(static_cast<int>(block)) + k * row_windows::row_pitch(1);
          if (aligned)
            trace.copy_to_shared(from, 4 * cols, 4 * static_cast<std::uint64_t>(to));
          else
            trace.touch(from, 4 * cols);
        }
      }
    }
  }

  /// Stores eight rows and 16 columns by each instruction.
  void store(const WarpItem& item, WarpTrace& trace) const {
    const std::int64_t height = row_windows::rows_of_window(*tiles_, item.window);
    for (std::int64_t upper = 0; upper < height; upper += kMmaRows) {
      for (std::int64_t at = 0; at < kWarpCols; at += 16) {
        const std::int64_t col = item.first_col + at;
        const std::int64_t cols = std::min<std::int64_t>(16, n_ - col);
        trace.issue(InstructionCounts::kStore);
        if (cols <= 0) continue;
        trace.store(n_ % 4 == 0 ? 1 : 4);
        for (std::int64_t r = upper; r < std::min<std::int64_t>(upper + kMmaRows, height); ++r) {
          const std::int64_t row = item.window * window16_tile::kWindowRows + r;
          trace.touch(at_.c + 4 * static_cast<std::uint64_t>(row * n_ + col), 4 * cols);
        }
        trace.wavefronts(std::max(1, trace.touched_sectors()));
      }
    }
  }

  const Tcf& edges_;
  std::shared_ptr<const MeTcf> tiles_;
  std::int64_t n_;
  Schedule schedule_;
  Addresses at_;
};

}  // namespace

Addresses::Addresses(const Tcf& a, std::int64_t n, AddressSpace& space)
    : row_offsets(space.add("row_offsets", 4 * std::ssize(a.row_offsets))),
      col_indices(space.add("col_indices", 4 * a.nnz())),
      edge_to_column(space.add("edge_to_column", 4 * a.nnz())),
      block_partition(space.add("block_partition", 4 * a.num_row_windows())),
      values(space.add("values", 4 * a.nnz())),
      b(space.add("b", 4 * n * a.cols())),
      c(space.add("c", 4 * n * a.rows())) {}

std::unique_ptr<LaunchTrace> make_trace(const Tcf& edges, std::shared_ptr<const MeTcf> tiles,
                                        std::int64_t n, const Schedule& schedule,
                                        const Addresses& at) {
  return std::make_unique<TcgnnTrace>(edges, std::move(tiles), n, schedule, at);
}

}  // namespace tessera::tcgnn
