// The trace of row_spgemm's groups, in the order of kernels/spgemm/row/plan.cuh and steps.cuh.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "kernels/spgemm/row/counted.hpp"
#include "kernels/spgemm/row/group_memory.hpp"
#include "kernels/spgemm/row/launch_traces.hpp"

namespace tessera::row_spgemm::tracing {

namespace {

constexpr int kTaskBoard = 0, kSegmentBoard = 1, kDataBoard = 2, kSearchBoard = 3;
constexpr std::int64_t kPrefetchesOfPiece = 8;  // of a trace

using Count = counted::GroupTasks;
using Kind = SegmentKind;

class GroupsTrace final : public LaunchTrace, private GroupMemory {
 public:
  GroupsTrace(AnalysisPtr product, ClassLaunch launch, const DeviceArrays& at)
      : GroupMemory(std::move(product), std::move(launch)), at_(at) {
    if (!launch_.is_sum) return;
    for (const std::int64_t id : launch_.tasks)
      if (const Group mine{.work = &product_->tasks[static_cast<std::size_t>(id)]};
          writes_cols(mine))
        columns_.emplace(id, product_->columns_of(mine.work->task));
  }

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const Group mine = group_of(thread_block, warp);
    const auto go_to = [&](Phase phase) {
      cursor = {.step = 0, .part = static_cast<std::int64_t>(phase)};
      return true;
    };
    switch (static_cast<Phase>(cursor.part)) {
      case Phase::kBegin:
        begin(mine, trace);
        return go_to(launch_.has_directory() ? Phase::kMarkWords : Phase::kMark);
      case Phase::kMarkWords:
        if (cursor.step == 0 && mark_in_one_prefetch(mine, trace)) return go_to(Phase::kMarked);
        if (!go_through<Phase::kMarkWords>(mine, cursor, trace)) return true;
        open(mine, trace);
        return go_to(Phase::kMark);
      case Phase::kMark:
        if (!go_through<Phase::kMark>(mine, cursor, trace)) return true;
        return go_to(Phase::kMarked);
      case Phase::kMarked:
        if (!launch_.is_sum) {
          finish_count(mine, trace);
          return false;
        }
        rank(mine, trace);
        return go_to(Phase::kAdd);
      case Phase::kAdd:
        if (!go_through<Phase::kAdd>(mine, cursor, trace)) return true;
        finish_sums(mine, trace);
        return false;
    }
    return false;
  }

  /// The barriers of a thread block, summed over its warps.
  std::int64_t barriers(std::int64_t thread_block) const {
    const int of_joint = launch_.is_joint && !launch_.is_sum ? kJointBarriers - 2 : 0;
    if (!shape_.is_block())
      return launch_.is_sum ? 0 : (2 + of_joint) * launch_.threads() / kWarpLanes;
    const Group group = group_of(thread_block, 0);
    const std::int64_t sets = sets_of(group);
    std::int64_t of_warp = 1 + kBarriersOfSet * sets + 1;
    if (launch_.has_directory())
      of_warp +=
          kBarriersOfSet * sets + 2 + 2 * parts(directory_words(group.work->task), shape_.lanes);
    if (!launch_.is_sum) return shape_.warps() * (of_warp + 4 + of_joint);
    of_warp += 2 * parts(slots_of(group), shape_.lanes) + (writes_cols(group) ? 2 : 3) +
               kBarriersOfSet * sets;
    for (std::int64_t set = 0; set < sets; ++set) {
      const auto found = segments<Kind::kNonzeros>(group, set);
      of_warp += 2;  // of the prefix sum of their lengths
      of_warp += are_long(group, found)
                     ? std::max<std::int64_t>(1, long_steps(group, found).count())
                     : kPrefetch * step_iterations(steps<Kind::kNonzeros>(group, found).count());
    }
    return shape_.warps() * of_warp;
  }

 private:
  enum class Phase : std::int64_t { kBegin, kMarkWords, kMark, kMarked, kAdd };
  static constexpr int kBarriersOfSet = 4;

  void begin(const Group& mine, WarpTrace& trace) const {
    trace.issue(Count::kBegin);
    trace.pause(kSpecialRegisterCycles);
    if (!launch_.is_sum) {
      trace.shared(1);
      trace.barrier();
    }
    if (mine.work != nullptr) {
      constexpr RecordPart kId[] = {{offsetof(SortedTask, id), sizeof(SortedTask::id)}};
      load_each(kTaskBoard, at_.sorted, std::array{launch_.first_sorted + mine.number}, trace, kId);
      trace.wait(kTaskBoard);
      load_each(kTaskBoard, at_.tasks, std::array{mine.id}, trace, kPartsOfTask);
      for (int i = 0; launch_.is_sum && i < 2; ++i)
        load_run(kTaskBoard, at_.offsets, mine.id + i, 1, trace);
      trace.wait(kTaskBoard);
    }
    const int words = mine.words();
    clear(launch_.has_directory() ? parts(words, kWarpLanes) : words, trace);
    sync(trace);
  }

  template <Phase kPhase>
  static constexpr Kind kKindOf = kPhase == Phase::kAdd ? Kind::kNonzeros : Kind::kWords;

  /// The next piece of the walk through all products. Returns true for the last piece.
  template <Phase kPhase>
  bool go_through(const Group& mine, WarpCursor& cursor, WarpTrace& trace) const {
    constexpr std::int64_t kSet = std::int64_t{1} << 32;  // a step counts sets above iterations
    const std::int64_t set = cursor.step / kSet, first = cursor.step % kSet;
    const std::int64_t sets = sets_of(mine);
    if (set == 0 && first == 0) begin_segments<kKindOf<kPhase>>(mine, trace);
    bool is_last = set == sets;
    if (!is_last) {
      const auto found = segments<kKindOf<kPhase>>(mine, set);
      if (first == 0) begin_set<kKindOf<kPhase>>(mine, set, found, trace);
      const bool is_long = kPhase == Phase::kAdd && shape_.is_block() && are_long(mine, found);
      if (kPhase == Phase::kAdd && shape_.is_block() && first == 0) before(trace);
      const bool is_done =
          is_long ? take_long_steps(mine, long_steps(mine, found), first, trace)
          : shape_.is_block()
              ? take_steps<kPhase>(mine, steps<kKindOf<kPhase>>(mine, found), first, trace)
              : take_chunks<kPhase>(mine, found, first, trace);
      if (!is_done) {
        cursor.step += kPrefetchesOfPiece;
        return false;
      }
      trace.issue(Count::kEndOfSet);
      sync(trace);
      cursor.step = (set + 1) * kSet;
      is_last = set + 1 == sets;
    }
    if (is_last && kPhase != Phase::kAdd) sync(trace);
    return is_last;
  }

  /// Marks words that a warp loads at once, which it then loads once. Returns false for more words.
  bool mark_in_one_prefetch(const Group& mine, WarpTrace& trace) const {
    if (shape_.is_block() || !is_one_set(static_cast<std::int32_t>(mine.last - mine.first)))
      return false;
    begin_segments<Kind::kWords>(mine, trace);
    const auto found = segments<Kind::kWords>(mine, 0);
    begin_set<Kind::kWords>(mine, 0, found, trace);
    if (mine.work != nullptr && !mine.work->is_one_prefetch()) return false;
    take_chunks<Phase::kMarkWords>(mine, found, 0, trace);
    trace.issue(1);
    open(mine, trace);
    for (std::int64_t chunk = 0; chunk < count_chunks(found); ++chunk)
      mark(false, mine, chunk_of(found, chunk), chunk, trace);
    trace.issue(1);
    return true;
  }

  template <Kind kKind>
  void begin_segments(const Group& mine, WarpTrace& trace) const {
    trace.issue(Count::kRowOfA);
    load_segments<kKind>(mine, 0, trace);
  }

  /// Calls visit(first, count) with the nonzeros of A in a set that the warp's lanes take.
  template <class Visit>
  void for_own_nonzeros(const Group& mine, std::int64_t set, Visit visit) const {
    const std::int64_t first = mine.first + set * shape_.lanes + kWarpLanes * mine.warp;
    const std::int64_t count = std::min<std::int64_t>(kWarpLanes, mine.last - first);
    if (count > 0) visit(first, count);
  }

  /// Loads one nonzero of A per lane, and then the rows of B that they name.
  template <Kind kKind>
  void load_segments(const Group& mine, std::int64_t set, WarpTrace& trace) const {
    for_own_nonzeros(mine, set, [&](std::int64_t first, std::int64_t count) {
      load_run(kSearchBoard, at_.a_cols, first, count, trace);
      trace.wait(kSearchBoard);
      const auto rows_of_b =
          std::span(product_->a.col_indices)
              .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
      load_each(kSegmentBoard, at_.rows_of_b, rows_of_b, trace, kTwoAndOne);
      if (kKind == Kind::kNonzeros) load_run(kSegmentBoard, at_.a_values, first, count, trace);
      if (mine.work->task.is_sliced) search<kKind>(mine, first, count, trace);
    });
  }

  /// Every lane searches its row of B for the slice, turn by turn.
  template <Kind kKind>
  void search(const Group& mine, std::int64_t first, std::int64_t count, WarpTrace& trace) const {
    std::vector<std::vector<std::int64_t>> places;  // of each turn
    for (std::int64_t k = first; k < first + count; ++k)
      segment<kKind>(mine.work->task, k, [&](std::int64_t at, std::size_t turn) {
        if (turn >= places.size()) places.resize(turn + 1);
        places[turn].push_back(at);
      });
    if (!places.empty()) trace.wait(kSegmentBoard);
    constexpr RecordPart kWord[] = {{offsetof(WordOfB, word), sizeof(WordOfB::word)}};
    for (const auto& of_turn : places) {
      if (kKind == Kind::kNonzeros)
        load_each(kSearchBoard, at_.b_cols, of_turn, trace);
      else
        load_each(kSearchBoard, at_.words_of_b, of_turn, trace, kWord);
      trace.issue(Count::kSearch);
      trace.wait(kSearchBoard);
    }
  }

  template <Kind kKind>
  void begin_set(const Group& mine, std::int64_t set, const std::vector<Segment>& found,
                 WarpTrace& trace) const {
    for_own_nonzeros(mine, set, [&](std::int64_t, std::int64_t) { trace.wait(kSegmentBoard); });
    trace.issue(Count::kNextSet);
    load_segments<kKind>(mine, set + 1, trace);
    if (shape_.is_block()) {
      before(trace);
      trace.issue(Count::kStage);
      trace.shared(2);
      trace.barrier();
      trace.shared(2);  // the first segment of the walk
      return;
    }
    const std::int64_t nonzeros =
        std::min<std::int64_t>(kWarpLanes, mine.last - mine.first - kWarpLanes * set);
    if (!found.empty() && std::ssize(found) < nonzeros) {  // gaps, if not at the end
      trace.issue(Count::kGap);
      trace.shared(2);
      trace.shared(2);
    }
    trace.issue(Count::kScan);
    shuffle_up(trace);
  }

  /// Marks the words of chunks or steps, the first of which has number `item`; or adds products.
  template <Phase kPhase>
  void use(const Group& mine, std::span<const Lanes> all, std::int64_t item,
           WarpTrace& trace) const {
    if constexpr (kPhase == Phase::kAdd) {
      for (const Lanes& lanes : all) find_places(mine, lanes, trace);
      for (const Lanes& lanes : all)
        shape_.is_block() ? add_step(mine, lanes, trace) : add_chunk(mine, lanes, trace);
    } else {
      for (const Lanes& lanes : all) mark(kPhase == Phase::kMarkWords, mine, lanes, item++, trace);
    }
  }
  void add_step(const Group& mine, const Lanes& lanes, WarpTrace& trace) const {
    trace.issue(Count::kSum);
    add(mine, lanes, Turns{}, 0, trace);
    trace.barrier();
  }
  void add_chunk(const Group& mine, const Lanes& lanes, WarpTrace& trace) const {
    const Turns turns = this->turns(lanes);
    compare(mine, lanes, turns, trace);
    for (int turn = 0; turn < turns.count; ++turn) {
      trace.issue(Count::kTurn);
      add(mine, lanes, turns, turn, trace);
    }
  }

  /// A warp's chunks of the next piece. Returns true for the last piece.
  template <Phase kPhase>
  bool take_chunks(const Group& mine, const std::vector<Segment>& segments, std::int64_t first,
                   WarpTrace& trace) const {
    constexpr Kind kKind = kKindOf<kPhase>;
    constexpr int kShuffles = kKind == Kind::kNonzeros ? 2 : 1;
    constexpr counted::Fetch kFetch =
        kKind == Kind::kNonzeros ? Count::kProductChunks : Count::kWordChunks;
    const std::int64_t chunks = count_chunks(segments), prefetches = parts(chunks, kPrefetch);
    const std::int64_t last = std::min(first + kPrefetchesOfPiece, prefetches);
    for (std::int64_t begin = first * kPrefetch; begin < last * kPrefetch; begin += kPrefetch) {
      std::array<Lanes, kPrefetch> lanes;
      const auto size = static_cast<std::size_t>(std::min<std::int64_t>(kPrefetch, chunks - begin));
      trace.issue(kFetch.all);
      for (std::size_t u = 0; u < size; ++u) {
        lanes[u] = chunk_of(segments, begin + static_cast<std::int64_t>(u));
        trace.issue(kFetch.each - kShuffles);
        trace.shared(kShuffles);
        load_lanes<kKind>(lanes[u], trace);
      }
      trace.wait(kDataBoard);
      use<kPhase>(mine, std::span(lanes).first(size), begin, trace);
    }
    return last == prefetches;
  }

  /// The same for the steps of a warp of a thread block, which loads steps while it works on those
  /// before them.
  template <Phase kPhase>
  bool take_steps(const Group& mine, SegmentSteps steps, std::int64_t first,
                  WarpTrace& trace) const {
    constexpr Kind kKind = kKindOf<kPhase>;
    constexpr counted::Fetch kFetch =
        kKind == Kind::kNonzeros ? Count::kProductSteps : Count::kWordSteps;
    const std::int64_t iterations = step_iterations(steps.count());
    const std::int64_t last = std::min(first + kPrefetchesOfPiece, iterations);
    steps.skip(first * kPrefetch);
    const auto take = [&](bool loads) {
      std::array<Lanes, kPrefetch> taken;
      for (Lanes& lanes : taken) {
        lanes = lanes_of(steps);
        const bool fetches = steps.is_last_of_segment();
        steps.advance();
        if (!loads) continue;
        trace.issue(kFetch.each);
        if (fetches) {
          trace.issue(Count::kFetchSegment);
          trace.shared(2);
        }
        load_lanes<kKind>(lanes, trace);
      }
      return taken;
    };
    auto next = take(first == 0);  // an earlier piece has loaded later ones
    for (std::int64_t i = first; i < last; ++i) {
      const auto now = next;
      if (std::ranges::any_of(now, [](const Lanes& of) { return of.size > 0; }))
        trace.wait(kDataBoard);
      trace.issue(kFetch.all);
      next = take(true);
      use<kPhase>(mine, now, i * kPrefetch, trace);
    }
    return last == iterations;
  }

  /// The steps of a warp through long segments, in each of which a lane has up to kPrefetch
  /// products.
  bool take_long_steps(const Group& mine, SegmentSteps steps, std::int64_t first,
                       WarpTrace& trace) const {
    const std::int64_t all = std::max<std::int64_t>(1, steps.count());
    const std::int64_t last = std::min(first + kPrefetchesOfPiece, all);
    steps.skip(first);
    const auto take = [&](bool loads) {
      std::array<Lanes, kPrefetch> taken;
      const std::int64_t left = steps.left();
      for (int u = 0; u < kPrefetch; ++u) {
        const std::int64_t lanes = std::clamp<std::int64_t>(left - u * shape_.lanes, 0, kWarpLanes);
        if (lanes > 0) taken[u].add(steps.place() + u * shape_.lanes, static_cast<int>(lanes));
        if (loads) load_lanes<Kind::kNonzeros>(taken[u], trace);
      }
      if (loads) {
        trace.issue(Count::kLongStep);
        if (steps.is_last_of_segment()) {
          trace.issue(Count::kFetchSegment);
          trace.shared(2);
        }
      }
      steps.advance();
      return taken;
    };
    auto next = take(first == 0);
    for (std::int64_t i = first; i < last; ++i) {
      const auto now = next;
      if (std::ranges::any_of(now, [](const Lanes& of) { return of.size > 0; }))
        trace.wait(kDataBoard);
      next = take(true);
      for (const Lanes& lanes : now) find_places(mine, lanes, trace);
      for (const Lanes& lanes : now) {
        add(mine, lanes, Turns{}, 0, trace);
        if (lanes.size > 0 && writes_cols(mine)) {
          trace.store();
          for_lanes(lanes, [&](std::int64_t at) {
            touch_run(at_.c_cols, place_in_c(mine, product_->b.col_indices[at]), 1, trace);
          });
        }
      }
      trace.barrier();
    }
    return last == all;
  }

  template <Kind kKind>
  void load_lanes(const Lanes& lanes, WarpTrace& trace) const {
    if (lanes.size == 0) return;
    const auto load_of = [&](const auto& array) {
      trace.load(kDataBoard);
      for (const Lanes::Run& run : lanes) touch_run(array, run.at, run.lanes, trace);
    };
    if constexpr (kKind == Kind::kWords) {
      load_of(at_.words_of_b);
    } else {
      load_of(at_.b_cols);
      load_of(at_.b_values);
    }
  }

  void finish_count(const Group& mine, WarpTrace& trace) const {
    for (std::int64_t round = 0; round < parts(slots_of(mine), shape_.lanes); ++round) {
      trace.issue(Count::kCount);
      trace.shared(1);
    }
    before(trace);
    trace.issue(Count::kFinishCount +
                (launch_.has_directory() ? Count::kDirectory[launch_.number - kFirstWords] : 0));
    if (mine.work != nullptr && mine.warp == 0) {
      store_run(at_.lengths, mine.id, 1, trace);
      if (product_->is_tiled()) add_to_tiles(std::array{mine.id}, at_, trace);
      constexpr RecordPart kKept[] = {{offsetof(Task, kept), sizeof(Task::kept)}};
      if (launch_.has_directory()) store_each(at_.tasks, std::array{mine.id}, trace, kKept);
      trace.issue(counted::class_instructions(true));
      trace.shared(1);
    }
    trace.barrier();
    if (mine.warp_of_block == 0) {
      trace.issue(Count::kAddCounts);
      add_counts(at_, trace);
    }
    if (launch_.is_joint) report(mine.warp_of_block, trace);
  }

  /// Ranks the slots, and writes the columns of C.
  void rank(const Group& mine, WarpTrace& trace) const {
    const std::int64_t slots = slots_of(mine), rounds = parts(slots, shape_.lanes);
    // The warp's turns, spread evenly over its rounds.
    const std::int64_t turns =
        slots == 0 ? 0 : parts(mine.work->turns_of_ranks * rounds, parts(slots, 32));
    for (std::int64_t round = 0; round < rounds; ++round) {
      rank_round(trace);
      if (writes_cols(mine)) continue;
      for (std::int64_t turn = turns * round / rounds; turn < turns * (round + 1) / rounds;
           ++turn) {
        trace.issue(Count::kColumn);
        trace.shared(1);
      }
    }
    sync(trace);
    if (!writes_cols(mine)) {
      write(at_.c_cols, mine, trace);
      sync(trace);
    }
    clear(lies_at_columns(mine) ? std::int64_t{mine.words()} * kWordCols : mine.columns(), trace);
    sync(trace);
  }

  /// Copies the task's part of an array of C from shared memory.
  template <class T>
  void write(const ArrayAt<T>& array, const Group& mine, WarpTrace& trace) const {
    trace.issue(Count::kWrite);
    const std::int64_t rounds = parts(mine.columns(), shape_.lanes);
    for (std::int64_t round = 0; round < rounds; ++round) {
      trace.issue(Count::kCopy);
      trace.shared(1);
      const std::int64_t first = round * shape_.lanes + kWarpLanes * mine.warp;
      const std::int64_t count = std::min<std::int64_t>(kWarpLanes, mine.columns() - first);
      if (count > 0)
        store_run(array, product_->offsets[static_cast<std::size_t>(mine.id)] + first, count,
                  trace);
    }
  }

  void finish_sums(const Group& mine, WarpTrace& trace) const {
    if (lies_at_columns(mine))
      write_marked(mine, trace);
    else
      write(at_.c_values, mine, trace);
    trace.issue(Count::kEnd);
  }

  /// Writes the sums at marked columns: they are taken to be spread evenly.
  void write_marked(const Group& mine, WarpTrace& trace) const {
    trace.issue(Count::kWrite);
    const std::int64_t places = std::int64_t{mine.words()} * kWordCols;
    const auto columns_before = [&](std::int64_t place) { return place * mine.columns() / places; };
    for (std::int64_t at = kWarpLanes * mine.warp; at < places; at += shape_.lanes) {
      trace.issue(Count::kCopyMarked);
      trace.shared(1);
      trace.shared(1);
      const std::int64_t first = columns_before(at), count = columns_before(at + 32) - first;
      if (count > 0)
        store_run(at_.c_values, product_->offsets[static_cast<std::size_t>(mine.id)] + first, count,
                  trace);
    }
  }

  /// The place of a column in C, of a task that writes columns with its sums.
  std::int64_t place_in_c(const Group& mine, std::int32_t col) const {
    const std::vector<std::int32_t>& columns = columns_.at(mine.id);
    return product_->offsets[static_cast<std::size_t>(mine.id)] +
           (std::ranges::lower_bound(columns, col) - columns.begin());
  }

  DeviceArrays at_;
  std::map<std::int64_t, std::vector<std::int32_t>> columns_;  // of tasks that write them with sums
};

}  // namespace

ClassTrace trace_groups(AnalysisPtr product, ClassLaunch launch, const DeviceArrays& at) {
  const std::int64_t blocks = launch.thread_blocks();
  const auto trace = std::make_shared<GroupsTrace>(std::move(product), std::move(launch), at);
  ClassTrace traced{trace, {}};
  for (std::int64_t block = 0; block < blocks; ++block)
    traced.barriers.push_back(trace->barriers(block));
  return traced;
}

}  // namespace tessera::row_spgemm::tracing
