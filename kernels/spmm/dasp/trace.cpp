// The launches of dasp: their work and, for the simulator, the traces of their warps in the order
// of the source, with the lengths of the machine code.

#include "kernels/spmm/dasp/trace.hpp"

#include <algorithm>
#include <set>

namespace tessera::dasp {
namespace {

/// The distinct rows of B that place `half` of all lanes meets in a chunk: the rows that one load
/// of a warp touches.
std::set<std::int32_t> rows_of_b(const Packing& packing, std::int64_t chunk, int half) {
  std::set<std::int32_t> rows;
  for (int lane = 0; lane < 32; ++lane) {
    const std::int32_t col = packing.col_indices[chunk * kPlaces + place_of_lane(lane, half)];
    if (col != kNoColumn) rows.insert(col);
  }
  return rows;
}

/// The number of rows of C that a task writes: the first rows of its slots, then the second ones.
int rows_of_slots(const Task& task) {
  return task.kind == Task::kLong ? 0 : task.kind == Task::kMedium ? kSlots : 2 * kSlots;
}

/// MMAs of a chunk of a task.
int mmas_of(const Task& task, const Instance& instance) {
  return instance.mmas * (task.kind == Task::kShort ? kShortMmas : 1);
}

/// The lengths of the pieces of the machine code for aligned operands (CUDA 13.0, sm_90a), in
/// instructions with those of memory and the MMAs; by the columns of B, from one.
struct CodeLengths {
  static constexpr int kIdle = 8;    // a warp without a task
  static constexpr int kBegin = 28;  // before the first chunk,
  static constexpr int kLoop = 21;   // and around those of medium and long rows
  static constexpr int kChunk[] = {47, 43, 74, 41, 99, 67, 129, 62};
  static constexpr int kOddChunk = 12;  // more for the first of an odd number
  static constexpr int kShortChunk[] = {66, 52, 98, 64, 131, 94, 172, 93};  // has several MMAs
  static constexpr int kSum = 30, kSumPart = 4;  // of the second launch: a warp, a part

  static constexpr int store_long(int mmas) { return 10 + 18 * mmas; }
  /// Of the rows of half of the slots.
  static constexpr int store_rows(int cols, int vector) {
    return vector == 1 ? 18 + 9 * cols : 12 + 8 * cols / vector + 15;
  }
};

/// The addresses of the arrays of a product.
struct TraceAddresses {
  std::uint64_t tasks, rows, values, col_indices, slots, long_rows, b, c;
};

class DaspTrace final : public LaunchTrace {
 public:
  DaspTrace(std::shared_ptr<const Packing> packing, const Instance& instance,
            const TraceAddresses& at)
      : packing_(std::move(packing)), instance_(instance), n_(instance.cols), at_(at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::int64_t index =
        task_of(static_cast<std::uint32_t>(thread_block), static_cast<std::uint32_t>(warp));
    if (index >= std::ssize(packing_->tasks)) {
      trace.issue(CodeLengths::kIdle);
      return false;
    }
    const Task& task = packing_->tasks[index];
    if (cursor.step == 0) {
      const std::size_t begin = trace.ops.size();
      trace.issue(CodeLengths::kIdle);
      trace.pause(kSpecialRegisterCycles);
      trace.load(kTaskBoard);
      trace.touch(at_.tasks + 16 * static_cast<std::uint64_t>(index), 16);
      trace.wait(kTaskBoard);
      load_chunk(task.first, trace);
      trace.complete(begin,
                     CodeLengths::kBegin + (task.kind == Task::kShort ? 0 : CodeLengths::kLoop));
    }
    const std::int64_t chunk = task.first + cursor.step++;
    advance(task, chunk, trace);
    if (chunk + 1 < task.last) return true;
    trace.wait_mma();
    store(task, trace);
    return false;
  }

 private:
  static constexpr int kTaskBoard = 0, kChunkBoard = 1, kDataBoard = 2, kRowBoard = 3;

  void load_chunk(std::int64_t chunk, WarpTrace& trace) const {
    trace.load(kChunkBoard);
    trace.touch(at_.col_indices + 4 * static_cast<std::uint64_t>(chunk * kPlaces), 4 * kPlaces);
    trace.load(kChunkBoard);
    trace.touch(at_.values + 2 * static_cast<std::uint64_t>(chunk * kPlaces), 2 * kPlaces);
  }

  /// Of a chunk. The first of an odd number is loaded and multiplied before the loop over two.
  int length_of(const Task& task, std::int64_t chunk) const {
    const auto cols = static_cast<std::size_t>(n_ - 1);
    if (task.kind == Task::kShort) return CodeLengths::kShortChunk[cols];
    const bool odd = chunk == task.first && (task.last - task.first) % 2 == 1;
    return CodeLengths::kChunk[cols] + (odd ? CodeLengths::kOddChunk : 0);
  }

  /// Loads the elements of B of a chunk, as many columns at once as are aligned, and multiplies.
  void advance(const Task& task, std::int64_t chunk, WarpTrace& trace) const {
    trace.wait(kChunkBoard);
    const std::size_t begin = trace.ops.size();
    const int length = length_of(task, chunk), mmas = mmas_of(task, instance_);
    trace.issue(length / 3);
    bool loaded = false;
    for (int half = 0; half < kLanePlaces; ++half) {
      const std::set<std::int32_t> rows = rows_of_b(*packing_, chunk, half);
      if (rows.empty()) continue;
      loaded = true;
      for (int col = 0; col < instance_.cols; col += instance_.vector) {
        trace.load(kDataBoard);
        for (const std::int32_t row : rows)
          trace.touch(at_.b + 4 * static_cast<std::uint64_t>(row * n_ + col), 4 * instance_.vector);
        trace.wavefronts(static_cast<int>(std::ssize(rows)));
      }
    }
    if (chunk + 1 < task.last) load_chunk(chunk + 1, trace);
    if (loaded) trace.wait(kDataBoard);
    trace.complete(begin, length - mmas);
    trace.mma(mmas);
  }

  void store(const Task& task, WarpTrace& trace) const {
    const std::size_t begin = trace.ops.size();
    if (task.kind == Task::kLong) {
      trace.store();
      trace.touch(at_.slots + 4 * kMaxCols * std::uint64_t{task.index}, 4 * n_);
      trace.complete(begin, CodeLengths::store_long(instance_.mmas));
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
    trace.complete(begin,
                   count / kSlots * CodeLengths::store_rows(instance_.cols, instance_.vector));
  }

  std::shared_ptr<const Packing> packing_;
  Instance instance_;
  std::int64_t n_;
  TraceAddresses at_;
};

/// The trace of the second launch, which has a lane for each element of a long row.
class SumTrace final : public LaunchTrace {
 public:
  SumTrace(std::shared_ptr<const Packing> packing, std::int64_t n, const TraceAddresses& at)
      : packing_(std::move(packing)), n_(n), at_(at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor&, WarpTrace& trace) const override {
    const std::int64_t first = long_row_of(static_cast<std::uint32_t>(thread_block),
                                           static_cast<std::uint32_t>(kWarpSumRows * warp));
    const std::int64_t last =
        std::min<std::int64_t>(first + kWarpSumRows, std::ssize(packing_->long_rows));
    trace.issue(CodeLengths::kSum);
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
      trace.issue(CodeLengths::kSumPart);
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
  TraceAddresses at_;
};

ThreadBlockWork work_of(const Packing& packing, const Instance& instance,
                        std::int64_t thread_block) {
  ThreadBlockWork work;
  for (int warp = 0; warp < kWarps; ++warp) {
    const std::uint32_t index =
        task_of(static_cast<std::uint32_t>(thread_block), static_cast<std::uint32_t>(warp));
    if (index >= packing.tasks.size()) break;
    const Task& task = packing.tasks[index];
    const std::int64_t chunks = std::int64_t{task.last} - task.first;
    const std::int64_t row_bytes = std::int64_t{4} * instance.cols;
    work.mma += chunks * mmas_of(task, instance);
    work.a_bytes += 16 + chunks * kPlaces * (2 + 4) + 4 * rows_of_slots(task);
    for (std::int64_t chunk = task.first; chunk < task.last; ++chunk)
      for (int half = 0; half < kLanePlaces; ++half)
        work.b_bytes += row_bytes * std::ssize(rows_of_b(packing, chunk, half));
    for (int j = 0; j < rows_of_slots(task); ++j)
      if (packing.rows[task.index + static_cast<std::uint32_t>(j)] != kNoRow)
        work.c_bytes += row_bytes;
  }
  return work;
}

}  // namespace

WorkDescription describe_work(const PackedMatrix& packed, std::shared_ptr<const Packing> packing,
                              std::int64_t n) {
  const Instance& instance = instance_for(n);
  WorkDescription work{.kernel = "dasp",
                       .mma_type = "fp16",
                       .mma_shape = "m16n8k8",
                       .flops_per_mma = 2 * 16 * kSlots * kDepth};
  const auto count = std::ssize(packing->tasks), long_rows = std::ssize(packing->long_rows);
  AddressSpace& memory = work.memory;
  TraceAddresses at{};
  at.tasks = memory.add("tasks", 16 * count);
  at.rows = memory.add("rows", 4 * std::ssize(packing->rows));
  at.values = memory.add("values", 2 * std::ssize(packing->nonzeros));
  at.col_indices = memory.add("col_indices", 4 * std::ssize(packing->col_indices));
  at.slots = memory.add("slots", 4 * kMaxCols * packing->num_parts);
  at.long_rows = memory.add("long_rows", static_cast<std::int64_t>(sizeof(LongRow)) * long_rows);
  at.b = memory.add("b", 4 * n * packed.cols());
  at.c = memory.add("c", 4 * n * packed.rows());

  for (std::int64_t i = 0; i < thread_blocks(count); ++i)
    work.thread_blocks.push_back(work_of(*packing, instance, i));
  work.launches = {{.name = "multiply",
                    .thread_blocks = thread_blocks(count),
                    .threads_per_block = kThreads,
                    .registers_per_thread = instance.registers,
                    .trace = std::make_shared<DaspTrace>(packing, instance, at)}};
  if (long_rows > 0) {
    for (std::int64_t i = 0; i < sum_blocks(long_rows); ++i)
      work.thread_blocks.push_back(
          {.c_bytes = 4 * n * std::min<std::int64_t>(kSumRows, long_rows - i * kSumRows)});
    work.launches.push_back({.name = "add",
                             .thread_blocks = sum_blocks(long_rows),
                             .threads_per_block = kThreads,
                             .registers_per_thread = kSumRegisters,
                             .trace = std::make_shared<SumTrace>(packing, n, at)});
  }
  work.footprint_bytes = stats(packed).bytes;
  work.b_rows_bytes = 4 * n * count_distinct(packing->col_indices, packed.cols());
  work.c_bytes = 4 * n * packed.rows();
  work.useful_flops = 2 * packed.nnz() * n;
  return work;
}

}  // namespace tessera::dasp
