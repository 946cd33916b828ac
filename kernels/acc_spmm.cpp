// Acc-SpMM's kernel, first correct version: BitTCF, swapped m16n8k8 TF32 MMAs, one warp per row
// window and 32 columns of C, no atomics.
//
// Departures: any N, M and K; operands rounded to nearest unless precision=tf32_raw (the released
// code truncates), or split in two; the paper's pipeline, cache hints and load balancing are not in
// this version.

#include "kernels/acc_spmm.hpp"

#include <algorithm>

#include "formats/base/registry.hpp"
#include "kernels/bit_tcf_kernel.hpp"

namespace tessera {
namespace {

constexpr int kCols = BitTcf::kTileCols;

/// What a warp does: its window's TC blocks one after another, as the compiled loop has them. The
/// loop is written with the next TC block's loads ahead of the MMAs; the compiler moves the MMAs
/// behind their wait, so that only the indices are a TC block ahead of their use.
class AccTrace final : public BitTcfTrace {
 public:
  AccTrace(const BitTcf& a, std::int64_t n, int mmas_per_tile, int tile_instructions,
           const BitTcfAddresses& at)
      : BitTcfTrace(a, n, at), mmas_(mmas_per_tile), tile_instructions_(tile_instructions) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::int64_t chunks = acc_spmm::num_col_chunks(n_);
    const std::int64_t id = thread_block * acc_spmm::kWarps + warp;
    const std::int64_t window = id / chunks;
    if (window >= a_.num_row_windows()) {
      trace.issue(kIdleInstructions);
      return false;
    }
    const std::int64_t col = id % chunks * window_tile::kWarpCols;
    const std::int64_t cols = std::min<std::int64_t>(window_tile::kWarpCols, n_ - col);
    const std::int64_t first = a_.row_window_offset[window],
                       last = a_.row_window_offset[window + 1];
    if (cursor.step == 0) begin(window, first, last, trace);
    const std::int64_t tile = first + cursor.step++;
    if (tile < last) add_tile(tile, last, col, cols, trace);
    if (tile + 1 < last) return true;
    trace.wait_mma();
    trace.issue(kWarpInstructions / 2);
    store(window, col, cols, kStores, trace);
    return false;
  }

 private:
  // Of the instructions counted on an H200 (CUDA 13.0): 64 a warp, 120 more in one whose window is
  // not empty.
  // The compiler takes the stores of four columns apart.
  static constexpr int kStores = 4;
  static constexpr int kIdleInstructions = 40, kWarpInstructions = 54, kFirstInstructions = 116;
  // Two 64-bit divisions: what the compiled code waits between its instructions (its stall counts
  // sum to 364 cycles), and for conversions and reciprocals.
  static constexpr int kDivisions = 300;
  static constexpr int kIndexBoard = 0, kDataBoard = 1;

  void begin(std::int64_t window, std::int64_t first, std::int64_t last, WarpTrace& trace) const {
    trace.issue(kWarpInstructions / 2);
    trace.pause(kDivisions);
    load_extent(window, kIndexBoard, trace);
    trace.wait(kIndexBoard);
    if (first == last) return;
    trace.issue(kFirstInstructions);
    load_index(first, trace);
  }

  void load_index(std::int64_t tile, WarpTrace& trace) const {
    trace.load(kIndexBoard);
    trace.touch(at_.tc_local_bit + 8 * tile, 8);
    trace.load(kIndexBoard);
    trace.touch(at_.tc_offset + 4 * tile, 4);
    for (int half = 0; half < 2; ++half) {
      trace.load(kIndexBoard);
      trace.touch(at_.sparse_a_to_b + 4 * (tile * kCols + 4 * half), 16);
    }
  }

  /// Four rows of B, `cols` columns from `col` on.
  void load_b(std::int64_t tile, int half, std::int64_t col, std::int64_t cols,
              WarpTrace& trace) const {
    if (!has_cols(tile, half)) return;       // no lane loads
    const int pieces = n_ % 4 == 0 ? 1 : 4;  // a lane's four columns, at once or one by one
    for (int piece = 0; piece < pieces; ++piece) {
      trace.load(kDataBoard);
      touch_b(tile, half, col, cols, trace);
      lies_as_fragments(trace);
    }
  }

  void add_tile(std::int64_t tile, std::int64_t last, std::int64_t col, std::int64_t cols,
                WarpTrace& trace) const {
    trace.wait(kIndexBoard);
    trace.issue(tile_instructions_ / 2);
    trace.pause(kPopulationCounts);
    for (int half = 0; half < 2; ++half) load_b(tile, half, col, cols, trace);
    for (int half = 0; half < 2; ++half) load_values(tile, half, kDataBoard, trace);
    load_index(std::min(tile + 1, last - 1), trace);
    trace.wait(kDataBoard);
    trace.issue(tile_instructions_ - tile_instructions_ / 2);
    trace.mma(mmas_);
  }

  int mmas_;
  int tile_instructions_;
};

class AccSpmm final : public BitTcfKernel {
 public:
  using BitTcfKernel::BitTcfKernel;

  int version() const override { return 2; }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override {
    using namespace acc_spmm;
    const auto& a = packed_as<BitTcf>(packed);
    WorkDescription work = describe("acc_spmm", a, n);
    const std::int64_t chunks = num_col_chunks(n);
    const std::int64_t warps = a.num_row_windows() * chunks;
    work.thread_blocks.resize((warps + kWarps - 1) / kWarps);
    for (std::int64_t warp = 0; warp < warps; ++warp)
      add_warp(a, warp / chunks,
               std::min<std::int64_t>(window_tile::kWarpCols,
                                      n - warp % chunks * window_tile::kWarpCols),
               work.thread_blocks[warp / kWarps]);
    const BitTcfAddresses at(a, n, work.memory);
    work.launches = {
        {.name = "multiply",
         .thread_blocks = static_cast<std::int64_t>(work.thread_blocks.size()),
         .threads_per_block = kThreads,
         .registers_per_thread = kRegisters,
         .trace = std::make_shared<AccTrace>(a, n, mmas_per_tile(), kTileInstructions, at)}};
    return work;
  }

 private:
  /// What one warp adds to its thread block: a window's TC blocks, `cols` columns of B and C.
  void add_warp(const BitTcf& a, std::int64_t window, std::int64_t cols,
                ThreadBlockWork& work) const {
    const std::int64_t first = a.row_window_offset[window], last = a.row_window_offset[window + 1];
    const std::int64_t blocks = last - first;
    const std::int64_t nnz = a.tc_offset[last] - a.tc_offset[first];
    const std::int64_t active_cols = count_active_cols(a, first, last);
    work.mma += blocks * mmas_per_tile();
    // Bitmap, offset and column indices of each TC block, its nonzeros, and the window's extent.
    work.a_bytes += blocks * (8 + 4 + 4 * kCols) + 4 * nnz + 8;
    work.b_bytes += 4 * active_cols * cols;
    work.c_bytes += 4 * rows_of_window(a, window) * cols;
  }

  int mmas_per_tile() const {
    return window_tile::kWarpCols / window_tile::kMmaCols *
           static_cast<int>(precision().mmas.size());
  }

  // Besides loads and MMAs, of a TC block; counted on an H200.
  static constexpr int kTileInstructions = 87;
};

const Register<SpmmKernel> entry{{
    .name = "acc_spmm",
    .summary = "BitTCF on TF32 tensor cores, swapped m16n8k8, no atomics (Acc-SpMM, first version)",
    .params = {{"precision",
                std::string("tf32"),
                "how FP32 operands go through the tensor core",
                {"tf32", "tf32_raw", "tf32x3", "tf32x3_promoted"}},
               promote_param()},
    .make =
        [](const Params& params) {
          return std::make_unique<AccSpmm>(
              find_precision(params.text("precision"), params.integer("promote")));
        },
}};

}  // namespace
}  // namespace tessera
