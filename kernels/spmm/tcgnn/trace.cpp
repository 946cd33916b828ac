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
  /// The lengths of the pieces of the machine code of aligned operands (CUDA 13.0, sm_90a), in
  /// instructions with those of memory and the MMAs. A round takes the next edges of four of the
  /// warp's rows.
  struct CodeLengths {
    static constexpr int kItemCycles = 215;  // beyond two an instruction, until a warp has its item
    static constexpr int kIdleRound = 32;    // a TC block of a warp without a round, but the last
    static constexpr int kLast = 32;         // the last TC block of a window, of any warp
    static constexpr int kStore = 24;        // of eight rows and 16 columns, besides the store
    static constexpr int kScalarCopy = 31;   // more for rows that are not aligned
    int start, start_round;                  // before the first TC block, and more for each round
    int block;                               // of a TC block before the last, of a warp with rounds
    int elements, edges;  // less for a round without an element, and without further edges
    int copy, product;    // more for a warp with columns of C

    static constexpr CodeLengths of(int warps) {
      if (warps == 8) return {109, 26, 67, 10, 9, 44, 79};
      if (warps == 4) return {133, 26, 68, 10, 9, 34, 69};
      if (warps == 2) return {150, 40, 105, 10, 11, 33, 59};
      return {157, 45, 174, 9, 11, 36, 63};
    }
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
    const CodeLengths code = CodeLengths::of(schedule_.warps);
    const std::size_t begin = trace.ops.size();
    int rounds = 0;
    trace.issue(code.start / 2);
    trace.pause(CodeLengths::kItemCycles);
    trace.load(kWindowBoard);
    trace.touch(at_.block_partition + 4 * static_cast<std::uint64_t>(item.window), 4);
    trace.wait(kWindowBoard);
    if (blocks == 0) return;
    for_each_round(item, [&](std::int64_t round) {
      ++rounds;
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
    trace.complete(begin,
                   code.start + code.start_round * rounds + (item.first_col < n_ ? code.copy : 0));
  }

  void advance(const WarpItem& item, std::int64_t block, std::int64_t blocks,
               WarpTrace& trace) const {
    const bool more = block + 1 < blocks, has_cols = item.first_col < n_;
    const std::size_t begin = trace.ops.size();
    int length = more ? block_length(item, block + 1) : CodeLengths::kLast;
    if (more) scatter(item, block + 1, trace);
    clear(item, trace);
    trace.barrier();
    if (has_cols) trace.wait(kCopyBoard);
    if (more) copy_rows(item, block + 1, trace);
    const CodeLengths code = CodeLengths::of(schedule_.warps);
    if (has_cols && more) length += code.copy + (n_ % 4 == 0 ? 0 : 2 * CodeLengths::kScalarCopy);
    if (!has_cols) return trace.complete(begin, length);
    for (int i = 0; i < 4; ++i) trace.shared(1);
    for (int half = 0; half < 2; ++half) trace.shared(row_windows::kWideReadWavefronts);
    trace.complete(begin, length + code.product - window16_tile::kMmas);
    trace.mma(window16_tile::kMmas);
  }

  /// Of a TC block in which the warp scatters the elements of TC block `next`.
  int block_length(const WarpItem& item, std::int64_t next) const {
    const CodeLengths code = CodeLengths::of(schedule_.warps);
    int length = CodeLengths::kIdleRound + 4;
    for_each_round(item, [&](std::int64_t round) {
      bool has_elements = false, has_edges = false;
      for_each_row(item, round, next, [&](std::int64_t row, std::int64_t first) {
        const std::int64_t end = edges_.row_offsets[row + 1];
        has_elements |= first < end && edges_.edge_to_column[first] < (next + 1) * kTileCols;
      });
      for_each_row(item, round, next + 1, [&](std::int64_t row, std::int64_t first) {
        has_edges |= first < edges_.row_offsets[row + 1];
      });
      if (round == kRoundRows * item.warp) length = code.block;
      length -= (has_elements ? 0 : code.elements) + (has_edges ? 0 : code.edges);
    });
    return length;
  }

  void clear(const WarpItem& item, WarpTrace& trace) const {
    for_each_round(item, [&](std::int64_t) { trace.shared(1); });
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
    for_each_round(item, [&](std::int64_t) {
      trace.wait(kEdgeBoard);
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
        trace.issue(CodeLengths::kStore);
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
