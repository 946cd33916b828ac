// Acc-SpMM (Zhao et al., PPoPP 2025): TC blocks of 8 x 8 on TF32 tensor cores, operands swapped so
// that a window needs eight rows (section 3.4). Every choice of its ablation (figure 15) is a
// parameter: format (section 3.3), store and cache (table 1), pipeline (3.4) and balance (3.5).
//
// pipeline = least_bubble is the paper's algorithm 2, and dtc is DTC-SpMM's pipeline as Acc-SpMM
// describes it (buffered.cuh), both with buffers of a thread block, as published, or of a warp;
// registers is the same idea without buffers (registers.cuh); staged is ours and copies whole rows
// of B to shared memory (staged.cuh says why). balance = adaptive is the paper's, by equations 3
// and 4; capped and ibd split windows of more than max_blocks TC blocks, always or where the
// imbalance (equation 3) is above 8; dtc is DTC-SpMM's strict balance, equal shares of TC blocks
// wherever windows begin. cache = default has no operator, as the base of the paper's ablation: PTX
// then takes ca for loads, though by another instruction than where it is written out, and CUDA's
// copies of 16 bytes, here of A's column indices, take cg; copies of A's values by 4 bytes have no
// choice of cache.
//
// Departures: a window's parts are added in the order of its TC blocks, so that results are
// reproducible, unless combine = atomic; operands are rounded to nearest unless precision says
// otherwise; any N, M, K.

#include "kernels/spmm/acc_spmm/acc_spmm.hpp"

#include <algorithm>

#include "formats/base/registry.hpp"
#include "formats/base/window_balance.hpp"
#include "formats/me_tcf.hpp"
#include "kernels/named_values.hpp"
#include "kernels/spmm/acc_spmm/trace.hpp"
#include "kernels/spmm/row_windows/bit_tcf_kernel.hpp"
#include "kernels/spmm/row_windows/task_work.hpp"

namespace tessera {

namespace acc_spmm {
namespace {

constexpr NamedValue<NonzeroEncoding> kFormats[] = {{BitTcf::kFormat, NonzeroEncoding::kBitmap},
                                                    {MeTcf::kFormat, NonzeroEncoding::kBytes}};
constexpr NamedValue<Pipeline> kPipelines[] = {{"staged", Pipeline::kStaged},
                                               {"registers", Pipeline::kRegisters},
                                               {"least_bubble", Pipeline::kLeastBubble},
                                               {"dtc", Pipeline::kDtc}};
constexpr NamedValue<Scope> kScopes[] = {{"warp", Scope::kWarp}, {"block", Scope::kBlock}};
constexpr NamedValue<Cache> kCaches[] = {
    {"cg", Cache::kL2}, {"ca", Cache::kL1}, {"default", Cache::kDefault}};
constexpr NamedValue<Store> kStores[] = {{"wb", Store::kWriteBack},
                                         {"cg", Store::kInL2},
                                         {"cs", Store::kStreaming},
                                         {"wt", Store::kWriteThrough}};
constexpr NamedValue<Balance> kBalances[] = {{"capped", Balance::kCapped},
                                             {"ibd", Balance::kImbalanced},
                                             {"adaptive", Balance::kAdaptive},
                                             {"dtc", Balance::kDtc},
                                             {"none", Balance::kNone}};
constexpr NamedValue<CombineMethod> kCombineMethods[] = {{"ordered", CombineMethod::kOrdered},
                                                         {"atomic", CombineMethod::kAtomic}};

Cache cache_of(const std::string& name, Pipeline pipeline) {
  return name == "auto" ? default_cache(pipeline) : value_of(kCaches, name);
}

/// The row of the table of compiled kernels that a user may choose.
std::string to_text(const CompiledOptions& row) {
  const Variant& v = row.variant;
  return fmt::format(
      "buffers = {}, format = {}, stages = {}, cache = {}, store = {}, balance = {}, precision = "
      "{}",
      name_of(kScopes, v.scope), name_of(kFormats, v.encoding), v.stages, name_of(kCaches, v.cache),
      v.any_store ? "any" : "wb", v.equal_shares ? "dtc or adaptive" : "other than dtc",
      row.all_precisions ? "any" : "tf32 without promotion");
}

/// The rows of the table for a pipeline.
std::string list_compiled(Pipeline pipeline) {
  std::string list;
  for (const CompiledOptions& row : kCompiledOptions)
    if (row.variant.pipeline == pipeline) list += (list.empty() ? "" : "; ") + to_text(row);
  return list;
}

Variant wanted_variant(const AccSpmmOptions& options, bool shares, int groups, bool aligned) {
  return {.pipeline = options.pipeline,
          .scope = options.scope,
          .encoding = options.encoding,
          .equal_shares = shares,
          .stages = options.stages,
          .cache = options.cache,
          .any_store = options.store != Store::kWriteBack,
          .precision = tf32_precision(options.precision.name),
          .promotes = options.precision.promote > 0,
          .groups = groups,
          .aligned = aligned};
}

/// True when each kernel that the options may need is compiled: adaptive balance takes the one with
/// shares or the one without, by the matrix.
bool is_compiled(const AccSpmmOptions& options) {
  const auto found = [&](bool shares) {
    return find_compiled(wanted_variant(options, shares, 1, true)) != nullptr;
  };
  const Balance balance = options.balance;
  return (balance == Balance::kDtc || found(false)) &&
         ((balance != Balance::kDtc && balance != Balance::kAdaptive) || found(true));
}

}  // namespace

AccSpmmOptions::AccSpmmOptions(const Params& params)
    : precision(find_precision(params.text("precision"), params.integer("promote"))),
      encoding(value_of(kFormats, params.text("format"))),
      pipeline(value_of(kPipelines, params.text("pipeline"))),
      scope(value_of(kScopes, params.text("buffers"))),
      stages(static_cast<int>(params.integer("stages"))),
      columns(static_cast<int>(params.integer("columns"))),
      cache(cache_of(params.text("cache"), pipeline)),
      store(value_of(kStores, params.text("store"))),
      balance(value_of(kBalances, params.text("balance"))),
      max_blocks(params.integer("max_blocks")),
      combine(value_of(kCombineMethods, params.text("combine"))) {
  if (!is_compiled(*this))
    throw Unsupported(fmt::format("acc_spmm has no kernel for {}. For pipeline = {} it has: {}",
                                  to_text(), name_of(kPipelines, pipeline),
                                  list_compiled(pipeline)));
}

std::string AccSpmmOptions::to_text() const {
  return fmt::format(
      "precision = {}, promote = {}, format = {}, pipeline = {}, buffers = {}, stages = {}, "
      "columns "
      "= {}, cache = {}, store = {}, balance = {}, max_blocks = {}, combine = {}",
      precision.name, precision.promote, name_of(kFormats, encoding), name_of(kPipelines, pipeline),
      name_of(kScopes, scope), stages, columns, name_of(kCaches, cache), name_of(kStores, store),
      name_of(kBalances, balance), max_blocks, name_of(kCombineMethods, combine));
}

row_windows::Schedule AccSpmmOptions::schedule(std::int64_t n) const {
  if (pipeline != Pipeline::kStaged) return schedule_of(1, scope);
  if (columns != 0) return schedule_of(columns / kWarpCols);
  return schedule_of(n <= 32 ? 1 : n <= 64 ? 2 : 4);
}

std::int64_t AccSpmmOptions::shared_bytes(std::int64_t n) const {
  if (pipeline == Pipeline::kRegisters) return 0;
  if (pipeline != Pipeline::kStaged) return schedule(n).teams() * std::int64_t{sizeof(Buffers)};
  return dynamic_shared_bytes(n);
}

std::int64_t AccSpmmOptions::dynamic_shared_bytes(std::int64_t n) const {
  if (pipeline != Pipeline::kStaged) return 0;
  return StagedMemory{.groups = schedule(n).groups,
                      .stages = stages,
                      .has_tiles = encoding == NonzeroEncoding::kBytes}
      .bytes();
}

Variant AccSpmmOptions::variant(const window_tasks::Tasks& tasks, std::int64_t n,
                                bool aligned) const {
  return compiled_variant(
      wanted_variant(*this, !tasks.shares.empty(), schedule(n).groups, aligned));
}

window_tasks::Tasks AccSpmmOptions::cut(window_tasks::WindowOffsets windows) const {
  if (balance == Balance::kDtc) return window_tasks::cut_into_equal_shares(windows, max_blocks);
  const bool by_imbalance = balance == Balance::kImbalanced || balance == Balance::kAdaptive;
  const bool splits =
      balance == Balance::kCapped ||
      (by_imbalance && acc_balance::is_imbalanced(window_tasks::imbalance(windows)));
  if (splits && balance == Balance::kAdaptive)
    return window_tasks::cut_into_timed_shares(windows, max_blocks, acc_balance::kWindowWeight);
  return window_tasks::cut(windows, splits ? max_blocks : 0);
}

std::vector<ParamSpec> params() {
  std::vector<std::string> caches = names_of(kCaches);
  caches.insert(caches.begin(), "auto");
  return {
      {"precision",
       std::string("tf32"),
       "how FP32 operands are multiplied on tensor cores",
       {"tf32", "tf32_raw", "tf32x3", "tf32x3_promoted"}},
      promote_param(),
      {"format", std::string(BitTcf::kFormat),
       "encoding of the nonzeros of a TC block: a bitmap (bit_tcf), or a byte each (me_tcf with "
       "window_rows = 8)",
       names_of(kFormats)},
      {"pipeline", std::string("staged"),
       "how rows of B reach the warps: copied to shared memory asynchronously (staged), or "
       "loaded to registers: together with A (registers), one TC block ahead with A in two "
       "buffers, as in Acc-SpMM (least_bubble), or when they are multiplied, as in DTC-SpMM "
       "(dtc)",
       names_of(kPipelines)},
      {"buffers", std::string("warp"),
       "for pipeline = least_bubble or dtc, the threads that share the two buffers for A and wait "
       "for each other: a warp of 32 columns, or a thread block of four such warps, which copies "
       "and decodes A once (block, as in Acc-SpMM's algorithm 2)",
       names_of(kScopes)},
      {"stages",
       std::int64_t{2},
       "TC blocks of a warp in shared memory, for pipeline = staged; 2 for the others",
       {},
       2,
       4},
      {"columns",
       std::int64_t{0},
       "columns of C of a warp, for pipeline = staged; 0: 32, 64 or 128, by the width of C",
       {"0", "32", "64", "128"}},
      {"cache", std::string("auto"),
       "rows of B through the L1 (ca) or past it (cg), where they are aligned to 16 bytes; "
       "default: "
       "no operator, so that loads pass the L1 and copies of A's column indices do not; auto: cg "
       "for staged, ca for the others",
       std::move(caches)},
      {"store", std::string("wb"),
       "cache operator of the stores of C, where they are aligned to 16 bytes: write back (wb), "
       "keep in the L2 (cg), streaming (cs), write through (wt, as in Acc-SpMM)",
       names_of(kStores)},
      {"balance", std::string("capped"),
       "split windows of more than max_blocks TC blocks: always (capped), where the mean "
       "deviation from the mean window is above 8 TC blocks (ibd), never (none); or, there, give "
       "every warp or thread block TC blocks of nearly equal time, writes of C included, which "
       "also joins short windows (adaptive, as in Acc-SpMM); or always an equal share of "
       "max_blocks TC blocks, wherever windows begin (dtc)",
       names_of(kBalances)},
      {"max_blocks",
       std::int64_t{16},
       "largest number of TC blocks of a warp, or of a thread block with buffers = block, where "
       "windows are split or cut into shares",
       {},
       1,
       1 << 20},
      {"combine", std::string("ordered"),
       "how the sums of a split window are combined: in the order of their TC blocks (ordered), "
       "or by atomics (atomic)",
       names_of(kCombineMethods)}};
}

}  // namespace acc_spmm

namespace {

using acc_spmm::AccSpmmOptions;
using acc_spmm::NonzeroEncoding;
using window_tasks::CombineMethod;
using window_tasks::Tasks;

class AccSpmm final : public BitTcfKernel {
 public:
  explicit AccSpmm(AccSpmmOptions options)
      : BitTcfKernel(options.precision), options_(std::move(options)) {}

  std::string format() const override {
    return options_.encoding == NonzeroEncoding::kBytes ? MeTcf::kFormat : BitTcf::kFormat;
  }
  int version() const override { return 5; }

  Arithmetic arithmetic() const override {
    Arithmetic arithmetic = BitTcfKernel::arithmetic();
    arithmetic.adds_in_memory = options_.combine == CombineMethod::kAtomic;
    return arithmetic;
  }

  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    const auto tiles = tiles_of(packed);
    std::vector<std::int64_t> terms = BitTcfKernel::terms_per_row(*tiles);
    row_windows::add_split_terms(*tiles, options_.cut(tiles->row_window_offset), terms);
    return terms;
  }

  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override {
    const auto tiles = tiles_of(packed);
    const Tasks tasks = options_.cut(tiles->row_window_offset);
    require<Unsupported>(
        tasks.splits.empty() || options_.combine == CombineMethod::kOrdered,
        "acc_spmm is not emulated with combine = atomic: atomics add the parts of {} split windows "
        "in no fixed order",
        tasks.splits.size());
    return emulate_tasks(*tiles, tasks, b, generation);
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override {
    const auto tiles = tiles_of(packed);
    const BitTcf& a = *tiles;
    WorkDescription work = describe("acc_spmm", a, n);
    work.footprint_bytes = stats(packed).bytes;
    const auto tasks = std::make_shared<const Tasks>(options_.cut(a.row_window_offset));
    const row_windows::Schedule schedule = options_.schedule(n);
    const bool bitmaps = options_.encoding == NonzeroEncoding::kBitmap;
    const BitTcfAddresses at(a, n, work.memory, bitmaps);
    const acc_spmm::TaskAddresses task_at{
        work.memory.add("tasks",
                        std::int64_t{sizeof(window_tasks::Task)} * std::ssize(tasks->tasks)),
        work.memory.add("shares", 4 * std::ssize(tasks->shares)),
        work.memory.add("splits",
                        std::int64_t{sizeof(window_tasks::Split)} * std::ssize(tasks->splits)),
        work.memory.add("slots", tasks->slots * schedule.chunks(n) *
                                     window_tasks::slot_bytes(schedule.lane_vectors())),
        work.memory.add("tc_local_id", bitmaps ? 0 : a.nnz())};
    const std::int64_t cleared = row_windows::add_clear_launch({.window_rows = BitTcf::kTileRows,
                                                                .rows = a.rows(),
                                                                .n = n,
                                                                .tasks = task_at.tasks,
                                                                .c = at.c},
                                                               tasks, options_.combine, work);
    row_windows::add_thread_blocks(
        schedule, *tasks, n,
        [&](std::int64_t task, std::int64_t cols, ThreadBlockWork& thread_block) {
          add_task(a, *tasks, task, schedule, cols, thread_block);
        },
        work.thread_blocks);
    work.launches.push_back(
        {.name = "multiply",
         .thread_blocks = std::ssize(work.thread_blocks) - cleared,
         .threads_per_block = schedule.threads(),
         .registers_per_thread = registers(schedule.groups, !tasks->shares.empty()),
         .shared_bytes = options_.shared_bytes(n),
         .trace = acc_spmm::make_trace(tiles, n, options_, tasks, at, task_at)});
    return work;
  }

 private:
  /// The packed matrix with bitmaps, converted from ME-TCF where necessary.
  std::shared_ptr<const BitTcf> tiles_of(const PackedMatrix& packed) const {
    if (options_.encoding == NonzeroEncoding::kBytes) return to_bit_tcf(packed_as<MeTcf>(packed));
    return {std::shared_ptr<const BitTcf>(), &packed_as<BitTcf>(packed)};  // not owned
  }

  /// Registers allocated for a thread (CUDA 13.0, sm_90a).
  int registers(int groups, bool shares) const {
    using acc_spmm::Pipeline;
    if (options_.pipeline == Pipeline::kRegisters) return 48;
    if (options_.scope == acc_spmm::Scope::kBlock)
      return options_.pipeline == Pipeline::kLeastBubble ? 64 : 56;
    if (options_.pipeline == Pipeline::kLeastBubble) return shares ? 72 : 64;
    if (options_.pipeline == Pipeline::kDtc)
      return options_.encoding == NonzeroEncoding::kBytes && !shares ? 56 : 64;
    if (groups == 1) return shares ? 72 : 64;
    return groups == 2 ? (shares ? 88 : 80) : (shares ? 128 : 112);
  }

  /// Adds the work of a task to its thread block, for `cols` columns of B and C.
  void add_task(const BitTcf& a, const Tasks& tasks, std::int64_t index,
                const row_windows::Schedule& schedule, std::int64_t cols,
                ThreadBlockWork& work) const {
    const window_tasks::Task& task = tasks.tasks[index];
    const std::int64_t blocks = task.last - task.first;
    const std::int64_t nnz = a.tc_offset[task.last] - a.tc_offset[task.first];
    // Columns beyond the edge are multiplied, too.
    work.mma += blocks * window_tile::kMmas * schedule.groups * schedule.team *
                static_cast<int>(precision().mmas.size());
    // The encoding and offset of each TC block by those who decode it, its column indices and
    // nonzeros once, and the task by every warp.
    const std::int64_t encoding = options_.encoding == NonzeroEncoding::kBitmap ? 8 * blocks : nnz;
    work.a_bytes +=
        acc_spmm::decoding_warps(options_.scope, options_.encoding) * (encoding + 4 * blocks) +
        4 * BitTcf::kTileCols * blocks + 4 * nnz + schedule.team * std::int64_t{sizeof(task)};
    if (schedule.team > 1)
      work.barriers +=
          schedule.team *
          acc_spmm::barriers_of_task(blocks, options_.pipeline == acc_spmm::Pipeline::kLeastBubble,
                                     !tasks.shares.empty());
    work.b_bytes += 4 * count_active_cols(a, task.first, task.last) * cols;
    row_windows::add_stores(tasks, index, options_.combine, rows_of_window(a, task.window), cols,
                            work);
  }

  AccSpmmOptions options_;
};

const Register<SpmmKernel> entry{{
    .name = "acc_spmm",
    .summary = "BitTCF on TF32 tensor cores, swapped m16n8k8, long windows split (Acc-SpMM)",
    .params = acc_spmm::params(),
    .make = [](const Params& params) { return std::make_unique<AccSpmm>(AccSpmmOptions(params)); },
}};

}  // namespace
}  // namespace tessera
