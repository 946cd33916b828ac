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
// partial sums of two fragments share their shuffles. By default registers are stored to C
// directly, and a thread block has a tile of columns of a fixed width for rows of any length;
// blocks = "nonzeros" and output = "buffer" are the paper's.

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

bool shares_block(std::int64_t nnz, const TcaSpmmOptions& options) {
  using enum TcaSpmmOptions::Method;
  return options.method == kMultirow || (options.method == kAuto && nnz <= kNonzerosOfBlock);
}

Task cut(std::int32_t row, std::int64_t nnz, const TcaSpmmOptions& options) {
  using enum TcaSpmmOptions::Method;
  const int log_p = ceil_log2(kMaxTraceRows);
  Task task{.row = row};
  task.log_p =
      static_cast<std::uint8_t>(options.method == kMultiblock ? log_p : log_trace_rows(nnz));
  task.log_warps =
      static_cast<std::uint8_t>(!shares_block(nnz, options) ? ceil_log2(kWarps)
                                : options.warps_per_row > 0 ? ceil_log2(options.warps_per_row)
                                                            : task.log_p);
  return task;
}

/// Floats of shared memory of a warp, its share of those of the row: two stages where the row has
/// several chunks, and the output buffer.
int warp_floats(const Task& task, std::int64_t nnz, const TcaSpmmOptions& options) {
  const auto stages = static_cast<int>(std::min<std::int64_t>(chunks_of(nnz, task.p()), 2));
  const int floats =
      stages * kDepth * task.p() * pitch_of(options.tile_cols, task.log_p, task.log_warps) +
      output_floats(options.output_buffer, options.tile_cols, task.log_p, task.log_warps);
  return floats / task.warps();
}

/// Columns of C of each thread block of a row: multiples of kColsOfBlock.
std::int64_t cols_of_each(std::int64_t nnz, const TcaSpmmOptions& options, std::int64_t n) {
  if (shares_block(nnz, options)) return n;
  const std::int64_t blocks = std::max<std::int64_t>(chunks_of(nnz, kMaxTraceRows), 1);
  const std::int64_t cols = (n + blocks - 1) / blocks;
  return (cols + kColsOfBlock - 1) / kColsOfBlock * kColsOfBlock;
}

}  // namespace

TcaSpmmOptions options_of(const Params& params) {
  using enum TcaSpmmOptions::Method;
  const std::string& method = params.text("method");
  const TcaSpmmOptions options{.method = method == "auto"       ? kAuto
                                         : method == "multirow" ? kMultirow
                                                                : kMultiblock,
                               .warps_per_row = static_cast<int>(params.integer("warps_per_row")),
                               .tile_cols = static_cast<int>(params.integer("tile_cols")),
                               .blocks_by_nonzeros = params.text("blocks") == "nonzeros",
                               .output_buffer = params.text("output") == "buffer"};
  require<Unsupported>(
      !options.output_buffer ||
          (params.text("precision") == "fp16" && options.tile_cols == kNarrowTile),
      "tca_spmm has output = buffer for precision = fp16 and tile_cols = {}, not for {} and {}",
      kNarrowTile, params.text("precision"), options.tile_cols);
  return options;
}

Plan plan(const CsrMatrix& a, const TcaSpmmOptions& options, std::int64_t n) {
  require<Unsupported>(n <= kMaxCols, "tca_spmm takes at most {} columns of B, not {}", kMaxCols,
                       n);
  Plan plan{.n = static_cast<std::int32_t>(n), .tile_cols = options.tile_cols};
  const auto add = [&](Task task, std::int64_t first, std::int64_t end) {
    const auto used = plan.tasks.size() % kWarps;
    if (used + task.warps() > kWarps) plan.tasks.resize(plan.tasks.size() + kWarps - used);
    if (options.blocks_by_nonzeros && plan.tasks.size() % kWarps == 0)
      plan.cols.push_back({static_cast<std::int32_t>(first), static_cast<std::int32_t>(end)});
    for (int warp = 0; warp < task.warps(); ++warp) {
      task.warp = static_cast<std::uint8_t>(warp);
      plan.tasks.push_back(task);
    }
  };
  for (std::int32_t row = 0; row < a.rows; ++row) {
    const std::int64_t nnz = a.row_length(row);
    const Task task = cut(row, nnz, options);
    plan.warp_floats = std::max(plan.warp_floats, warp_floats(task, nnz, options));
    if (!options.blocks_by_nonzeros) {
      add(task, 0, n);
      continue;
    }
    const std::int64_t each = cols_of_each(nnz, options, n);
    for (std::int64_t col = 0; col < n; col += each) add(task, col, std::min(n, col + each));
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
  int version() const override { return 3; }

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
void add_warp(const Task& task, std::int64_t nnz, const TcaSpmmOptions& options,
              const BlockCols& cols, ThreadBlockWork& work) {
  work.a_bytes += sizeof(Task);
  if (task.row < 0) return;
  work.a_bytes += 16;  // the row's ends
  const std::int64_t chunks = chunks_of(nnz, task.p());
  for (std::int64_t part = 0;; ++part) {
    const Columns columns = columns_of(task, options.tile_cols, cols, part);
    if (columns.count == 0) return;
    const Fragments mine =
        fragments_of(options.output_buffer, task.log_p, task.log_warps, task.warp, columns.count);
    work.mma += chunks * (mine.last - mine.first);
    work.a_bytes += 4 * nnz;  // values; column indices are shared
    if (task.warps() == kWarps)
      work.barriers += chunks + (options.output_buffer ? 1 : 0) + (part > 0 ? 1 : 0);
    if (task.warp > 0) continue;
    work.a_bytes += 4 * nnz;
    work.b_bytes += 4 * nnz * columns.count;
    work.c_bytes += 4 * columns.count;
  }
}

WorkDescription TcaSpmm::work(const PackedMatrix& packed, std::int64_t n) const {
  const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
  Plan plan = tca_spmm::plan(a, options_, n);
  WorkDescription work{.kernel = "tca_spmm",
                       .mma_type = type() == MmaType::kTf32 ? "tf32" : "fp16",
                       .mma_shape = "m16n8k8",
                       .flops_per_mma = 2 * kMmaRows * 8 * kDepth};
  work.thread_blocks.resize(static_cast<std::size_t>(plan.thread_blocks()));
  for (std::int64_t block = 0; block < plan.thread_blocks(); ++block) {
    for (int warp = 0; warp < kWarps; ++warp) {
      const Task& task = plan.tasks[task_of(block % plan.blocks(), warp)];
      const std::int64_t nnz = task.row < 0 ? 0 : a.row_length(task.row);
      add_warp(task, nnz, options_, plan.cols_of(block), work.thread_blocks[block]);
    }
  }
  const std::int64_t shared_bytes = plan.shared_bytes();
  work.launches = {
      {.name = "multiply",
       .thread_blocks = static_cast<std::int64_t>(work.thread_blocks.size()),
       .threads_per_block = kThreads,
       .registers_per_thread = registers_of(options_.tile_cols),
       .shared_bytes = shared_bytes,
       .trace = std::make_shared<Trace>(a, options_.output_buffer, precision_.conversion,
                                        std::move(plan), work.memory)}};
  work.footprint_bytes = stats(packed).bytes;
  work.b_rows_bytes = 4 * n * count_distinct(a.col_indices, a.cols);
  work.c_bytes = 4 * n * a.rows;
  work.useful_flops = 2 * a.nnz() * n;
  return work;
}

const Register<SpmmKernel> entry{{
    .name = "tca_spmm",
    .summary = "CSR rows as traces of MMAs, nothing to pack (TCA-SpMM)",
    .params =
        {{"precision",
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
         {"tile_cols",
          std::int64_t{kNarrowTile},
          "columns of C of a thread block, at a time",
          {"64", "128"}},
         {"blocks",
          std::string("tiles"),
          "thread blocks of a row. tiles: one for every tile_cols columns; nonzeros: one for all "
          "columns, or above 64 nonzeros one for every 64, which share the columns, as in the "
          "paper",
          {"tiles", "nonzeros"}},
         {"output",
          std::string("registers"),
          "where C is written from; buffer: from shared memory, as in the paper (fp16, tile_cols "
          "= 64)",
          {"registers", "buffer"}}},
    .make =
        [](const Params& params) {
          return std::make_unique<TcaSpmm>(find_precision(params.text("precision")),
                                           options_of(params));
        },
}};

}  // namespace
}  // namespace tessera
