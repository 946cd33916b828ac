// The plain CSR kernel on CUDA cores: one thread per element of C, a chain of FP32 fused
// multiply-adds in the order of the row. The do-nothing variant of the stage.

#include "kernels/spmm/csr/csr_spmm.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/spmm/scaled_row.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera {

namespace {

/// What a warp does: its row's nonzeros in fours, the odd ones first; four fours in a row are one
/// turn of the compiled loop, in which the next four's columns are loaded ahead. All lanes read the
/// same column and value, and 32 columns of a row of B.
class CsrTrace final : public LaunchTrace {
 public:
  CsrTrace(const CsrMatrix& a, std::int64_t n, AddressSpace& space)
      : a_(a),
        n_(n),
        row_offsets_(space.add("row_offsets", 8 * (std::int64_t{a.rows} + 1))),
        col_indices_(space.add("col_indices", 4 * a.nnz())),
        values_(space.add("values", 4 * a.nnz())),
        b_(space.add("b", 4 * n * a.cols)),
        c_(space.add("c", 4 * n * a.rows)) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    using namespace csr_spmm;
    const std::int64_t row_blocks = (a_.rows + kRowsPerBlock - 1) / kRowsPerBlock;
    const std::int64_t row = thread_block % row_blocks * kRowsPerBlock + warp;
    const std::int64_t col = thread_block / row_blocks * kColsPerBlock;
    if (row >= a_.rows) {
      trace.issue(kIdleInstructions);
      return false;
    }
    const std::int64_t first = a_.row_offsets[row], last = a_.row_offsets[row + 1];
    const std::int64_t cols = std::min<std::int64_t>(kColsPerBlock, n_ - col);
    const std::int64_t odd = (last - first) % kUnroll;
    if (cursor.step == 0) begin(row, last > first, trace);
    // cursor.part counts nonzeros.
    const std::int64_t at = first + cursor.part;
    const int count = cursor.part < odd ? 1 : kUnroll;
    const std::int64_t four = (cursor.part - odd) / kUnroll;
    const bool opens_turn = count == 1 || four % kTurn == 0;
    const bool closes_turn = count == 1 || four % kTurn == kTurn - 1 || at + count == last;
    if (at < last) add_nonzeros(at, count, !opens_turn, !closes_turn, col, cols, trace);
    ++cursor.step;
    cursor.part += count;
    if (first + cursor.part < last) return true;
    trace.issue(kStoreInstructions);
    trace.store();
    trace.touch(c_ + 4 * (row * n_ + col), 4 * cols);
    return false;
  }

 private:
  // Counted on an H200 (CUDA 13.0): 36 instructions a warp, 50 more in one whose row is not empty,
  // 48 for four nonzeros, 23 for one of the odd ones.
  static constexpr int kUnroll = 4, kTurn = 4;
  static constexpr int kIdleInstructions = 18, kWarpInstructions = 26, kStoreInstructions = 7;
  static constexpr int kFirstInstructions = 50, kGroupInstructions = 36, kOddInstructions = 20;
  static constexpr int kIndexBoard = 0, kDataBoard = 1;

  void begin(std::int64_t row, bool has_nonzeros, WarpTrace& trace) const {
    trace.issue(kWarpInstructions);
    trace.pause(kSpecialRegisterCycles);
    for (int i = 0; i < 2; ++i) {
      trace.load(kIndexBoard);
      trace.touch(row_offsets_ + 8 * (row + i), 8);
    }
    trace.wait(kIndexBoard);
    if (has_nonzeros) trace.issue(kFirstInstructions);
  }

  void load_one(std::uint64_t array, std::int64_t at, int board, WarpTrace& trace) const {
    trace.load(board);
    trace.touch(array + 4 * static_cast<std::uint64_t>(at), 4);
  }

  /// One of the odd nonzeros, or a four; `loaded`: its columns are on their way already.
  void add_nonzeros(std::int64_t at, int count, bool loaded, bool load_next, std::int64_t col,
                    std::int64_t cols, WarpTrace& trace) const {
    const int instructions = count == 1 ? kOddInstructions : kGroupInstructions;
    for (int i = 0; i < count && !loaded; ++i) load_one(col_indices_, at + i, kIndexBoard, trace);
    trace.wait(kIndexBoard);
    trace.issue(instructions / 2);
    for (int i = 0; i < count; ++i) {
      trace.load(kDataBoard);
      trace.touch(b_ + 4 * (static_cast<std::uint64_t>(a_.col_indices[at + i]) * n_ + col),
                  4 * cols);
      load_one(values_, at + i, kDataBoard, trace);
      if (load_next) load_one(col_indices_, at + i + count, kIndexBoard, trace);
    }
    trace.wait(kDataBoard);
    trace.issue(instructions - instructions / 2);
  }

  const CsrMatrix& a_;
  std::int64_t n_;
  std::uint64_t row_offsets_, col_indices_, values_, b_, c_;
};

class CsrSpmm final : public SpmmKernel {
 public:
  std::string format() const override { return CsrPacked::kFormat; }
  int version() const override { return 1; }
  Arithmetic arithmetic() const override { return {}; }

  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    return packed_as<CsrPacked>(packed).row_lengths();
  }

  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation&) const override {
    const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
    DenseMatrix c(a.rows, b.cols);
    parallel_for(a.rows, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto cols = a.row_cols(i);
        const auto values = a.row_values(i);
        const auto c_row = c.row(i);
        for (std::size_t k = 0; k < cols.size(); ++k)
          add_scaled_row(values[k], b.row(cols[k]).data(), c_row.data(), b.cols);
        // The GPU knows one NaN.
        for (float& value : c_row)
          if (std::isnan(value)) value = std::bit_cast<float>(0x7fffffff);
      }
    });
    return c;
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override {
    using namespace csr_spmm;
    const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
    WorkDescription work{.kernel = "csr_spmm"};
    for (std::int64_t col = 0; col < n; col += kColsPerBlock) {
      const std::int64_t cols = std::min<std::int64_t>(kColsPerBlock, n - col);
      for (std::int64_t row = 0; row < a.rows; row += kRowsPerBlock) {
        const std::int64_t rows = std::min<std::int64_t>(kRowsPerBlock, a.rows - row);
        const std::int64_t nnz = a.row_offsets[row + rows] - a.row_offsets[row];
        // Each warp reads its row's offsets, indices and values once, broadcast to its lanes.
        work.thread_blocks.push_back({.fma = nnz * cols,
                                      .a_bytes = 16 * rows + 8 * nnz,
                                      .b_bytes = 4 * nnz * cols,
                                      .c_bytes = 4 * rows * cols});
      }
    }
    work.launches = {{.name = "multiply",
                      .thread_blocks = static_cast<std::int64_t>(work.thread_blocks.size()),
                      .threads_per_block = kThreads,
                      .registers_per_thread = kRegisters,
                      .trace = std::make_shared<CsrTrace>(a, n, work.memory)}};
    work.footprint_bytes = stats(packed).bytes;
    work.b_rows_bytes = 4 * n * count_distinct(a.col_indices, a.cols);
    work.c_bytes = 4 * n * a.rows;
    work.useful_flops = 2 * a.nnz() * n;
    return work;
  }
};

const Register<SpmmKernel> entry{{
    .name = "csr_spmm",
    .summary = "plain CSR on CUDA cores, one thread per element of C (FP32)",
    .make = [](const Params&) { return std::make_unique<CsrSpmm>(); },
}};

}  // namespace
}  // namespace tessera
