#include "kernels/spmm/row_pieces/row_pieces_trace.hpp"

#include <algorithm>

namespace tessera::row_pieces {
namespace {

/// The addresses of the arrays of a product.
struct TraceAddresses {
  std::uint64_t row_parts, shares, col_indices, values, b, c, slots, split_rows, cleared;
};

/// Instructions of a warp besides memory instructions, counted in machine code (CUDA 13.0, sm_90a).
struct InstructionCounts {
  static constexpr int kClear = 20, kClearStore = 5;  // of the clearing launch: a warp, a store
  static constexpr int kIdle = 30;                    // a warp without a unit
  static constexpr int kWarp = 52, kShareWarp = 110;  // around a unit; around a share
  static constexpr int kStore = 12;                   // for four values of a lane
  static constexpr int kRowOfShare = 58;              // to end a row of a share, and begin the next
  static constexpr int kMeet = 40;                    // to leave the sums of a part in its slot
  static constexpr int kShareNonzero = 15;            // of a share: is it the last of its row?

  /// For a nonzero, besides its loads.
  static constexpr int nonzero(const UnitShape& shape) {
    const int of_share = shape.streams ? kShareNonzero : 0;
    switch (shape.delivery) {
      case NonzeroDelivery::kBroadcastLoads:
        return 12 + shape.values + of_share;
      case NonzeroDelivery::kWarpShuffles:
        return 12 + 3 * shape.values + of_share;
      case NonzeroDelivery::kSharedMemory:
        return 10 + 2 * shape.values + of_share;
      case NonzeroDelivery::kLoadsPerGroup:
        return 17 + shape.values + of_share;
    }
    return 0;
  }
  /// For the next kStagedNonzeros, besides their loads.
  static constexpr int staging(NonzeroDelivery delivery) {
    return delivery == NonzeroDelivery::kWarpShuffles ? 13 : 20;
  }
};

/// The clearing of a row of C, 128 bytes at a time.
class ClearTrace final : public LaunchTrace {
 public:
  ClearTrace(std::vector<std::uint32_t> rows, std::int64_t n, const TraceAddresses& at)
      : rows_(std::move(rows)), n_(n), at_(at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::int64_t index =
        cleared_index(static_cast<std::uint32_t>(thread_block), static_cast<std::uint32_t>(warp));
    if (cursor.step++ == 0) trace.issue(InstructionCounts::kClear);
    if (index >= std::ssize(rows_)) return false;
    if (cursor.part == 0) {
      trace.load(0);
      trace.touch(at_.cleared + 4 * static_cast<std::uint64_t>(index), 4);
      trace.wait(0);
    }
    const std::int64_t first = 32 * cursor.part++;
    trace.store();
    trace.touch(at_.c + 4 * (rows_[index] * static_cast<std::uint64_t>(n_) + first),
                4 * std::min<std::int64_t>(32, n_ - first));
    trace.issue(InstructionCounts::kClearStore);
    return first + 32 < n_;
  }

 private:
  std::vector<std::uint32_t> rows_;
  std::int64_t n_;
  TraceAddresses at_;
};

/// The trace of a warp, whose units are side by side: each memory instruction serves all of them.
class UnitsTrace final : public LaunchTrace {
 public:
  UnitsTrace(const CsrMatrix& a, std::shared_ptr<const Plan> plan, const Schedule& schedule,
             bool atomic, const TraceAddresses& at)
      : a_(a),
        plan_(std::move(plan)),
        schedule_(schedule),
        shape_(schedule.shape),
        atomic_(atomic),
        at_(at) {}

  ThreadBlockWork work_of(std::int64_t thread_block) const {
    ThreadBlockWork work;
    for (int warp = 0; warp < shape_.warps; ++warp) {
      const WarpUnits mine(schedule_, thread_block, warp);
      work.b_bytes += b_bytes(mine);
      for (std::int64_t unit = mine.first; unit < mine.last; ++unit)
        for (std::int64_t p = plan_->first_part(unit); p < plan_->end_part(unit); ++p)
          add_part(plan_->row_parts[p], mine.cols, work);
    }
    return work;
  }

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const WarpUnits mine(schedule_, thread_block, warp);
    if (mine.first == mine.last) {
      trace.issue(InstructionCounts::kIdle);
      return false;
    }
    const std::int64_t step = cursor.step++, steps = count_steps(mine);
    if (step == 0) begin(mine, steps, trace);
    if (step < steps) advance(mine, step, steps, trace);
    if (step + 1 < steps) return true;
    for (std::int64_t unit = mine.first; unit < mine.last; ++unit) deliver(mine, unit, trace);
    return false;
  }

 private:
  static constexpr int kRowPartBoard = 0, kIndexBoard = 1, kDataBoard = 2, kSlotBoard = 3;

  /// The units [first, last) of a warp, and its columns of C.
  struct WarpUnits {
    std::int64_t first, last;
    std::int64_t chunk, col, cols;

    WarpUnits(const Schedule& schedule, std::int64_t thread_block, int warp) {
      const UnitItem item = schedule.item_of(thread_block, warp);
      chunk = item.chunk;
      last =
          std::min(item.unit + std::int64_t{schedule.shape.units_per_warp()}, schedule.num_units);
      first = std::min(std::int64_t{item.unit}, last);
      col = schedule.first_col(chunk);
      cols = schedule.cols_of(chunk);
    }
  };

  /// Passes of the loop of the longest unit.
  std::int64_t count_steps(const WarpUnits& mine) const {
    const std::int64_t step = shape_.nonzeros_per_step();
    std::int64_t most = 0;
    for (std::int64_t unit = mine.first; unit < mine.last; ++unit)
      most = std::max(most, (end(unit) - start(unit) + step - 1) / step);
    return most;
  }

  /// Bytes of B that a warp loads. A row that several units load at once counts once.
  std::int64_t b_bytes(const WarpUnits& mine) const {
    std::int64_t rows = 0;
    for (std::int64_t i = 0; i < count_steps(mine) * shape_.nonzeros_per_step(); ++i) {
      std::vector<std::int32_t> seen;
      for (std::int64_t unit = mine.first; unit < mine.last; ++unit) {
        const std::int64_t k = start(unit) + i;
        if (k < begin_of(unit) || k >= end(unit)) continue;
        if (std::ranges::find(seen, a_.col_indices[k]) != seen.end()) continue;
        seen.push_back(a_.col_indices[k]);
        ++rows;
      }
    }
    return 4 * rows * mine.cols;
  }

  /// The work of a row part, besides rows of B.
  void add_part(const RowPart& part, std::int64_t cols, ThreadBlockWork& work) const {
    const std::int64_t nonzeros = part.last - part.first;
    work.fma += nonzeros * cols;
    work.a_bytes += 16 + 8 * nonzeros;
    if (part.slot != 0 && atomic_)
      work.atomics += cols;
    else if (part.slot == 0 || is_last_of_row(part))
      work.c_bytes += 4 * cols;
  }

  const SplitRow& split_row_of(const RowPart& part) const {
    return plan_->split_rows[plan_->split_row_of_slot[part.slot - 1]];
  }
  /// True for the last part of a split row. It counts as the last one to finish, which reads the
  /// sums of all parts.
  bool is_last_of_row(const RowPart& part) const {
    const SplitRow& split = split_row_of(part);
    return part.slot == split.first_slot + split.num_parts;
  }

  const RowPart& first_part_of(std::int64_t unit) const {
    return plan_->row_parts[plan_->first_part(unit)];
  }
  const RowPart& last_part_of(std::int64_t unit) const {
    return plan_->row_parts[plan_->end_part(unit) - 1];
  }
  std::int64_t begin_of(std::int64_t unit) const { return first_part_of(unit).first; }
  std::int64_t end(std::int64_t unit) const { return last_part_of(unit).last; }
  /// The nonzero from which the passes of a unit's loop are counted.
  std::int64_t start(std::int64_t unit) const {
    const std::uint32_t first = first_part_of(unit).first;
    return first < end(unit) ? first_loaded(shape_.delivery, first) : first;
  }
  /// True where lanes load one nonzero each and give it to the others.
  bool stages_nonzeros() const {
    return shape_.delivery == NonzeroDelivery::kWarpShuffles ||
           shape_.delivery == NonzeroDelivery::kSharedMemory;
  }
  int per_step() const { return shape_.nonzeros_per_step(); }

  void begin(const WarpUnits& mine, std::int64_t steps, WarpTrace& trace) const {
    trace.issue(shape_.streams ? InstructionCounts::kShareWarp : InstructionCounts::kWarp);
    trace.pause(kSpecialRegisterCycles);
    if (!plan_->shares.empty()) {
      trace.load(kRowPartBoard);
      trace.touch(at_.shares + 4 * static_cast<std::uint64_t>(mine.first),
                  4 * (mine.last - mine.first + 1));
      trace.wait(kRowPartBoard);
    }
    trace.load(kRowPartBoard);
    for (std::int64_t unit = mine.first; unit < mine.last; ++unit)
      trace.touch(at_.row_parts + 16 * static_cast<std::uint64_t>(plan_->first_part(unit)), 16);
    trace.wait(kRowPartBoard);
    if (steps > 0) load_columns(mine, 0, trace);
  }

  void touch_nonzeros(std::uint64_t array, std::int64_t first, std::int64_t count,
                      WarpTrace& trace) const {
    count = std::min(count, a_.nnz() - first);
    if (count > 0) trace.touch(array + 4 * static_cast<std::uint64_t>(first), 4 * count);
  }

  /// Loads the nonzeros of all units in a step: four at a time, or one for each group of lanes.
  void load_nonzeros(const WarpUnits& mine, std::uint64_t array, std::int64_t step, int board,
                     WarpTrace& trace) const {
    const int at_once = shape_.delivery == NonzeroDelivery::kLoadsPerGroup ? shape_.groups : 4;
    for (int j = 0; j < per_step(); j += at_once) {
      trace.load(board);
      for (std::int64_t unit = mine.first; unit < mine.last; ++unit) {
        const std::int64_t k = start(unit) + step * per_step();
        if (k < end(unit)) touch_nonzeros(array, k + j, at_once, trace);
      }
    }
  }

  void load_columns(const WarpUnits& mine, std::int64_t step, WarpTrace& trace) const {
    if (!stages_nonzeros()) return load_nonzeros(mine, at_.col_indices, step, kIndexBoard, trace);
    if (step * per_step() % kStagedNonzeros != 0) return;
    trace.issue(InstructionCounts::staging(shape_.delivery));
    const std::int64_t k = start(mine.first) + step * per_step();
    for (const std::uint64_t array : {at_.col_indices, at_.values}) {
      trace.load(kIndexBoard);
      touch_nonzeros(array, k, std::min<std::int64_t>(kStagedNonzeros, end(mine.first) - k), trace);
    }
  }

  /// Rows of B that are in flight before the first is waited for: the machine code loads those
  /// behind them to registers that it uses again.
  int first_rows() const {
    const int all = shape_.unroll * shape_.groups;
    if (shape_.delivery == NonzeroDelivery::kSharedMemory)
      return shape_.streams && shape_.values == 4 && shape_.unroll == 4 ? 2 : all;
    if (shape_.delivery != NonzeroDelivery::kBroadcastLoads) return all;
    if (shape_.streams) return shape_.unroll == 8 ? 5 : all;
    return shape_.unroll == 4 ? 3 : all;
  }

  void advance(const WarpUnits& mine, std::int64_t step, std::int64_t steps,
               WarpTrace& trace) const {
    // As for row parts: the machine code of a share copies the nonzeros that it loads ahead to
    // other registers at once.
    const std::int64_t ahead = step + kStagedNonzeros / per_step();
    const bool waits_for_ahead = shape_.streams && stages_nonzeros();
    if (waits_for_ahead && ahead < steps) load_columns(mine, ahead, trace);
    trace.wait(kIndexBoard);
    if (shape_.delivery == NonzeroDelivery::kSharedMemory) trace.shared(4);
    const int instructions = InstructionCounts::nonzero(shape_) * shape_.unroll;
    trace.issue(instructions / 2);
    for (int j = 0; j < per_step(); j += shape_.groups) {
      if (j == first_rows()) trace.wait(kDataBoard);
      load_rows(mine, step, j, trace);
      // Where lanes shuffle nonzeros, the compiler loads into registers that it uses again: two
      // rows of B are in flight, and after the first four, one.
      if (shape_.delivery == NonzeroDelivery::kWarpShuffles && (j % 2 == 1 || j > 3))
        trace.wait(kDataBoard);
    }
    if (!stages_nonzeros()) load_nonzeros(mine, at_.values, step, kDataBoard, trace);
    if (!waits_for_ahead && step + 1 < steps) load_columns(mine, step + 1, trace);
    trace.wait(kDataBoard);
    trace.issue(instructions - instructions / 2);
    for (std::int64_t unit = mine.first; unit < mine.last; ++unit) {
      const std::int64_t k = start(unit) + step * per_step();
      finish_rows(mine, unit, step == 0 ? begin_of(unit) : k + 1, k + per_step(), trace);
    }
  }

  /// Loads the rows of B of nonzero j of a step, and of the next ones for the further groups.
  void load_rows(const WarpUnits& mine, std::int64_t step, int j, WarpTrace& trace) const {
    const int vectors = (shape_.values + 3) / 4;
    for (int v = 0; v < vectors; ++v) {
      const std::int64_t col = v * 4 * shape_.lanes;
      const std::int64_t cols = std::min<std::int64_t>(shape_.columns() / vectors, mine.cols - col);
      if (cols <= 0) continue;
      trace.load(kDataBoard);
      for (std::int64_t unit = mine.first; unit < mine.last; ++unit) {
        for (int g = 0; g < shape_.groups; ++g) {
          const std::int64_t k = start(unit) + step * per_step() + j + g;
          if (k < begin_of(unit) || k >= end(unit)) continue;
          const std::uint64_t row = static_cast<std::uint64_t>(a_.col_indices[k]);
          trace.touch(at_.b + 4 * (row * static_cast<std::uint64_t>(schedule_.n) + mine.col + col),
                      4 * cols);
        }
      }
    }
  }

  /// Stores the whole rows of a share, except its last, that end in [from, to].
  void finish_rows(const WarpUnits& mine, std::int64_t unit, std::int64_t from, std::int64_t to,
                   WarpTrace& trace) const {
    const auto begin = plan_->row_parts.begin() + plan_->first_part(unit);
    const auto last = plan_->row_parts.begin() + plan_->end_part(unit) - 1;
    auto part = std::lower_bound(begin, last, from,
                                 [](const RowPart& p, std::int64_t k) { return p.last < k; });
    for (; part < last && part->last <= to; ++part) {
      trace.issue(InstructionCounts::kRowOfShare);
      trace.load(kRowPartBoard);
      const auto after_next = std::min(part + 2, last) - plan_->row_parts.begin();
      trace.touch(at_.row_parts + 16 * static_cast<std::uint64_t>(after_next), 16);
      // The source asks for a row part while another one is multiplied. The machine code copies it
      // to another register at once, which waits for it.
      trace.wait(kRowPartBoard);
      if (part->slot == 0) store(mine, part->row, trace);
    }
  }

  void touch_row(const WarpUnits& mine, std::uint32_t row, WarpTrace& trace) const {
    trace.touch(at_.c + 4 * (row * static_cast<std::uint64_t>(schedule_.n) + mine.col),
                4 * mine.cols);
  }

  void store(const WarpUnits& mine, std::uint32_t row, WarpTrace& trace) const {
    trace.issue(InstructionCounts::kStore);
    trace.store((shape_.values + 3) / 4);
    touch_row(mine, row, trace);
  }

  void deliver(const WarpUnits& mine, std::int64_t unit, WarpTrace& trace) const {
    const RowPart &first = first_part_of(unit), &last = last_part_of(unit);
    // A unit that has only empty rows has no step that would store them.
    if (begin_of(unit) == end(unit)) finish_rows(mine, unit, begin_of(unit), end(unit), trace);
    if (shape_.streams) {  // where the sums of the last row go is loaded at the end
      trace.load(kSlotBoard);
      trace.touch(at_.row_parts + 16 * static_cast<std::uint64_t>(plan_->end_part(unit) - 1), 16);
      trace.wait(kSlotBoard);
    }
    deliver(mine, last, trace);
    if (&first != &last && first.slot != 0) deliver(mine, first, trace);
  }

  void deliver(const WarpUnits& mine, const RowPart& part, WarpTrace& trace) const {
    if (part.slot == 0) return store(mine, part.row, trace);
    if (atomic_) {
      trace.issue(InstructionCounts::kStore);
      trace.atomic(static_cast<int>(mine.cols));
      touch_row(mine, part.row, trace);
      return;
    }
    const SplitRow& split = split_row_of(part);
    trace.issue(InstructionCounts::kMeet);
    const std::uint32_t index = plan_->split_row_of_slot[part.slot - 1];
    const std::uint64_t rows_of_slots = at_.split_rows + 8 * plan_->split_rows.size();
    for (const std::uint64_t from : {rows_of_slots + std::uint64_t{4} * (part.slot - 1),
                                     at_.split_rows + std::uint64_t{8} * index}) {
      trace.load(kSlotBoard);
      trace.touch(from, 4);
      trace.wait(kSlotBoard);
    }
    for (int i = 0; i < shape_.values; ++i) {
      trace.store();
      touch_slot(mine, part.slot - 1, i, trace);
    }
    trace.pause(kMeetingCycles);
    if (!is_last_of_row(part)) return;
    for (std::uint32_t p = 0; p < split.num_parts; ++p) {
      for (int i = 0; i < shape_.values; ++i) {
        trace.load(kSlotBoard);
        touch_slot(mine, split.first_slot + p, i, trace);
      }
      if (p % 4 == 3 || p + 1 == split.num_parts) trace.wait(kSlotBoard);
      trace.issue(2 * shape_.values);
    }
    store(mine, part.row, trace);
  }

  void touch_slot(const WarpUnits& mine, std::uint32_t slot, int value, WarpTrace& trace) const {
    const auto num_slots = static_cast<std::int64_t>(plan_->split_row_of_slot.size());
    const std::int64_t at =
        slot_offset(mine.chunk, num_slots, slot, shape_.columns()) + value * shape_.lanes;
    trace.touch(at_.slots + 4 * static_cast<std::uint64_t>(at), std::int64_t{4} * shape_.lanes);
  }

  const CsrMatrix& a_;
  std::shared_ptr<const Plan> plan_;
  Schedule schedule_;
  UnitShape shape_;
  bool atomic_;
  TraceAddresses at_;
};

TraceAddresses add_arrays(const CsrMatrix& a, const Plan& plan, const Schedule& schedule,
                          std::int64_t cleared, AddressSpace& memory) {
  const auto slots = static_cast<std::int64_t>(plan.split_row_of_slot.size());
  return {
      .row_parts = memory.add("row_parts", 16 * static_cast<std::int64_t>(plan.row_parts.size())),
      .shares = memory.add("shares", 4 * static_cast<std::int64_t>(plan.shares.size())),
      .col_indices = memory.add("col_indices", 4 * a.nnz()),
      .values = memory.add("values", 4 * a.nnz()),
      .b = memory.add("b", 4 * schedule.n * a.cols),
      .c = memory.add("c", 4 * schedule.n * a.rows),
      .slots = memory.add("slots",
                          4 * slot_offset(schedule.chunks(), slots, 0, schedule.shape.columns())),
      .split_rows = memory.add("split_rows",
                               8 * static_cast<std::int64_t>(plan.split_rows.size()) + 4 * slots),
      .cleared = memory.add("cleared", 4 * cleared)};
}

void describe_clearing(std::vector<std::uint32_t> rows, std::int64_t n, const TraceAddresses& at,
                       WorkDescription& work) {
  const auto count = static_cast<std::int64_t>(rows.size());
  for (std::int64_t block = 0; block < clearing_blocks(count); ++block) {
    const std::int64_t mine = std::min<std::int64_t>(kClearRows, count - block * kClearRows);
    work.thread_blocks.push_back({.a_bytes = 4 * mine, .c_bytes = 4 * n * mine});
  }
  work.launches.push_back({.name = "clear",
                           .thread_blocks = clearing_blocks(count),
                           .threads_per_block = kClearThreads,
                           .registers_per_thread = kClearRegisters,
                           .trace = std::make_shared<ClearTrace>(std::move(rows), n, at)});
}

}  // namespace

void describe_launches(const CsrMatrix& a, std::shared_ptr<const Plan> plan, const Method& method,
                       std::int64_t n, WorkDescription& work) {
  const Schedule schedule{.shape = method.shape(a, n), .num_units = plan->num_units(), .n = n};
  std::vector<std::uint32_t> cleared = plan->cleared(method.atomic);
  const TraceAddresses at =
      add_arrays(a, *plan, schedule, static_cast<std::int64_t>(cleared.size()), work.memory);
  if (!cleared.empty()) describe_clearing(std::move(cleared), n, at, work);
  const auto trace = std::make_shared<UnitsTrace>(a, plan, schedule, method.atomic, at);
  for (std::int64_t block = 0; block < schedule.thread_blocks(); ++block)
    work.thread_blocks.push_back(trace->work_of(block));
  work.launches.push_back({.name = "multiply",
                           .thread_blocks = schedule.thread_blocks(),
                           .threads_per_block = schedule.shape.threads(),
                           .registers_per_thread = registers(schedule.shape),
                           .shared_bytes = schedule.shared_bytes(),
                           .trace = trace});
}

}  // namespace tessera::row_pieces
