// The launches of dasp in numbers and, for the simulator, instruction by instruction in the order
// of the source.

#include "kernels/spmm/dasp/trace.hpp"

#include <algorithm>
#include <set>

namespace tessera::dasp {
namespace {

/// Distinct rows of B that place `half` of all lanes meets in a chunk: what one load of a warp
/// touches.
std::set<std::int32_t> rows_of_b(const Packing& packing, std::int64_t chunk, int half) {
  std::set<std::int32_t> rows;
  for (int lane = 0; lane < 32; ++lane) {
    const std::int32_t col = packing.col_indices[chunk * kPlaces + 2 * lane + half];
    if (col != kNoColumn) rows.insert(col);
  }
  return rows;
}

/// Rows of C that a task writes: slots' first rows, then the second ones.
int rows_of_slots(const Task& task) {
  return task.kind == Task::kLong ? 0 : task.kind == Task::kMedium ? kSlots : 2 * kSlots;
}

struct Addresses {
  std::uint64_t tasks, rows, values, col_indices, slots, long_rows, b, c;
};

class DaspTrace final : public LaunchTrace {
 public:
  DaspTrace(std::shared_ptr<const Packing> packing, std::int64_t n, const Addresses& at)
      : packing_(std::move(packing)), n_(n), at_(at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::int64_t index = thread_block * kWarps + warp;
    if (index >= std::ssize(packing_->tasks)) {
      trace.issue(kIdleInstructions);
      return false;
    }
    const Task& task = packing_->tasks[index];
    if (cursor.step == 0) {
      trace.issue(kWarpInstructions);
      trace.pause(kSpecialRegisterCycles);
      trace.load(kTaskBoard);
      trace.touch(at_.tasks + 16 * static_cast<std::uint64_t>(index), 16);
      trace.wait(kTaskBoard);
      load_chunk(task.first, trace);
    }
    const std::int64_t chunk = task.first + cursor.step++;
    advance(task, chunk, trace);
    if (chunk + 1 < task.last) return true;
    trace.wait_mma();
    store(task, trace);
    return false;
  }

 private:
  // Counted in the source.
  static constexpr int kIdleInstructions = 16, kWarpInstructions = 30, kChunkInstructions = 20,
                       kElementInstructions = 3, kStoreInstructions = 30;
  static constexpr int kTaskBoard = 0, kChunkBoard = 1, kDataBoard = 2, kRowBoard = 3;

  void load_chunk(std::int64_t chunk, WarpTrace& trace) const {
    trace.load(kChunkBoard);
    trace.touch(at_.col_indices + 4 * static_cast<std::uint64_t>(chunk * kPlaces), 4 * kPlaces);
    trace.load(kChunkBoard);
    trace.touch(at_.values + 2 * static_cast<std::uint64_t>(chunk * kPlaces), 2 * kPlaces);
  }

  /// Elements of B by all lanes, of a row of B as many at once as its width allows; they are one
  /// load here, which touches each row once.
  void advance(const Task& task, std::int64_t chunk, WarpTrace& trace) const {
    trace.wait(kChunkBoard);
    trace.issue(kChunkInstructions);
    bool loaded = false;
    for (int half = 0; half < 2; ++half) {
      const std::set<std::int32_t> rows = rows_of_b(*packing_, chunk, half);
      if (rows.empty()) continue;
      loaded = true;
      trace.load(kDataBoard);
      for (const std::int32_t row : rows)
        trace.touch(at_.b + 4 * static_cast<std::uint64_t>(row * n_), 4 * n_);
      const auto at_once = static_cast<int>(n_ % 4 == 0 ? 4 : n_ % 2 == 0 ? 2 : 1);
      trace.wavefronts(static_cast<int>(std::ssize(rows)) * static_cast<int>(n_) / at_once);
    }
    if (chunk + 1 < task.last) load_chunk(chunk + 1, trace);
    if (loaded) trace.wait(kDataBoard);
    trace.issue(kElementInstructions * static_cast<int>(n_));
    trace.mma(num_mmas(n_) * (task.kind == Task::kShort ? 2 : 1));
  }

  void store(const Task& task, WarpTrace& trace) const {
    trace.issue(kStoreInstructions);
    if (task.kind == Task::kLong) {
      trace.store();
      trace.touch(at_.slots + 4 * kMaxCols * std::uint64_t{task.index}, 4 * n_);
      return;
    }
    const int count = rows_of_slots(task);
    trace.load(kRowBoard);
    trace.touch(at_.rows + 4 * std::uint64_t{task.index}, 4 * count);
    trace.wait(kRowBoard);
    bool any = false;
    for (int i = 0; i < count; ++i) {
      const std::int32_t row = packing_->rows[task.index + static_cast<std::uint32_t>(i)];
      if (row == kNoRow) continue;
      if (!any) trace.store(static_cast<int>(n_) * count / kSlots);
      any = true;
      trace.touch(at_.c + 4 * static_cast<std::uint64_t>(row * n_), 4 * n_);
    }
  }

  std::shared_ptr<const Packing> packing_;
  std::int64_t n_;
  Addresses at_;
};

/// A lane for an element of a long row.
class SumTrace final : public LaunchTrace {
 public:
  SumTrace(std::shared_ptr<const Packing> packing, std::int64_t n, const Addresses& at)
      : packing_(std::move(packing)), n_(n), at_(at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor&, WarpTrace& trace) const override {
    constexpr std::int64_t kRows = 32 / kMaxCols;
    const std::int64_t first = (thread_block * kWarps + warp) * kRows;
    const std::int64_t last = std::min(first + kRows, std::ssize(packing_->long_rows));
    trace.issue(30);
    if (first >= last) return false;
    trace.load(0);
    trace.touch(at_.long_rows + sizeof(LongRow) * static_cast<std::uint64_t>(first),
                static_cast<std::int64_t>(sizeof(LongRow)) * (last - first));
    trace.wait(0);
    std::uint32_t most = 0;
    for (std::int64_t i = first; i < last; ++i) most = std::max(most, packing_->long_rows[i].parts);
    for (std::uint32_t p = 0; p < most; ++p) {
      trace.load(1);
      for (std::int64_t i = first; i < last; ++i)
        if (p < packing_->long_rows[i].parts)
          trace.touch(
              at_.slots + 4 * kMaxCols * std::uint64_t{packing_->long_rows[i].first_part + p},
              4 * n_);
      trace.issue(4);
      if (p % 4 == 3 || p + 1 == most) trace.wait(1);
    }
    trace.store();
    for (std::int64_t i = first; i < last; ++i)
      trace.touch(at_.c + 4 * static_cast<std::uint64_t>(packing_->long_rows[i].row * n_), 4 * n_);
    return false;
  }

 private:
  std::shared_ptr<const Packing> packing_;
  std::int64_t n_;
  Addresses at_;
};

}  // namespace

WorkDescription describe_work(const PackedMatrix& packed, std::shared_ptr<const Packing> packing,
                              std::int64_t n) {
  WorkDescription work{.kernel = "dasp",
                       .mma_type = "fp16",
                       .mma_shape = "m16n8k8",
                       .flops_per_mma = 2 * 16 * kSlots * kDepth};
  const auto count = std::ssize(packing->tasks), long_rows = std::ssize(packing->long_rows);
  AddressSpace& memory = work.memory;
  Addresses at{};
  at.tasks = memory.add("tasks", 16 * count);
  at.rows = memory.add("rows", 4 * std::ssize(packing->rows));
  at.values = memory.add("values", 2 * std::ssize(packing->nonzeros));
  at.col_indices = memory.add("col_indices", 4 * std::ssize(packing->col_indices));
  at.slots = memory.add("slots", 4 * kMaxCols * packing->num_parts);
  at.long_rows = memory.add("long_rows", static_cast<std::int64_t>(sizeof(LongRow)) * long_rows);
  at.b = memory.add("b", 4 * n * packed.cols());
  at.c = memory.add("c", 4 * n * packed.rows());

  // Of a thread, in eights; as compiled for sm_90a with aligned operands.
  constexpr int kRegisters[kMaxCols] = {48, 56, 56, 48, 64, 64, 64, 64};
  const std::int64_t blocks = (count + kWarps - 1) / kWarps;
  work.thread_blocks.resize(static_cast<std::size_t>(blocks));
  for (std::int64_t i = 0; i < count; ++i) {
    const Task& task = packing->tasks[i];
    ThreadBlockWork& of = work.thread_blocks[i / kWarps];
    const std::int64_t chunks = std::int64_t{task.last} - task.first;
    of.mma += chunks * num_mmas(n) * (task.kind == Task::kShort ? 2 : 1);
    of.a_bytes += 16 + chunks * kPlaces * (2 + 4) + 4 * rows_of_slots(task);
    for (std::int64_t chunk = task.first; chunk < task.last; ++chunk)
      for (int half = 0; half < 2; ++half)
        of.b_bytes += 4 * n * std::ssize(rows_of_b(*packing, chunk, half));
    for (int j = 0; j < rows_of_slots(task); ++j)
      if (packing->rows[task.index + static_cast<std::uint32_t>(j)] != kNoRow) of.c_bytes += 4 * n;
  }
  work.launches = {{.name = "multiply",
                    .thread_blocks = blocks,
                    .threads_per_block = kThreads,
                    .registers_per_thread = kRegisters[n - 1],
                    .trace = std::make_shared<DaspTrace>(packing, n, at)}};
  if (long_rows > 0) {
    constexpr std::int64_t kRows = kThreads / kMaxCols;
    const std::int64_t sums = (long_rows + kRows - 1) / kRows;
    for (std::int64_t i = 0; i < sums; ++i)
      work.thread_blocks.push_back({.c_bytes = 4 * n * std::min(kRows, long_rows - i * kRows)});
    work.launches.push_back({.name = "add",
                             .thread_blocks = sums,
                             .threads_per_block = kThreads,
                             .registers_per_thread = 32,
                             .trace = std::make_shared<SumTrace>(packing, n, at)});
  }
  work.footprint_bytes = stats(packed).bytes;
  work.b_rows_bytes = 4 * n * count_distinct(packing->col_indices, packed.cols());
  work.c_bytes = 4 * n * packed.rows();
  work.useful_flops = 2 * packed.nnz() * n;
  return work;
}

}  // namespace tessera::dasp
