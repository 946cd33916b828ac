#include "kernels/spmm/row_pieces/row_pieces_trace.hpp"

#include <algorithm>
#include <span>
#include <tuple>
#include <vector>

#include "kernels/spmm/row_pieces/instruction_counts.hpp"

namespace tessera::row_pieces {
namespace {

/// The addresses of the arrays of a product.
struct TraceAddresses {
  std::uint64_t row_parts, shares, col_indices, values, b, c, slots, split_rows, cleared;
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
    const std::int64_t stores = (n_ + 31) / 32, few = stores % 4;
    if (cursor.step++ == 0) trace.issue(code::kClear - 1);
    if (index >= std::ssize(rows_)) return false;
    if (cursor.part == 0) {
      trace.load(0);
      trace.touch(at_.cleared + 4 * static_cast<std::uint64_t>(index), 4);
      trace.wait(0);
      if (few > 0) trace.issue(code::kClearFew);
      if (stores > few) trace.issue(code::kClearFours);
    }
    const std::int64_t first = 32 * cursor.part++;
    trace.store();
    trace.touch(at_.c + 4 * (rows_[index] * static_cast<std::uint64_t>(n_) + first),
                4 * std::min<std::int64_t>(32, n_ - first));
    if (cursor.part <= few)
      trace.issue(code::kClearStore - 1);
    else if ((cursor.part - few) % 4 == 0)
      trace.issue(code::kClearFour - 4);
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
        code_(code::of(schedule.shape)),
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
      trace.issue(code::kIdle);
      return false;
    }
    const std::int64_t step = cursor.step++, steps = count_steps(mine);
    if (step == 0) begin(mine, steps, trace);
    if (step < steps) advance(mine, step, steps, trace);
    if (step + 1 < steps) return true;
    deliver(mine, steps, trace);
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
    const std::size_t start = trace.ops.size();
    trace.issue(code::kIdle);
    trace.pause(code::kUnitCycles);
    if (!plan_->shares.empty()) {
      for (const int next : {0, 1}) {
        trace.load(kRowPartBoard);
        trace.touch(at_.shares + 4 * static_cast<std::uint64_t>(mine.first + next),
                    4 * (mine.last - mine.first));
      }
      trace.wait(kRowPartBoard);
    }
    // Of a share: the row, the end and the slot of the first row part, the row and the end of the
    // next one, and the end of the last.
    for (int i = 0; i < (shape_.streams ? 4 : 1); ++i) load_first_parts(mine, 0, trace);
    for (int i = 0; i < (shape_.streams ? 2 : 0); ++i) load_first_parts(mine, 1, trace);
    trace.wait(kRowPartBoard);
    trace.complete(start, code_.begin + (steps > 0 ? code_.enter : 0));
    if (steps > 0) load_columns(mine, 0, trace);
  }

  /// Loads row part `next` of all units, or the last one where a unit has fewer.
  void load_first_parts(const WarpUnits& mine, std::int64_t next, WarpTrace& trace) const {
    trace.load(kRowPartBoard);
    for (std::int64_t unit = mine.first; unit < mine.last; ++unit) {
      const std::int64_t part = std::min(plan_->first_part(unit) + next, plan_->end_part(unit) - 1);
      trace.touch(at_.row_parts + 16 * static_cast<std::uint64_t>(part), 16);
    }
  }

  void touch_nonzeros(std::uint64_t array, std::int64_t first, std::int64_t count,
                      WarpTrace& trace) const {
    count = std::min(count, a_.nnz() - first);
    if (count > 0) trace.touch(array + 4 * static_cast<std::uint64_t>(first), 4 * count);
  }

  /// Loads the nonzeros of a step of all units that are active in step `active`: four at a time, or
  /// one for each group of lanes. Groups beyond the end load the last nonzero.
  void load_nonzeros(const WarpUnits& mine, std::uint64_t array, std::int64_t step,
                     std::int64_t active, int board, WarpTrace& trace) const {
    const bool groups = shape_.delivery == NonzeroDelivery::kLoadsPerGroup;
    const int at_once = groups ? shape_.groups : 4;
    for (int j = 0; j < per_step(); j += at_once) {
      trace.load(board);
      for (std::int64_t unit = mine.first; unit < mine.last; ++unit) {
        if (start(unit) + active * per_step() >= end(unit)) continue;
        const std::int64_t k = start(unit) + step * per_step() + j;
        if (!groups) {
          touch_nonzeros(array, k, at_once, trace);
        } else {
          const std::int64_t first = std::min(k, end(unit) - 1);
          touch_nonzeros(array, first, std::min(k + at_once, end(unit)) - first, trace);
        }
      }
    }
  }

  /// Before the first pass, and in each for the next one, even behind the last.
  void load_columns(const WarpUnits& mine, std::int64_t step, WarpTrace& trace) const {
    if (!stages_nonzeros())
      return load_nonzeros(mine, at_.col_indices, step, std::max<std::int64_t>(step - 1, 0),
                           kIndexBoard, trace);
    if (step * per_step() % kStagedNonzeros != 0) return;
    const std::int64_t k = start(mine.first) + step * per_step();
    if (k >= end(mine.first)) return;
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
    const std::size_t begin = trace.ops.size();
    // As for row parts: the machine code of a share copies the nonzeros that it loads ahead to
    // other registers at once.
    const std::int64_t ahead = step + kStagedNonzeros / per_step();
    const bool waits_for_ahead = shape_.streams && stages_nonzeros();
    if (waits_for_ahead && ahead < steps) load_columns(mine, ahead, trace);
    trace.wait(kIndexBoard);
    if (shape_.delivery == NonzeroDelivery::kSharedMemory) trace.shared(4);
    const bool stages = stages_nonzeros() && step * per_step() % kStagedNonzeros == 0;
    trace.issue(code_.step / 3);
    for (int j = 0; j < per_step(); j += shape_.groups) {
      if (j == first_rows()) trace.wait(kDataBoard);
      load_rows(mine, step, j, trace);
      // Where lanes shuffle nonzeros, the compiler loads into registers that it uses again: two
      // rows of B are in flight, and after the first four, one.
      if (shape_.delivery == NonzeroDelivery::kWarpShuffles && (j % 2 == 1 || j > 3))
        trace.wait(kDataBoard);
    }
    if (!stages_nonzeros()) load_nonzeros(mine, at_.values, step, step, kDataBoard, trace);
    if (!waits_for_ahead) load_columns(mine, step + 1, trace);
    trace.wait(kDataBoard);
    trace.complete(begin, code_.step + (stages ? code_.staging : 0));
    if (shape_.streams) finish_rows(mine, step, trace);
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

  /// A row part of a share, not its last, that ends with a nonzero of a pass: `nonzero` counts from
  /// the first of the pass, `order` row parts that end with the same one.
  struct EndingRow {
    std::int64_t nonzero, order;
    const RowPart* part;
    std::int64_t unit;

    bool is_with(const EndingRow& other) const {
      return nonzero == other.nonzero && order == other.order;
    }
  };

  /// Those of all units in a pass; rows that end before the first nonzero count to the first pass.
  std::vector<EndingRow> ending_rows(const WarpUnits& mine, std::int64_t step) const {
    std::vector<EndingRow> rows;
    for (std::int64_t unit = mine.first; unit < mine.last; ++unit) {
      const std::int64_t k = start(unit) + step * per_step();
      const RowPart* part = &first_part_of(unit);
      const RowPart* last = &last_part_of(unit);
      if (step > 0)
        part = std::lower_bound(part, last, k + 1,
                                [](const RowPart& p, std::int64_t at) { return p.last < at; });
      std::int64_t order = 0;
      for (; part < last && part->last <= k + per_step(); ++part) {
        const bool follows =
            !rows.empty() && rows.back().unit == unit && rows.back().nonzero == part->last - k;
        order = follows ? order + 1 : 0;
        rows.push_back({part->last - k, order, part, unit});
      }
    }
    std::ranges::stable_sort(rows, [](const EndingRow& a, const EndingRow& b) {
      return std::tie(a.nonzero, a.order) < std::tie(b.nonzero, b.order);
    });
    return rows;
  }

  /// Ends the rows of shares in a pass, except their last: those of several units together where
  /// they end with the same nonzero of the pass.
  void finish_rows(const WarpUnits& mine, std::int64_t step, WarpTrace& trace) const {
    const std::vector<EndingRow> rows = ending_rows(mine, step);
    for (std::size_t first = 0, last = 0; first < rows.size(); first = last) {
      while (last < rows.size() && rows[last].is_with(rows[first])) ++last;
      finish_rows(mine, std::span(rows).subspan(first, last - first), trace);
    }
  }

  void finish_rows(const WarpUnits& mine, std::span<const EndingRow> rows, WarpTrace& trace) const {
    const std::size_t begin = trace.ops.size();
    for (int i = 0; i < 2; ++i) {  // the row and the end of the row part after the next
      trace.load(kRowPartBoard);
      for (const EndingRow& row : rows) {
        const RowPart* after_next = std::min(row.part + 2, &last_part_of(row.unit));
        trace.touch(
            at_.row_parts + 16 * static_cast<std::uint64_t>(after_next - plan_->row_parts.data()),
            4);
      }
    }
    // The source asks for a row part while another one is multiplied. The machine code copies it
    // to another register at once, which waits for it.
    trace.wait(kRowPartBoard);
    bool stores = false;
    for (const EndingRow& row : rows) {
      if (row.part->slot != 0) continue;
      if (!stores) trace.store((shape_.values + 3) / 4);
      stores = true;
      touch_row(mine, row.part->row, trace);
    }
    const int more = rows.front().order == 0   ? code_.row_end - (stores ? 0 : code::kHeadRow)
                     : rows.front().order == 1 ? code::kFirstMore + code::kRowPass
                                               : code::kRowPass;
    trace.complete(begin, more);
  }

  void touch_row(const WarpUnits& mine, std::uint32_t row, WarpTrace& trace) const {
    trace.touch(at_.c + 4 * (row * static_cast<std::uint64_t>(schedule_.n) + mine.col),
                4 * mine.cols);
  }

  /// Delivers what is left of all units at the end of the loop.
  void deliver(const WarpUnits& mine, std::int64_t steps, WarpTrace& trace) const {
    // Units that have only empty rows have no step that would store them.
    if (steps == 0 && shape_.streams) finish_rows(mine, 0, trace);
    std::vector<const RowPart*> last, first;
    for (std::int64_t unit = mine.first; unit < mine.last; ++unit) {
      last.push_back(&last_part_of(unit));
      const RowPart& part = first_part_of(unit);
      if (&part != last.back() && part.slot != 0) first.push_back(&part);
    }
    std::size_t begin = trace.ops.size();
    for (int i = 0; i < (shape_.streams ? 2 : 0); ++i) {  // its slot and its row
      trace.load(kSlotBoard);
      for (std::int64_t unit = mine.first; unit < mine.last; ++unit)
        trace.touch(at_.row_parts + 16 * static_cast<std::uint64_t>(plan_->end_part(unit) - 1), 16);
      trace.wait(kSlotBoard);
    }
    trace.complete(begin, code_.end);
    deliver(mine, last, trace);
    if (!shape_.streams) return;
    begin = trace.ops.size();
    load_first_parts(mine, 0, trace);  // has it a slot?
    if (!first.empty()) load_first_parts(mine, 0, trace);
    trace.complete(begin, code::kFirstPart);
    if (!first.empty()) deliver(mine, first, trace);
  }

  /// Delivers the sums of row parts of different units.
  void deliver(const WarpUnits& mine, std::vector<const RowPart*> parts, WarpTrace& trace) const {
    std::vector<const RowPart*> of_split;
    for (const RowPart* part : parts)
      if (part->slot != 0) of_split.push_back(part);
    if (!atomic_) {
      if (!of_split.empty()) meet(mine, of_split, trace);
      std::erase_if(
          parts, [this](const RowPart* part) { return part->slot != 0 && !is_last_of_row(*part); });
    }
    write(mine, parts, false, trace);
    write(mine, parts, true, trace);
  }

  /// Stores the sums of those parts, or adds the sums of those that are added in memory.
  void write(const WarpUnits& mine, const std::vector<const RowPart*>& parts, bool adds,
             WarpTrace& trace) const {
    std::vector<std::uint32_t> rows;
    for (const RowPart* part : parts)
      if ((part->slot != 0 && atomic_) == adds) rows.push_back(part->row);
    if (rows.empty()) return;
    const std::size_t begin = trace.ops.size();
    const int vectors = static_cast<int>((mine.cols + 4 * shape_.lanes - 1) / (4 * shape_.lanes));
    if (adds)
      trace.atomic(static_cast<int>(std::ssize(rows) * mine.cols));
    else
      trace.store(vectors);
    for (const std::uint32_t row : rows) touch_row(mine, row, trace);
    trace.complete(begin, code::write(shape_.values, adds, vectors));
  }

  /// Leaves the sums of parts in their slots; the last ones to finish add those of their rows.
  void meet(const WarpUnits& mine, const std::vector<const RowPart*>& parts,
            WarpTrace& trace) const {
    std::size_t begin = trace.ops.size();
    const std::uint64_t rows_of_slots =
        at_.split_rows + sizeof(SplitRow) * plan_->split_rows.size();
    trace.load(kSlotBoard);
    for (const RowPart* part : parts)
      trace.touch(rows_of_slots + std::uint64_t{4} * (part->slot - 1), 4);
    trace.wait(kSlotBoard);
    for (int i = 0; i < 2; ++i) {  // the first slot and the number of parts
      trace.load(kSlotBoard);
      for (const RowPart* part : parts) {
        const std::uint32_t index = plan_->split_row_of_slot[part->slot - 1];
        trace.touch(at_.split_rows + sizeof(SplitRow) * index + 4, 8);
      }
    }
    trace.wait(kSlotBoard);
    for (int i = 0; i < shape_.values; ++i) {
      trace.store();
      for (const RowPart* part : parts) touch_slot(mine, part->slot - 1, i, trace);
    }
    std::uint32_t most = 0;
    for (const RowPart* part : parts)
      if (is_last_of_row(*part)) most = std::max(most, split_row_of(*part).num_parts);
    trace.arrive(most > 0);
    trace.complete(begin, code::meet(shape_));
    if (most == 0) return;
    begin = trace.ops.size();
    for (std::uint32_t p = 0; p < most; ++p) {
      for (int i = 0; i < shape_.values; ++i) {
        trace.load(kSlotBoard);
        for (const RowPart* part : parts) {
          const SplitRow& split = split_row_of(*part);
          if (is_last_of_row(*part) && p < split.num_parts)
            touch_slot(mine, split.first_slot + p, i, trace);
        }
      }
      if (p % 4 == 3 || p + 1 == most) trace.wait(kSlotBoard);
    }
    trace.complete(begin, code::fold(shape_.values, static_cast<int>(most)));
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
  CodeLengths code_;
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
      .split_rows = memory.add("split_rows", sizeof(SplitRow) * plan.split_rows.size() + 4 * slots),
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
