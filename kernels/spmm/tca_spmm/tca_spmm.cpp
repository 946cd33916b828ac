// TCA-SpMM (section 4): elements of C as traces of MMAs, from CSR without packing; the upload only
// assigns rows to warps.
//
// A row's nonzeros are cut into chunks of 8 p: p = 1, 2, 4 or 8, the least whose chunk holds the
// row, or 8. MMA by MMA, row r of a block of p rows sums products of nonzeros 8 r to 8 r + 7 of
// every chunk; behind the last chunk the p sums of the block's diagonal are added in FP32,
// neighbours first: ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)). The assignment to warps changes no
// bit.
//
// The paper's kernel has FP16 operands and FP32 sums: precision = fp16. The default is TF32,
// because FP16 ends at 65504. Departures: places of a chunk without a nonzero are zeros, not
// repeated columns of B (whose infinities would spoil the row), and cost no traffic either; the
// right operand repeats its p columns, so that the diagonal lies in the same lanes for every p;
// partial sums of two fragments share their shuffles; registers are stored to C directly; a thread
// block has a tile of columns of a fixed width for rows of any length.

#include "kernels/spmm/tca_spmm/tca_spmm.hpp"

#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/spmm/tca_spmm/trace.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera {
namespace tca_spmm {
namespace {

constexpr std::int64_t kLongestShared = std::int64_t{kDepth} * kMaxTraceRows;

Task cut(std::int32_t row, std::int64_t nnz, const TcaSpmmOptions& options) {
  using enum TcaSpmmOptions::Method;
  const bool shares_block =
      options.method == kMultirow || (options.method == kAuto && nnz <= kLongestShared);
  const int log_p = ceil_log2(kMaxTraceRows);
  Task task{.row = row};
  task.log_p =
      static_cast<std::uint8_t>(options.method == kMultiblock ? log_p : log_trace_rows(nnz));
  task.log_warps =
      static_cast<std::uint8_t>(!shares_block               ? ceil_log2(kWarps)
                                : options.warps_per_row > 0 ? ceil_log2(options.warps_per_row)
                                                            : task.log_p);
  return task;
}

/// Floats of shared memory of a warp, its share of those of the row: two stages where the row has
/// several chunks.
int warp_floats(const Task& task, std::int64_t nnz, int tile_cols) {
  const auto stages = static_cast<int>(std::min<std::int64_t>(chunks_of(nnz, task.p()), 2));
  return stages * kDepth * task.p() * pitch_of(tile_cols, task.log_p, task.log_warps) /
         task.warps();
}

}  // namespace

TcaSpmmOptions options_of(const Params& params) {
  using enum TcaSpmmOptions::Method;
  const std::string& method = params.text("method");
  return {.method = method == "auto"       ? kAuto
                    : method == "multirow" ? kMultirow
                                           : kMultiblock,
          .warps_per_row = static_cast<int>(params.integer("warps_per_row")),
          .tile_cols = static_cast<int>(params.integer("tile_cols"))};
}

Plan plan(const CsrMatrix& a, const TcaSpmmOptions& options) {
  Plan plan;
  for (std::int32_t row = 0; row < a.rows; ++row) {
    const std::int64_t nnz = a.row_length(row);
    Task task = cut(row, nnz, options);
    const auto used = plan.tasks.size() % kWarps;
    if (used + task.warps() > kWarps) plan.tasks.resize(plan.tasks.size() + kWarps - used);
    plan.warp_floats = std::max(plan.warp_floats, warp_floats(task, nnz, options.tile_cols));
    for (int warp = 0; warp < task.warps(); ++warp) {
      task.warp = static_cast<std::uint8_t>(warp);
      plan.tasks.push_back(task);
    }
  }
  plan.tasks.resize((plan.tasks.size() + kWarps - 1) / kWarps * kWarps);
  return plan;
}

}  // namespace tca_spmm

namespace {

using namespace tca_spmm;

/// A row of C: the chains of the rows of a block, then their sum.
class RowEmulation {
 public:
  RowEmulation(const CsrMatrix& a, const Precision& precision, const FusedStep& step,
               const PreparedB& b, std::int64_t n)
      : a_(a), precision_(precision), step_(step), b_(b), parts_(kMaxTraceRows, n) {}

  void run(std::int64_t row, std::span<float> c) {
    const int p = 1 << log_trace_rows(a_.row_length(row));
    std::ranges::fill(parts_.values, 0.0f);
    for (int r = 0; r < p; ++r) chain(row, p, r);
    for (int apart = 1; apart < p; apart *= 2)
      for (int r = 0; r < p; r += 2 * apart) add(parts_.row(r), parts_.row(r + apart));
    std::ranges::copy(parts_.row(0), c.begin());
  }

 private:
  void chain(std::int64_t row, int p, int r) {
    const std::int64_t last = a_.row_offsets[row + 1];
    RowChain chain(precision_, step_, b_, parts_.row(r));
    for (std::int64_t k0 = a_.row_offsets[row] + kDepth * r; k0 < last; k0 += kDepth * p) {
      terms_.clear();
      for (std::int64_t k = k0; k < std::min(k0 + kDepth, last); ++k)
        terms_.push_back(
            {split(a_.values[k], precision_), a_.col_indices[k], static_cast<int>(k - k0)});
      chain.add(terms_);
    }
    chain.finish();
  }

  static void add(std::span<float> sum, std::span<const float> part) {
    for (std::size_t j = 0; j < sum.size(); ++j) {
      sum[j] += part[j];
      if (std::isnan(sum[j])) sum[j] = std::bit_cast<float>(0x7fffffff);  // the GPU has one NaN
    }
  }

  const CsrMatrix& a_;
  const Precision& precision_;
  const FusedStep& step_;
  const PreparedB& b_;
  DenseMatrix parts_;
  std::vector<ChunkTerm> terms_;
};

class TcaSpmm final : public SpmmKernel {
 public:
  TcaSpmm(Precision precision, const TcaSpmmOptions& options)
      : precision_(std::move(precision)), options_(options) {}

  std::string format() const override { return CsrPacked::kFormat; }
  int version() const override { return 2; }

  Arithmetic arithmetic() const override {
    return {.sum = Arithmetic::Sum::kTensorCore,
            .type = type(),
            .mma_depth = kDepth,
            .input_error = precision_.input_error};
  }

  /// The addition of two chains has no larger error than one more MMA.
  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    std::vector<std::int64_t> terms = packed_as<CsrPacked>(packed).row_lengths();
    for (std::int64_t& count : terms) {
      const int log_p = log_trace_rows(count);
      count = chunks_of(count, 1 << log_p) + log_p;
    }
    return terms;
  }

  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override {
    const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
    const FusedStep& step = generation.step(type());
    const PreparedB prepared(b, precision_);
    DenseMatrix c(a.rows, b.cols);
    parallel_for(a.rows, 16, [&](std::int64_t begin, std::int64_t end) {
      RowEmulation emulation(a, precision_, step, prepared, b.cols);
      for (std::int64_t row = begin; row < end; ++row) emulation.run(row, c.row(row));
    });
    return c;
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override;

 private:
  MmaType type() const { return type_of(precision_.conversion); }

  Precision precision_;
  TcaSpmmOptions options_;
};

/// Adds the work of a warp to its thread block. The common work of the warps of a row counts with
/// the first of them.
void add_warp(const Task& task, std::int64_t nnz, int tile_cols, std::int64_t n, std::int64_t tile,
              ThreadBlockWork& work) {
  work.a_bytes += sizeof(Task);
  if (task.row < 0) return;
  work.a_bytes += 16;  // the row's ends
  const std::int64_t chunks = chunks_of(nnz, task.p());
  for (std::int64_t part = 0;; ++part) {
    const Columns columns = columns_of(task, tile_cols, n, tile, part);
    if (columns.count == 0) return;
    const Fragments mine =
        fragments_of(tile_cols, task.log_p, task.log_warps, task.warp, columns.count);
    work.mma += chunks * (mine.last - mine.first);
    work.a_bytes += 4 * nnz;  // values; column indices are shared
    if (task.warps() == kWarps) work.barriers += chunks;
    if (task.warp > 0) continue;
    work.a_bytes += 4 * nnz;
    work.b_bytes += 4 * nnz * columns.count;
    work.c_bytes += 4 * columns.count;
  }
}

WorkDescription TcaSpmm::work(const PackedMatrix& packed, std::int64_t n) const {
  const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
  Plan plan = tca_spmm::plan(a, options_);
  WorkDescription work{.kernel = "tca_spmm",
                       .mma_type = type() == MmaType::kTf32 ? "tf32" : "fp16",
                       .mma_shape = "m16n8k8",
                       .flops_per_mma = 2 * kMmaRows * 8 * kDepth};
  const std::int64_t tiles = (n + options_.tile_cols - 1) / options_.tile_cols;
  work.thread_blocks.resize(static_cast<std::size_t>(tiles * plan.blocks()));
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
      const Task& task = plan.tasks[i];
      const std::int64_t nnz = task.row < 0 ? 0 : a.row_length(task.row);
      add_warp(task, nnz, options_.tile_cols, n, tile,
               work.thread_blocks[static_cast<std::size_t>(tile * plan.blocks()) + i / kWarps]);
    }
  }
  const std::int64_t shared_bytes = plan.shared_bytes();
  work.launches = {
      {.name = "multiply",
       .thread_blocks = static_cast<std::int64_t>(work.thread_blocks.size()),
       .threads_per_block = kThreads,
       .registers_per_thread = registers_of(options_.tile_cols),
       .shared_bytes = shared_bytes,
       .trace = std::make_shared<Trace>(a, n, options_.tile_cols, std::move(plan), work.memory)}};
  work.footprint_bytes = stats(packed).bytes;
  work.b_rows_bytes = 4 * n * count_distinct(a.col_indices, a.cols);
  work.c_bytes = 4 * n * a.rows;
  work.useful_flops = 2 * a.nnz() * n;
  return work;
}

const Register<SpmmKernel> entry{{
    .name = "tca_spmm",
    .summary = "CSR rows as traces of MMAs, nothing to pack (TCA-SpMM)",
    .params = {{"precision",
                std::string("tf32"),
                "type of the operands on tensor cores; fp16 is the paper's",
                {"fp16", "tf32", "tf32_raw"}},
               {"method",
                std::string("auto"),
                "multirow: rows share thread blocks, fragments as full as the row allows; "
                "multiblock: whole thread blocks and fragments for every row; auto: multirow up to "
                "64 nonzeros",
                {"auto", "multirow", "multiblock"}},
               {"warps_per_row",
                std::int64_t{0},
                "warps of a row that shares its thread block; 0: 1, 2, 4 or 8 by its nonzeros",
                {"0", "1", "2", "4", "8"}},
               {"tile_cols", std::int64_t{64}, "columns of C of a thread block", {"64", "128"}}},
    .make =
        [](const Params& params) {
          return std::make_unique<TcaSpmm>(find_precision(params.text("precision")),
                                           options_of(params));
        },
}};

}  // namespace
}  // namespace tessera
