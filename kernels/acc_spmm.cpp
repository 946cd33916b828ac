// Acc-SpMM (Xia et al., PPoPP 2025): BitTCF's TC blocks on TF32 tensor cores, operands swapped so
// that a window needs eight rows (section 3.4), every choice a parameter.
//
// pipeline = registers is the paper's: each lane loads the elements of B that it multiplies. Ours,
// staged, copies whole rows to shared memory (acc_staged.cuh says why). Load balance (section 3.5)
// cuts windows of more than max_blocks TC blocks, always or where the imbalance (equation 3) is
// above 8 as in the paper. Departures: A is not staged in shared memory, as its cells come a TC
// block ahead; short windows are not gathered into one thread block, as a warp takes one at a time;
// a window's parts are added in the order of its TC blocks, so that results do not depend on
// chance, unless combine = atomic; operands are rounded to nearest unless precision says otherwise;
// any N, M and K.

#include "kernels/acc_spmm.hpp"

#include <algorithm>

#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "formats/base/window_balance.hpp"
#include "kernels/acc_trace.hpp"
#include "kernels/bit_tcf_kernel.hpp"

namespace tessera {

acc_spmm::Choices::Choices(const Params& params)
    : precision(find_precision(params.text("precision"), params.integer("promote"))),
      pipeline(params.text("pipeline") == "staged" ? Pipeline::kStaged : Pipeline::kRegisters),
      stages(static_cast<int>(params.integer("stages"))),
      columns(static_cast<int>(params.integer("columns"))),
      through_l1(params.text("cache") == "ca"),
      balance(params.text("balance")),
      max_blocks(params.integer("max_blocks")),
      combine(params.text("combine") == "atomic" ? Combine::kAtomic : Combine::kOrdered) {
  const bool plain = precision.name == "tf32" && precision.promote == 0;
  require<Unsupported>(plain || (stages == 2 && !through_l1),
                       "acc_spmm has stages = {} with cache = {} for precision = tf32 without "
                       "promotion alone, not for {}",
                       stages, params.text("cache"), precision.name);
}

int acc_spmm::Choices::groups(std::int64_t n) const {
  if (pipeline == Pipeline::kRegisters) return 1;
  if (columns != 0) return columns / window_tile::kWarpCols;
  return n <= 32 ? 1 : n <= 64 ? 2 : 4;
}

window_tasks::Tasks acc_spmm::Choices::cut(const BitTcf& a) const {
  const bool splits = balance == "capped" ||
                      (balance == "ibd" && acc_balance::is_imbalanced(window_tasks::imbalance(a.row_window_offset)));
  return window_tasks::cut(a.row_window_offset, splits ? max_blocks : 0);
}

std::vector<ParamSpec> acc_spmm::params() {
  return {{"precision",
           std::string("tf32"),
           "how FP32 operands go through the tensor core",
           {"tf32", "tf32_raw", "tf32x3", "tf32x3_promoted"}},
          promote_param(),
          {"pipeline",
           std::string("staged"),
           "how rows of B reach the warps: by asynchronous copies to shared memory, or straight to "
           "registers as in the paper",
           {"staged", "registers"}},
          {"stages", std::int64_t{2}, "TC blocks of a warp in shared memory (staged)", {}, 2, 4},
          {"columns",
           std::int64_t{0},
           "columns of C of a warp (staged); 0: 32, 64 or 128, by the width of C",
           {"0", "32", "64", "128"}},
          {"cache",
           std::string("cg"),
           "rows of B past the L1 (cg) or through it (ca) (staged, rows in 16 bytes)",
           {"cg", "ca"}},
          {"balance",
           std::string("capped"),
           "windows of more than max_blocks TC blocks are split: always (capped), where the mean "
           "deviation from the mean window is above 8 TC blocks (ibd), never (none)",
           {"capped", "ibd", "none"}},
          {"max_blocks",
           std::int64_t{16},
           "TC blocks of a warp at most, where windows are split",
           {},
           1,
           1 << 20},
          {"combine",
           std::string("ordered"),
           "sums of a split window: in the order of their TC blocks, or by atomics",
           {"ordered", "atomic"}}};
}

namespace {

using acc_spmm::Choices;
using window_tasks::Task;
using window_tasks::Tasks;

class AccSpmm final : public BitTcfKernel {
 public:
  explicit AccSpmm(Choices choices)
      : BitTcfKernel(choices.precision), choices_(std::move(choices)) {}

  int version() const override { return 3; }

  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    const auto& a = packed_as<BitTcf>(packed);
    std::vector<std::int64_t> terms = BitTcfKernel::terms_per_row(packed);
    const Tasks tasks = choices_.cut(a);
    for (const window_tasks::Split& split : tasks.splits) {
      const std::int64_t window = tasks.tasks[split.first_task].window;
      for (std::int64_t r = 0; r < rows_of_window(a, window); ++r)
        terms[window * BitTcf::kTileRows + r] += split.parts;
    }
    return terms;
  }

  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override {
    const auto& a = packed_as<BitTcf>(packed);
    const Tasks tasks = choices_.cut(a);
    require<Unsupported>(tasks.splits.empty() || choices_.combine == acc_spmm::Combine::kOrdered,
                         "atomics add the parts of {} windows in no known order",
                         tasks.splits.size());
    const FusedStep& step = generation.step(MmaType::kTf32);
    const PreparedB prepared(b, precision());
    DenseMatrix c(a.rows(), b.cols);
    const auto count = static_cast<std::int64_t>(tasks.tasks.size());
    parallel_for(count, 16, [&](std::int64_t begin, std::int64_t end) {
      WindowEmulation window(a, precision(), step, prepared);
      std::vector<float> part(static_cast<std::size_t>(b.cols));
      for (std::int64_t i = begin; i < end; ++i) {
        const Task& task = tasks.tasks[i];
        // The first task of a window does all of it.
        if (task.split != 0 && tasks.splits[task.split - 1].first_task != i) continue;
        const std::int64_t parts = task.split == 0 ? 1 : tasks.splits[task.split - 1].parts;
        for (int r = 0; r < rows_of_window(a, task.window); ++r) {
          const std::span<float> row = c.row(task.window * std::int64_t{BitTcf::kTileRows} + r);
          window.run_row(r, task.first, task.last, row);
          for (std::int64_t p = 1; p < parts; ++p) {
            std::ranges::fill(part, 0.0f);
            window.run_row(r, tasks.tasks[i + p].first, tasks.tasks[i + p].last, part);
            for (std::size_t j = 0; j < part.size(); ++j) row[j] = add_on_gpu(row[j], part[j]);
          }
        }
      }
    });
    return c;
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override {
    using namespace acc_spmm;
    const auto& a = packed_as<BitTcf>(packed);
    WorkDescription work = describe("acc_spmm", a, n);
    const auto tasks = std::make_shared<const Tasks>(choices_.cut(a));
    const int groups = choices_.groups(n);
    const auto count = static_cast<std::int64_t>(tasks->tasks.size());
    const std::int64_t blocks_of_tasks = (count + kWarps - 1) / kWarps;
    work.thread_blocks.resize(static_cast<std::size_t>(blocks_of_tasks * num_chunks(n, groups)));
    for (std::int64_t chunk = 0; chunk < num_chunks(n, groups); ++chunk) {
      const std::int64_t cols = std::min<std::int64_t>(groups * window_tile::kWarpCols,
                                                       n - chunk * groups * window_tile::kWarpCols);
      for (std::int64_t i = 0; i < count; ++i)
        add_task(a, *tasks, i, groups, cols,
                 work.thread_blocks[chunk * blocks_of_tasks + i / kWarps]);
    }
    const BitTcfAddresses at(a, n, work.memory);
    const TaskAddresses task_at{
        work.memory.add("tasks", 16 * count),
        work.memory.add("slots", tasks->slots * num_chunks(n, groups) * groups * 1024)};
    const bool staged = choices_.pipeline == Pipeline::kStaged;
    work.launches = {{.name = "multiply",
                      .thread_blocks = static_cast<std::int64_t>(work.thread_blocks.size()),
                      .threads_per_block = kThreads,
                      .registers_per_thread = !staged       ? kRegistersPipeline
                                              : groups == 1 ? 64
                                              : groups == 2 ? 80
                                                            : 112,
                      .shared_bytes = staged ? shared_bytes(groups, choices_.stages) : 0,
                      .trace = make_trace(a, n, choices_, tasks, at, task_at)}};
    return work;
  }

 private:
  // Of a thread, as they are allocated; of the paper's pipeline.
  static constexpr int kRegistersPipeline = 48;

  /// What a task adds to its thread block: TC blocks of a window, `cols` columns of B and C.
  void add_task(const BitTcf& a, const Tasks& tasks, std::int64_t index, int groups,
                std::int64_t cols, ThreadBlockWork& work) const {
    const Task& task = tasks.tasks[index];
    const std::int64_t blocks = task.last - task.first;
    const std::int64_t nnz = a.tc_offset[task.last] - a.tc_offset[task.first];
    // Columns beyond the edge are multiplied, too.
    work.mma += blocks * 2 * groups * static_cast<int>(precision().mmas.size());
    // Bitmap, offset and column indices of each TC block, its nonzeros, and the task.
    work.a_bytes += blocks * (8 + 4 + 4 * BitTcf::kTileCols) + 4 * nnz + 16;
    work.b_bytes += 4 * count_active_cols(a, task.first, task.last) * cols;
    const bool adds = task.split != 0 && choices_.combine == acc_spmm::Combine::kAtomic;
    const bool delivers =
        task.split == 0 || index + 1 == tasks.splits[task.split - 1].first_task +
                                            std::int64_t{tasks.splits[task.split - 1].parts};
    const std::int64_t values = rows_of_window(a, task.window) * cols;
    if (adds)
      work.atomics += values;
    else if (delivers)
      work.c_bytes += 4 * values;
  }

  Choices choices_;
};

const Register<SpmmKernel> entry{{
    .name = "acc_spmm",
    .summary = "BitTCF on TF32 tensor cores, swapped m16n8k8, windows split where long (Acc-SpMM)",
    .params = acc_spmm::params(),
    .make = [](const Params& params) { return std::make_unique<AccSpmm>(Choices(params)); },
}};

}  // namespace
}  // namespace tessera
