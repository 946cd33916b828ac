// FlashSparse (Shi et al., PPoPP 2025): vectors of 8 x 1 as the right operand of an MMA, whose
// eight columns are the least that an MMA has anywhere, on TF32 or FP16 tensor cores.
//
// The operands change places and C comes out transposed (the paper's swap-and-transpose strategy);
// A is ME-BCRS, read as it is packed. The depth of an MMA is the width of the format's TC blocks:
// m16n8k4 or m16n8k8 in TF32, m16n8k8 or m16n8k16 in FP16. map is the paper's coalesced mapping of
// columns of B to lanes, balance its cutting of long windows.
//
// pipeline = registers is the paper's: lanes load what they multiply. Ours, staged, copies whole
// rows of B to shared memory asynchronously, which takes a quarter of the L1's wavefronts; it is
// mapped always. Departures: a lane's columns are four next to each other, not two; B is FP32 to
// the caller: for FP16 it is converted by a launch of its own (b = converted) or on the way
// (as_is), auto by what the bytes that either moves should take; values beyond FP16's range become
// infinite, which the oracle calls wrong; operands are rounded to nearest; the parts of a cut
// window are added in their order, unless combine = atomic; any M, K and N.

#include "kernels/spmm/vector_tiles/flash_spmm.hpp"

#include "formats/base/registry.hpp"

namespace tessera {

using namespace vector_tiles;

flash_spmm::FlashSpmmOptions::FlashSpmmOptions(const Params& params)
    : precision(find_precision(params.text("precision"))),
      staged(params.text("pipeline") == "staged"),
      mapped(params.text("map") == "on"),
      stages(static_cast<int>(params.integer("stages"))),
      columns(static_cast<int>(params.integer("columns"))),
      max_vectors(params.text("balance") == "on" ? params.integer("max_vectors") : 0),
      atomic(params.text("combine") == "atomic") {
  const std::string& b = params.text("b");
  conversions = b == "auto"        ? Conversions::kAuto
                : b == "converted" ? Conversions::kConverted
                                   : Conversions::kAsIs;
  require<Unsupported>(mapped || !staged,
                       "flash_spmm has map = off for pipeline = registers alone: copies of whole "
                       "rows are as wide without any map");
}

window_tasks::Tasks flash_spmm::FlashSpmmOptions::tasks(const Vectors& a) const {
  return cut(a, max_vectors);
}

/// Converting reads 4 bytes and writes 2 for every element of B, and then saves 2 for every vector.
/// What is gathered comes from the L2, at 8.3 TB/s of an H200, what is converted goes through
/// device memory, at about 5; and a launch takes the time of some 20 MB.
Operand flash_spmm::FlashSpmmOptions::operand(const Vectors& a, std::int64_t n) const {
  if (!is_fp16()) return Operand::kTf32;
  constexpr std::int64_t kLaunchBytes = 20'000'000;
  const std::int64_t saved = 2 * std::ssize(a.col_indices) * n;
  const std::int64_t spent = 10 * std::int64_t{a.cols} * n + kLaunchBytes;
  const bool converted = conversions == Conversions::kConverted ||
                         (conversions == Conversions::kAuto && saved > spent);
  return converted ? Operand::kFp16 : Operand::kFp16AsIs;
}

Plan flash_spmm::FlashSpmmOptions::plan(const Vectors& a, std::int64_t n) const {
  const int most = is_fp16() ? 16 : 8;
  require<Unsupported>(a.depth == most || 2 * a.depth == most,
                       "{} MMAs have {} or {} vectors, not the {} of these TC blocks",
                       precision.name, most / 2, most, a.depth);
  Plan plan{.operand = operand(a, n), .staged = staged, .mapped = mapped, .atomic = atomic};
  plan.groups = staged ? groups_for(n, columns) : 1;
  plan.stages = stages_for(stages, plan.operand, a.depth, plan.groups);
  plan.tasks = tasks(a);
  return plan;
}

namespace {

using flash_spmm::FlashSpmmOptions;

class FlashSpmm final : public SpmmKernel {
 public:
  explicit FlashSpmm(FlashSpmmOptions choices) : choices_(std::move(choices)) {}

  std::string format() const override { return MeBcrs::kFormat; }
  int version() const override { return 1; }

  Arithmetic arithmetic() const override {
    return {.sum = Arithmetic::Sum::kTensorCore,
            .type = type(),
            .mma_depth = choices_.precision.depth,
            .input_error = choices_.precision.input_error};
  }

  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    const Vectors a(packed_as<MeBcrs>(packed));
    return vector_tiles::terms_per_row(a, choices_.tasks(a));
  }

  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override {
    const Vectors a(packed_as<MeBcrs>(packed));
    const Plan plan = choices_.plan(a, b.cols);
    require<Unsupported>(plan.tasks.splits.empty() || !choices_.atomic,
                         "atomics add the parts of {} windows in no known order",
                         plan.tasks.splits.size());
    return vector_tiles::emulate(a, plan.tasks, choices_.precision, generation.step(type()), b);
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override {
    Vectors a(packed_as<MeBcrs>(packed));
    Plan plan = choices_.plan(a, n);
    return describe_work("flash_spmm", packed, std::move(a), std::move(plan), n);
  }

 private:
  MmaType type() const { return type_of(choices_.precision.conversion); }

  FlashSpmmOptions choices_;
};

const Register<SpmmKernel> entry{{
    .name = "flash_spmm",
    .summary = "8 x 1 vectors on TF32 or FP16 tensor cores, swapped and transposed (FlashSparse)",
    .params =
        {{"precision",
          std::string("tf32"),
          "how FP32 operands go through the tensor core",
          {"tf32", "fp16"}},
         {"pipeline",
          std::string("staged"),
          "how rows of B reach the warps: by asynchronous copies to shared memory, or straight to "
          "registers as in the paper",
          {"staged", "registers"}},
         {"map",
          std::string("on"),
          "a lane's columns of B: next to each other, one wide load (on), or eight apart as the "
          "fragment has them (off; registers)",
          {"on", "off"}},
         {"b",
          std::string("auto"),
          "B for FP16: converted by a launch of its own, or read as it is and converted on the "
          "way; auto: whichever should take less time",
          {"auto", "converted", "as_is"}},
         {"stages",
          std::int64_t{0},
          "TC blocks of a warp in shared memory (staged); 0: by their size",
          {"0", "2", "3", "4"}},
         {"columns",
          std::int64_t{0},
          "columns of C of a warp (staged); 0: 32, 64 or 128, by the width of C",
          {"0", "32", "64", "128"}},
         {"balance",
          std::string("on"),
          "windows of more than max_vectors vectors are cut into equal parts",
          {"on", "off"}},
         {"max_vectors", std::int64_t{128}, "vectors of a warp at most (balance)", {}, 4, 1 << 20},
         {"combine",
          std::string("ordered"),
          "sums of a cut window: in the order of its vectors, or by atomics",
          {"ordered", "atomic"}}},
    .make =
        [](const Params& params) { return std::make_unique<FlashSpmm>(FlashSpmmOptions(params)); },
}};

}  // namespace
}  // namespace tessera
