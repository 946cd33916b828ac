// FlashSparse (Shi et al., PPoPP 2025): vectors of 8 x 1 as the right operand of an MMA, whose
// eight columns are the smallest extent of any MMA, on TF32 or FP16 tensor cores.
//
// The operands are swapped and the result is C transposed (the paper's swap-and-transpose
// strategy); A is in ME-BCRS. The depth of an MMA is the width of the format's TC blocks: m16n8k4
// or m16n8k8 in TF32, m16n8k8 or m16n8k16 in FP16. `map` is the paper's coalesced mapping of
// columns of B to lanes, `balance` its splitting of long windows.
//
// pipeline = registers is the paper's: each lane loads the elements that it multiplies. Ours,
// staged, copies whole rows of B to shared memory asynchronously, which takes a quarter of the L1's
// wavefronts; it always has the map. Departures: a lane has four neighbouring columns, not two; the
// caller gives B in FP32: for FP16 a launch of its own converts it (b = converted) or the lanes
// that load it do (as_is), and auto takes the one that should move its bytes in less time; values
// beyond the range of FP16 become infinite, which the oracle reports as wrong; operands are rounded
// to nearest; the parts of a split window are added in their order, unless combine = atomic; any M,
// K and N.

#include "kernels/spmm/vector_tiles/flash_spmm.hpp"

#include "formats/base/registry.hpp"

namespace tessera {

using namespace vector_tiles;

flash_spmm::FlashSpmmOptions::FlashSpmmOptions(const Params& params)
    : precision(find_precision(params.text("precision"))),
      pipeline(params.text("pipeline") == "staged" ? Pipeline::kStaged : Pipeline::kRegisters),
      mapped(params.text("map") == "on"),
      stages(static_cast<int>(params.integer("stages"))),
      columns(static_cast<int>(params.integer("columns"))),
      max_vectors(params.text("balance") == "on" ? params.integer("max_vectors") : 0),
      atomic(params.text("combine") == "atomic") {
  const std::string& b = params.text("b");
  conversions = b == "auto"        ? Conversions::kAuto
                : b == "converted" ? Conversions::kConverted
                                   : Conversions::kAsIs;
  require<Unsupported>(
      has_instance(pipeline, mapped),
      "flash_spmm has no instance with pipeline = {} and map = {}: copies of whole "
      "rows are as wide without a map",
      params.text("pipeline"), params.text("map"));
}

window_tasks::Tasks flash_spmm::FlashSpmmOptions::tasks(const Vectors& a) const {
  return cut(a, max_vectors);
}

/// The conversion reads 4 bytes and writes 2 for every element of B, and then saves 2 for every
/// gathered element. Gathered rows come from the L2, at 8.3 TB/s on an H200; the conversion uses
/// device memory, at about 5 TB/s; a launch takes as long as moving some 20 MB.
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
  const Operand type = operand(a, n);
  const int groups = pipeline == Pipeline::kStaged ? groups_for(n, columns) : 1;
  const Instance* instance = find_instance(pipeline, type, a.depth, mapped, groups);
  require<Unsupported>(instance != nullptr,
                       "flash_spmm has {} instances for TC blocks of {} or {} vectors, not of {}",
                       precision.name, deepest(type) / 2, deepest(type), a.depth);
  window_tasks::Tasks tasks_of_a = tasks(a);
  const auto num_tasks = std::ssize(tasks_of_a.tasks);
  return {.schedule = {.instance = *instance,
                       .stages = stages_for(stages, type, a.depth, groups),
                       .num_tasks = num_tasks,
                       .n = n},
          .atomic = atomic,
          .tasks = std::move(tasks_of_a)};
}

namespace {

using flash_spmm::FlashSpmmOptions;

class FlashSpmm final : public SpmmKernel {
 public:
  explicit FlashSpmm(FlashSpmmOptions options) : options_(std::move(options)) {}

  std::string format() const override { return MeBcrs::kFormat; }
  int version() const override { return 1; }

  Arithmetic arithmetic() const override {
    return {.sum = Arithmetic::Sum::kTensorCore,
            .type = type(),
            .mma_depth = options_.precision.depth,
            .input_error = options_.precision.input_error,
            .adds_in_memory = options_.atomic};
  }

  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    const Vectors a(packed_as<MeBcrs>(packed));
    return vector_tiles::terms_per_row(a, options_.tasks(a));
  }

  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override {
    const Vectors a(packed_as<MeBcrs>(packed));
    const Plan plan = options_.plan(a, b.cols);
    require<Unsupported>(
        plan.tasks.splits.empty() || !options_.atomic,
        "combine = atomic adds the parts of {} split windows in no fixed order, so that there "
        "is nothing to emulate",
        plan.tasks.splits.size());
    return vector_tiles::emulate(a, plan.tasks, options_.precision, generation.step(type()), b);
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override {
    Vectors a(packed_as<MeBcrs>(packed));
    Plan plan = options_.plan(a, n);
    return describe_work("flash_spmm", packed, std::move(a), std::move(plan), n);
  }

 private:
  MmaType type() const { return type_of(options_.precision.conversion); }

  FlashSpmmOptions options_;
};

const Register<SpmmKernel> entry{{
    .name = "flash_spmm",
    .summary = "8 x 1 vectors on TF32 or FP16 tensor cores, swapped and transposed (FlashSparse)",
    .params =
        {{"precision",
          std::string("tf32"),
          "type of the operands on tensor cores",
          {"tf32", "fp16"}},
         {"pipeline",
          std::string("staged"),
          "path of rows of B to the warps: asynchronous copies to shared memory, or loads straight "
          "to registers as in the paper",
          {"staged", "registers"}},
         {"map",
          std::string("on"),
          "columns of B of a lane: neighbours, in one wide load (on), or eight apart as in the "
          "fragment (off; needs pipeline = registers)",
          {"on", "off"}},
         {"b",
          std::string("auto"),
          "conversion of B to FP16: by a launch of its own, or by the lanes that load it (as_is); "
          "auto: whichever should take less time",
          {"auto", "converted", "as_is"}},
         {"stages",
          std::int64_t{0},
          "TC blocks of a warp whose rows of B are in shared memory (staged); 0: by their size",
          {"0", "2", "3", "4"}},
         {"columns",
          std::int64_t{0},
          "columns of C of a warp (staged); 0: 32, 64 or 128, by the width of C",
          {"0", "32", "64", "128"}},
         {"balance",
          std::string("on"),
          "splitting of windows with more than max_vectors vectors into equal parts",
          {"on", "off"}},
         {"max_vectors", std::int64_t{128}, "most vectors of a warp (balance)", {}, 4, 1 << 20},
         {"combine",
          std::string("ordered"),
          "addition of the parts of a split window: in the order of its vectors, or by atomics",
          {"ordered", "atomic"}}},
    .make =
        [](const Params& params) { return std::make_unique<FlashSpmm>(FlashSpmmOptions(params)); },
}};

}  // namespace
}  // namespace tessera
