#include "kernels/spmm/rows/trace.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>

#include "kernels/spmm/rows/rows_spmm.hpp"
#include "kernels/spmm/rows/trace_counts.hpp"

namespace tessera::rows_spmm {
namespace {

/// Bytes of the sums of a unit.
constexpr std::int64_t slot_bytes(const Schedule& schedule) {
  return std::int64_t{4} * schedule.lane_cols * schedule.lanes;
}

struct TraceAddresses {
  std::uint64_t units, row_begins, bases, split_rows, col_indices, values, b, c, slots;
};

/// The warps of the launch. A memory instruction serves all units of a warp.
class RowsTrace final : public LaunchTrace {
 public:
  RowsTrace(const CsrMatrix& a, const Schedule& schedule, const Storage& storage, std::int64_t n,
            Plan plan, const TraceAddresses& at)
      : a_(a),
        schedule_(schedule),
        b_bytes_(static_cast<int>(bytes_of(storage.b))),
        c_bytes_(static_cast<int>(bytes_of(storage.c))),
        n_(n),
        plan_(std::move(plan)),
        at_(at) {}

  std::int64_t blocks_of_units() const {
    return std::ssize(plan_.units) / schedule_.taken_by_block();
  }
  int warps() const { return schedule_.threads / 32; }
  std::int64_t thread_blocks() const { return blocks_of_units() * schedule_.chunks(n_); }

  ThreadBlockWork work_of(std::int64_t thread_block) const {
    ThreadBlockWork work;
    for (int w = 0; w < warps() * schedule_.turns; ++w) {
      const WarpUnits mine(*this, thread_block, w % warps(), w / warps());
      for (std::int64_t i = 0; i < mine.most; i += schedule_.parts)
        work.b_bytes += b_bytes_ * mine.cols * rows_of_b(mine, i).count;
      for (const Unit& unit : mine.units) {
        work.fma += unit.count * mine.cols;
        work.a_bytes += unit_bytes() + (index_bytes() + 4) * std::int64_t{unit.count};
      }
      work.c_bytes += c_bytes_ * mine.cols * std::ssize(stored_rows(mine));
      if (mine.team > 1) work.barriers += barriers_of_team();
      if (mine.split != nullptr) work.barriers += mine.is_last ? 1 + barriers_of_team() : 1;
    }
    return work;
  }

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const WarpUnits mine(*this, thread_block, warp, cursor.part);
    const std::int64_t turn = is_column()        ? kUnroll * schedule_.lanes
                              : schedule_.direct ? direct_turn()
                              : in_parts()       ? schedule_.part_turn()
                              : is_wide()        ? 32
                                                 : kUnroll;
    const std::int64_t at = turn * cursor.step++;
    if (at == 0 && cursor.part == 0) begin(mine, trace);
    if (at == 0 && schedule_.turns > 1) begin_turn(mine, thread_block, warp, cursor.part, trace);
    if (at < mine.most) advance(mine, at, trace);
    if (at + turn < mine.most) return true;
    trace.issue(schedule_.direct ? DirectCounts::kEnd : InstructionCounts::kEnd);
    add_parts(trace);
    if (mine.team > 1) add_team(mine, mine.team, trace);
    if (mine.split != nullptr) meet(mine, trace);
    store(mine, trace);
    if (!has_turn(thread_block, warp, cursor.part + 1)) return false;
    cursor = {.step = 0, .part = cursor.part + 1};
    return true;
  }

 private:
  static constexpr int kUnitBoard = 0, kIndexBoard = 1, kDataBoard = 2, kSlotBoard = 3,
                       kAheadBoard = 4;

  bool in_parts() const { return schedule_.in_parts(); }
  bool is_wide() const { return schedule_.wide > 1; }
  std::int64_t direct_turn() const {
    return direct_in_flight(schedule_.lane_cols / schedule_.wide, schedule_.wide);
  }
  std::int64_t index_bytes() const { return plan_.has_offsets() ? 2 : 4; }
  /// Of a unit and, beside it, the first column of its offsets; of a row its first nonzero.
  std::int64_t unit_bytes() const { return schedule_.direct ? 4 : plan_.has_offsets() ? 20 : 16; }
  /// Two for a pass, but for the one before the first.
  int barriers_of_team() const {
    return 2 * schedule_.lane_cols / team_pass(schedule_.lane_cols) - 1;
  }
  /// The instructions that `nonzeros` of them take more with elements of 16 bits.
  int half_columns(std::int64_t nonzeros) const {
    if (!schedule_.has_halves()) return 0;
    return InstructionCounts::kHalfColumns * static_cast<int>(nonzeros);
  }
  bool is_column() const { return schedule_.part_lanes() == 1; }

  /// The units of a warp and its columns of C.
  struct WarpUnits {
    std::span<const Unit> units;
    std::int64_t first;        // number of its first unit
    std::int64_t first_place;  // of that unit in its thread block
    std::int64_t block;        // number of the thread block among those of the chunk
    std::int64_t chunk, col, cols;
    std::int64_t most = 0;  // nonzeros of the longest unit
    std::int64_t team;
    const SplitRow* split = nullptr;  // the row of all units, where it has several thread blocks
    bool is_last = false;  // the last thread block of a split row counts as the last to arrive

    WarpUnits(const RowsTrace& of, std::int64_t thread_block, int warp, std::int64_t turn) {
      const Schedule& schedule = of.schedule_;
      block = thread_block % of.blocks_of_units(), chunk = thread_block / of.blocks_of_units();
      first_place = warp * schedule.units_per_warp();
      first = (block * schedule.turns + turn) * schedule.units_per_block() + first_place;
      units = std::span(of.plan_.units)
                  .subspan(static_cast<std::size_t>(first),
                           static_cast<std::size_t>(schedule.units_per_warp()));
      col = chunk * schedule.columns();
      cols = std::min<std::int64_t>(schedule.columns(), of.n_ - col);
      for (const Unit& unit : units) most = std::max<std::int64_t>(most, unit.count);
      team = units[0].team;
      if (units[0].split == 0) return;
      split = &of.plan_.split_rows[units[0].split - 1];
      is_last = block + 1 == std::int64_t{split->first_slot} + split->num_slots;
    }
  };

  /// The different rows of B that an instruction for nonzero i of all units of a warp asks for,
  /// and, in parts, for those that the other parts have beside it.
  struct RowsOfB {
    std::array<std::int32_t, 32> rows;
    int count = 0;
  };
  RowsOfB rows_of_b(const WarpUnits& mine, std::int64_t i) const {
    RowsOfB found;
    for (const Unit& unit : mine.units) {
      const std::int64_t end_of_step = std::min<std::int64_t>(i + schedule_.parts, unit.count);
      for (std::int64_t k = i; k < end_of_step; ++k) {
        const std::int32_t row = a_.col_indices[unit.first + k];
        const auto end = found.rows.begin() + found.count;
        if (std::find(found.rows.begin(), end, row) == end)
          found.rows[static_cast<std::size_t>(found.count++)] = row;
      }
    }
    return found;
  }

  /// The places of a warp's units that are the first of a team of that size.
  std::int64_t first_units(const WarpUnits& mine, std::int64_t team) const {
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < std::ssize(mine.units); ++i)
      count += (mine.first_place + i) % team == 0;
    return count;
  }

  /// The rows of C that a warp writes.
  std::vector<std::uint32_t> stored_rows(const WarpUnits& mine) const {
    std::vector<std::uint32_t> rows;
    if (mine.split != nullptr && !mine.is_last) return rows;
    for (std::int64_t i = 0; i < std::ssize(mine.units); ++i)
      if (mine.units[i].row != kNoRow && (mine.first_place + i) % mine.team == 0)
        rows.push_back(mine.units[i].row);
    return rows;
  }

  void begin(const WarpUnits& mine, WarpTrace& trace) const {
    trace.issue(InstructionCounts::kStart);
    trace.pause(kSpecialRegisterCycles);
    trace.load(kUnitBoard);
    if (schedule_.direct)
      trace.touch(element(at_.row_begins, mine.first, 4), 4 * std::ssize(mine.units));
    else
      trace.touch(element(at_.units, mine.first, 16), 16 * std::ssize(mine.units));
    if (plan_.has_offsets()) {
      trace.load(kUnitBoard);
      trace.touch(element(at_.bases, mine.first, 4), 4 * mine.units.size());
    }
    trace.issue(InstructionCounts::kBegin);
    trace.wait(kUnitBoard);
    if (is_column()) return trace.issue(ColumnCounts::kUnit);
    if (schedule_.direct) return trace.issue(DirectCounts::kUnit);
    if (in_parts()) {
      trace.issue(PartCounts::kUnit);
      load_turn(mine, 0, kPartUnroll / schedule_.part_lanes(), trace);
      if (mine.most > 0) trace.issue(PartCounts::kLoop);
      return;
    }
    trace.issue(InstructionCounts::kUnit);
    if (mine.most == 0) return;
    load_nonzeros(mine, 0, trace);
    trace.issue(is_wide() ? WideCounts::loop(schedule_.wide) : InstructionCounts::kLoop);
  }

  /// True where a warp has rows of that turn.
  bool has_turn(std::int64_t thread_block, int warp, std::int64_t turn) const {
    return turn < schedule_.turns && WarpUnits(*this, thread_block, warp, turn).first < a_.rows;
  }

  /// Looks up the next rows of the units of a warp, and where their own end, but for the first.
  void begin_turn(const WarpUnits& mine, std::int64_t thread_block, int warp, std::int64_t turn,
                  WarpTrace& trace) const {
    if (turn > 0) {
      trace.issue(DirectCounts::kTurn);
      trace.load(kUnitBoard);
      trace.touch(element(at_.row_begins, mine.first + 1, 4), 4 * std::ssize(mine.units));
    }
    trace.issue(DirectCounts::kLookAhead);
    if (has_turn(thread_block, warp, turn + 1)) {
      const WarpUnits next(*this, thread_block, warp, turn + 1);
      trace.load(kUnitBoard);
      trace.touch(element(at_.row_begins, next.first, 4), 4 * std::ssize(next.units));
      trace.wait(kUnitBoard);
      trace.load(kAheadBoard);  // which nothing waits for
      for (const Unit& unit : next.units) trace.touch(element(at_.col_indices, unit.first, 4), 4);
    }
    if (turn > 0) trace.wait(kUnitBoard);
  }

  /// Loads nonzeros [at, at + lanes) of all units, one a lane.
  void load_nonzeros(const WarpUnits& mine, std::int64_t at, WarpTrace& trace) const {
    load_nonzeros(mine, at, schedule_.lanes, trace);
  }
  /// The same of `most` nonzeros a unit.
  void load_nonzeros(const WarpUnits& mine, std::int64_t at, std::int64_t most,
                     WarpTrace& trace) const {
    const auto load = [&](std::uint64_t array, int bytes) {
      trace.load(kIndexBoard);
      for (const Unit& unit : mine.units)
        if (at < unit.count)
          trace.touch(element(array, unit.first + at, bytes),
                      bytes * std::min<std::int64_t>(most, unit.count - at));
    };
    load(at_.col_indices, static_cast<int>(index_bytes()));
    load(at_.values, 4);
  }

  /// Each lane loads `count` nonzeros. Predicated instructions without one are issued.
  void load_turn(const WarpUnits& mine, std::int64_t at, int count, WarpTrace& trace) const {
    for (int i = 0; i < count; ++i, at += schedule_.lanes)
      if (at < mine.most)
        load_nonzeros(mine, at, trace);
      else
        trace.issue(2);
  }

  void advance(const WarpUnits& mine, std::int64_t at, WarpTrace& trace) const {
    if (is_column())
      advance_column(mine, at, trace);
    else if (schedule_.direct)
      advance_direct(mine, at, trace);
    else if (in_parts())
      advance_parts(mine, at, trace);
    else if (is_wide())
      advance_wide(mine, at, trace);
    else
      advance_whole(mine, at, trace);
  }

  void advance_column(const WarpUnits& mine, std::int64_t at, WarpTrace& trace) const {
    const std::int64_t lanes = schedule_.lanes, left = mine.most - at;
    int count = kUnroll / 4;
    while (count < kUnroll && count * lanes < left) count += kUnroll / 4;
    trace.issue(ColumnCounts::kTurn);
    load_turn(mine, at, count, trace);
    trace.wait(kIndexBoard);
    trace.issue(ColumnCounts::kOfNonzero * count);
    for (int i = 0; i < count; ++i) load_rows(mine, at + i * lanes, trace);
    trace.wait(kDataBoard);
    trace.issue(count);
  }

  void advance_parts(const WarpUnits& mine, std::int64_t at, WarpTrace& trace) const {
    const std::int64_t next = at + schedule_.part_turn();
    trace.wait(kIndexBoard);
    trace.issue(PartCounts::kTurn);
    if (next < mine.most) {
      trace.issue(PartCounts::kNext);
      load_turn(mine, next, kPartUnroll / schedule_.part_lanes(), trace);
    }
    const bool is_short = mine.most - at <= kShortPartStep * schedule_.parts;
    const int count = is_short ? kShortPartStep : kPartUnroll;
    for (int i = 0; i < count; ++i) load_rows(mine, at + i * schedule_.parts, trace);
    trace.wait(kDataBoard);
    trace.issue((is_short ? PartCounts::kShortStep : PartCounts::kStep) + half_columns(count));
  }

  void add_parts(WarpTrace& trace) const {
    if (schedule_.parts == 1) return;
    trace.issue((is_column() ? ColumnCounts::kLevel : PartCounts::kLevel) *
                std::countr_zero(static_cast<unsigned>(schedule_.parts)));
  }

  /// Loads the rows of B of one instruction.
  void load_rows(const WarpUnits& mine, std::int64_t i, WarpTrace& trace) const {
    const RowsOfB needed = rows_of_b(mine, i);
    if (needed.count == 0) return trace.issue(1);
    trace.load(kDataBoard);
    for (int r = 0; r < needed.count; ++r)
      trace.touch(
          element(at_.b, needed.rows[static_cast<std::size_t>(r)] * n_ + mine.col, b_bytes_),
          b_bytes_ * mine.cols);
  }

  void advance_whole(const WarpUnits& mine, std::int64_t at, WarpTrace& trace) const {
    if (at % schedule_.lanes == 0) {
      trace.wait(kIndexBoard);
      const std::int64_t next = at + schedule_.lanes;
      trace.issue(InstructionCounts::load_turn(schedule_.lanes, next < mine.most));
      if (next < mine.most) load_nonzeros(mine, next, trace);
    } else {
      trace.issue(InstructionCounts::kNextTurn);
    }
    const int count = mine.most - at > kShortStep ? kUnroll : kShortStep;
    trace.issue(InstructionCounts::kStep + InstructionCounts::kLoadRow * count);
    for (int i = 0; i < count; ++i) load_rows(mine, at + i, trace);
    trace.wait(kDataBoard);
    trace.issue(InstructionCounts::kAddRow * count + half_columns(count));
  }

  void advance_wide(const WarpUnits& mine, std::int64_t at, WarpTrace& trace) const {
    trace.wait(kIndexBoard);
    trace.issue(WideCounts::kTurn);
    load_turn(mine, at + 32, 1, trace);
    const std::int64_t end = std::min<std::int64_t>(mine.most, at + 32);
    const std::int64_t in_flight = schedule_.rows_in_flight();
    if (end - at >= in_flight) trace.issue(WideCounts::kFirst);
    while (at < end) {
      const std::int64_t count = std::min(in_flight, end - at);
      trace.issue(count == in_flight ? WideCounts::kStep : WideCounts::kRest);
      for (int i = 0; i < count; ++i) load_wide_row(mine, at + i, trace);
      trace.wait(kDataBoard);
      trace.issue(WideCounts::of_nonzero(schedule_) * static_cast<int>(count));
      at += count;
    }
  }

  /// A step of all rows of a warp. Those that lack a nonzero take part in the branches of others.
  void advance_direct(const WarpUnits& mine, std::int64_t at, WarpTrace& trace) const {
    const std::int64_t end = std::min(at + direct_turn(), mine.most);
    trace.issue(end - at == direct_turn() ? DirectCounts::kStep : DirectCounts::kRest);
    for (std::int64_t i = at; i < end; ++i) load_nonzeros(mine, i, 1, trace);
    trace.wait(kIndexBoard);
    for (std::int64_t i = at; i < end; ++i)
      for (int v = 0; v < schedule_.wide; ++v) load_access(mine, i, v, trace);
    trace.wait(kDataBoard);
    trace.issue(DirectCounts::of_nonzero(schedule_) * static_cast<int>(end - at));
  }

  /// Loads access `v` of the rows of B of nonzero i of all units.
  void load_access(const WarpUnits& mine, std::int64_t i, int v, WarpTrace& trace) const {
    const std::int64_t access = schedule_.columns() / schedule_.wide;
    const std::int64_t cols = std::min(access, mine.cols - v * access);
    const RowsOfB needed = rows_of_b(mine, i);
    if (needed.count == 0 || cols <= 0) return trace.issue(1);
    trace.load(kDataBoard);
    for (int r = 0; r < needed.count; ++r)
      trace.touch(
          element(at_.b, needed.rows[static_cast<std::size_t>(r)] * n_ + mine.col + v * access,
                  b_bytes_),
          b_bytes_ * cols);
  }

  /// Loads the row of B of a nonzero with an instruction for each access.
  void load_wide_row(const WarpUnits& mine, std::int64_t i, WarpTrace& trace) const {
    const std::int64_t access = schedule_.columns() / schedule_.wide;
    const std::int64_t row = a_.col_indices[mine.units[0].first + i];
    for (std::int64_t first = 0; first < schedule_.columns(); first += access) {
      const std::int64_t cols = std::min(access, mine.cols - first);
      if (cols <= 0) {
        trace.issue(1);
        continue;
      }
      trace.load(kDataBoard);
      trace.touch(element(at_.b, row * n_ + mine.col + first, b_bytes_), b_bytes_ * cols);
    }
  }

  void add_team(const WarpUnits& mine, std::int64_t team, WarpTrace& trace) const {
    const int pass = team_pass(schedule_.lane_cols), wavefronts = 4 * pass * 32 / kLineBytes;
    const auto adding = static_cast<int>(first_units(mine, team));
    trace.issue(InstructionCounts::kTeam);
    for (int col = 0; col < schedule_.lane_cols; col += pass) {
      if (col > 0) trace.barrier();
      trace.shared(wavefronts);
      trace.barrier();
      if (adding == 0) continue;
      for (std::int64_t unit = 1; unit < team; ++unit) {
        trace.shared(std::max(adding * wavefronts / schedule_.units_per_warp(), 1));
        trace.issue(InstructionCounts::kTeamUnit * pass / 4);
      }
    }
  }

  std::uint64_t slot(const WarpUnits& mine, std::int64_t index) const {
    return element(at_.slots, mine.chunk * plan_.num_slots + index,
                   static_cast<int>(slot_bytes(schedule_)));
  }

  void meet(const WarpUnits& mine, WarpTrace& trace) const {
    trace.load(kSlotBoard);
    trace.touch(element(at_.split_rows, mine.units[0].split - 1, 8), 8);
    trace.wait(kSlotBoard);
    trace.issue(InstructionCounts::kMeet);
    if (mine.first_place == 0) {
      trace.issue(InstructionCounts::kSlot);
      trace.store();
      trace.touch(slot(mine, mine.block), slot_bytes(schedule_));
      trace.fence();
      trace.exchange();
    }
    trace.barrier();
    if (!mine.is_last) return;
    trace.fence();
    trace.issue(InstructionCounts::kSlots);
    add_slots(mine, trace);
    add_team(mine, schedule_.units_per_block(), trace);
  }

  void add_slots(const WarpUnits& mine, WarpTrace& trace) const {
    const auto begin_of = [&](std::int64_t i) {
      return std::int64_t{first_slot_of(mine.split->num_slots, schedule_.units_per_block(),
                                        static_cast<int>(mine.first_place + i))};
    };
    std::int64_t most = 0;
    for (std::int64_t i = 0; i < std::ssize(mine.units); ++i)
      most = std::max(most, begin_of(i + 1) - begin_of(i));
    for (std::int64_t at = 0; at < most; ++at) {
      trace.load(kSlotBoard);
      for (std::int64_t i = 0; i < std::ssize(mine.units); ++i)
        if (begin_of(i) + at < begin_of(i + 1))
          trace.touch(slot(mine, mine.split->first_slot + begin_of(i) + at), slot_bytes(schedule_));
      const int in_flight = in_parts() ? kPartUnroll : schedule_.rows_in_flight();
      if ((at + 1) % in_flight != 0 && at + 1 < most) continue;
      trace.wait(kSlotBoard);
      trace.issue(InstructionCounts::kSlotStep * in_flight / kUnroll);
    }
  }

  void store(const WarpUnits& mine, WarpTrace& trace) const {
    const std::vector<std::uint32_t> rows = stored_rows(mine);
    if (rows.empty()) return;
    trace.issue(InstructionCounts::kStore + (schedule_.wide - 1) * WideCounts::kAccess);
    const std::int64_t access = schedule_.columns() / schedule_.wide;
    for (std::int64_t first = 0; first < mine.cols; first += access) {
      trace.store();
      for (const std::uint32_t row : rows)
        trace.touch(element(at_.c, row * n_ + mine.col + first, c_bytes_),
                    c_bytes_ * std::min(access, mine.cols - first));
    }
  }

  const CsrMatrix& a_;
  Schedule schedule_;
  int b_bytes_, c_bytes_;  // of an element
  std::int64_t n_;
  Plan plan_;
  TraceAddresses at_;
};

/// The units of a launch of rows as they are: a row that is too long has none of its nonzeros.
Plan plan_of_rows(const CsrMatrix& a, const Launches& launches) {
  Plan plan;
  const Schedule& schedule = launches.direct;
  plan.units.resize(
      static_cast<std::size_t>(schedule.blocks_of(a.rows) * schedule.taken_by_block()),
      {.row = kNoRow, .first = 0, .split = 0, .count = 0, .team = 1});
  for (std::int64_t row = 0; row < a.rows; ++row)
    if (launches.is_direct(a.row_length(row)))
      plan.units[row] = {.row = static_cast<std::uint32_t>(row),
                         .first = static_cast<std::uint32_t>(a.row_offsets[row]),
                         .split = 0,
                         .count = static_cast<std::uint16_t>(a.row_length(row)),
                         .team = 1};
  return plan;
}

TraceAddresses add_arrays(const CsrMatrix& a, const Plan& plan, const Launches& launches,
                          const Storage& storage, std::int64_t n, AddressSpace& memory) {
  const auto elements = [](ElementType type, std::int64_t count) {
    return static_cast<std::int64_t>(bytes_of(type)) * count;
  };
  return {.units = memory.add("units", 16 * std::ssize(plan.units)),
          .row_begins = memory.add("row_begins", launches.most_direct < 0 ? 0 : 4 * (a.rows + 1)),
          .bases = memory.add("bases", 4 * std::ssize(plan.bases)),
          .split_rows = memory.add("split_rows", 8 * std::ssize(plan.split_rows)),
          .col_indices = memory.add("col_indices", (plan.has_offsets() ? 2 : 4) * a.nnz()),
          .values = memory.add("values", 4 * a.nnz()),
          .b = memory.add("b", elements(storage.b, n * a.cols)),
          .c = memory.add("c", elements(storage.c, n * a.rows)),
          .slots = memory.add(
              "slots", launches.pieces.chunks(n) * plan.num_slots * slot_bytes(launches.pieces))};
}

}  // namespace

void describe_launches(const CsrMatrix& a, const Launches& launches, const Storage& storage,
                       std::int64_t n, WorkDescription& work) {
  Plan plan = make_plan(a, launches);
  const TraceAddresses at = add_arrays(a, plan, launches, storage, n, work.memory);
  const auto add = [&](const char* name, const Schedule& schedule, Plan of_launch) {
    const auto trace =
        std::make_shared<RowsTrace>(a, schedule, storage, n, std::move(of_launch), at);
    for (std::int64_t block = 0; block < trace->thread_blocks(); ++block)
      work.thread_blocks.push_back(trace->work_of(block));
    work.launches.push_back({.name = name,
                             .thread_blocks = trace->thread_blocks(),
                             .threads_per_block = schedule.threads,
                             .registers_per_thread = registers_of(schedule),
                             .shared_bytes = schedule.direct ? 0 : shared_bytes(schedule.lane_cols),
                             .overlaps = true,
                             .trace = trace});
  };
  const bool is_mixed = !plan.units.empty() && launches.most_direct >= 0;
  if (is_mixed || launches.most_direct < 0)
    add(is_mixed ? "multiply pieces of long rows" : "multiply", launches.pieces, std::move(plan));
  if (launches.most_direct >= 0)
    add(is_mixed ? "multiply short rows" : "multiply", launches.direct, plan_of_rows(a, launches));
}

}  // namespace tessera::rows_spmm
