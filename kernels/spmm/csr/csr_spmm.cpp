// The plain CSR kernel on CUDA cores: one thread per element of C, a chain of FP32 fused
// multiply-adds in the order of the row. The do-nothing variant of the stage.

#include <algorithm>
#include <bit>
#include <cmath>

#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/spmm/csr/schedule.hpp"
#include "kernels/spmm/scaled_row.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera {

namespace {

using namespace csr_spmm;

/// Instructions of a warp besides memory instructions, as an H200 counts them (CUDA 13.0, sm_90a):
/// 36 a warp, 50 more where its row is not empty, 48 for four nonzeros, 23 for one of the odd ones.
struct InstructionCounts {
  static constexpr int kIdle = 18;        // a warp without a row
  static constexpr int kWarp = 26;        // before the row's offsets are used
  static constexpr int kFirst = 50;       // before the first nonzero
  static constexpr int kGroup = 36;       // for kUnroll nonzeros
  static constexpr int kOddNonzero = 20;  // for one of the nonzeros before the first group
  static constexpr int kStore = 7;
  static constexpr int kUnroll = 4;      // nonzeros of a group
  static constexpr int kLoopGroups = 4;  // groups of one pass of the compiled loop
};

/// The trace of a warp: its row's nonzeros in groups of four, the odd ones first. Four groups are
/// one pass of the compiled loop, in which the columns of the next group are loaded ahead. All
/// lanes read the same column and value, and 32 columns of a row of B.
class CsrTrace final : public LaunchTrace {
 public:
  CsrTrace(const CsrMatrix& a, const Schedule& schedule, AddressSpace& space)
      : a_(a),
        schedule_(schedule),
        row_offsets_(space.add("row_offsets", 8 * (std::int64_t{a.rows} + 1))),
        col_indices_(space.add("col_indices", 4 * a.nnz())),
        values_(space.add("values", 4 * a.nnz())),
        b_(space.add("b", 4 * schedule.n * a.cols)),
        c_(space.add("c", 4 * schedule.n * a.rows)) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const WarpItem item = schedule_.item_of(thread_block, warp);
    if (item.row >= a_.rows) {
      trace.issue(InstructionCounts::kIdle);
      return false;
    }
    constexpr int kUnroll = InstructionCounts::kUnroll;
    constexpr int kLoopGroups = InstructionCounts::kLoopGroups;
    const std::int64_t first = a_.row_offsets[item.row], last = a_.row_offsets[item.row + 1];
    const std::int64_t odd = (last - first) % kUnroll;
    if (cursor.step == 0) begin(item.row, last > first, trace);
    // cursor.part counts nonzeros.
    const std::int64_t at = first + cursor.part;
    const int count = cursor.part < odd ? 1 : kUnroll;
    const std::int64_t group = (cursor.part - odd) / kUnroll;
    const bool opens_pass = count == 1 || group % kLoopGroups == 0;
    const bool closes_pass =
        count == 1 || group % kLoopGroups == kLoopGroups - 1 || at + count == last;
    if (at < last) add_nonzeros(at, count, !opens_pass, !closes_pass, item, trace);
    ++cursor.step;
    cursor.part += count;
    if (first + cursor.part < last) return true;
    trace.issue(InstructionCounts::kStore);
    trace.store();
    trace.touch(c_ + 4 * (item.row * schedule_.n + item.first_col), 4 * schedule_.cols_of(item));
    return false;
  }

 private:
  static constexpr int kIndexBoard = 0, kDataBoard = 1;

  void begin(std::int64_t row, bool has_nonzeros, WarpTrace& trace) const {
    trace.issue(InstructionCounts::kWarp);
    trace.pause(kSpecialRegisterCycles);
    for (int i = 0; i < 2; ++i) {
      trace.load(kIndexBoard);
      trace.touch(row_offsets_ + 8 * (row + i), 8);
    }
    trace.wait(kIndexBoard);
    if (has_nonzeros) trace.issue(InstructionCounts::kFirst);
  }

  void load_one(std::uint64_t array, std::int64_t at, int board, WarpTrace& trace) const {
    trace.load(board);
    trace.touch(array + 4 * static_cast<std::uint64_t>(at), 4);
  }

  /// Adds one odd nonzero or a group. `loaded`: an earlier group has loaded its columns;
  /// `load_next`: this one loads those of the next group.
  void add_nonzeros(std::int64_t at, int count, bool loaded, bool load_next, const WarpItem& item,
                    WarpTrace& trace) const {
    const int instructions =
        count == 1 ? InstructionCounts::kOddNonzero : InstructionCounts::kGroup;
    for (int i = 0; i < count && !loaded; ++i) load_one(col_indices_, at + i, kIndexBoard, trace);
    trace.wait(kIndexBoard);
    trace.issue(instructions / 2);
    for (int i = 0; i < count; ++i) {
      const auto b_row = static_cast<std::uint64_t>(a_.col_indices[at + i]);
      trace.load(kDataBoard);
      trace.touch(b_ + 4 * (b_row * schedule_.n + item.first_col), 4 * schedule_.cols_of(item));
      load_one(values_, at + i, kDataBoard, trace);
      if (load_next) load_one(col_indices_, at + i + count, kIndexBoard, trace);
    }
    trace.wait(kDataBoard);
    trace.issue(instructions - instructions / 2);
  }

  const CsrMatrix& a_;
  Schedule schedule_;
  std::uint64_t row_offsets_, col_indices_, values_, b_, c_;
};

/// The work of a thread block. A warp reads its row's offsets, indices and values once for all of
/// its lanes.
ThreadBlockWork work_of(const CsrMatrix& a, const Schedule& schedule, std::int64_t thread_block) {
  ThreadBlockWork work;
  for (int warp = 0; warp < kRowsPerBlock; ++warp) {
    const WarpItem item = schedule.item_of(thread_block, warp);
    if (item.row >= a.rows) break;
    const std::int64_t nnz = a.row_offsets[item.row + 1] - a.row_offsets[item.row];
    const std::int64_t cols = schedule.cols_of(item);
    work.fma += nnz * cols;
    work.a_bytes += 16 + 8 * nnz;
    work.b_bytes += 4 * nnz * cols;
    work.c_bytes += 4 * cols;
  }
  return work;
}

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
        // The GPU has one NaN.
        for (float& value : c_row)
          if (std::isnan(value)) value = std::bit_cast<float>(0x7fffffff);
      }
    });
    return c;
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override {
    const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
    const Schedule schedule{.rows = a.rows, .n = n};
    WorkDescription work{.kernel = "csr_spmm"};
    for (std::int64_t i = 0; i < schedule.thread_blocks(); ++i)
      work.thread_blocks.push_back(work_of(a, schedule, i));
    work.launches = {{.name = "multiply",
                      .thread_blocks = schedule.thread_blocks(),
                      .threads_per_block = kThreads,
                      .registers_per_thread = kRegisters,
                      .trace = std::make_shared<CsrTrace>(a, schedule, work.memory)}};
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
