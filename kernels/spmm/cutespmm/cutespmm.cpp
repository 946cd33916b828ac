// cuTeSpMM (algorithm 1, sections 3 to 5): HRPB, row panels of C by teams of warps, rows of B and
// blocks of A through shared memory, bricks decoded by counting the bits before a lane's own, TF32
// MMAs. Parameters select the paper's choices: TN = 32 is coarsen=32, its instruction mma=m16n8k4;
// TM and TK are the format's tile_rows and tile_cols.
//
// Departures: copies run ahead of the MMAs by asynchronous copies (stages=1: the paper's loop);
// by default m16n8k8 takes two brick columns at once and one warp computes all 128 columns, so that
// no brick is decoded twice and no barrier is needed (coarsen=0: fewer columns a warp where there
// are few row panels); columns of C are permuted among the MMAs, so that a lane reads and writes 16
// bytes; any N, M and K; operands are rounded to nearest.

#include "kernels/spmm/cutespmm/cutespmm.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spmm/cutespmm/trace.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera {
namespace {

using namespace cutespmm;

/// A row panel of C; each row is a chain of MMAs.
class PanelEmulation {
 public:
  PanelEmulation(const Hrpb& a, int depth, const Precision& precision, const FusedStep& step,
                 const PreparedB& b)
      : a_(a), depth_(depth), precision_(precision), step_(step), b_(b) {}

  void run(std::int64_t panel, DenseMatrix& c) {
    const std::int64_t first = panel * a_.tile_rows;
    const std::int64_t last = std::min<std::int64_t>(first + a_.tile_rows, a_.rows());
    std::vector<RowChain> chains;
    for (std::int64_t row = first; row < last; ++row)
      chains.emplace_back(precision_, step_, b_, c.row(row));
    for (std::int64_t b = a_.blocked_row_ptr[panel]; b < a_.blocked_row_ptr[panel + 1]; ++b) {
      for_each_mma(a_, b, depth_, [&](const BlockMma& mma) {
        const std::int64_t above = mma.brick_row * Hrpb::kBrickRows;
        const std::int64_t rows = std::min<std::int64_t>(Hrpb::kBrickRows, last - first - above);
        for (int r = 0; r < rows; ++r) {
          take_terms(b, mma, r);
          if (!terms_.empty()) chains[above + r].add(terms_);
        }
      });
    }
    for (RowChain& chain : chains) chain.finish();
  }

 private:
  /// Collects the terms of row r of the brick row in the MMA. A zero of A times a NaN or an
  /// infinity in B is NaN, also in columns without a nonzero of this row; padding has no terms.
  void take_terms(std::int64_t block, const BlockMma& mma, int r) {
    terms_.clear();
    for (int k = 0; k < depth_; ++k) {
      const int place = mma.first_col + k;
      const std::int32_t col =
          place < a_.tile_cols ? a_.active_cols[block * a_.tile_cols + place] : kNoColumn;
      if (col == kNoColumn) continue;
      const std::uint64_t pattern = mma.pattern[k / Hrpb::kBrickCols];
      const int bit = r * Hrpb::kBrickCols + k % Hrpb::kBrickCols;
      if ((pattern >> bit & 1) != 0) {
        const std::int64_t before = std::popcount(pattern & ((std::uint64_t{1} << bit) - 1));
        const float value = a_.block(block).value(mma.first[k / Hrpb::kBrickCols] + before);
        terms_.push_back({split(value, precision_), col, k});
      } else if (!b_.part(0).row_is_finite(col)) {
        terms_.push_back({{}, col, k});
      }
    }
  }

  const Hrpb& a_;
  int depth_;
  const Precision& precision_;
  const FusedStep& step_;
  const PreparedB& b_;
  std::vector<ChunkTerm> terms_;
};

/// True where row r of the bricks of an MMA has a nonzero.
bool has_row(const BlockMma& mma, int r) {
  return ((mma.pattern[0] | mma.pattern[1]) >> (r * Hrpb::kBrickCols) & 0xf) != 0;
}

const Precision& precision_of(Tf32Precision precision) {
  using enum Tf32Precision;
  return find_precision(precision == kRounded ? "tf32" : precision == kRaw ? "tf32_raw" : "tf32x3");
}

class CuteSpmm final : public SpmmKernel {
 public:
  explicit CuteSpmm(const CuteSpmmOptions& options)
      : options_(options), precision_(precision_of(options.precision)) {}

  std::string format() const override { return Hrpb::kFormat; }
  int version() const override { return 4; }

  void set_gpu(const GpuLimits& gpu) override { options_.gpu = gpu; }

  Arithmetic arithmetic() const override {
    return {.sum = Arithmetic::Sum::kTensorCore,
            .type = MmaType::kTf32,
            .mma_depth = options_.depth,
            .input_error = precision_.input_error,
            .mmas_per_chunk = static_cast<int>(std::ssize(precision_.mmas)),
            .adds_in_memory = splits()};
  }

  /// The addition of a part has no larger error than one more MMA; the fewest waves give the most
  /// parts.
  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    const auto& a = packed_as<Hrpb>(packed);
    check_blocks(a, options_);
    std::vector<std::int64_t> terms(static_cast<std::size_t>(a.rows()), 0);
    const std::vector<std::int64_t> parts =
        splits() ? split_by_waves(a, 1) : std::vector<std::int64_t>{};
    for (std::int64_t panel = 0; panel < a.num_row_panels(); ++panel) {
      const std::int64_t first = panel * a.tile_rows;
      const std::int64_t rows = std::min<std::int64_t>(a.tile_rows, a.rows() - first);
      if (splits() && parts[panel] > 1)
        for (std::int64_t r = 0; r < rows; ++r) terms[first + r] += parts[panel];
      for (std::int64_t b = a.blocked_row_ptr[panel]; b < a.blocked_row_ptr[panel + 1]; ++b)
        for_each_mma(a, b, options_.depth, [&](const BlockMma& mma) {
          for (int r = 0; r < Hrpb::kBrickRows; ++r)
            if (has_row(mma, r)) ++terms[first + mma.brick_row * Hrpb::kBrickRows + r];
        });
    }
    return terms;
  }

  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override {
    const auto& a = packed_as<Hrpb>(packed);
    check_blocks(a, options_);
    const auto split = split_panels(plan_tasks(a, b.cols, options_));
    require<Unsupported>(split.empty(),
                         "cutespmm adds the parts of {} row panels in no fixed order: only with "
                         "balance = none or sorted is there one",
                         split.size());
    const FusedStep& step = generation.step(MmaType::kTf32);
    const PreparedB prepared(b, precision_);
    DenseMatrix c(a.rows(), b.cols);
    parallel_for(a.num_row_panels(), 8, [&](std::int64_t begin, std::int64_t end) {
      PanelEmulation panels(a, options_.depth, precision_, step, prepared);
      for (std::int64_t panel = begin; panel < end; ++panel) panels.run(panel, c);
    });
    return c;
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override {
    const auto& a = packed_as<Hrpb>(packed);
    WorkDescription work{.kernel = "cutespmm",
                         .mma_type = "tf32",
                         .mma_shape = options_.depth == 4 ? "m16n8k4" : "m16n8k8",
                         .flops_per_mma = 2 * 16 * 8 * options_.depth};
    describe_cute_launches(a, n, options_, work);
    work.footprint_bytes = stats(a).bytes;
    work.b_rows_bytes = 4 * n * count_distinct(a.active_cols, a.cols());
    work.c_bytes = 4 * n * a.rows();
    work.useful_flops = 2 * a.nnz() * n;
    return work;
  }

 private:
  /// True where the parts of a heavy row panel are added in memory.
  bool splits() const {
    return options_.balance == Balance::kWaves || options_.balance == Balance::kAverage;
  }

  CuteSpmmOptions options_;
  Precision precision_;
};

const Register<SpmmKernel> entry{{
    .name = "cutespmm",
    .summary = "HRPB on TF32 tensor cores, rows of B and bricks through shared memory (cuTeSpMM)",
    .params =
        {{"mma",
          std::string("m16n8k8"),
          "MMA instruction: one brick (m16n8k4, as in the paper) or two neighbouring ones",
          {"m16n8k4", "m16n8k8"}},
         {"coarsen",
          std::int64_t{128},
          "columns of C of a warp (TN; 32 in the paper), of a team's 128; 0: fewer where there are "
          "few row panels, so that every SM has two warps",
          {"0", "32", "64", "128"}},
         {"stages",
          std::int64_t{2},
          "blocks of a team in shared memory; 1: no copies ahead",
          {},
          1,
          kMaxStages},
         {"panels", std::int64_t{1}, "row panels of a thread block", {"1", "2", "4"}},
         {"balance",
          std::string("waves"),
          "heavy row panels: waves, split with atomics (section 5, equations 6 and 7); average, "
          "split to the mean number of blocks; sorted, started first; none",
          {"none", "waves", "average", "sorted"}},
         {"resident",
          std::int64_t{0},
          "resident thread blocks, for balance=waves; 0: those of the described device or the GPU",
          {},
          0,
          1 << 20},
         {"precision",
          std::string("tf32"),
          "operands rounded to TF32 (tf32), truncated (tf32_raw), or in two parts, for three MMAs "
          "(tf32x3)",
          {"tf32", "tf32_raw", "tf32x3"}}},
    .make = [](const Params& params) { return std::make_unique<CuteSpmm>(read_options(params)); },
}};

}  // namespace
}  // namespace tessera
