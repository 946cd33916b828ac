// TC-GNN (Wang et al., USENIX ATC 2023): TCF (sparse graph translation), a thread block for every
// row window of 16 rows and some columns of C, TC blocks of 16 x 8 scattered into shared memory
// from the window's edges, B's rows staged there, too (algorithm 2), 16 x 8 times 8 x 16 on TF32
// tensor cores. WMMA's m16n16k8 is two m16n8k8, which are issued here one by one, so that a lane's
// fragments are known. The `warps` of a thread block share a TC block of A; each has 32 columns of
// C.
//
// Departures: A's values are multiplied, where the released code uses ones; edges are read in
// order, eight of each row for a TC block, where the paper reads all edges of the window for each
// of its TC blocks; TC blocks and rows of B are double-buffered; columns of C are permuted among
// MMAs, so that a lane reads 16 bytes; operands are rounded to nearest; any N, M, K.

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

tcgnn::TcgnnOptions::TcgnnOptions(const Params& params)
    : warps(static_cast<int>(params.integer("warps"))) {}

std::string tcgnn::TcgnnOptions::to_text() const { return fmt::format("warps = {}", warps); }

std::vector<ParamSpec> tcgnn::params() {
  std::vector<std::string> choices;
  for (const int warps : kWarpChoices) choices.push_back(std::to_string(warps));
  return {{"warps", std::int64_t{4},
           "warps of a thread block, each of which computes 32 columns of C", std::move(choices)}};
}

namespace {

using window_tasks::Tasks;

class Tcgnn final : public SpmmKernel {
 public:
  explicit Tcgnn(const tcgnn::TcgnnOptions& options) : schedule_(options.schedule()) {}

  std::string format() const override { return Tcf::kFormat; }
  int version() const override { return 1; }
  Arithmetic arithmetic() const override {
    return me_tcf_kernel::arithmetic(find_precision("tf32"), kDepth);
  }

  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    const auto tiles = tiles_of(packed);
    return me_tcf_kernel::terms_per_row(*tiles, kDepth, whole_windows(*tiles));
  }

  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override {
    const auto tiles = tiles_of(packed);
    return me_tcf_kernel::emulate(*tiles, find_precision("tf32"), kDepth, whole_windows(*tiles), b,
                                  generation);
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override {
    const auto& edges = packed_as<Tcf>(packed);
    const auto tiles = tiles_of(packed);
    WorkDescription work = me_tcf_kernel::describe("tcgnn", *tiles, kDepth, n);
    work.footprint_bytes = stats(packed).bytes;
    const std::int64_t windows = tiles->num_row_windows();
    for (std::int64_t i = 0; i < schedule_.thread_blocks(windows, n); ++i) {
      const tcgnn::WorkItem item =
          schedule_.item_of(static_cast<std::uint32_t>(i), 0, static_cast<std::uint32_t>(windows));
      work.thread_blocks.push_back(thread_block(*tiles, item.window, n - item.first_col));
    }
    const tcgnn::Addresses at(edges, n, work.memory);
    work.launches.push_back({.name = "multiply",
                             .thread_blocks = std::ssize(work.thread_blocks),
                             .threads_per_block = schedule_.threads(),
                             .registers_per_thread = registers(),
                             .shared_bytes = schedule_.shared_bytes(),
                             .trace = tcgnn::make_trace(edges, tiles, n, schedule_, at)});
    return work;
  }

 private:
  static constexpr int kDepth = window16_tile::kTileCols;

  /// The same TC blocks, with the nonzeros of each next to each other.
  static std::shared_ptr<const MeTcf> tiles_of(const PackedMatrix& packed) {
    const auto& edges = packed_as<Tcf>(packed);
    tcgnn::check_blocks(edges);
    const auto format = Registry<Format>::instance().make(
        MeTcf::kFormat, {{"window_rows", std::int64_t{window16_tile::kWindowRows}}});
    const std::shared_ptr<const PackedMatrix> tiles = format->pack(edges.unpack());
    return {tiles, &packed_as<MeTcf>(*tiles)};
  }
  static Tasks whole_windows(const MeTcf& a) { return window_tasks::cut(a.row_window_offset, 0); }

  /// Registers allocated for a thread (CUDA 13.0, sm_90a).
  int registers() const { return schedule_.warps == 1 ? 80 : schedule_.warps == 2 ? 64 : 56; }

  /// The work of a thread block; `cols` columns of C remain at its first one.
  ThreadBlockWork thread_block(const MeTcf& a, std::int64_t window, std::int64_t cols) const {
    const std::int64_t first = a.row_window_offset[window], last = a.row_window_offset[window + 1];
    const std::int64_t rows = row_windows::rows_of_window(a, window), blocks = last - first;
    cols = std::min<std::int64_t>(cols, schedule_.block_cols());
    ThreadBlockWork work;
    work.c_bytes = 4 * rows * cols;
    work.a_bytes = 4 * schedule_.warps;
    if (blocks == 0) return work;
    // Columns beyond the edge are multiplied, too, except by warps that have no others.
    const std::int64_t warps = (cols + window16_tile::kWarpCols - 1) / window16_tile::kWarpCols;
    work.mma = blocks * warps * window16_tile::kMmas;
    work.b_bytes = 4 * row_windows::count_active_cols(a, first, last) * cols;
    work.barriers = schedule_.warps * (blocks + 2);
    // Columns, condensed columns and values of edges, once when they are multiplied; those that are
    // examined for an earlier TC block are read again, from the L1.
    work.a_bytes += 8 * rows + 12 * (a.tc_offset[last] - a.tc_offset[first]);
    return work;
  }

  tcgnn::Schedule schedule_;
};

const Register<SpmmKernel> entry{{
    .name = "tcgnn",
    .summary = "TCF on TF32 tensor cores, one thread block per row window of 16 rows (TC-GNN)",
    .params = tcgnn::params(),
    .make =
        [](const Params& params) { return std::make_unique<Tcgnn>(tcgnn::TcgnnOptions(params)); },
}};

}  // namespace
}  // namespace tessera
