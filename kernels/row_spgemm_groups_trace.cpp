// row_spgemm's warps, in the order of the source and by the instruction counts of its PTX (CUDA
// 13.0). What depends on the marks that a task has so far is told by averages: a column is new as
// often as the task has columns for its products, the columns of C lie evenly over its words and
// their range. Slots of hash tables are found at the first try.

#include "kernels/row_spgemm_groups_trace.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace tessera::row_spgemm::tracing {

namespace {

/// Words of shared memory that one instruction wants, by bank.
class Banks {
 public:
  void add(std::int64_t word) { words_[size_++] = word; }

  /// The most different words of a bank: so often the memory is accessed. Forgets them.
  int wavefronts() {
    std::sort(words_.begin(), words_.begin() + size_);
    const auto end = std::unique(words_.begin(), words_.begin() + size_);
    std::array<int, 32> of_bank{};
    int most = 0;
    for (auto word = words_.begin(); word != end; ++word)
      most = std::max(most, ++of_bank[static_cast<std::size_t>(*word % 32)]);
    size_ = 0;
    return most;
  }

 private:
  std::array<std::int64_t, 128> words_;
  int size_ = 0;
};

class GroupsTrace final : public LaunchTrace, private BatchWalk {
 public:
  GroupsTrace(std::shared_ptr<const Product> product, Batch batch, const Addresses& at)
      : BatchWalk(std::move(product), std::move(batch)), at_(at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const Warp mine = groups_of(thread_block, warp);
    switch (static_cast<Phase>(cursor.part)) {
      case Phase::kBegin:
        begin(mine, trace);
        cursor = {.step = 0, .part = static_cast<std::int64_t>(Phase::kMark)};
        return true;
      case Phase::kMark:
        if (!go_through<false>(mine, cursor, trace)) return true;
        if (!batch_.is_sum) {
          finish_count(mine, trace);
          return false;
        }
        rank(mine, trace);
        cursor = {.step = 0, .part = static_cast<std::int64_t>(Phase::kAdd)};
        return true;
      case Phase::kAdd:
        if (!go_through<true>(mine, cursor, trace)) return true;
        finish_sums(mine, trace);
        return false;
    }
    return false;
  }

  /// Of all warps of a thread block.
  std::int64_t barriers(std::int64_t thread_block) const {
    if (!batch_.is_block()) return batch_.is_sum ? 0 : 2 * kThreadsOfGroups / 32;
    const Group group = groups_of(thread_block, 0).groups[0];
    const std::int64_t of_segments = chunks_of(group) * (2 * kBarriersOfBefore + 2);
    if (!batch_.is_sum) return batch_.warps_of_group() * (2 + 1 + of_segments + kBarriersOfBefore);
    std::int64_t steps = 0;
    for (std::int64_t chunk = 0; chunk < chunks_of(group); ++chunk)
      steps += kAhead * parts(steps_of<true>(group, chunk), kAhead);
    const std::int64_t rounds = parts(group.work->task.words, batch_.limits.lanes);
    return batch_.warps_of_group() * (1 + 2 * of_segments + kBarriersOfBefore * rounds + 3 + steps);
  }

 private:
  enum class Phase : std::int64_t { kBegin, kMark, kAdd };

  // Instructions beside those that the trace tells one by one, counted in the PTX.
  static constexpr int kBeginInstructions = 60, kTaskInstructions = 20, kBeforeInstructions = 12,
                       kStageInstructions = 24, kLoadSegmentInstructions = 9,
                       kSearchInstructions = 13, kStepInstructions = 12, kFetchInstructions = 8,
                       kMarkInstructions = 8, kHashInstructions = 14, kRankInstructions = 11,
                       kAddInstructions = 6, kIdleInstructions = 4, kRoundInstructions = 12,
                       kPlaceInstructions = 14, kWordInstructions = 16, kColumnInstructions = 9;
  static constexpr int kSpecialRegisters = 60;  // cycles until thread and block indices are there
  static constexpr int kTaskBoard = 0, kSegmentBoard = 1, kDataBoard = 2, kSearchBoard = 3;
  static constexpr int kBarriersOfBefore = 2;  // where a group is a thread block
  static constexpr std::int64_t kIterationsOfPiece = 8;

  void sync(WarpTrace& trace) const {
    if (batch_.is_block())
      trace.barrier();
    else
      trace.issue(1);
  }

  /// A prefix sum over the group: shuffles wait for each other.
  void before(WarpTrace& trace) const {
    trace.issue(kBeforeInstructions);
    for (int step = 1; step < 2 * batch_.lanes_of_warp(); step *= 2) trace.shared(1);
    if (!batch_.is_block()) return;
    trace.barrier();
    trace.issue(2 * batch_.warps_of_group());
    trace.shared(batch_.warps_of_group());
    trace.barrier();
  }

  /// `count` accesses by each lane that do not wait for each other, in order.
  static void stream(std::int64_t count, int instructions, WarpTrace& trace) {
    for (std::int64_t i = 0; i < count; i += kAhead) {
      const int size = static_cast<int>(std::min<std::int64_t>(kAhead, count - i));
      trace.issue(instructions * size);
      trace.shared(size);
    }
  }

  template <class Touch>
  void load_each(const Warp& mine, int board, WarpTrace& trace, Touch touch) const {
    if (mine.count == 0) return;
    trace.load(board);
    for (const Group& group : mine) touch(group);
  }

  void begin(const Warp& mine, WarpTrace& trace) const {
    trace.issue(kBeginInstructions);
    trace.pause(kSpecialRegisters);
    if (!batch_.is_sum) trace.barrier();
    if (mine.count > 0) {
      trace.load(kTaskBoard);
      trace.touch(
          at_.sorted + 4 * static_cast<std::uint64_t>(batch_.first_sorted + mine.first_number),
          4 * mine.count);
      trace.wait(kTaskBoard);
      for (int i = 0; i < 4; ++i)
        load_each(mine, kTaskBoard, trace, [&](const Group& group) {
          trace.touch(at_.tasks + kTaskBytes * static_cast<std::uint64_t>(group.id) +
                          4 * static_cast<std::uint64_t>(i),
                      4);
        });
      for (int i = 0; batch_.is_sum && i < 2; ++i)
        load_each(mine, kTaskBoard, trace, [&](const Group& group) {
          trace.touch(at_.offsets + 8 * static_cast<std::uint64_t>(group.id + i), 8);
        });
      trace.wait(kTaskBoard);
    }
    trace.issue(kTaskInstructions);
    stream(slots_of_lane(mine), batch_.table < 0 ? 2 : 4, trace);
    sync(trace);
  }

  /// The steps of all groups of the warp, side by side.
  struct SideBySide {
    std::int64_t first = 0;
    std::vector<std::vector<Step>> of_group;

    /// Calls visit(group, step) for those of lanes that have something to do.
    template <class Visit>
    void visit(const Warp& mine, std::int64_t step, Visit visit) const {
      for (int i = 0; i < mine.count; ++i) {
        const Step& of = of_group[i][static_cast<std::size_t>(step - first)];
        if (of.lanes > 0) visit(mine.groups[static_cast<std::size_t>(i)], of);
      }
    }
    bool is_idle(std::int64_t step) const {
      return std::ranges::all_of(of_group, [&](const auto& of) {
        return of[static_cast<std::size_t>(step - first)].lanes == 0;
      });
    }
  };

  /// The next piece of the marks or the sums. True: that was all.
  template <bool kAdds>
  bool go_through(const Warp& mine, WarpCursor& cursor, WarpTrace& trace) const {
    constexpr std::int64_t kChunk = std::int64_t{1} << 32;  // a step counts chunks above iterations
    const std::int64_t chunk = cursor.step / kChunk, first = cursor.step % kChunk;
    const std::int64_t chunks = most(mine, [&](const Group& group) { return chunks_of(group); });
    if (chunk == 0 && first == 0) begin_segments<kAdds>(mine, trace);
    if (chunk == chunks) return true;
    const std::int64_t all = most(
        mine, [&](const Group& group) { return parts(steps_of<kAdds>(group, chunk), kAhead); });
    const std::int64_t iterations = std::max<std::int64_t>(all, kAdds ? 0 : 1);
    const std::int64_t last = std::min(first + kIterationsOfPiece, iterations);
    SideBySide side{.first = first * kAhead, .of_group = {}};
    for (const Group& group : mine)
      side.of_group.push_back(steps<kAdds>(group, chunk, first * kAhead, (last + 1) * kAhead));
    if (first == 0) {
      stage<kAdds>(mine, chunk, chunks, trace);
      load_steps<kAdds>(mine, side, 0, trace);
    }
    for (std::int64_t i = first; i < last; ++i) {
      wait_for_steps(side, i, trace);
      load_steps<kAdds>(mine, side, i + 1, trace);
      for (std::int64_t step = i * kAhead; !kAdds && step < (i + 1) * kAhead; ++step)
        mark(mine, side, step, trace);
      if constexpr (kAdds) add(mine, side, i * kAhead, trace);
    }
    cursor.step = chunk * kChunk + last;
    if (last < iterations) return false;
    sync(trace);
    cursor.step = (chunk + 1) * kChunk;
    return chunk + 1 == chunks;
  }

  template <bool kAdds>
  void begin_segments(const Warp& mine, WarpTrace& trace) const {
    if (most(mine, [](const Group& group) { return group.work->task.words; }) > 0) {
      trace.load(kTaskBoard);
      for (const Group& group : mine)
        if (group.work->task.words > 0)
          trace.touch(at_.a_offsets + 4 * static_cast<std::uint64_t>(group.work->task.row), 8);
      trace.wait(kTaskBoard);
    }
    trace.issue(kLoadSegmentInstructions);
    load_segments<kAdds>(mine, 0, trace);
  }

  /// Calls visit(group, first, count) for the nonzeros of A that the warp's lanes have in a chunk.
  template <class Visit>
  void for_own_nonzeros(const Warp& mine, std::int64_t chunk, Visit visit) const {
    for (const Group& group : mine) {
      const std::int64_t first =
          group.first + chunk * batch_.limits.lanes + std::int64_t{32} * group.warp;
      const std::int64_t count = std::min<std::int64_t>(batch_.lanes_of_warp(), group.last - first);
      if (count > 0) visit(group, first, count);
    }
  }
  bool has_nonzeros(const Warp& mine, std::int64_t chunk) const {
    bool any = false;
    for_own_nonzeros(mine, chunk, [&](const Group&, std::int64_t, std::int64_t) { any = true; });
    return any;
  }

  /// The segments of a chunk, a lane each: their columns of A, then where their rows of B are.
  template <bool kAdds>
  void load_segments(const Warp& mine, std::int64_t chunk, WarpTrace& trace) const {
    trace.issue(kLoadSegmentInstructions);
    if (!has_nonzeros(mine, chunk)) return;
    const auto for_lanes = [&](auto visit) { for_own_nonzeros(mine, chunk, visit); };
    const auto load_of_a = [&](int board, std::uint64_t array) {
      trace.load(board);
      for_lanes([&](const Group&, std::int64_t first, std::int64_t count) {
        trace.touch(array + 4 * static_cast<std::uint64_t>(first), 4 * count);
      });
    };
    load_of_a(kSearchBoard, at_.a_cols);
    trace.wait(kSearchBoard);
    trace.load(kSegmentBoard);
    for_lanes([&](const Group&, std::int64_t first, std::int64_t count) {
      for (std::int64_t k = first; k < first + count; ++k)
        trace.touch(at_.rows_of_b + 16 * static_cast<std::uint64_t>(product_->a.col_indices[k]),
                    16);
    });
    if (kAdds) load_of_a(kSegmentBoard, at_.a_values);
    search<kAdds>(mine, chunk, trace);
  }

  /// What lies in a slice is looked for by every lane on its own, step by step.
  template <bool kAdds>
  void search(const Warp& mine, std::int64_t chunk, WarpTrace& trace) const {
    std::vector<std::vector<std::int64_t>> looked_at;
    for_own_nonzeros(mine, chunk, [&](const Group& group, std::int64_t first, std::int64_t count) {
      for (std::int64_t k = first; group.work->task.is_sliced && k < first + count; ++k) {
        std::size_t turn = 0;
        segment<kAdds>(group.work->task, k, [&](std::int64_t at) {
          if (turn == looked_at.size()) looked_at.emplace_back();
          looked_at[turn++].push_back(at);
        });
      }
    });
    if (!looked_at.empty()) trace.wait(kSegmentBoard);
    for (const auto& turn : looked_at) {
      trace.load(kSearchBoard);
      for (const std::int64_t at : turn)
        trace.touch((kAdds ? at_.b_cols + 4 * static_cast<std::uint64_t>(at)
                           : at_.words_of_b + kWordBytes * static_cast<std::uint64_t>(at)),
                    4);
      trace.issue(kSearchInstructions);
      trace.wait(kSearchBoard);
    }
  }

  template <bool kAdds>
  void stage(const Warp& mine, std::int64_t chunk, std::int64_t chunks, WarpTrace& trace) const {
    if (has_nonzeros(mine, chunk)) trace.wait(kSegmentBoard);
    before(trace);
    before(trace);
    trace.issue(kStageInstructions);
    trace.shared(2);
    sync(trace);
    if (chunk + 1 < chunks)
      load_segments<kAdds>(mine, chunk + 1, trace);
    else
      trace.issue(kLoadSegmentInstructions);
    if (kAdds && !batch_.is_block()) trace.shared(1);  // the most steps of the warp's groups
  }

  /// The loads of an iteration's steps. A lane that comes to the end of a segment fetches the next.
  template <bool kAdds>
  void load_steps(const Warp& mine, const SideBySide& side, std::int64_t iteration,
                  WarpTrace& trace) const {
    for (std::int64_t step = iteration * kAhead; step < (iteration + 1) * kAhead; ++step) {
      trace.issue(kStepInstructions);
      if (!side.is_idle(step)) {
        load_step(mine, side, step, kAdds ? at_.b_cols : at_.words_of_b, kAdds ? 4 : kWordBytes,
                  trace);
        if (kAdds) load_step(mine, side, step, at_.b_values, 4, trace);
      }
      Banks banks;
      for (int i = 0; i < mine.count; ++i) {
        const Step& of = side.of_group[i][static_cast<std::size_t>(step - side.first)];
        if (!of.ends_segment) continue;
        for (int word = 0; word < 4; ++word)
          banks.add(mine.groups[static_cast<std::size_t>(i)].memory + 4 * (of.staged + 1) + word);
      }
      if (const int wavefronts = banks.wavefronts(); wavefronts > 0) {
        trace.issue(kFetchInstructions);
        trace.shared(wavefronts);
      }
    }
  }

  void load_step(const Warp& mine, const SideBySide& side, std::int64_t step, std::uint64_t array,
                 int bytes, WarpTrace& trace) const {
    trace.load(kDataBoard);
    side.visit(mine, step, [&](const Group&, const Step& of) {
      trace.touch(array + static_cast<std::uint64_t>(bytes * of.at), bytes * of.lanes);
    });
  }

  static void wait_for_steps(const SideBySide& side, std::int64_t iteration, WarpTrace& trace) {
    for (std::int64_t step = iteration * kAhead; step < (iteration + 1) * kAhead; ++step) {
      if (side.is_idle(step)) continue;
      trace.wait(kDataBoard);
      return;
    }
  }

  /// Where a word's marks are, in words of shared memory; the key of a table.
  std::int64_t slot_of(const Group& group, std::int32_t word) const {
    return batch_.table >= 0 ? first_slot(word) : word - group.work->task.first_word;
  }
  std::int64_t marks_of(const Group& group, std::int32_t word) const {
    return group.memory + 4 * batch_.limits.lanes + batch_.slot_words() * slot_of(group, word);
  }
  std::int64_t key_of(const Group& group, std::int32_t word) const {
    return group.memory + 4 * batch_.limits.lanes +
           std::int64_t{batch_.slot_words()} * batch_.slots() + first_slot(word);
  }
  std::int64_t sums_of(const Group& group) const {
    const std::int64_t bitmap =
        batch_.table >= 0 ? 7 * batch_.slots() / 2 : batch_.slot_words() * group.work->task.words;
    return group.memory + 4 * batch_.limits.lanes + bitmap;
  }
  std::int64_t first_slot(std::int32_t word) const {
    return static_cast<std::int64_t>(static_cast<std::uint32_t>(word) * 2654435769u >> 16) %
           batch_.slots();
  }

  void mark(const Warp& mine, const SideBySide& side, std::int64_t step, WarpTrace& trace) const {
    trace.issue(2);
    if (side.is_idle(step)) return;
    Banks marks, keys;
    double expected = 0;  // words with new columns
    side.visit(mine, step, [&](const Group& group, const Step& of) {
      for (std::int64_t at = of.at; at < of.at + of.lanes; ++at) {
        marks.add(marks_of(group, product_->words[at]));
        if (batch_.table >= 0) keys.add(key_of(group, product_->words[at]));
      }
      const double new_columns =
          static_cast<double>(group.work->columns) / static_cast<double>(group.work->products);
      expected += of.lanes * new_columns;
    });
    const double rate = std::min(1.0, expected);
    const bool is_new = static_cast<std::int64_t>(static_cast<double>(step + 1) * rate) >
                        static_cast<std::int64_t>(static_cast<double>(step) * rate);
    if (batch_.table >= 0) {
      trace.issue(kHashInstructions);
      trace.shared(keys.wavefronts() + (is_new ? 1 : 0));
    }
    trace.issue(kMarkInstructions);
    trace.shared(marks.wavefronts());
    if (is_new) trace.issue(1);  // nobody waits for the atomic operation
  }

  /// Ranks of four steps, then their sums one step after the other.
  void add(const Warp& mine, const SideBySide& side, std::int64_t first, WarpTrace& trace) const {
    int wavefronts = 0;
    for (std::int64_t step = first; step < first + kAhead; ++step) {
      if (side.is_idle(step)) continue;
      Banks marks, keys;
      side.visit(mine, step, [&](const Group& group, const Step& of) {
        for (std::int64_t at = of.at; at < of.at + of.lanes; ++at) {
          const std::int32_t word = product_->b.col_indices[at] / kWordCols;
          marks.add(marks_of(group, word));
          marks.add(marks_of(group, word) + 1);
          if (batch_.table >= 0) keys.add(key_of(group, word));
        }
      });
      if (batch_.table >= 0) {
        trace.issue(kHashInstructions);
        trace.shared(keys.wavefronts());
      }
      trace.issue(kRankInstructions);
      wavefronts += marks.wavefronts();
    }
    if (wavefronts > 0) trace.shared(wavefronts);
    for (std::int64_t step = first; step < first + kAhead; ++step) {
      trace.issue(kIdleInstructions);
      if (!side.is_idle(step)) add_step(mine, side, step, trace);
      sync(trace);
    }
  }

  /// A sum is loaded and stored.
  void add_step(const Warp& mine, const SideBySide& side, std::int64_t step,
                WarpTrace& trace) const {
    Banks sums;
    side.visit(mine, step, [&](const Group& group, const Step& of) {
      const TaskWork& work = *group.work;
      const std::int64_t begin = std::int64_t{work.task.first_word} * kWordCols;
      const std::int64_t range = std::int64_t{work.task.words} * kWordCols;
      for (std::int64_t at = of.at; at < of.at + of.lanes; ++at)
        sums.add(sums_of(group) + (product_->b.col_indices[at] - begin) * work.columns / range);
    });
    trace.shared(2 * sums.wavefronts());
    trace.issue(kAddInstructions);
  }

  void finish_count(const Warp& mine, WarpTrace& trace) const {
    stream(slots_of_lane(mine), 5, trace);
    before(trace);
    if (mine.count > 0) {
      trace.store();
      for (const Group& group : mine)
        if (group.warp == 0) trace.touch(at_.lengths + 4 * static_cast<std::uint64_t>(group.id), 4);
      trace.issue(kBeginInstructions / 2);  // the class of the sums
      trace.shared(1);
    }
    trace.barrier();
    if (!mine.is_first) return;
    trace.issue(kIdleInstructions);
    trace.atomic(1);
    trace.touch(at_.summary, 4 * kSumClasses);
  }

  /// Ranks of words, then the columns of C.
  void rank(const Warp& mine, WarpTrace& trace) const {
    if (batch_.table >= 0) sort_table(mine, trace);
    const std::int64_t rounds = batch_.table >= 0 ? rounds_of_words(mine) : slots_of_lane(mine);
    std::int64_t with_marks = 0;
    for (const Group& group : mine) with_marks += group.work->filled_words;
    for (std::int64_t round = 0; round < rounds; ++round) {
      trace.issue(kRoundInstructions);
      trace.shared(2);  // ranks lie between the marks
      if (!batch_.is_block() && round >= with_marks) continue;
      before(trace);
      trace.issue(kPlaceInstructions);
      trace.shared(2);
    }
    sync(trace);
    for (std::int64_t round = 0; round < rounds_of_words(mine); ++round)
      write_columns(mine, round, trace);
    sync(trace);
    stream(parts(most(mine, [](const Group& group) { return group.work->columns; }),
                 batch_.limits.lanes),
           2, trace);
    sync(trace);
  }

  std::int64_t rounds_of_words(const Warp& mine) const {
    return parts(most(mine, [](const Group& group) { return group.work->filled_words; }),
                 batch_.limits.lanes);
  }

  /// A word each lane. The columns of a task are dealt evenly to its words.
  void write_columns(const Warp& mine, std::int64_t round, WarpTrace& trace) const {
    trace.issue(kWordInstructions);
    trace.shared(1);
    trace.shared(2);
    int turns = 0;
    for (const Group& group : mine)
      if (group.work->filled_words > 0)
        turns =
            std::max(turns, static_cast<int>(parts(group.work->columns, group.work->filled_words)));
    bool any = false;
    for (const Group& group : mine) {
      const std::int64_t words = group.work->filled_words;
      const std::int64_t first = round * batch_.limits.lanes + std::int64_t{32} * group.warp;
      const std::int64_t last = std::min(first + batch_.lanes_of_warp(), words);
      if (first >= last) continue;
      if (!any) {
        trace.issue(kColumnInstructions * turns);
        trace.store(turns);
        any = true;
      }
      const std::int64_t begin = first * group.work->columns / words;
      touch_c(at_.c_cols, group, begin, last * group.work->columns / words, trace);
    }
  }

  void touch_c(std::uint64_t array, const Group& group, std::int64_t begin, std::int64_t end,
               WarpTrace& trace) const {
    trace.touch(array + 4 * static_cast<std::uint64_t>(product_->offsets[group.id] + begin),
                4 * (end - begin));
  }

  /// Keys are gathered, then sorted by a bitonic network.
  void sort_table(const Warp& mine, WarpTrace& trace) const {
    for (std::int64_t i = 0; i < slots_of_lane(mine); ++i) {
      trace.issue(kRoundInstructions);
      trace.shared(1);
      before(trace);
    }
    const auto words = static_cast<std::uint64_t>(
        most(mine, [](const Group& group) { return group.work->filled_words; }));
    const auto size = static_cast<std::int64_t>(std::bit_ceil(words));
    sync(trace);
    for (std::int64_t run = 2; run <= size; run *= 2)
      for (std::int64_t step = run / 2; step > 0; step /= 2) {
        for (std::int64_t i = 0; i < parts(size / 2, batch_.limits.lanes); ++i) {
          trace.issue(kPlaceInstructions);
          trace.shared(2);
        }
        sync(trace);
      }
  }

  void finish_sums(const Warp& mine, WarpTrace& trace) const {
    const int lanes = batch_.limits.lanes;
    const std::int64_t rounds =
        parts(most(mine, [](const Group& group) { return group.work->columns; }), lanes);
    for (std::int64_t round = 0; round < rounds; ++round) {
      trace.issue(3);
      if (round % kAhead == 0)
        trace.shared(static_cast<int>(std::min<std::int64_t>(kAhead, rounds - round)));
      bool any = false;
      for (const Group& group : mine) {
        const std::int64_t first = round * lanes + std::int64_t{32} * group.warp;
        const std::int64_t last =
            std::min<std::int64_t>(first + batch_.lanes_of_warp(), group.work->columns);
        if (first >= last) continue;
        if (!any) trace.store();
        any = true;
        touch_c(at_.c_values, group, first, last, trace);
      }
    }
    trace.issue(kIdleInstructions);
  }

  Addresses at_;
};

}  // namespace

TracedLaunch trace_launch(std::shared_ptr<const Product> product, Batch batch,
                          const Addresses& at) {
  const std::int64_t blocks = batch.thread_blocks();
  const auto trace = std::make_shared<GroupsTrace>(std::move(product), std::move(batch), at);
  TracedLaunch launch{trace, {}};
  for (std::int64_t block = 0; block < blocks; ++block)
    launch.barriers.push_back(trace->barriers(block));
  return launch;
}

}  // namespace tessera::row_spgemm::tracing
