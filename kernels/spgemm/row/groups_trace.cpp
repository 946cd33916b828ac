// row_spgemm's groups, in the order of the source and by the instruction counts of their code (CUDA
// 13.0 for sm_90a): of a warp's from its SASS, of a thread block's from its PTX.

#include "kernels/spgemm/row/groups_trace.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/spgemm/row/memory_trace.hpp"

namespace tessera::row_spgemm::tracing {

namespace {

/// Instructions beside those that the trace tells one by one: accesses to memory, and shuffles.
/// Of chunks: once for `kAhead` of them, and for each; of steps likewise.
struct Costs {
  int wave, item;  // going to 32 products, or words, and loading them
};
constexpr int kBeginInstructions = 56;
constexpr int kRowOfAInstructions = 16, kNextSetInstructions = 20, kScanInstructions = 28,
              kEndOfSetInstructions = 13, kGapInstructions = 16, kStageInstructions = 22,
              kFetchInstructions = 5, kSearchInstructions = 30;
constexpr Costs kWordChunks{33, 27}, kProductChunks{126, 26};
constexpr Costs kWordSteps{12, 14}, kProductSteps{25, 23};
constexpr int kTurnInstructions = 7, kSumInstructions = 4;
constexpr int kColumnInstructions = 9, kWriteInstructions = 14, kCopyInstructions = 10;
constexpr int kCountInstructions = 5, kFinishInstructions = 33, kIdleInstructions = 4,
              kAddCountsInstructions = 9;
constexpr int kTaskBoard = 0, kSegmentBoard = 1, kDataBoard = 2, kSearchBoard = 3;
constexpr std::int64_t kWavesOfPiece = 8;

class GroupsTrace final : public LaunchTrace, private GroupMemory {
 public:
  GroupsTrace(std::shared_ptr<const Product> product, Batch batch, const Addresses& at)
      : GroupMemory(std::move(product), std::move(batch)), at_(at) {}

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
        return go_to(batch_.has_directory() ? Phase::kMarkWords : Phase::kMark);
      case Phase::kMarkWords:
        if (cursor.step == 0 && mark_in_one_wave(mine, trace)) return go_to(Phase::kMarked);
        if (!go_through<Phase::kMarkWords>(mine, cursor, trace)) return true;
        open(mine, trace);
        return go_to(Phase::kMark);
      case Phase::kMark:
        if (!go_through<Phase::kMark>(mine, cursor, trace)) return true;
        return go_to(Phase::kMarked);
      case Phase::kMarked:
        if (!batch_.is_sum) {
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

  /// Of all warps of a thread block.
  std::int64_t barriers(std::int64_t thread_block) const {
    if (!batch_.is_block()) return batch_.is_sum ? 0 : 2 * kThreadsOfGroups / 32;
    const Group group = group_of(thread_block, 0);
    const std::int64_t sets = sets_of(group);
    std::int64_t of_warp = 1 + kBarriersOfSet * sets + 1;
    if (batch_.has_directory())
      of_warp +=
          kBarriersOfSet * sets + 2 + 2 * parts(directory_words(group.work->task), batch_.lanes());
    if (!batch_.is_sum) return batch_.warps_of_group() * (of_warp + 4);
    of_warp += 2 * parts(slots_of(group), batch_.lanes()) + 3 + kBarriersOfSet * sets;
    for (std::int64_t set = 0; set < sets; ++set) {
      const auto found = segments<true>(group, set);
      of_warp += kAhead * iterations_of_block(steps<true>(group, found).count());
    }
    return batch_.warps_of_group() * of_warp;
  }

 private:
  enum class Phase : std::int64_t { kBegin, kMarkWords, kMark, kMarked, kAdd };
  static constexpr int kBarriersOfSet = 4;

  void load(int board, std::uint64_t address, std::int64_t bytes, WarpTrace& trace) const {
    trace.load(board);
    trace.touch(address, bytes);
  }

  void begin(const Group& mine, WarpTrace& trace) const {
    trace.issue(kBeginInstructions);
    trace.pause(kSpecialRegisterCycles);
    if (!batch_.is_sum) {
      trace.shared(1);
      trace.barrier();
    }
    if (mine.work != nullptr) {
      const std::int64_t number = batch_.first_sorted + mine.number;
      load(kTaskBoard, element(at_.sorted, number, kSortedTaskBytes), 4, trace);
      trace.wait(kTaskBoard);
      const std::uint64_t task = element(at_.tasks, mine.id, kTaskBytes);
      load(kTaskBoard, task, 16, trace);
      load(kTaskBoard, task + 16, 8, trace);
      load(kTaskBoard, task + 24, 8, trace);
      for (int i = 0; batch_.is_sum && i < 2; ++i)
        load(kTaskBoard, element(at_.offsets, mine.id + i, 8), 8, trace);
      trace.wait(kTaskBoard);
    }
    const int words = mine.words();
    clear(batch_.has_directory() ? parts(words, 32) : words, trace);
    sync(trace);
  }

  template <Phase kPhase>
  static constexpr bool kAdds = kPhase == Phase::kAdd;

  /// The next piece of a way through all products. True: that was all.
  template <Phase kPhase>
  bool go_through(const Group& mine, WarpCursor& cursor, WarpTrace& trace) const {
    constexpr std::int64_t kSet = std::int64_t{1} << 32;  // a step counts sets above iterations
    const std::int64_t set = cursor.step / kSet, first = cursor.step % kSet;
    const std::int64_t sets = sets_of(mine);
    if (set == 0 && first == 0) begin_segments<kAdds<kPhase>>(mine, trace);
    bool is_last = set == sets;
    if (!is_last) {
      const auto found = segments<kAdds<kPhase>>(mine, set);
      if (first == 0) begin_set<kAdds<kPhase>>(mine, set, found, trace);
      const bool is_done =
          batch_.is_block()
              ? take_steps<kPhase>(mine, steps<kAdds<kPhase>>(mine, found), first, trace)
              : take_chunks<kPhase>(mine, Chunks(found), first, trace);
      if (!is_done) {
        cursor.step += kWavesOfPiece;
        return false;
      }
      trace.issue(kEndOfSetInstructions);
      sync(trace);
      cursor.step = (set + 1) * kSet;
      is_last = set + 1 == sets;
    }
    if (is_last && !kAdds<kPhase>) sync(trace);
    return is_last;
  }

  /// Words that a warp has at once are loaded once. False: they are more than that.
  bool mark_in_one_wave(const Group& mine, WarpTrace& trace) const {
    if (batch_.is_block() || mine.last - mine.first > 32) return false;
    begin_segments<false>(mine, trace);
    const auto found = segments<false>(mine, 0);
    begin_set<false>(mine, 0, found, trace);
    if (mine.work != nullptr && !mine.work->is_one_wave()) return false;
    take_chunks<Phase::kMarkWords>(mine, Chunks(found), 0, trace);
    trace.issue(1);
    open(mine, trace);
    Chunks chunks(found);
    for (std::int64_t chunk = 0; chunk < chunks.count(); ++chunk)
      mark(false, mine, chunks.next(chunk), chunk, trace);
    trace.issue(1);
    return true;
  }

  template <bool kAdds>
  void begin_segments(const Group& mine, WarpTrace& trace) const {
    trace.issue(kRowOfAInstructions);
    load_segments<kAdds>(mine, 0, trace);
  }

  /// Calls visit(first, count) with the nonzeros of A that the warp's lanes have of a set.
  template <class Visit>
  void for_own_nonzeros(const Group& mine, std::int64_t set, Visit visit) const {
    const std::int64_t first = mine.first + set * batch_.lanes() + std::int64_t{32} * mine.warp;
    const std::int64_t count = std::min<std::int64_t>(32, mine.last - first);
    if (count > 0) visit(first, count);
  }

  /// A lane each: their columns of A, then where their rows of B are.
  template <bool kAdds>
  void load_segments(const Group& mine, std::int64_t set, WarpTrace& trace) const {
    for_own_nonzeros(mine, set, [&](std::int64_t first, std::int64_t count) {
      load(kSearchBoard, element(at_.a_cols, first, 4), 4 * count, trace);
      trace.wait(kSearchBoard);
      trace.load(kSegmentBoard);
      for (std::int64_t k = first; k < first + count; ++k)
        trace.touch(element(at_.rows_of_b, product_->a.col_indices[k], kRowOfBBytes), 12);
      if (kAdds) load(kSegmentBoard, element(at_.a_values, first, 4), 4 * count, trace);
      if (mine.work->task.is_sliced) search<kAdds>(mine, first, count, trace);
    });
  }

  /// What lies in a slice is looked for by every lane on its own, step by step.
  template <bool kAdds>
  void search(const Group& mine, std::int64_t first, std::int64_t count, WarpTrace& trace) const {
    std::vector<std::vector<std::int64_t>> looked_at;
    for (std::int64_t k = first; k < first + count; ++k)
      segment<kAdds>(mine.work->task, k, [&](std::int64_t at, std::size_t turn) {
        if (turn >= looked_at.size()) looked_at.resize(turn + 1);
        looked_at[turn].push_back(at);
      });
    if (!looked_at.empty()) trace.wait(kSegmentBoard);
    for (const auto& turn : looked_at) {
      trace.load(kSearchBoard);
      for (const std::int64_t at : turn)
        trace.touch(kAdds ? element(at_.b_cols, at, 4) : element(at_.words_of_b, at, kWordBytes),
                    4);
      trace.issue(kSearchInstructions);
      trace.wait(kSearchBoard);
    }
  }

  template <bool kAdds>
  void begin_set(const Group& mine, std::int64_t set, const std::vector<Segment>& found,
                 WarpTrace& trace) const {
    bool has_any = false;
    for_own_nonzeros(mine, set, [&](std::int64_t, std::int64_t) { has_any = true; });
    if (has_any) trace.wait(kSegmentBoard);
    trace.issue(kNextSetInstructions);
    load_segments<kAdds>(mine, set + 1, trace);
    if (batch_.is_block()) {
      before(trace);
      trace.issue(kStageInstructions);
      trace.shared(2);
      trace.barrier();
      trace.shared(2);  // the first to go through
      return;
    }
    const std::int64_t nonzeros = std::min<std::int64_t>(32, mine.last - mine.first - 32 * set);
    if (!found.empty() && std::ssize(found) < nonzeros) {  // gaps, if not at the end
      trace.issue(kGapInstructions);
      trace.shared(2);
      trace.shared(2);
    }
    trace.issue(kScanInstructions);
    shuffle_up(trace);
  }

  static constexpr Costs of_chunks(bool adds) { return adds ? kProductChunks : kWordChunks; }
  static constexpr Costs of_steps(bool adds) { return adds ? kProductSteps : kWordSteps; }

  /// A warp's next waves of chunks, as many as a piece has. True: those were the last.
  template <Phase kPhase>
  bool take_chunks(const Group& mine, Chunks chunks, std::int64_t first, WarpTrace& trace) const {
    constexpr Costs kCosts = of_chunks(kAdds<kPhase>);
    const std::int64_t waves = parts(chunks.count(), kAhead);
    const std::int64_t last = std::min(first + kWavesOfPiece, waves);
    for (std::int64_t wave = first; wave < last; ++wave) {
      std::array<Lanes, kAhead> lanes;
      const auto size =
          static_cast<std::size_t>(std::min<std::int64_t>(kAhead, chunks.count() - wave * kAhead));
      trace.issue(kCosts.wave);
      for (std::size_t u = 0; u < size; ++u) {
        lanes[u] = chunks.next(wave * kAhead + static_cast<std::int64_t>(u));
        trace.issue(kCosts.item - (kAdds<kPhase> ? 2 : 1));
        trace.shared(kAdds<kPhase> ? 2 : 1);  // shuffles
        load_lanes<kAdds<kPhase>>(lanes[u], trace);
      }
      trace.wait(kDataBoard);
      for (std::size_t u = 0; u < size && !kAdds<kPhase>; ++u)
        mark(kPhase == Phase::kMarkWords, mine, lanes[u],
             wave * kAhead + static_cast<std::int64_t>(u), trace);
      for (std::size_t u = 0; u < size && kAdds<kPhase>; ++u) find_ranks(mine, lanes[u], trace);
      for (std::size_t u = 0; u < size && kAdds<kPhase>; ++u) {
        const Turns turns = this->turns(lanes[u]);
        ask(mine, lanes[u], turns, trace);
        for (int turn = 0; turn < turns.count; ++turn) {
          trace.issue(kTurnInstructions);
          add(mine, lanes[u], turns, turn, trace);
        }
      }
    }
    return last == waves;
  }

  /// Steps are loaded while those before them are worked on.
  static std::int64_t iterations_of_block(std::int64_t steps) {
    return std::max<std::int64_t>(1, parts(steps, kAhead));
  }

  /// The same for a warp of a thread block.
  template <Phase kPhase>
  bool take_steps(const Group& mine, Steps steps, std::int64_t first, WarpTrace& trace) const {
    const std::int64_t count = steps.count(), iterations = iterations_of_block(count);
    const std::int64_t last = std::min(first + kWavesOfPiece, iterations);
    const auto take = [&](std::int64_t iteration, bool loads) {
      std::array<Lanes, kAhead> taken;
      for (std::int64_t u = 0; u < kAhead; ++u) {
        const std::int64_t step = iteration * kAhead + u;
        taken[static_cast<std::size_t>(u)] = steps.next(step);
        if (!loads) continue;
        trace.issue(of_steps(kAdds<kPhase>).item);
        if (steps.ends_segment(step)) {
          trace.issue(kFetchInstructions);
          trace.shared(2);
        }
        load_lanes<kAdds<kPhase>>(taken[static_cast<std::size_t>(u)], trace);
      }
      return taken;
    };
    auto next = take(first, first == 0);
    for (std::int64_t i = first; i < last; ++i) {
      const auto now = next;
      if (std::ranges::any_of(now, [](const Lanes& of) { return of.size > 0; }))
        trace.wait(kDataBoard);
      trace.issue(of_steps(kAdds<kPhase>).wave);
      next = take(i + 1, true);
      for (std::int64_t u = 0; u < kAhead && !kAdds<kPhase>; ++u)
        mark(kPhase == Phase::kMarkWords, mine, now[static_cast<std::size_t>(u)], i * kAhead + u,
             trace);
      for (std::size_t u = 0; u < kAhead && kAdds<kPhase>; ++u) find_ranks(mine, now[u], trace);
      for (std::size_t u = 0; u < kAhead && kAdds<kPhase>; ++u) {
        trace.issue(kSumInstructions);
        add(mine, now[u], Turns{}, 0, trace);
        trace.barrier();
      }
    }
    return last == iterations;
  }

  template <bool kAdds>
  void load_lanes(const Lanes& lanes, WarpTrace& trace) const {
    if (lanes.size == 0) return;
    const auto load_of = [&](std::uint64_t array, int bytes) {
      trace.load(kDataBoard);
      for (const Lanes::Run& run : lanes)
        trace.touch(element(array, run.at, bytes), std::int64_t{bytes} * run.lanes);
    };
    load_of(kAdds ? at_.b_cols : at_.words_of_b, kAdds ? 4 : kWordBytes);
    if (kAdds) load_of(at_.b_values, 4);
  }

  void finish_count(const Group& mine, WarpTrace& trace) const {
    for (std::int64_t round = 0; round < parts(slots_of(mine), batch_.lanes()); ++round) {
      trace.issue(kCountInstructions);
      trace.shared(1);
    }
    before(trace);
    trace.issue(kFinishInstructions);
    if (mine.work != nullptr && mine.warp == 0) {
      trace.store();
      trace.touch(element(at_.lengths, mine.id, 4), 4);
      if (batch_.has_directory()) {
        trace.store();
        trace.touch(element(at_.tasks, mine.id, kTaskBytes) + 20, 4);
      }
      trace.issue(class_instructions(true));
      trace.shared(1);
    }
    trace.barrier();
    if (mine.warp_of_block != 0) return;
    trace.issue(kAddCountsInstructions);
    trace.shared(1);
    trace.atomic(1);
    trace.touch(at_.summary, 4 * kClasses);
  }

  /// Ranks of slots, then the columns of C.
  void rank(const Group& mine, WarpTrace& trace) const {
    const std::int64_t slots = slots_of(mine), rounds = parts(slots, batch_.lanes());
    // Turns of the warp, dealt evenly to its rounds.
    const std::int64_t turns =
        slots == 0 ? 0 : parts(mine.work->turns_of_ranks * rounds, parts(slots, 32));
    for (std::int64_t round = 0; round < rounds; ++round) {
      rank_round(trace);
      for (std::int64_t turn = turns * round / rounds; turn < turns * (round + 1) / rounds;
           ++turn) {
        trace.issue(kColumnInstructions);
        trace.shared(1);
      }
    }
    sync(trace);
    write(at_.c_cols, mine, trace);
    sync(trace);
    clear(mine.columns(), trace);
    sync(trace);
  }

  /// From shared memory to the task's part of an array of C.
  void write(std::uint64_t array, const Group& mine, WarpTrace& trace) const {
    trace.issue(kWriteInstructions);
    const std::int64_t rounds = parts(mine.columns(), batch_.lanes());
    for (std::int64_t round = 0; round < rounds; ++round) {
      trace.issue(kCopyInstructions);
      trace.shared(1);
      const std::int64_t first = round * batch_.lanes() + std::int64_t{32} * mine.warp;
      const std::int64_t count = std::min<std::int64_t>(32, mine.columns() - first);
      if (count <= 0) continue;
      trace.store();
      trace.touch(element(array, product_->offsets[static_cast<std::size_t>(mine.id)] + first, 4),
                  4 * count);
    }
  }

  void finish_sums(const Group& mine, WarpTrace& trace) const {
    write(at_.c_values, mine, trace);
    trace.issue(kIdleInstructions);
  }

  Addresses at_;
};

}  // namespace

TracedLaunch trace_groups(std::shared_ptr<const Product> product, Batch batch,
                          const Addresses& at) {
  const std::int64_t blocks = batch.thread_blocks();
  const auto trace = std::make_shared<GroupsTrace>(std::move(product), std::move(batch), at);
  TracedLaunch launch{trace, {}};
  for (std::int64_t block = 0; block < blocks; ++block)
    launch.barriers.push_back(trace->barriers(block));
  return launch;
}

}  // namespace tessera::row_spgemm::tracing
