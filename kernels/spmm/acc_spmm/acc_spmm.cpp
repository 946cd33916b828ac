// Acc-SpMM (Xia et al., PPoPP 2025): TC blocks of 8 x 8 on TF32 tensor cores, operands swapped so
// that a window needs eight rows (section 3.4), every choice of its ablation (figure 15) a
// parameter: format (section 3.3), store and cache (table 1), pipeline (3.4) and balance (3.5).
//
// pipeline = least_bubble is the paper's algorithm 2 to the letter and dtc is DTC-SpMM's as it
// describes it (buffered.cuh); registers has its idea without the buffers (registers.cuh);
// staged is ours, which copies whole rows of B to shared memory (staged.cuh says why). balance
// = capped and ibd cut windows of more than max_blocks TC blocks, always or where the imbalance
// (equation 3) is above 8 as in the paper; dtc is DTC-SpMM's strict balance, equal shares of TC
// blocks whatever their windows. cache = ca is what a plain load does, so that of the paper's cache
// policy only store = wt makes a difference; A's .ca is the one cp.async has for 4 bytes.
//
// Departures: a warp has a task and 32 or more columns to itself, where the paper's thread blocks
// share a TC block of A; short windows are not gathered into one (but by balance = dtc); a window's
// parts are added in the order of its TC blocks, so that results do not depend on chance, unless
// combine = atomic; operands are rounded to nearest unless precision says otherwise; any N, M, K.

#include "kernels/spmm/acc_spmm/acc_spmm.hpp"

#include <algorithm>

#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "formats/base/window_balance.hpp"
#include "formats/me_tcf.hpp"
#include "kernels/spmm/acc_spmm/trace.hpp"
#include "kernels/spmm/row_windows/bit_tcf_kernel.hpp"
#include "kernels/spmm/row_windows/clear_trace.hpp"

namespace tessera {

namespace {

acc_spmm::Pipeline pipeline_of(const std::string& name) {
  using acc_spmm::Pipeline;
  if (name == "staged") return Pipeline::kStaged;
  if (name == "registers") return Pipeline::kRegisters;
  return name == "dtc" ? Pipeline::kDtc : Pipeline::kLeastBubble;
}

CopyCache cache_of(const std::string& name, acc_spmm::Pipeline pipeline) {
  if (name == "auto")
    return pipeline == acc_spmm::Pipeline::kStaged ? CopyCache::kL2 : CopyCache::kL1;
  return name == "ca" ? CopyCache::kL1 : CopyCache::kL2;
}

Store store_of(const std::string& name) {
  if (name == "wb") return Store::kWriteBack;
  if (name == "cg") return Store::kInL2;
  return name == "cs" ? Store::kStreaming : Store::kWriteThrough;
}

}  // namespace

acc_spmm::AccSpmmOptions::AccSpmmOptions(const Params& params)
    : precision(find_precision(params.text("precision"), params.integer("promote"))),
      encoding(params.text("format") == MeTcf::kFormat ? NonzeroEncoding::kBytes
                                                       : NonzeroEncoding::kBitmap),
      pipeline(pipeline_of(params.text("pipeline"))),
      stages(static_cast<int>(params.integer("stages"))),
      columns(static_cast<int>(params.integer("columns"))),
      cache(cache_of(params.text("cache"), pipeline)),
      store(store_of(params.text("store"))),
      balance(params.text("balance")),
      max_blocks(params.integer("max_blocks")),
      combine(params.text("combine") == "atomic" ? Combine::kAtomic : Combine::kOrdered) {
  require_compiled();
}

void acc_spmm::AccSpmmOptions::require_compiled() const {
  const bool plain = precision.name == "tf32" && precision.promote == 0;
  const bool bitmaps = encoding == NonzeroEncoding::kBitmap, staged = pipeline == Pipeline::kStaged;
  const bool usual = stages == 2 && cache == cache_of("auto", pipeline);
  const bool buffered = pipeline == Pipeline::kLeastBubble || pipeline == Pipeline::kDtc;
  const bool writes_back = store == Store::kWriteBack;
  require<Unsupported>(plain || (usual && bitmaps && writes_back && !buffered && !equal_shares()),
                       "acc_spmm has a choice of stages (here {}), cache and store, format = "
                       "me_tcf, pipeline = least_bubble and dtc and balance = dtc for precision = "
                       "tf32 without promotion alone, not for {}",
                       stages, precision.name);
  require<Unsupported>(pipeline != Pipeline::kRegisters || (usual && bitmaps && !equal_shares()),
                       "acc_spmm's pipeline = registers is for format = bit_tcf, without balance = "
                       "dtc, and has the cache it has");
  require<Unsupported>(writes_back || !staged || (usual && bitmaps && !equal_shares()),
                       "acc_spmm's pipeline = staged has stores other than wb only with format = "
                       "bit_tcf, 2 stages (here {}), cache = cg and a balance other than dtc",
                       stages);
  require<Unsupported>(usual || (bitmaps && !equal_shares()),
                       "acc_spmm has other caches and numbers of stages ({}) than its own for "
                       "format = bit_tcf alone, and not for balance = dtc",
                       stages);
  require<Unsupported>(bitmaps || !staged || !equal_shares(),
                       "acc_spmm does not have pipeline = staged, format = me_tcf and balance = "
                       "dtc all at once");
}

int acc_spmm::AccSpmmOptions::groups(std::int64_t n) const {
  if (pipeline != Pipeline::kStaged) return 1;
  if (columns != 0) return columns / window_tile::kWarpCols;
  return n <= 32 ? 1 : n <= 64 ? 2 : 4;
}

std::int64_t acc_spmm::AccSpmmOptions::shared_bytes(std::int64_t n) const {
  constexpr std::int64_t kFloat = 4;
  if (pipeline == Pipeline::kRegisters) return 0;
  if (pipeline != Pipeline::kStaged) return kWarps * std::int64_t{sizeof(Buffers)};
  const int cells = encoding == NonzeroEncoding::kBytes ? kTileCells : 0;
  return kFloat * kWarps * (stages * window_tile::kTileCols * row_pitch(groups(n)) + cells);
}

window_tasks::Tasks acc_spmm::AccSpmmOptions::cut(window_tasks::WindowOffsets windows) const {
  if (equal_shares()) return window_tasks::deal(windows, max_blocks);
  const bool splits =
      balance == "capped" ||
      (balance == "ibd" && acc_balance::is_imbalanced(window_tasks::imbalance(windows)));
  return window_tasks::cut(windows, splits ? max_blocks : 0);
}

std::vector<ParamSpec> acc_spmm::params() {
  return {{"precision",
           std::string("tf32"),
           "how FP32 operands go through the tensor core",
           {"tf32", "tf32_raw", "tf32x3", "tf32x3_promoted"}},
          promote_param(),
          {"format",
           std::string(BitTcf::kFormat),
           "what names the nonzeros of a TC block: a bitmap, or a byte each (me_tcf with "
           "window_rows = 8)",
           {BitTcf::kFormat, MeTcf::kFormat}},
          {"pipeline",
           std::string("staged"),
           "how rows of B reach the warps: by asynchronous copies to shared memory (staged), or "
           "straight to registers: those of A as well (registers), or A through two buffers and B "
           "a TC block ahead, as in Acc-SpMM (least_bubble), or when it is multiplied, as in "
           "DTC-SpMM (dtc)",
           {"staged", "registers", "least_bubble", "dtc"}},
          {"stages", std::int64_t{2}, "TC blocks of a warp in shared memory (staged)", {}, 2, 4},
          {"columns",
           std::int64_t{0},
           "columns of C of a warp (staged); 0: 32, 64 or 128, by the width of C",
           {"0", "32", "64", "128"}},
          {"cache",
           std::string("auto"),
           "rows of B through the L1 (ca) or past it (cg), where they come in 16 bytes; auto: cg "
           "for staged, ca for the others",
           {"auto", "cg", "ca"}},
          {"store",
           std::string("wb"),
           "cache operator of the stores of C, where they are of 16 bytes: write back, keep in the "
           "L2 (cg), streaming (cs), write through (wt, as in Acc-SpMM)",
           {"wb", "cg", "cs", "wt"}},
          {"balance",
           std::string("capped"),
           "windows of more than max_blocks TC blocks are split: always (capped), where the mean "
           "deviation from the mean window is above 8 TC blocks (ibd), never (none); or every warp "
           "has max_blocks TC blocks, of as many windows as that takes (dtc)",
           {"capped", "ibd", "dtc", "none"}},
          {"max_blocks",
           std::int64_t{16},
           "TC blocks of a warp at most, where windows are split or dealt out",
           {},
           1,
           1 << 20},
          {"combine",
           std::string("ordered"),
           "sums of a split window: in the order of their TC blocks, or by atomics",
           {"ordered", "atomic"}}};
}

namespace {

using acc_spmm::AccSpmmOptions;
using window_tasks::Task;
using window_tasks::Tasks;

class AccSpmm final : public BitTcfKernel {
 public:
  explicit AccSpmm(AccSpmmOptions choices)
      : BitTcfKernel(choices.precision), choices_(std::move(choices)) {}

  std::string format() const override {
    return choices_.encoding == acc_spmm::NonzeroEncoding::kBytes ? MeTcf::kFormat
                                                                  : BitTcf::kFormat;
  }
  int version() const override { return 5; }

  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    const auto tiles = tiles_of(packed);
    const BitTcf& a = *tiles;
    std::vector<std::int64_t> terms = BitTcfKernel::terms_per_row(a);
    const Tasks tasks = choices_.cut(a.row_window_offset);
    for (const window_tasks::Split& split : tasks.splits) {
      const std::int64_t window = tasks.tasks[split.first_task].window;
      for (std::int64_t r = 0; r < rows_of_window(a, window); ++r)
        terms[window * BitTcf::kTileRows + r] += split.parts;
    }
    return terms;
  }

  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override {
    const auto tiles = tiles_of(packed);
    const BitTcf& a = *tiles;
    const Tasks tasks = choices_.cut(a.row_window_offset);
    require<Unsupported>(tasks.splits.empty() || choices_.combine == row_windows::Combine::kOrdered,
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
        const std::int64_t parts = tasks.parts_from(i);
        for (int r = 0; parts > 0 && r < rows_of_window(a, task.window); ++r) {
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
    const auto tiles = tiles_of(packed);
    const BitTcf& a = *tiles;
    WorkDescription work = describe("acc_spmm", a, n);
    work.footprint_bytes = stats(packed).bytes;
    const auto tasks = std::make_shared<const Tasks>(choices_.cut(a.row_window_offset));
    const int groups = choices_.groups(n);
    work.thread_blocks = thread_blocks(a, *tasks, n);
    const std::int64_t clearings = num_clearings(*tasks);
    const bool bitmaps = choices_.encoding == NonzeroEncoding::kBitmap;
    const BitTcfAddresses at(a, n, work.memory, bitmaps);
    const TaskAddresses task_at{
        work.memory.add("tasks", 16 * std::ssize(tasks->tasks)),
        work.memory.add("shares", 4 * std::ssize(tasks->shares)),
        work.memory.add("slots", tasks->slots * num_chunks(n, groups) * groups * 1024),
        work.memory.add("tc_local_id", bitmaps ? 0 : a.nnz())};
    if (clearings > 0)
      work.launches.push_back({.name = "clear",
                               .thread_blocks = clearings,
                               .threads_per_block = kClearThreads,
                               .registers_per_thread = kClearRegisters,
                               .trace = make_clear_trace({.window_rows = BitTcf::kTileRows,
                                                          .rows = a.rows(),
                                                          .n = n,
                                                          .tasks = task_at.tasks,
                                                          .c = at.c},
                                                         tasks)});
    work.launches.push_back({.name = "multiply",
                             .thread_blocks = std::ssize(work.thread_blocks) - clearings,
                             .threads_per_block = kThreads,
                             .registers_per_thread = registers(groups),
                             .shared_bytes = choices_.shared_bytes(n),
                             .trace = make_trace(tiles, n, choices_, tasks, at, task_at)});
    return work;
  }

 private:
  /// The packed matrix with bitmaps, if need be a copy of it.
  std::shared_ptr<const BitTcf> tiles_of(const PackedMatrix& packed) const {
    if (choices_.encoding == acc_spmm::NonzeroEncoding::kBytes)
      return to_bit_tcf(packed_as<MeTcf>(packed));
    return {std::shared_ptr<const BitTcf>(), &packed_as<BitTcf>(packed)};  // not owned
  }

  /// Of a thread, as they are allocated (CUDA 13.0, sm_90a).
  int registers(int groups) const {
    using acc_spmm::Pipeline;
    const bool deals = choices_.equal_shares();
    if (choices_.pipeline == Pipeline::kRegisters) return 48;
    if (choices_.pipeline == Pipeline::kLeastBubble) return deals ? 72 : 64;
    if (choices_.pipeline == Pipeline::kDtc)
      return choices_.encoding == acc_spmm::NonzeroEncoding::kBytes && !deals ? 56 : 64;
    return groups == 1 ? (deals ? 72 : 64) : groups == 2 ? (deals ? 88 : 80) : (deals ? 128 : 112);
  }

  /// Windows that atomics add to, each cleared by a thread block.
  std::int64_t num_clearings(const Tasks& tasks) const {
    return choices_.combine == row_windows::Combine::kAtomic ? std::ssize(tasks.splits) : 0;
  }

  /// Of both launches.
  std::vector<ThreadBlockWork> thread_blocks(const BitTcf& a, const Tasks& tasks,
                                             std::int64_t n) const {
    using namespace acc_spmm;
    std::vector<ThreadBlockWork> all;
    for (std::int64_t i = 0; i < num_clearings(tasks); ++i) {
      const std::int64_t window = tasks.tasks[tasks.splits[i].first_task].window;
      all.push_back({.a_bytes = 16, .c_bytes = 4 * rows_of_window(a, window) * n});
    }
    const std::int64_t warp_cols = choices_.groups(n) * window_tile::kWarpCols;
    for (std::int64_t first_col = 0; first_col < n; first_col += warp_cols) {
      for (std::int64_t share = 0; share < tasks.num_shares(); ++share) {
        if (share % kWarps == 0) all.emplace_back();
        if (!tasks.shares.empty()) all.back().a_bytes += 8;
        for (std::int64_t i = tasks.first_of(share); i < tasks.first_of(share + 1); ++i)
          add_task(a, tasks, i, choices_.groups(n), std::min(warp_cols, n - first_col), all.back());
      }
    }
    return all;
  }

  /// What a task adds to its thread block: TC blocks of a window, `cols` columns of B and C.
  void add_task(const BitTcf& a, const Tasks& tasks, std::int64_t index, int groups,
                std::int64_t cols, ThreadBlockWork& work) const {
    const Task& task = tasks.tasks[index];
    const std::int64_t blocks = task.last - task.first;
    const std::int64_t nnz = a.tc_offset[task.last] - a.tc_offset[task.first];
    // Columns beyond the edge are multiplied, too.
    work.mma += blocks * 2 * groups * static_cast<int>(precision().mmas.size());
    // Names, offset and column indices of each TC block, its nonzeros, and the task.
    const std::int64_t names =
        choices_.encoding == acc_spmm::NonzeroEncoding::kBitmap ? 8 * blocks : nnz;
    work.a_bytes += names + blocks * (4 + 4 * BitTcf::kTileCols) + 4 * nnz + 16;
    work.b_bytes += 4 * count_active_cols(a, task.first, task.last) * cols;
    const bool adds = task.split != 0 && choices_.combine == row_windows::Combine::kAtomic;
    const bool delivers = tasks.is_last_part(index);
    const std::int64_t values = rows_of_window(a, task.window) * cols;
    if (adds)
      work.atomics += values;
    else if (delivers)
      work.c_bytes += 4 * values;
  }

  AccSpmmOptions choices_;
};

const Register<SpmmKernel> entry{{
    .name = "acc_spmm",
    .summary = "BitTCF on TF32 tensor cores, swapped m16n8k8, windows split where long (Acc-SpMM)",
    .params = acc_spmm::params(),
    .make = [](const Params& params) { return std::make_unique<AccSpmm>(AccSpmmOptions(params)); },
}};

}  // namespace
}  // namespace tessera
