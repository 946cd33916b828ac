// DTC-SpMM (Fan et al., ASPLOS 2024): ME-TCF with windows of 16 rows, TC blocks of A scattered into
// shared memory by their local ids, m16n8k4 on TF32 tensor cores. Every choice of its kernels is a
// parameter: fetch = float, float2 or float4 loads rows of B to registers by loads of that width,
// split distributes C's columns over the warps of a thread block, double_buffer copies a TC block
// of A while the one before is multiplied, and balance = strict cuts the TC blocks into equal
// shares.
//
// Departures: by default rows of B are copied to shared memory asynchronously, 512 bytes by one
// instruction, because lanes that load fragments from the L2 take a wavefront of the L1 for every
// 32 bytes; without split, the four warps of a thread block are independent, and each computes
// max_blocks TC blocks; parts of a split window are added in the order of their TC blocks unless
// combine = atomic; columns of C are permuted among MMAs so that a lane's columns of a row are as
// many as a load has; where rows are not aligned to 16 bytes, loads are of single floats; operands
// are rounded to nearest; any N, M, K. m16n8k8 multiplies a TC block by one instruction.

#include "kernels/spmm/dtc_spmm/dtc_spmm.hpp"

#include <numeric>

#include "formats/base/registry.hpp"
#include "kernels/named_values.hpp"
#include "kernels/spmm/dtc_spmm/trace.hpp"
#include "kernels/spmm/row_windows/me_tcf_kernel.hpp"

namespace tessera {

namespace dtc_spmm {
namespace {

constexpr NamedValue<int> kMmas[] = {{"m16n8k4", 4}, {"m16n8k8", 8}};
constexpr NamedValue<Fetch> kFetches[] = {{"staged", Fetch::kStaged},
                                          {"float", Fetch::kFloat},
                                          {"float2", Fetch::kFloat2},
                                          {"float4", Fetch::kFloat4}};
constexpr NamedValue<bool> kBalances[] = {{"strict", true}, {"none", false}};
constexpr NamedValue<CombineMethod> kCombineMethods[] = {{"ordered", CombineMethod::kOrdered},
                                                         {"atomic", CombineMethod::kAtomic}};

}  // namespace

DtcSpmmOptions::DtcSpmmOptions(const Params& params)
    : depth(value_of(kMmas, params.text("mma"))),
      fetch(value_of(kFetches, params.text("fetch"))),
      split(params.flag("split")),
      double_buffer(params.flag("double_buffer")),
      strict(value_of(kBalances, params.text("balance"))),
      max_blocks(params.integer("max_blocks")),
      combine(value_of(kCombineMethods, params.text("combine"))) {}

std::string DtcSpmmOptions::to_text() const {
  return fmt::format(
      "mma = {}, fetch = {}, split = {}, double_buffer = {}, balance = {}, max_blocks = {}, "
      "combine "
      "= {}",
      name_of(kMmas, depth), name_of(kFetches, fetch), split, double_buffer,
      name_of(kBalances, strict), max_blocks, name_of(kCombineMethods, combine));
}

row_windows::Schedule DtcSpmmOptions::schedule(std::int64_t n) const {
  const int groups = n <= 32 ? 1 : n <= 64 ? 2 : 4;
  return split ? schedule_of(1, groups) : schedule_of(groups, 1);
}

Variant DtcSpmmOptions::variant(std::int64_t n, bool aligned) const {
  const row_windows::Schedule shape = schedule(n);
  const Variant variant{depth, fetch, aligned, shape.groups, shape.team};
  return aligned && fetch != Fetch::kFloat ? variant : without_alignment(variant);
}

window_tasks::Tasks DtcSpmmOptions::cut(const MeTcf& a) const {
  require(a.window_rows == window16_tile::kWindowRows,
          "dtc_spmm multiplies TC blocks {} rows high, and these of ME-TCF are {}: give it "
          "window_rows = {}",
          window16_tile::kWindowRows, a.window_rows, window16_tile::kWindowRows);
  if (strict) return window_tasks::cut_into_equal_shares(a.row_window_offset, max_blocks);
  window_tasks::Tasks tasks = window_tasks::cut(a.row_window_offset, 0);
  tasks.shares.resize(tasks.tasks.size() + 1);
  std::iota(tasks.shares.begin(), tasks.shares.end(), 0u);
  return tasks;
}

std::int64_t DtcSpmmOptions::shared_bytes(std::int64_t n) const {
  return SharedMemory{.schedule = schedule(n), .has_stages = fetch == Fetch::kStaged}.bytes();
}

std::vector<ParamSpec> params() {
  return {
      {"mma", std::string("m16n8k4"),
       "MMA instruction: half a TC block (m16n8k4, as in the paper) or a whole one (m16n8k8)",
       names_of(kMmas)},
      {"fetch", std::string("staged"),
       "how rows of B reach the warps: copied to shared memory asynchronously (staged), or loaded "
       "to registers by loads of one, two or four floats a lane, as in the paper",
       names_of(kFetches)},
      {"split", false,
       "whether the warps of a thread block share TC blocks of A and split C's columns"},
      {"double_buffer", true,
       "whether a TC block of A is copied while the one before is multiplied"},
      {"balance", std::string("strict"),
       "work of a team of warps: max_blocks TC blocks, wherever windows begin (strict), or one "
       "window (none)",
       names_of(kBalances)},
      {"max_blocks", std::int64_t{16}, "TC blocks of a team, for balance = strict", {}, 1, 1 << 20},
      {"combine", std::string("ordered"),
       "how the sums of a split window are combined: in the order of their TC blocks (ordered), or "
       "by atomics (atomic)",
       names_of(kCombineMethods)}};
}

}  // namespace dtc_spmm

namespace {

using dtc_spmm::DtcSpmmOptions;
using row_windows::Schedule;
using window_tasks::CombineMethod;
using window_tasks::Tasks;

class DtcSpmm final : public SpmmKernel {
 public:
  explicit DtcSpmm(const DtcSpmmOptions& options) : options_(options) {}

  std::string format() const override { return MeTcf::kFormat; }
  int version() const override { return 1; }
  Arithmetic arithmetic() const override {
    Arithmetic arithmetic = me_tcf_kernel::arithmetic(find_precision("tf32"), options_.depth);
    arithmetic.adds_in_memory = options_.combine == CombineMethod::kAtomic;
    return arithmetic;
  }

  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    const auto& a = packed_as<MeTcf>(packed);
    return me_tcf_kernel::terms_per_row(a, options_.depth, options_.cut(a));
  }

  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override {
    const auto& a = packed_as<MeTcf>(packed);
    const Tasks tasks = options_.cut(a);
    require<Unsupported>(
        tasks.splits.empty() || options_.combine == CombineMethod::kOrdered,
        "dtc_spmm is not emulated with combine = atomic: atomics add the parts of {} split windows "
        "in no fixed order",
        tasks.splits.size());
    return me_tcf_kernel::emulate(a, find_precision("tf32"), options_.depth, tasks, b, generation);
  }

  /// Those of the stores: a task, and each group of columns besides. Those of TC blocks are in
  /// trace.hpp.
  window16_tile::WarpInstructions instructions() const {
    const bool narrow = options_.fetch == dtc_spmm::Fetch::kFloat;
    return {.task_start = 0,
            .tile = 0,
            .group = 0,
            .copy = 0,
            .store = narrow ? 149 : 40,
            .store_group = narrow ? 155 : 68};
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override {
    const auto& a = packed_as<MeTcf>(packed);
    const Schedule schedule = options_.schedule(n);
    WorkDescription work = window16_tile::describe<dtc_spmm::Trace>(
        "dtc_spmm", {std::shared_ptr<const MeTcf>(), &a}, n,  // not owned
        std::make_shared<const Tasks>(options_.cut(a)),
        {.schedule = schedule,
         .depth = options_.depth,
         .staged = options_.fetch == dtc_spmm::Fetch::kStaged,
         .width = dtc_spmm::width_of(options_.variant(n, n % 4 == 0).fetch),
         .stages = dtc_spmm::kStages,
         .double_buffer = options_.double_buffer,
         .combine = options_.combine,
         .registers = registers(schedule),
         .shared_bytes = options_.shared_bytes(n),
         .instructions = instructions()});
    work.footprint_bytes = stats(a).bytes;
    return work;
  }

 private:
  /// Registers allocated for a thread (CUDA 13.0, sm_90a).
  static int registers(const Schedule& schedule) {
    if (schedule.team > 1) return schedule.team == 2 ? 96 : 80;
    return schedule.groups == 1 ? 88 : schedule.groups == 2 ? 128 : 168;
  }

  DtcSpmmOptions options_;
};

const Register<SpmmKernel> entry{{
    .name = "dtc_spmm",
    .summary = "ME-TCF of 16-row windows on TF32 tensor cores, m16n8k4 (DTC-SpMM)",
    .params = dtc_spmm::params(),
    .make = [](const Params& params) { return std::make_unique<DtcSpmm>(DtcSpmmOptions(params)); },
}};

}  // namespace
}  // namespace tessera
