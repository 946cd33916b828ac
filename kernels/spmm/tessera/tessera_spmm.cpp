// Our own SpMM on TF32 tensor cores: row windows of 16 rows, a warp for each and for up to 128
// columns of C, which fetches every condensed column's row of B once.
//
// On an H200 a product is limited by the rows of B that reach the SMs: at 8 TB/s, an SM takes 150
// cycles for the eight rows of a TC block and 128 columns, in which its four schedulers could issue
// 600 instructions. A warp therefore works for itself, without barriers; 16 of them, each with one
// TC block's rows in flight, keep the L2 busy; and a TC block costs one warp about 170
// instructions. Operands are rounded by cvt.rn.tf32 (precision = tf32_even), which is one
// instruction, where cvt.rna is four: 32 of them a lane and TC block. Rows of B begin at multiples
// of 32 bytes in shared memory: of a row that does not, cp.async reads every sector twice.
//
// A lane loads its elements of a TC block by its bitmap, one TC block ahead. The order of sums is
// that of DTC-SpMM's m16n8k8. Windows are split where a warp would have much more work than others,
// or too few warps any; up to four parts are in one thread block, which adds them in shared memory,
// in their order (window_tasks.hpp). So short products do not wait for a second round trip to the
// L2. Short windows of large matrices are joined: their warp has copied the rows of the next before
// it writes one.

#include "kernels/spmm/tessera/tessera_spmm.hpp"

#include <algorithm>
#include <functional>
#include <queue>

#include "formats/base/registry.hpp"
#include "kernels/named_values.hpp"
#include "kernels/overlap_param.hpp"
#include "kernels/spmm/row_windows/me_tcf_kernel.hpp"
#include "kernels/spmm/tessera/scaled_rows.hpp"
#include "kernels/spmm/tessera/trace.hpp"
#include "kernels/storage_params.hpp"

namespace tessera {

namespace tessera_spmm {
namespace {

using row_windows::Schedule;
using window_tasks::CombineMethod;
using window_tasks::Tasks;

constexpr NamedValue<CombineMethod> kCombineMethods[] = {{"ordered", CombineMethod::kOrdered},
                                                         {"atomic", CombineMethod::kAtomic}};

/// The TC blocks of a task, at least and at most. With rows of B in 16 bits, which take less time,
/// a task's begin is a larger share of it.
struct BlocksOfTask {
  std::int64_t least, most;
};
constexpr BlocksOfTask blocks_of_task(std::int64_t n, ElementType b) {
  return {n <= 64 ? 8 : 16, n <= (b == ElementType::kFp32 ? 128 : 64) ? 32 : 64};
}

/// What a task takes besides its TC blocks, in their time: to begin, to write C, and to meet the
/// other parts of a window, in the L2 where they are more than a team. Chosen on 24 matrices.
constexpr double kTaskCost = 8, kPartCost = 6, kMeetingCost = 12;

/// Matrices with more TC blocks for a warp than this are not balanced by the makespan: no end of a
/// product then is a large share of it.
constexpr double kManyBlocks = 350;

/// The time at which the last warp ends, in TC blocks, when `warps` warps take the tasks of all
/// `chunks` of columns in their order.
double makespan(const Tasks& tasks, std::int64_t chunks, std::int64_t warps) {
  std::priority_queue<double, std::vector<double>, std::greater<>> ends;
  double last = 0;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    for (std::int64_t i = 0; i < std::ssize(tasks.tasks); ++i) {
      const window_tasks::Task& task = tasks.tasks[i];
      double end = task.last - task.first + kTaskCost;
      if (task.is_part()) end += tasks.place_in_team(i).teams > 1 ? kMeetingCost : kPartCost;
      if (std::ssize(ends) == warps) {
        end += ends.top();
        ends.pop();
      }
      ends.push(end);
      last = std::max(last, end);
    }
  }
  return last;
}

/// Bytes of which the L2 of an H200, of two halves of 25 MB, keeps most, and of which every
/// multiprocessor finds most in its own half. Constants, as warps_of_gpu().
constexpr std::int64_t kCachedBytes = 45'000'000, kNearBytes = 25'000'000;

constexpr NamedValue<ChunkOrder> kChunkOrders[] = {{"auto", ChunkOrder::kAuto},
                                                   {"in_turn", ChunkOrder::kInTurn},
                                                   {"neighbours", ChunkOrder::kNeighbours}};

constexpr NamedValue<Prefetch> kPrefetches[] = {
    {"auto", Prefetch::kAuto}, {"on", Prefetch::kOn}, {"off", Prefetch::kOff}};

/// The precision of MMAs: operands of 16 bits are multiplied as they are.
std::string precision_of(const Params& params, ElementType b) {
  const std::string& named = params.text("precision");
  if (b == ElementType::kFp32) return named;
  require(named == "tf32_even", "precision = {} is of operands in FP32, but storage = {}", named,
          name_of(b));
  return std::string(name_of(b));
}

}  // namespace

TesseraSpmmOptions::TesseraSpmmOptions(const Params& params)
    : storage_(storage_of(params)),
      precision_(find_precision(precision_of(params, storage_.b))),
      max_blocks_(params.integer("max_blocks")),
      joined_(params.integer("joined")),
      columns_(static_cast<int>(params.integer("columns"))),
      chunks_(value_of(kChunkOrders, params.text("chunks"))),
      prefetch_(value_of(kPrefetches, params.text("prefetch"))),
      combine_(value_of(kCombineMethods, params.text("combine"))),
      overlap_(overlap_of(params)) {
  if (storage_.b == ElementType::kFp32) return;
  require(columns_ != 32, "a warp with storage = {} has 64 or 128 columns, not 32",
          name_of(storage_.b));
  require(combine_ == CombineMethod::kOrdered, "combine = atomic needs storage = fp32");
}

/// The fewest groups of 32 columns that hold n columns, of 1, 2 and 4; of 2 and 4 with elements of
/// 16 bits.
int TesseraSpmmOptions::groups_for(std::int64_t n) const {
  if (n <= 32 && storage_.b == ElementType::kFp32) return 1;
  return n <= 64 ? 2 : 4;
}

/// Tasks of up to so many TC blocks that the last warp ends first. Where warps take many tasks
/// each, a window that is little longer than a warp's share stays whole.
Tasks TesseraSpmmOptions::cut_evenly(const std::vector<std::uint32_t>& window_offset,
                                     std::int64_t n, double of_warp) const {
  const auto [least, most] = blocks_of_task(n, storage_.b);
  const auto cut_at = [&](std::int64_t blocks) {
    return window_tasks::cut_for_teams(window_offset, blocks, of_warp);
  };
  const std::int64_t by_share = std::clamp(static_cast<std::int64_t>(1.5 * of_warp), least, most);
  Tasks best = cut_at(by_share);
  if (of_warp > kManyBlocks) return best;
  const int groups = groups_for(n);
  const std::int64_t chunks = schedule_of(groups).chunks(n), warps = warps_of_gpu(groups);
  double least_time = makespan(best, chunks, warps);
  for (const std::int64_t blocks : {8, 12, 16, 24, 32, 48, 64}) {
    if (blocks == by_share || blocks > most) continue;
    Tasks tasks = cut_at(blocks);
    const double time = makespan(tasks, chunks, warps);
    if (time < least_time) best = std::move(tasks), least_time = time;
  }
  return best;
}

Tasks TesseraSpmmOptions::cut(const std::vector<std::uint32_t>& window_offset,
                              std::int64_t n) const {
  const int groups = groups_for(n);
  const double of_warp =
      static_cast<double>(std::int64_t{window_offset.back()} * schedule_of(groups).chunks(n)) /
      static_cast<double>(warps_of_gpu(groups));
  Tasks tasks = max_blocks_ > 0 ? window_tasks::cut_for_teams(window_offset, max_blocks_, of_warp)
                                : cut_evenly(window_offset, n, of_warp);
  // Joined windows are not neighbours of what runs at the same time: with rows of B of 256 bytes
  // and more in FP32, the L2 finds fewer of them. A warp has at least some turns, so that the last
  // ones end together.
  const bool is_wide = storage_.b == ElementType::kFp32 && n > 64;
  const std::int64_t joined =
      joined_ > 0 ? joined_
                  : std::min<std::int64_t>(storage_.b == ElementType::kFp32 ? 16 : 32,
                                           static_cast<std::int64_t>(of_warp / (is_wide ? 6 : 3)));
  return window_tasks::join_windows(std::move(tasks), joined);
}

Schedule TesseraSpmmOptions::schedule(std::int64_t k, std::int64_t n) const {
  Schedule schedule =
      schedule_of(columns_ > 0 ? columns_ / window16_tile::kWarpCols : groups_for(n));
  const auto is_cached = [&](std::int64_t cols) {
    return k * cols * static_cast<std::int64_t>(bytes_of(storage_.b)) <= kCachedBytes;
  };
  // In turn where the L2 holds a chunk of B and not all of it.
  const bool neighbours = chunks_ == ChunkOrder::kAuto
                              ? is_cached(n) || !is_cached(schedule.warp_cols())
                              : chunks_ == ChunkOrder::kNeighbours;
  if (neighbours) schedule.chunks_at_once = static_cast<std::uint32_t>(schedule.chunks(n));
  return schedule;
}

/// Where loads of A take long: what A, B and C take is more than the L2 keeps from one product to
/// the next, or in warps of 128 columns, which wait longer for each other, more than half of it.
/// There a product takes 0.8 to 0.97 of the time, elsewhere up to 1.09 times as long.
bool TesseraSpmmOptions::prefetches(const PackedSize& a, std::int64_t n) const {
  const bool can = can_prefetch(ring(schedule(a.cols, n)));
  if (prefetch_ != Prefetch::kAuto) {
    require<Unsupported>(
        can || prefetch_ == Prefetch::kOff,
        "prefetch = on needs storage = fp16 or bf16, or warps of up to 64 columns");
    return prefetch_ == Prefetch::kOn;
  }
  const std::int64_t bytes =
      a.bytes + n * (static_cast<std::int64_t>(bytes_of(storage_.b)) * a.cols +
                     static_cast<std::int64_t>(bytes_of(storage_.c)) * a.rows);
  return can && bytes > (schedule(a.cols, n).groups == 4 ? kNearBytes : kCachedBytes);
}

std::vector<ParamSpec> params() {
  return {
      {"precision",
       std::string("tf32_even"),
       "how FP32 operands are multiplied on tensor cores; fp16_scaled: B is rounded to FP16 under "
       "a "
       "power of two for every column, in a launch of its own, and rows of A likewise when packed",
       {"tf32_even", "tf32x3", "fp16_scaled"}},
      {"storage",
       std::string("fp32"),
       "the type of B in memory; with 16 bits, A is rounded to it and multiplied in it",
       {"fp32", "fp16", "bf16"}},
      {"storage_c", std::string("as_b"), "the type of C in memory", {"as_b", "fp32"}},
      {"max_blocks",
       std::int64_t{0},
       "TC blocks of a task, of which longer windows are several; 0: 8 to 64, so that the last "
       "warp ends first",
       {},
       0,
       1 << 20},
      {"joined",
       std::int64_t{0},
       "TC blocks of the short windows that a warp computes one after another, one more counted "
       "for each window; 1: none are joined; 0: by the matrix and the width of C",
       {},
       0,
       1 << 20},
      {"chunks", std::string("auto"),
       "where C is wider than a warp: chunks of columns one after another (in_turn), so that the "
       "L2 holds more of B's rows, those of the same rows together (neighbours), so that A is read "
       "once, or by the size of B (auto)",
       names_of(kChunkOrders)},
      {"prefetch", std::string("auto"),
       "whether A is prefetched into the L1, by warps of up to 64 columns or with B in 16 bits: "
       "where A, B and C do not fit the L2, or half of it with 128 columns (auto), always or never",
       names_of(kPrefetches)},
      {"columns",
       std::int64_t{0},
       "columns of C of a warp; 0: by the width of C",
       {"0", "32", "64", "128"}},
      {"combine", std::string("ordered"),
       "how the sums of a split window are combined: in the order of their TC blocks (ordered), "
       "or by atomics (atomic)",
       names_of(kCombineMethods)},
      overlap_param()};
}

}  // namespace tessera_spmm

namespace {

using tessera_spmm::TesseraSpmmOptions;
using window_tasks::CombineMethod;
using window_tasks::Tasks;

constexpr int kDepth = window16_tile::kTileCols;

class TesseraSpmm final : public SpmmKernel {
 public:
  explicit TesseraSpmm(TesseraSpmmOptions options) : options_(std::move(options)) {}

  std::string format() const override { return Mosaic::kFormat; }
  int version() const override { return 3; }
  Arithmetic arithmetic() const override {
    Arithmetic arithmetic = me_tcf_kernel::arithmetic(options_.precision(), kDepth);
    arithmetic.storage = options_.storage();
    arithmetic.adds_in_memory = options_.combine() == CombineMethod::kAtomic;
    return arithmetic;
  }

  /// Those of the most parts that a window has at any width of C.
  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    const auto& a = packed_as<Mosaic>(packed);
    return me_tcf_kernel::terms_per_row(*to_me_tcf(a), kDepth, options_.cut(a.window_offset, 1));
  }

  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override {
    const auto& a = packed_as<Mosaic>(packed);
    const Tasks tasks = options_.cut(a.window_offset, b.cols);
    require<Unsupported>(
        tasks.splits.empty() || options_.combine() == CombineMethod::kOrdered,
        "tessera_spmm is not emulated with combine = atomic: atomics add the parts of {} split "
        "windows in no fixed order",
        tasks.splits.size());
    return me_tcf_kernel::emulate(*to_me_tcf(a), options_.precision(), kDepth, tasks, b,
                                  generation);
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override {
    const auto& a = packed_as<Mosaic>(packed);
    const auto tasks =
        std::make_shared<const Tasks>(window_tasks::merge_shares(options_.cut(a.window_offset, n)));
    const row_windows::Schedule schedule = options_.schedule(a.cols(), n);
    WorkDescription work = window16_tile::describe<tessera_spmm::Trace>(
        "tessera_spmm", to_me_tcf(a), n, tasks,
        {.schedule = schedule,
         .mmas_per_product = static_cast<int>(options_.precision().mmas.size()),
         .stages = options_.ring(schedule).stages(),
         .storage = options_.storage(),
         .bytes = {.position = 0, .bitmap = sizeof(Mosaic::Bitmap)},
         .prefetch = options_.prefetches(tessera_spmm::size_of(a), n),
         .combine = options_.combine(),
         .registers = registers(schedule),
         .shared_bytes = options_.shared_bytes(schedule),
         .overlaps = options_.overlap() != Overlap::kNone,
         .instructions = instructions(schedule.groups)});
    work.footprint_bytes = stats(a).bytes;
    return work;
  }

 private:
  /// Registers allocated for a thread (CUDA 13.0, sm_90a).
  static int registers(const row_windows::Schedule& schedule) {
    return schedule.groups == 1 ? 72 : schedule.groups == 2 ? 96 : 128;
  }

  /// The lengths of the pieces of the machine code (CUDA 13.0, sm_90a) for aligned operands, in
  /// instructions with those of memory and the MMAs; those of the stores and of the prefetches
  /// without. A copy of rows of B that a short task lacks is branched over, or predicated.
  window16_tile::WarpInstructions instructions(int groups) const {
    window16_tile::WarpInstructions counts{.task_start = 0,
                                           .tile = 0,
                                           .group = 0,
                                           .copy = 0,
                                           .store = 55,
                                           .store_group = 42,
                                           .prefetch = 7,
                                           .add = 11,
                                           .add_group = 14,
                                           .warp = 38};
    if (options_.storage().b != ElementType::kFp32) {
      const bool scales = options_.precision().equilibrate;
      if (groups == 4) {
        counts.task_start = scales ? 183 : 187, counts.first_copy = 38;
        counts.tile = scales ? 116 : 112, counts.copies = 40;
      } else {
        counts.task_start = 194, counts.tile = scales ? 107 : 106;
      }
      counts.prefetch = 10;
      return counts;
    }
    const bool splits = options_.precision().parts > 1;
    if (groups == 4) {
      counts.task_start = splits ? 150 : 151, counts.first_copy = 69;
      counts.tile = splits ? 587 : 153, counts.copies = 73;
    } else if (groups == 2) {
      counts.task_start = splits ? 169 : 171, counts.first_copy = 38;
      counts.tile = splits ? 354 : 114, counts.copies = 40;
    } else {
      counts.task_start = splits ? 194 : 196, counts.tile = splits ? 252 : 107;
    }
    return counts;
  }

  TesseraSpmmOptions options_;
};

const Register<SpmmKernel> entry{{
    .name = "tessera_spmm",
    .summary = "mosaic of 16-row windows on TF32 tensor cores, m16n8k8, a warp a window (ours)",
    .params = tessera_spmm::params(),
    .make = [](const Params& params) -> std::unique_ptr<SpmmKernel> {
      if (tessera_spmm::is_narrowed(params))
        return narrowed::make_kernel(tessera_spmm::narrowed_recipe(params));
      return std::make_unique<TesseraSpmm>(TesseraSpmmOptions(params));
    },
}};

}  // namespace
}  // namespace tessera
