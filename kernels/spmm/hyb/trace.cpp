// The launches of hyb_spmm: their work and, for the simulator, the traces of their warps in the
// order of the source.

#include "kernels/spmm/hyb/trace.hpp"

#include <algorithm>
#include <utility>

#include "kernels/spmm_kernel.hpp"

namespace tessera::hyb {
namespace {

/// Instructions of a warp besides memory instructions, counted in machine code for sm_90a, CUDA
/// 13.0.
struct InstructionCounts {
  static constexpr int kIdle = 16;      // a warp without a task
  static constexpr int kElement = 2;    // for an entry's column of C
  static constexpr int kEntry = 3;      // for one of the entries that load together
  static constexpr int kUnrolled = 19;  // more for an ELL row of two entries, unless `coarsen` is 4
  // For a warp before its first ELL row; for an ELL row, its store included; for the entries that
  // load together.
  static constexpr int warp(int coarsen) { return 50 + 15 * coarsen; }
  static constexpr int row(int coarsen) { return 17 + 20 * coarsen; }
  static constexpr int entries(int coarsen) { return 4 + 5 * coarsen; }
  static constexpr int kFinishRow = 40;    // of the second launch: a warp,
  static constexpr int kFinishChunk = 14;  // 32 columns,
  static constexpr int kFinishPart = 4;    // and a part of them
};

struct TraceAddresses {
  std::uint64_t tasks, rows, col_indices, values, finished_rows, slots, b, c;
};

/// Entries that load together.
std::int64_t entries_at_once(const Task& task) {
  return std::min<std::int64_t>(std::int64_t{1} << task.log_width, kUnroll);
}

class MultiplyTrace final : public LaunchTrace {
 public:
  MultiplyTrace(std::shared_ptr<const Packing> packing, const Schedule& schedule,
                const TraceAddresses& at)
      : packing_(std::move(packing)), schedule_(schedule), at_(at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const WarpItem item = schedule_.item_of(thread_block, warp);
    if (item.task >= schedule_.tasks) {
      trace.issue(InstructionCounts::kIdle);
      return false;
    }
    const Task& task = packing_->tasks[item.task];
    const std::int64_t width = std::int64_t{1} << task.log_width, step = entries_at_once(task);
    if (cursor.step == 0) begin(item.task, trace);
    // cursor.step counts entries.
    const std::int64_t row = cursor.step / width, in_row = cursor.step % width;
    if (in_row == 0) load(at_.rows, task.first_row + row, sizeof(EllRow), kRowBoard, trace);
    if (width == 2 && schedule_.coarsen < 4) trace.issue(InstructionCounts::kUnrolled);
    add_entries(task.first_entry + cursor.step, step, item.first_col, trace);
    cursor.step += step;
    if (in_row + step == width) store(packing_->rows[task.first_row + row], item.first_col, trace);
    return cursor.step < width * task.rows;
  }

 private:
  static constexpr int kTaskBoard = 0, kRowBoard = 1, kIndexBoard = 2, kDataBoard = 3;

  static void load(std::uint64_t array, std::int64_t at, int bytes, int board, WarpTrace& trace) {
    trace.load(board);
    trace.touch(element(array, at, bytes), bytes);
  }

  void begin(std::int64_t task, WarpTrace& trace) const {
    trace.issue(InstructionCounts::warp(schedule_.coarsen));
    trace.pause(kSpecialRegisterCycles);
    load(at_.tasks, task, sizeof(Task), kTaskBoard, trace);
    trace.wait(kTaskBoard);
  }

  void add_entries(std::int64_t first, std::int64_t count, std::int64_t col,
                   WarpTrace& trace) const {
    for (std::int64_t e = first; e < first + count; ++e)
      load(at_.col_indices, e, 4, kIndexBoard, trace);
    trace.wait(kIndexBoard);
    trace.issue(InstructionCounts::entries(schedule_.coarsen) +
                InstructionCounts::kEntry * static_cast<int>(count));
    for (std::int64_t e = first; e < first + count; ++e) {
      load(at_.values, e, 4, kDataBoard, trace);
      const std::int64_t row = row_to_read(packing_->col_indices[e]);
      for (int v = 0; v < schedule_.coarsen; ++v) {
        trace.load(kDataBoard);
        trace.touch(element(at_.b, row * schedule_.n + first_read(col, v, schedule_.n), 4),
                    4 * schedule_.cols_read(col, v));
      }
    }
    trace.wait(kDataBoard);
    trace.issue(InstructionCounts::kElement * schedule_.coarsen * static_cast<int>(count));
  }

  void store(const EllRow& row, std::int64_t col, WarpTrace& trace) const {
    trace.wait(kRowBoard);
    trace.issue(InstructionCounts::row(schedule_.coarsen));
    const std::uint64_t array = row.slot == 0 ? at_.c : at_.slots;
    const std::int64_t at = row.slot == 0 ? row.row : std::int64_t{row.slot} - 1;
    for (int v = 0; v < schedule_.coarsen; ++v) {
      const std::int64_t cols = schedule_.cols_of(col, v);
      if (cols == 0) continue;
      trace.store();
      trace.touch(element(array, at * schedule_.n + col + 32 * v, 4), 4 * cols);
    }
  }

  std::shared_ptr<const Packing> packing_;
  Schedule schedule_;
  TraceAddresses at_;
};

class FinishTrace final : public LaunchTrace {
 public:
  FinishTrace(std::shared_ptr<const Packing> packing, std::int64_t n, const TraceAddresses& at)
      : packing_(std::move(packing)), n_(n), at_(at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::uint32_t index =
        finished_row_of(static_cast<std::uint32_t>(thread_block), static_cast<std::uint32_t>(warp));
    if (index >= packing_->finished_rows.size()) {
      trace.issue(InstructionCounts::kFinishRow);
      return false;
    }
    const FinishedRow& row = packing_->finished_rows[index];
    if (cursor.step == 0) {
      trace.issue(InstructionCounts::kFinishRow);
      trace.pause(kSpecialRegisterCycles);
      trace.load(0);
      trace.touch(element(at_.finished_rows, index, sizeof(FinishedRow)), sizeof(FinishedRow));
      trace.wait(0);
    }
    const std::int64_t col = 32 * cursor.step++, cols = std::min<std::int64_t>(n_ - col, 32);
    for (std::uint32_t part = 0; part < row.parts; ++part) {
      trace.issue(InstructionCounts::kFinishPart);
      trace.load(1);
      trace.touch(element(at_.slots, (std::int64_t{row.first_slot} + part) * n_ + col, 4),
                  4 * cols);
    }
    if (row.parts > 0) trace.wait(1);
    trace.issue(InstructionCounts::kFinishChunk);
    trace.store();
    trace.touch(element(at_.c, row.row * n_ + col, 4), 4 * cols);
    return col + 32 < n_;
  }

 private:
  std::shared_ptr<const Packing> packing_;
  std::int64_t n_;
  TraceAddresses at_;
};

/// Adds the work of a warp of the first launch. Slots are neither B nor C.
void add_task(const Packing& packing, const Schedule& schedule, const WarpItem& item,
              ThreadBlockWork& work) {
  const Task& task = packing.tasks[item.task];
  const std::int64_t entries = std::int64_t{task.rows} << task.log_width;
  std::int64_t nonzeros = 0, cols = 0, cols_read = 0;
  for (std::int64_t e = task.first_entry; e < task.first_entry + entries; ++e)
    nonzeros += packing.col_indices[e] < 0 ? 0 : 1;
  for (int v = 0; v < schedule.coarsen; ++v) {
    cols += schedule.cols_of(item.first_col, v);
    cols_read += schedule.cols_read(item.first_col, v);
  }
  work.fma += nonzeros * cols;
  work.a_bytes += static_cast<std::int64_t>(sizeof(Task)) +
                  static_cast<std::int64_t>(sizeof(EllRow)) * task.rows + 8 * entries;
  work.b_bytes += 4 * entries * cols_read;
  for (std::uint32_t r = 0; r < task.rows; ++r)
    if (packing.rows[task.first_row + r].slot == 0) work.c_bytes += 4 * cols;
}

}  // namespace

WorkDescription describe_work(const CsrMatrix& a, std::shared_ptr<const Packing> packing,
                              Schedule schedule) {
  schedule.tasks = std::ssize(packing->tasks);
  const std::int64_t n = schedule.n, finished = std::ssize(packing->finished_rows);
  WorkDescription work{.kernel = "hyb_spmm"};
  AddressSpace& memory = work.memory;
  TraceAddresses at{};
  at.tasks = memory.add("tasks", static_cast<std::int64_t>(sizeof(Task)) * schedule.tasks);
  at.rows =
      memory.add("rows", static_cast<std::int64_t>(sizeof(EllRow)) * std::ssize(packing->rows));
  at.col_indices = memory.add("col_indices", 4 * packing->entries());
  at.values = memory.add("values", 4 * packing->entries());
  at.finished_rows =
      memory.add("finished_rows", static_cast<std::int64_t>(sizeof(FinishedRow)) * finished);
  at.slots = memory.add("slots", 4 * n * packing->num_slots);
  at.b = memory.add("b", 4 * n * a.cols);
  at.c = memory.add("c", 4 * n * a.rows);

  if (schedule.thread_blocks() > 0) {
    for (std::int64_t i = 0; i < schedule.thread_blocks(); ++i) {
      ThreadBlockWork& of = work.thread_blocks.emplace_back();
      for (int warp = 0; warp < kWarps; ++warp)
        if (const WarpItem item = schedule.item_of(i, warp); item.task < schedule.tasks)
          add_task(*packing, schedule, item, of);
    }
    work.launches.push_back({.name = "multiply",
                             .thread_blocks = schedule.thread_blocks(),
                             .threads_per_block = kThreads,
                             .registers_per_thread = registers_of_multiplication(schedule.coarsen),
                             .trace = std::make_shared<MultiplyTrace>(packing, schedule, at)});
  }
  if (finished > 0) {
    for (std::int64_t i = 0; i < finishing_blocks(finished); ++i) {
      ThreadBlockWork& of = work.thread_blocks.emplace_back();
      for (std::int64_t row = i * kWarps; row < std::min((i + 1) * kWarps, finished); ++row) {
        of.a_bytes += static_cast<std::int64_t>(sizeof(FinishedRow));
        of.c_bytes += 4 * n;
      }
    }
    work.launches.push_back({.name = "finish",
                             .thread_blocks = finishing_blocks(finished),
                             .threads_per_block = kThreads,
                             .registers_per_thread = kFinishRegisters,
                             .trace = std::make_shared<FinishTrace>(packing, n, at)});
  }
  work.footprint_bytes = packing->bytes();
  work.b_rows_bytes = 4 * n * count_distinct(packing->col_indices, a.cols);
  work.c_bytes = 4 * n * a.rows;
  work.useful_flops = 2 * a.nnz() * n;
  return work;
}

}  // namespace tessera::hyb
