// DTC-SpMM (Fan et al., ASPLOS 2024): ME-TCF with windows of 16 rows, TC blocks of A scattered into
// shared memory by their local ids, m16n8k4 on TF32 tensor cores. Every choice of its kernels is a
// parameter: fetch = float, float2 or float4 brings rows of B past shared memory by loads of that
// width, split lays C's columns over the warps of a thread block, double_buffer copies a TC block
// of A while the one before is multiplied, and balance = strict gives all equally many TC blocks.
//
// Departures: by default rows of B are staged in shared memory by asynchronous copies, a row of 512
// bytes with one instruction, since lanes that load fragments themselves take a wavefront of the L1
// for every 32 bytes; without split a warp works for itself, four in a thread block, and has
// max_blocks TC blocks; parts of a split window are added in the order of their TC blocks unless
// combine = atomic; columns of C are permuted among MMAs so that lanes take as much of a row as a
// load is wide; where rows are not aligned to 16 bytes, loads are of single floats; operands are
// rounded to nearest; any N, M, K. m16n8k8 multiplies a TC block at once.

#include "kernels/spmm/dtc_spmm/dtc_spmm.hpp"

#include <numeric>

#include "formats/base/registry.hpp"
#include "kernels/spmm/dtc_spmm/trace.hpp"
#include "kernels/spmm/row_windows/clear_trace.hpp"
#include "kernels/spmm/row_windows/me_tcf_kernel.hpp"

namespace tessera {

namespace {

dtc_spmm::Fetch fetch_of(const std::string& name) {
  using enum dtc_spmm::Fetch;
  if (name == "staged") return kStaged;
  if (name == "float") return kFloat;
  return name == "float2" ? kFloat2 : kFloat4;
}

}  // namespace

dtc_spmm::DtcSpmmOptions::DtcSpmmOptions(const Params& params)
    : depth(params.text("mma") == "m16n8k4" ? 4 : 8),
      fetch(fetch_of(params.text("fetch"))),
      split(params.flag("split")),
      double_buffer(params.flag("double_buffer")),
      strict(params.text("balance") == "strict"),
      max_blocks(params.integer("max_blocks")),
      combine(params.text("combine") == "atomic" ? row_windows::Combine::kAtomic
                                                 : row_windows::Combine::kOrdered) {}

dtc_spmm::Geometry dtc_spmm::DtcSpmmOptions::geometry(std::int64_t n) const {
  const int groups = n <= 32 ? 1 : n <= 64 ? 2 : 4;
  return split ? Geometry{1, groups} : Geometry{groups, 1};
}

window_tasks::Tasks dtc_spmm::DtcSpmmOptions::cut(const MeTcf& a) const {
  require(a.window_rows == window16_tile::kWindowRows,
          "dtc_spmm multiplies TC blocks {} rows high, and these of ME-TCF are {}: give it "
          "window_rows = {}",
          window16_tile::kWindowRows, a.window_rows, window16_tile::kWindowRows);
  if (strict) return window_tasks::deal(a.row_window_offset, max_blocks);
  window_tasks::Tasks tasks = window_tasks::cut(a.row_window_offset, 0);
  tasks.shares.resize(tasks.tasks.size() + 1);
  std::iota(tasks.shares.begin(), tasks.shares.end(), 0u);
  return tasks;
}

std::int64_t dtc_spmm::DtcSpmmOptions::shared_bytes(const Geometry& shape) const {
  constexpr std::int64_t kFloat = 4;
  const int stages = fetch == Fetch::kStaged ? shape.team * stage_floats(shape.groups) : 0;
  return kFloat * shape.teams() * (kTiles * window16_tile::kCells + stages);
}

std::vector<ParamSpec> dtc_spmm::params() {
  return {
      {"mma",
       std::string("m16n8k4"),
       "instruction: half a TC block (m16n8k4, as in the paper) or all of it",
       {"m16n8k4", "m16n8k8"}},
      {"fetch",
       std::string("staged"),
       "how rows of B reach the warps: by asynchronous copies to shared memory (staged), or "
       "straight to registers by loads of one, two or four floats a lane, as in the paper",
       {"staged", "float", "float2", "float4"}},
      {"split", false, "C's columns over the warps of a thread block, which share A's TC block"},
      {"double_buffer", true, "a TC block of A is copied while the one before is multiplied"},
      {"balance",
       std::string("strict"),
       "max_blocks TC blocks for every team of warps, of as many windows as that takes "
       "(strict), or a window each (none)",
       {"strict", "none"}},
      {"max_blocks", std::int64_t{16}, "TC blocks of a team, for strict", {}, 1, 1 << 20},
      {"combine",
       std::string("ordered"),
       "sums of a split window: in the order of their TC blocks, or by atomics",
       {"ordered", "atomic"}}};
}

namespace {

using dtc_spmm::DtcSpmmOptions;
using dtc_spmm::Geometry;
using window_tasks::Task;
using window_tasks::Tasks;

class DtcSpmm final : public SpmmKernel {
 public:
  explicit DtcSpmm(const DtcSpmmOptions& choices) : choices_(choices) {}

  std::string format() const override { return MeTcf::kFormat; }
  int version() const override { return 1; }
  Arithmetic arithmetic() const override { return me_tcf_kernel::arithmetic(choices_.depth); }

  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    const auto& a = packed_as<MeTcf>(packed);
    return me_tcf_kernel::terms_per_row(a, choices_.depth, choices_.cut(a));
  }

  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override {
    const auto& a = packed_as<MeTcf>(packed);
    const Tasks tasks = choices_.cut(a);
    require<Unsupported>(tasks.splits.empty() || !adds(),
                         "atomics add the parts of {} windows in no known order",
                         tasks.splits.size());
    return me_tcf_kernel::emulate(a, choices_.depth, tasks, b, generation);
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override {
    const auto& a = packed_as<MeTcf>(packed);
    WorkDescription work = me_tcf_kernel::describe("dtc_spmm", a, choices_.depth, n);
    work.footprint_bytes = stats(a).bytes;
    const auto tasks = std::make_shared<const Tasks>(choices_.cut(a));
    const Geometry shape = choices_.geometry(n);
    const dtc_spmm::Addresses at(a, *tasks, n, shape, work.memory);
    const std::int64_t clearings = adds() ? std::ssize(tasks->splits) : 0;
    for (std::int64_t i = 0; i < clearings; ++i) {
      const std::int64_t window = tasks->tasks[tasks->splits[i].first_task].window;
      work.thread_blocks.push_back(
          {.a_bytes = 16, .c_bytes = 4 * me_tcf_kernel::rows_of_window(a, window) * n});
    }
    if (clearings > 0)
      work.launches.push_back({.name = "clear",
                               .thread_blocks = clearings,
                               .threads_per_block = row_windows::kClearThreads,
                               .registers_per_thread = row_windows::kClearRegisters,
                               .trace = row_windows::make_clear_trace({.window_rows = a.window_rows,
                                                                       .rows = a.rows(),
                                                                       .n = n,
                                                                       .tasks = at.tasks,
                                                                       .c = at.c},
                                                                      tasks)});
    add_thread_blocks(a, *tasks, n, shape, work.thread_blocks);
    work.launches.push_back({.name = "multiply",
                             .thread_blocks = std::ssize(work.thread_blocks) - clearings,
                             .threads_per_block = shape.threads(),
                             .registers_per_thread = registers(shape),
                             .shared_bytes = choices_.shared_bytes(shape),
                             .trace = make_trace(a, n, choices_, tasks, at)});
    return work;
  }

 private:
  bool adds() const { return choices_.combine == row_windows::Combine::kAtomic; }

  /// Of a thread, as they are allocated (CUDA 13.0, sm_90a).
  static int registers(const Geometry& shape) {
    if (shape.team > 1) return shape.team == 2 ? 96 : 80;
    return shape.groups == 1 ? 88 : shape.groups == 2 ? 128 : 168;
  }

  void add_thread_blocks(const MeTcf& a, const Tasks& tasks, std::int64_t n, const Geometry& shape,
                         std::vector<ThreadBlockWork>& all) const {
    for (std::int64_t first_col = 0; first_col < n; first_col += shape.team_cols()) {
      const std::int64_t cols = std::min<std::int64_t>(shape.team_cols(), n - first_col);
      for (std::int64_t share = 0; share < tasks.num_shares(); ++share) {
        if (share % shape.teams() == 0) all.emplace_back();
        all.back().a_bytes += 8;
        for (std::int64_t i = tasks.first_of(share); i < tasks.first_of(share + 1); ++i)
          add_task(a, tasks, i, shape, cols, all.back());
      }
    }
  }

  /// What a task adds to its thread block: TC blocks of a window, `cols` columns of B and C.
  void add_task(const MeTcf& a, const Tasks& tasks, std::int64_t index, const Geometry& shape,
                std::int64_t cols, ThreadBlockWork& work) const {
    const Task& task = tasks.tasks[index];
    const std::int64_t blocks = task.last - task.first;
    const std::int64_t nnz = a.tc_offset[task.last] - a.tc_offset[task.first];
    const std::int64_t warps = (cols + shape.warp_cols() - 1) / shape.warp_cols();
    // Columns beyond the edge are multiplied, too, but for warps that have no others.
    work.mma +=
        blocks * warps * shape.groups * window16_tile::kMmas * MeTcf::kTileCols / choices_.depth;
    // A's local ids and values once, offsets, column indices and the task for every warp.
    work.a_bytes += 5 * nnz + shape.team * (blocks * (4 + 4 * MeTcf::kTileCols) + 16);
    work.b_bytes += 4 * me_tcf_kernel::count_active_cols(a, task.first, task.last) * cols;
    if (shape.team > 1) work.barriers += shape.team * (blocks + (blocks > 0 ? 2 : 1));
    const std::int64_t values = me_tcf_kernel::rows_of_window(a, task.window) * cols;
    const bool is_last = tasks.is_last_part(index);
    if (task.split != 0 && adds())
      work.atomics += values;
    else if (is_last)
      work.c_bytes += 4 * values;
  }

  DtcSpmmOptions choices_;
};

const Register<SpmmKernel> entry{{
    .name = "dtc_spmm",
    .summary = "ME-TCF of 16-row windows on TF32 tensor cores, m16n8k4 (DTC-SpMM)",
    .params = dtc_spmm::params(),
    .make = [](const Params& params) { return std::make_unique<DtcSpmm>(DtcSpmmOptions(params)); },
}};

}  // namespace
}  // namespace tessera
