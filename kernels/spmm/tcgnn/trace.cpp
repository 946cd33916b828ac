#include "kernels/spmm/tcgnn/trace.hpp"

#include <algorithm>

#include "kernels/spmm/row_windows/me_tcf_kernel.hpp"

namespace tessera::tcgnn {
namespace {

using window16_tile::kTileCols;
using window16_tile::kWarpCols;

class TcgnnTrace final : public LaunchTrace {
 public:
  TcgnnTrace(const Tcf& edges, std::shared_ptr<const MeTcf> tiles, std::int64_t n, int warps,
             const Addresses& at)
      : edges_(edges), tiles_(std::move(tiles)), n_(n), warps_(warps), at_(at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::int64_t windows = tiles_->num_row_windows();
    const WorkItem place{thread_block % windows, warp,
                         (thread_block / windows * warps_ + warp) * kWarpCols};
    const std::int64_t blocks = edges_.block_partition[place.window];
    if (cursor.step == 0) start(place, blocks, trace);
    const std::int64_t block = cursor.step++;
    if (block < blocks) advance(place, block, blocks, trace);
    if (cursor.step < blocks) return true;
    if (place.first_col >= n_) return false;
    trace.wait_mma();
    store(place, trace);
    return false;
  }

 private:
  // Of the machine code (CUDA 13.0, sm_90a), memory instructions and MMAs not counted.
  static constexpr int kWarpInstructions = 60, kEdgeInstructions = 25, kClearInstructions = 6,
                       kCopyInstructions = 8, kTileInstructions = 40, kStoreInstructions = 12;
  static constexpr int kEdgeBoard = 0, kCopyBoard = 1, kWindowBoard = 2;
  static constexpr int kRowsAtOnce = 4;  // of B, copied by an instruction

  struct WorkItem {
    std::int64_t window;
    int warp;
    std::int64_t first_col;
  };

  /// Calls visit(row, its edges that are left before the TC block) for the warp's rows of A.
  template <class Visit>
  void for_each_row(const WorkItem& place, std::int64_t block, Visit visit) const {
    const std::int64_t height = me_tcf_kernel::rows_of_window(*tiles_, place.window);
    for (std::int64_t r = 4 * place.warp; r < window16_tile::kWindowRows; r += 4 * warps_) {
      for (std::int64_t i = r; i < std::min(r + 4, height); ++i) {
        const std::int64_t row = place.window * window16_tile::kWindowRows + i;
        const auto places = edges_.edge_to_column.begin();
        const auto first =
            std::lower_bound(places + edges_.row_offsets[row], places + edges_.row_offsets[row + 1],
                             static_cast<std::int32_t>(block * kTileCols));
        visit(row, first - places);
      }
    }
  }

  void start(const WorkItem& place, std::int64_t blocks, WarpTrace& trace) const {
    trace.issue(kWarpInstructions);
    trace.pause(kSpecialRegisterCycles);
    trace.load(kWindowBoard);
    trace.touch(at_.block_partition + 4 * static_cast<std::uint64_t>(place.window), 4);
    trace.wait(kWindowBoard);
    if (blocks == 0) return;
    trace.load(kWindowBoard);
    for_each_row(place, 0, [&](std::int64_t row, std::int64_t) {
      trace.touch(at_.row_offsets + 4 * static_cast<std::uint64_t>(row), 8);
    });
    trace.wait(kWindowBoard);
    load_edges(place, 0, trace);
    clear(trace);
    clear(trace);
    trace.barrier();
    scatter(place, 0, trace);
    trace.barrier();
    copy_rows(place, 0, trace);
  }

  void advance(const WorkItem& place, std::int64_t block, std::int64_t blocks,
               WarpTrace& trace) const {
    if (block + 1 < blocks) scatter(place, block + 1, trace);
    clear(trace);
    trace.barrier();
    trace.wait(kCopyBoard);
    if (block + 1 < blocks) copy_rows(place, block + 1, trace);
    if (place.first_col >= n_) return;
    constexpr int kWideWavefronts = 4;  // of 16 bytes a lane, without conflicts: place_of_piece
    trace.issue(kTileInstructions);
    for (int i = 0; i < 4; ++i) trace.shared(1);
    for (int half = 0; half < 2; ++half) trace.shared(kWideWavefronts);
    trace.mma(window16_tile::kMmas);
  }

  void clear(WarpTrace& trace) const {
    trace.issue(kClearInstructions);
    trace.shared(1);
  }

  /// The next eight edges of each row, as far as there are such: three arrays.
  void load_edges(const WorkItem& place, std::int64_t block, WarpTrace& trace) const {
    for (const std::uint64_t array : {at_.edge_to_column, at_.col_indices, at_.values}) {
      trace.load(kEdgeBoard);
      for_each_row(place, block, [&](std::int64_t row, std::int64_t first) {
        const std::int64_t count =
            std::min<std::int64_t>(kEdges, edges_.row_offsets[row + 1] - first);
        if (count > 0) trace.touch(array + 4 * static_cast<std::uint64_t>(first), 4 * count);
      });
    }
  }

  void scatter(const WorkItem& place, std::int64_t block, WarpTrace& trace) const {
    trace.wait(kEdgeBoard);
    trace.issue(kEdgeInstructions);
    for (int i = 0; i < 2; ++i) trace.shared(2);
    load_edges(place, block + 1, trace);
  }

  void copy_rows(const WorkItem& place, std::int64_t block, WarpTrace& trace) const {
    const bool aligned = n_ % 4 == 0;
    const std::int64_t cols = std::min<std::int64_t>(kWarpCols, n_ - place.first_col);
    const std::int64_t tile = tiles_->row_window_offset[place.window] + block;
    for (int first = 0; first < kTileCols; first += kRowsAtOnce) {
      trace.issue(kCopyInstructions);
      for (int piece = 0; piece < (aligned ? 1 : 4); ++piece) {
        if (aligned)
          trace.async_copy(kCopyBoard);
        else
          trace.load(kCopyBoard);
        for (int k = first; k < first + kRowsAtOnce && cols > 0; ++k) {
          const std::int32_t row = tiles_->sparse_a_to_b[tile * kTileCols + k];
          if (row == kNoColumn) continue;
          const auto from =
              at_.b + 4 * static_cast<std::uint64_t>(std::int64_t{row} * n_ + place.first_col);
          const std::int64_t to = (block % kStages * kTileCols + k) * row_windows::row_pitch(1);
          if (aligned)
            trace.copy_to_shared(from, 4 * cols, 4 * static_cast<std::uint64_t>(to));
          else
            trace.touch(from, 4 * cols);
        }
      }
    }
  }

  /// Eight rows and 16 columns by each instruction.
  void store(const WorkItem& place, WarpTrace& trace) const {
    const std::int64_t height = me_tcf_kernel::rows_of_window(*tiles_, place.window);
    for (std::int64_t upper = 0; upper < height; upper += 8) {
      for (std::int64_t at = 0; at < kWarpCols; at += 16) {
        const std::int64_t col = place.first_col + at;
        const std::int64_t cols = std::min<std::int64_t>(16, n_ - col);
        trace.issue(kStoreInstructions);
        if (cols <= 0) continue;
        trace.store(n_ % 4 == 0 ? 1 : 4);
        for (std::int64_t r = upper; r < std::min<std::int64_t>(upper + 8, height); ++r) {
          const std::int64_t row = place.window * window16_tile::kWindowRows + r;
          trace.touch(at_.c + 4 * static_cast<std::uint64_t>(row * n_ + col), 4 * cols);
        }
        trace.wavefronts(std::max(1, trace.touched_sectors()));
      }
    }
  }

  const Tcf& edges_;
  std::shared_ptr<const MeTcf> tiles_;
  std::int64_t n_;
  int warps_;
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
                                        std::int64_t n, int warps, const Addresses& at) {
  return std::make_unique<TcgnnTrace>(edges, std::move(tiles), n, warps, at);
}

}  // namespace tessera::tcgnn
