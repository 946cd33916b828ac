// TC-GNN (Wang et al., USENIX ATC 2023): TCF (sparse graph translation), a thread block for every
// row window of 16 rows and some columns of C, TC blocks of 16 x 8 scattered into shared memory
// from the window's edges, B's rows staged there, too (algorithm 2), 16 x 8 times 8 x 16 on TF32
// tensor cores. WMMA's m16n16k8 is two m16n8k8, which are issued here one by one, so that a lane's
// part of the operands is known. The `warps` of a thread block share a tile of A; each has 32
// columns of C.
//
// Departures: A's values are multiplied, where the released code takes ones; edges are read in
// order, eight of each row for a TC block, not all of the window's for each of its TC blocks; both
// tiles are double-buffered; columns of C are permuted among MMAs, so that a lane takes 16 bytes;
// operands are rounded to nearest; any N, M, K.

#include "kernels/spmm/tcgnn/tcgnn.hpp"

#include "formats/base/registry.hpp"
#include "formats/me_tcf.hpp"
#include "kernels/spmm/row_windows/me_tcf_kernel.hpp"
#include "kernels/spmm/tcgnn/trace.hpp"

namespace tessera {

void tcgnn::check_blocks(const Tcf& a) {
  require(a.window_rows == window16_tile::kWindowRows && a.tile_cols == window16_tile::kTileCols,
          "tcgnn multiplies TC blocks of {} x {}, and these of TCF are {} x {}",
          window16_tile::kWindowRows, window16_tile::kTileCols, a.window_rows, a.tile_cols);
}

namespace {

using window_tasks::Tasks;

class Tcgnn final : public SpmmKernel {
 public:
  explicit Tcgnn(int warps) : warps_(warps) {}

  std::string format() const override { return Tcf::kFormat; }
  int version() const override { return 1; }
  Arithmetic arithmetic() const override { return me_tcf_kernel::arithmetic(kDepth); }

  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    const auto tiles = tiles_of(packed);
    return me_tcf_kernel::terms_per_row(*tiles, kDepth, whole_windows(*tiles));
  }

  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override {
    const auto tiles = tiles_of(packed);
    return me_tcf_kernel::emulate(*tiles, kDepth, whole_windows(*tiles), b, generation);
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override {
    const auto& edges = packed_as<Tcf>(packed);
    const auto tiles = tiles_of(packed);
    WorkDescription work = me_tcf_kernel::describe("tcgnn", *tiles, kDepth, n);
    work.footprint_bytes = stats(packed).bytes;
    for (std::int64_t col = 0; col < n; col += warps_ * window16_tile::kWarpCols)
      for (std::int64_t window = 0; window < tiles->num_row_windows(); ++window)
        work.thread_blocks.push_back(thread_block(*tiles, window, n - col));
    const tcgnn::Addresses at(edges, n, work.memory);
    work.launches.push_back({.name = "multiply",
                             .thread_blocks = std::ssize(work.thread_blocks),
                             .threads_per_block = 32 * warps_,
                             .registers_per_thread = registers(),
                             .shared_bytes = tcgnn::shared_bytes(warps_),
                             .trace = tcgnn::make_trace(edges, tiles, n, warps_, at)});
    return work;
  }

 private:
  static constexpr int kDepth = window16_tile::kTileCols;

  /// The same TC blocks with their nonzeros next to each other.
  static std::shared_ptr<const MeTcf> tiles_of(const PackedMatrix& packed) {
    const auto& edges = packed_as<Tcf>(packed);
    tcgnn::check_blocks(edges);
    const auto format = Registry<Format>::instance().make(
        MeTcf::kFormat, {{"window_rows", std::int64_t{window16_tile::kWindowRows}}});
    const std::shared_ptr<const PackedMatrix> tiles = format->pack(edges.unpack());
    return {tiles, &packed_as<MeTcf>(*tiles)};
  }
  static Tasks whole_windows(const MeTcf& a) { return window_tasks::cut(a.row_window_offset, 0); }

  /// Of a thread, as they are allocated (CUDA 13.0, sm_90a).
  int registers() const { return warps_ == 1 ? 80 : warps_ == 2 ? 64 : 56; }

  /// Of a window and the columns of C from its first on, `cols` of which there are.
  ThreadBlockWork thread_block(const MeTcf& a, std::int64_t window, std::int64_t cols) const {
    const std::int64_t first = a.row_window_offset[window], last = a.row_window_offset[window + 1];
    const std::int64_t rows = me_tcf_kernel::rows_of_window(a, window), blocks = last - first;
    cols = std::min<std::int64_t>(cols, warps_ * window16_tile::kWarpCols);
    ThreadBlockWork work;
    work.c_bytes = 4 * rows * cols;
    work.a_bytes = 4 * warps_;
    if (blocks == 0) return work;
    // Columns beyond the edge are multiplied, too, but for warps that have no others.
    const std::int64_t warps = (cols + window16_tile::kWarpCols - 1) / window16_tile::kWarpCols;
    work.mma = blocks * warps * window16_tile::kMmas;
    work.b_bytes = 4 * me_tcf_kernel::count_active_cols(a, first, last) * cols;
    work.barriers = warps_ * (blocks + 2);
    // Columns, places and values of edges, once where they are multiplied; those that are looked at
    // too early come again, from the L1.
    work.a_bytes += 8 * rows + 12 * (a.tc_offset[last] - a.tc_offset[first]);
    return work;
  }

  int warps_;
};

const Register<SpmmKernel> entry{{
    .name = "tcgnn",
    .summary = "TCF on TF32 tensor cores, a thread block a row window of 16 rows (TC-GNN)",
    .params = {{"warps",
                std::int64_t{4},
                "of a thread block, 32 columns of C each",
                {"1", "2", "4", "8"}}},
    .make =
        [](const Params& params) {
          return std::make_unique<Tcgnn>(static_cast<int>(params.integer("warps")));
        },
}};

}  // namespace
}  // namespace tessera
