// Magicube (Li et al., SC 2022): vectors of V x 1 (V = 2, 4 or 8, the format's) on INT8 or FP16
// tensor cores, from SR-BCRS, whose strides are as long as an MMA is deep.
//
// precision = int8 is the paper's: A (when it is uploaded) and B (by the launch: one pass for its
// largest magnitude, one that rounds) are quantised with one scale for each matrix, symmetric, to
// nearest even; m16n8k32 sums exact products exactly in INT32, and C is the sum times both scales,
// rounded to FP32: first that of A, so that an A whose sums could overflow there is refused. A NaN
// or an infinity in B makes every element of C NaN. precision = fp16 is the paper's own baseline:
// m16n8k16 with FP32 sums of operands rounded to FP16.
//
// As in the paper, row-major strides let a fragment of A load without a transposition; warps copy
// whole rows of B to shared memory ahead of their use (data prefetch) and transpose four bytes at a
// time in registers (online transposition of the right operand). Departures: operands are swapped,
// so that V rows are columns of the MMA and not rows (an MMA has eight columns; those beyond V
// multiply zeros); the caller's B and C are FP32; there is no INT4 and no INT16 of two parts.

#include "kernels/spmm/vector_tiles/magicube.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "kernels/tensor_core/int8_scale.hpp"

namespace tessera {

using namespace vector_tiles;

magicube::MagicubeOptions::MagicubeOptions(const Params& params)
    : int8(params.text("precision") == "int8"),
      stages(static_cast<int>(params.integer("stages"))),
      columns(static_cast<int>(params.integer("columns"))) {}

namespace {

/// Refuses an A with sums that overflow FP32 times the scale of A, though that of B would bring
/// them back. An infinity passes: every element of C is infinite or NaN then.
void require_scalable(const Vectors& a, std::int64_t most_vectors) {
  double largest = 0;
  for (const float value : a.values) largest = std::max(largest, std::abs(double{value}));
  constexpr double kRoundings = 1 + 0x1p-20;  // of scale, sum and product
  const double sum = kRoundings * kLargestInt8 * largest * static_cast<double>(most_vectors);
  require<Unsupported>(
      !std::isfinite(largest) || sum <= std::numeric_limits<float>::max(),
      "sums of {} products of INT8 times the scale of A, whose largest magnitude is "
      "{:.3g}, overflow FP32",
      most_vectors, largest);
}

}  // namespace

Plan magicube::MagicubeOptions::plan(const Vectors& a, std::int64_t n) const {
  const Operand operand = int8 ? Operand::kInt8 : Operand::kFp16;
  const int depth = deepest(operand);
  require<Unsupported>(a.depth == depth,
                       "magicube with precision = {} takes strides of {} vectors, not of {}",
                       int8 ? "int8" : "fp16", depth, a.depth);
  constexpr std::int64_t kMostVectors =
      std::numeric_limits<std::int32_t>::max() / (kLargestInt8 * kLargestInt8);
  window_tasks::Tasks tasks = cut(a, 0);
  std::int64_t most_vectors = 0;
  for (const window_tasks::Task& task : tasks.tasks)
    most_vectors = std::max<std::int64_t>(most_vectors, task.last - task.first);
  require<Unsupported>(!int8 || most_vectors <= kMostVectors,
                       "INT32 holds sums of at most {} products of INT8; a window needs {}",
                       kMostVectors, most_vectors);
  if (int8) require_scalable(a, most_vectors);
  const int groups = groups_for(n, columns);
  const Instance* instance = find_instance(Pipeline::kStaged, operand, depth, true, groups);
  require<Unsupported>(instance != nullptr, "magicube has no instance of {} columns of C a warp",
                       groups * kGroupCols);
  const auto num_tasks = std::ssize(tasks.tasks);
  return {.schedule = {.instance = *instance,
                       .stages = stages_for(stages, operand, depth, groups),
                       .num_tasks = num_tasks,
                       .n = n},
          .tasks = std::move(tasks)};
}

namespace {

using magicube::MagicubeOptions;

/// C = A B by exact sums of products of quantised operands.
DenseMatrix emulate_int8(const Vectors& a, const DenseMatrix& b) {
  const Int8Scale scale_a(a.values), scale_b(b.values);
  std::vector<std::int8_t> quantised(b.values.size());
  std::ranges::transform(b.values, quantised.begin(),
                         [&](float value) { return scale_b.quantize(value); });
  DenseMatrix c(a.rows, b.cols);
  parallel_for(a.num_windows(), 16, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int32_t> sums(static_cast<std::size_t>(b.cols));
    for (std::int64_t w = begin; w < end; ++w) {
      for (int r = 0; r < a.rows_of_window(w); ++r) {
        std::ranges::fill(sums, 0);
        for (std::uint32_t v = a.window_offset[w]; v < a.window_offset[w + 1]; ++v) {
          const std::int32_t col = a.col_indices[v];
          if (col == kNoColumn) continue;
          const auto depth = static_cast<std::uint32_t>(a.depth);
          const int k = static_cast<int>(v % depth);
          const std::int32_t value = scale_a.quantize(a.cell(v - v % depth, a.depth, r, k));
          const std::int8_t* row = quantised.data() + col * b.cols;
          for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += value * row[j];
        }
        const std::span<float> to = c.row(w * a.vector_rows + r);
        for (std::size_t j = 0; j < sums.size(); ++j)
          to[j] = int8_result(sums[j], scale_a, scale_b);
      }
    }
  });
  return c;
}

class Magicube final : public SpmmKernel {
 public:
  explicit Magicube(const MagicubeOptions& options) : options_(options) {}

  std::string format() const override { return SrBcrs::kFormat; }
  int version() const override { return 1; }

  Arithmetic arithmetic() const override {
    if (options_.int8)
      return {.sum = Arithmetic::Sum::kInteger, .quantisation = 0.5001 / kLargestInt8};
    return {.sum = Arithmetic::Sum::kTensorCore,
            .type = MmaType::kFp16,
            .mma_depth = 16,
            .input_error = find_precision("fp16").input_error};
  }

  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    const Vectors a(packed_as<SrBcrs>(packed));
    return vector_tiles::terms_per_row(a, cut(a, 0));
  }

  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override {
    const Vectors a(packed_as<SrBcrs>(packed));
    const Plan plan = options_.plan(a, b.cols);
    if (options_.int8) return emulate_int8(a, b);
    return vector_tiles::emulate(a, plan.tasks, find_precision("fp16"),
                                 generation.step(MmaType::kFp16), b);
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override {
    Vectors a(packed_as<SrBcrs>(packed));
    Plan plan = options_.plan(a, n);
    return describe_work("magicube", packed, std::move(a), std::move(plan), n);
  }

 private:
  MagicubeOptions options_;
};

const Register<SpmmKernel> entry{{
    .name = "magicube",
    .summary = "V x 1 vectors on INT8 or FP16 tensor cores (Magicube)",
    .params =
        {{"precision",
          std::string("fp16"),
          "type of the operands: int8 (one scale per matrix, exact sums; needs stride = 32) "
          "or fp16 (needs stride = 16)",
          {"int8", "fp16"}},
         {"stages",
          std::int64_t{0},
          "strides of a warp whose rows of B are in shared memory; 2: double buffering; 0: by "
          "their size",
          {"0", "2", "3", "4"}},
         {"columns",
          std::int64_t{0},
          "columns of C of a warp; 0: 32, 64 or 128, by the width of C",
          {"0", "32", "64", "128"}}},
    .make =
        [](const Params& params) { return std::make_unique<Magicube>(MagicubeOptions(params)); },
}};

}  // namespace
}  // namespace tessera
