// Acc-SpMM's kernel, first correct version: BitTCF, swapped m16n8k8 TF32 MMAs, one warp per row
// window and 32 columns of C, no atomics.
//
// Departures: any N, M and K; operands rounded to nearest unless precision=tf32_raw (the released
// code truncates), or split in two; the paper's pipeline, cache hints and load balancing are not in
// this version.

#include "kernels/acc_spmm.hpp"

#include <algorithm>
#include <array>

#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "formats/bit_tcf.hpp"
#include "kernels/precision.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera {
namespace {

constexpr int kRows = BitTcf::kTileRows;
constexpr int kCols = BitTcf::kTileCols;
static_assert(kRows == acc_spmm::kWindowRows && kCols == acc_spmm::kTileCols,
              "the kernel's tile is BitTCF's TC block");

/// The window's eight rows of C, going through its TC blocks one after another.
class WindowEmulation {
 public:
  WindowEmulation(const BitTcf& a, const Precision& precision, const FusedStep& step,
                  const PreparedB& b)
      : a_(a), precision_(precision), step_(step), b_(b) {}

  void run(std::int64_t window, DenseMatrix& c) {
    const std::int64_t end = std::min<std::int64_t>((window + 1) * kRows, c.rows);
    for (std::int64_t row = window * kRows; row < end; ++row) {
      RowChain chain(precision_, step_, b_, c.row(row));
      for (std::int64_t block = a_.row_window_offset[window];
           block < a_.row_window_offset[window + 1]; ++block) {
        take_terms(block, static_cast<int>(row % kRows));
        chain.add(terms_);
      }
      chain.finish();
    }
  }

 private:
  /// What row r of the window has in the TC block.
  void take_terms(std::int64_t block, int r) {
    terms_.clear();
    const std::uint64_t bitmap = a_.tc_local_bit[block];
    if (b_.part(0).all_finite() && (bitmap >> (r * kCols) & 0xff) == 0) return;
    for (int k = 0; k < kCols; ++k) {
      const std::int32_t col = a_.sparse_a_to_b[block * kCols + k];
      if ((bitmap >> (r * kCols + k) & 1) != 0) {
        const float value = a_.values[a_.tc_offset[block] + BitTcf::value_rank(bitmap, r, k)];
        terms_.push_back({split(value, precision_), col, k});
      } else if (col != kNoColumn && !b_.part(0).row_is_finite(col)) {
        // A zero of A times a NaN or an infinity in B is a NaN, also in a tensor core: columns of
        // the TC block that this row has no nonzero in still reach it.
        terms_.push_back({{}, col, k});
      }
    }
  }

  const BitTcf& a_;
  const Precision& precision_;
  const FusedStep& step_;
  const PreparedB& b_;
  std::vector<ChunkTerm> terms_;
};

/// What a warp does: its window's TC blocks one after another, as the compiled loop has them. The
/// loop is written with the next TC block's loads ahead of the MMAs; the compiler moves the MMAs
/// behind their wait, so that only the indices are a TC block ahead of their use.
class AccTrace final : public LaunchTrace {
 public:
  AccTrace(const BitTcf& a, std::int64_t n, int mmas_per_tile, int tile_instructions,
           AddressSpace& space)
      : a_(a),
        n_(n),
        mmas_(mmas_per_tile),
        tile_instructions_(tile_instructions),
        row_window_offset_(space.add("row_window_offset", bytes_of(a.row_window_offset))),
        tc_offset_(space.add("tc_offset", bytes_of(a.tc_offset))),
        sparse_a_to_b_(space.add("sparse_a_to_b", bytes_of(a.sparse_a_to_b))),
        tc_local_bit_(space.add("tc_local_bit", bytes_of(a.tc_local_bit))),
        values_(space.add("values", bytes_of(a.values))),
        b_(space.add("b", 4 * n * a.cols())),
        c_(space.add("c", 4 * n * a.rows())) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::int64_t chunks = acc_spmm::num_col_chunks(n_);
    const std::int64_t id = thread_block * acc_spmm::kWarps + warp;
    const std::int64_t window = id / chunks;
    if (window >= a_.num_row_windows()) {
      trace.issue(kIdleInstructions);
      return false;
    }
    const std::int64_t col = id % chunks * acc_spmm::kWarpCols;
    const std::int64_t cols = std::min<std::int64_t>(acc_spmm::kWarpCols, n_ - col);
    const std::int64_t first = a_.row_window_offset[window],
                       last = a_.row_window_offset[window + 1];
    if (cursor.step == 0) begin(window, first, last, trace);
    const std::int64_t tile = first + cursor.step++;
    if (tile < last) add_tile(tile, last, col, cols, trace);
    if (tile + 1 < last) return true;
    store(window, col, cols, trace);
    return false;
  }

 private:
  // Of the instructions counted on an H200 (CUDA 13.0): 64 a warp, 120 more in one whose window is
  // not empty.
  static constexpr int kIdleInstructions = 40, kWarpInstructions = 60, kFirstInstructions = 116;
  // Two 64-bit divisions: what the compiled code waits between its instructions (its stall counts
  // sum to 364 cycles), and for conversions and reciprocals.
  static constexpr int kDivisions = 300;
  // Four population counts, whose unit takes eight cycles for each, and the way through it.
  static constexpr int kPopulationCounts = 50;
  static constexpr int kIndexBoard = 0, kDataBoard = 1;

  template <class T>
  static std::int64_t bytes_of(const std::vector<T>& array) {
    return static_cast<std::int64_t>(array.size() * sizeof(T));
  }

  void begin(std::int64_t window, std::int64_t first, std::int64_t last, WarpTrace& trace) const {
    trace.issue(kWarpInstructions / 2);
    trace.pause(kDivisions);
    for (int i = 0; i < 2; ++i) {
      trace.load(kIndexBoard);
      trace.touch(row_window_offset_ + 4 * (window + i), 4);
    }
    trace.wait(kIndexBoard);
    if (first == last) return;
    trace.issue(kFirstInstructions);
    load_index(first, trace);
  }

  void load_index(std::int64_t tile, WarpTrace& trace) const {
    trace.load(kIndexBoard);
    trace.touch(tc_local_bit_ + 8 * tile, 8);
    trace.load(kIndexBoard);
    trace.touch(tc_offset_ + 4 * tile, 4);
    for (int half = 0; half < 2; ++half) {
      trace.load(kIndexBoard);
      trace.touch(sparse_a_to_b_ + 4 * (tile * kCols + 4 * half), 16);
    }
  }

  /// Four rows of B, `cols` columns from `col` on.
  void load_b(std::int64_t tile, int half, std::int64_t col, std::int64_t cols,
              WarpTrace& trace) const {
    const std::int32_t* rows = &a_.sparse_a_to_b[tile * kCols + 4 * half];
    if (rows[0] == kNoColumn) return;        // no lane loads: padding is at the end
    const int pieces = n_ % 4 == 0 ? 1 : 4;  // a lane's four columns, at once or one by one
    for (int piece = 0; piece < pieces; ++piece) {
      trace.load(kDataBoard);
      for (int k = 0; k < 4 && rows[k] != kNoColumn; ++k)
        trace.touch(b_ + 4 * (static_cast<std::uint64_t>(rows[k]) * n_ + col), 4 * cols);
    }
  }

  /// The values of four condensed columns: of each row those between its first and its last.
  void load_values(std::int64_t tile, int half, WarpTrace& trace) const {
    const std::uint64_t bitmap = a_.tc_local_bit[tile];
    const std::uint64_t mine = bitmap & (0x0f0f0f0f0f0f0f0full << (4 * half));
    if (mine == 0) return;
    trace.load(kDataBoard);
    for (int row = 0; row < kRows; ++row) {
      const auto cells = static_cast<std::uint64_t>(mine >> (row * kCols) & 0xff);
      if (cells == 0) continue;
      const int rank = BitTcf::value_rank(bitmap, row, std::countr_zero(cells));
      trace.touch(values_ + 4 * (a_.tc_offset[tile] + static_cast<std::uint64_t>(rank)),
                  4 * std::popcount(cells));
    }
  }

  void add_tile(std::int64_t tile, std::int64_t last, std::int64_t col, std::int64_t cols,
                WarpTrace& trace) const {
    trace.wait(kIndexBoard);
    trace.issue(tile_instructions_ / 2);
    trace.pause(kPopulationCounts);
    for (int half = 0; half < 2; ++half) load_b(tile, half, col, cols, trace);
    for (int half = 0; half < 2; ++half) load_values(tile, half, trace);
    load_index(std::min(tile + 1, last - 1), trace);
    trace.wait(kDataBoard);
    trace.issue(tile_instructions_ - tile_instructions_ / 2);
    trace.mma(mmas_);
  }

  /// Each lane stores 16 bytes of two rows; a quarter of the warp has a sector of four rows.
  void store(std::int64_t window, std::int64_t col, std::int64_t cols, WarpTrace& trace) const {
    trace.wait_mma();
    trace.issue(kWarpInstructions / 2);
    for (int j = 0; j < 2; ++j) {
      trace.store(n_ % 4 == 0 ? 16 : 4);
      for (int t = 0; t < 4; ++t) {
        const std::int64_t row = window * kRows + 2 * t + j;
        if (row < a_.rows()) trace.touch(c_ + 4 * (row * n_ + col), 4 * cols);
      }
    }
  }

  const BitTcf& a_;
  std::int64_t n_;
  int mmas_;
  int tile_instructions_;
  std::uint64_t row_window_offset_, tc_offset_, sparse_a_to_b_, tc_local_bit_, values_, b_, c_;
};

class AccSpmm final : public SpmmKernel {
 public:
  explicit AccSpmm(Precision precision) : precision_(std::move(precision)) {}

  std::string format() const override { return BitTcf::kFormat; }
  int version() const override { return 2; }

  Arithmetic arithmetic() const override {
    return {.sum = Arithmetic::Sum::kTensorCore,
            .type = MmaType::kTf32,
            .mma_depth = kCols,
            .input_error = precision_.input_error,
            .mmas_per_chunk = static_cast<int>(precision_.mmas.size()),
            .promote = precision_.promote};
  }

  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    const auto& a = packed_as<BitTcf>(packed);
    std::vector<std::int64_t> terms(a.rows(), 0);
    for (std::int64_t w = 0; w < a.num_row_windows(); ++w) {
      for (std::int64_t block = a.row_window_offset[w]; block < a.row_window_offset[w + 1];
           ++block) {
        for (int r = 0; r < kRows; ++r)
          if ((a.tc_local_bit[block] >> (r * kCols) & 0xff) != 0) ++terms[w * kRows + r];
      }
    }
    return terms;
  }

  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override {
    const auto& a = packed_as<BitTcf>(packed);
    const FusedStep& step = generation.step(MmaType::kTf32);
    const PreparedB prepared(b, precision_);
    DenseMatrix c(a.rows(), b.cols);
    parallel_for(a.num_row_windows(), 16, [&](std::int64_t begin, std::int64_t end) {
      WindowEmulation window(a, precision_, step, prepared);
      for (std::int64_t w = begin; w < end; ++w) window.run(w, c);
    });
    return c;
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override {
    using namespace acc_spmm;
    const auto& a = packed_as<BitTcf>(packed);
    WorkDescription work{.kernel = "acc_spmm",
                         .mma_type = "tf32",
                         .mma_shape = "m16n8k8",
                         .flops_per_mma = 2 * kMmaCols * kWindowRows * kTileCols};
    const std::int64_t chunks = num_col_chunks(n);
    const std::int64_t warps = a.num_row_windows() * chunks;
    work.thread_blocks.resize((warps + kWarps - 1) / kWarps);
    for (std::int64_t warp = 0; warp < warps; ++warp)
      add_warp(a, warp / chunks, std::min<std::int64_t>(kWarpCols, n - warp % chunks * kWarpCols),
               work.thread_blocks[warp / kWarps]);
    AddressSpace space;
    work.launches = {
        {.name = "multiply",
         .thread_blocks = static_cast<std::int64_t>(work.thread_blocks.size()),
         .threads_per_block = kThreads,
         .registers_per_thread = kRegisters,
         .trace = std::make_shared<AccTrace>(a, n, mmas_per_tile(), kTileInstructions, space)}};
    work.footprint_bytes = stats(packed).bytes;
    work.b_rows_bytes = 4 * n * count_distinct(a.sparse_a_to_b, a.cols());
    work.c_bytes = 4 * n * a.rows();
    work.useful_flops = 2 * a.nnz() * n;
    return work;
  }

 private:
  /// What one warp adds to its thread block: a window's TC blocks, `cols` columns of B and C.
  void add_warp(const BitTcf& a, std::int64_t window, std::int64_t cols,
                ThreadBlockWork& work) const {
    const std::int64_t first = a.row_window_offset[window], last = a.row_window_offset[window + 1];
    const std::int64_t blocks = last - first;
    const std::int64_t nnz = a.tc_offset[last] - a.tc_offset[first];
    std::int64_t active_cols = blocks * kCols;  // only the last TC block can have places left over
    for (int k = kCols; blocks > 0 && k > 0; --k)
      active_cols -= a.sparse_a_to_b[(last - 1) * kCols + k - 1] == kNoColumn;
    work.mma += blocks * mmas_per_tile();
    // Bitmap, offset and column indices of each TC block, its nonzeros, and the window's extent.
    work.a_bytes += blocks * (8 + 4 + 4 * kCols) + 4 * nnz + 8;
    work.b_bytes += 4 * active_cols * cols;
    const std::int64_t rows = std::min<std::int64_t>(kRows, a.rows() - window * kRows);
    work.c_bytes += 4 * rows * cols;
  }

  int mmas_per_tile() const {
    return acc_spmm::kWarpCols / acc_spmm::kMmaCols * static_cast<int>(precision_.mmas.size());
  }

  // Besides loads and MMAs, of a TC block; counted on an H200.
  static constexpr int kTileInstructions = 87;

  Precision precision_;
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
