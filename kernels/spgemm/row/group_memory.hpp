// The shared memory of a group of row_spgemm: where its marks, ranks and sums lie, and the trace of
// its accesses, lane by lane where banks can conflict.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/device/shared_banks.hpp"
#include "kernels/spgemm/row/counted.hpp"
#include "kernels/spgemm/row/walk.hpp"
#include "kernels/warp_trace.hpp"

namespace tessera::row_spgemm::tracing {

/// Calls visit(place in B) for each lane.
template <class Visit>
void for_lanes(const Lanes& lanes, Visit visit) {
  for (const Lanes::Run& run : lanes)
    for (int i = 0; i < run.lanes; ++i) visit(run.at + i);
}

class GroupMemory : public TaskWalk {
 public:
  using TaskWalk::TaskWalk;

 protected:
  using Memory = counted::SharedMemory;

  void sync(WarpTrace& trace) const {
    if (shape_.is_block())
      trace.barrier();
    else
      trace.issue(1);
  }

  /// The shuffles of a prefix sum over the lanes, which wait for each other.
  static void shuffle_up(WarpTrace& trace) {
    for (int step = 1; step <= 32; step *= 2) trace.shared(1);
  }

  /// A prefix sum over the group.
  void before(WarpTrace& trace) const {
    trace.issue(Memory::kBefore);
    shuffle_up(trace);
    if (!shape_.is_block()) return;
    trace.shared(1);
    trace.barrier();
    trace.issue(Memory::kBeforeWarps * shape_.warps());
    trace.shared(shape_.warps());
    trace.barrier();
  }

  /// Clears words by all lanes: four at a time, then one by one.
  void clear(std::int64_t words, WarpTrace& trace) const {
    trace.issue(Memory::kClear);
    const std::int64_t rounds = parts(words, shape_.lanes);
    for (std::int64_t i = 0; i < rounds % 4; ++i) {
      trace.issue(Memory::kClearOne);
      trace.shared(1);
    }
    for (std::int64_t i = 0; i < rounds / 4; ++i) {
      trace.issue(Memory::kClearFour);
      trace.shared(4);
    }
  }

  // Places in shared memory, in words. Slots and sums lie evenly over the column range.
  std::int64_t bitmap_of(const Group& mine) const {
    return mine.memory + shape_.segment_bytes() / 4;
  }
  std::int64_t directory_slot(const Group& mine, std::int32_t word) const {
    return bitmap_of(mine) +
           kDirectorySlotBytes / 4 * ((word - mine.work->task.first_word) / kWarpLanes);
  }

  std::int64_t slot_of(const Group& mine, std::int32_t word) const {
    const Task& task = mine.work->task;
    std::int64_t slot = word - task.first_word, begin = bitmap_of(mine);
    if (launch_.has_directory()) {
      slot = slot * mine.work->filled_words / task.words;
      begin += kDirectorySlotBytes / 4 * directory_words(task);
    }
    return begin + slot_bytes(launch_.is_sum) / 4 * slot;
  }

  std::int64_t sum_of(const Group& mine, std::int32_t col) const {
    const TaskWork& work = *mine.work;
    const std::int64_t begin = std::int64_t{work.task.first_word} * kWordCols;
    const std::int64_t range = std::int64_t{work.task.words} * kWordCols;
    const std::int64_t sums = bitmap_of(mine) + sum_bytes(work.counted(), 0) / 4;
    return sums + (lies_at_columns(mine) ? col - begin : (col - begin) * work.columns / range);
  }
  /// Lanes mark the columns of their words in the slots or, with marks_words, the words in the
  /// directory. Lanes that find a new mark of one slot take turns; marks are new at the rate of the
  /// whole task. `item` counts these calls.
  void mark(bool marks_words, const Group& mine, const Lanes& lanes, std::int64_t item,
            WarpTrace& trace) const {
    trace.issue(Memory::kMarkTest);
    if (lanes.size == 0) return;
    Banks slots, directory;
    for_lanes(lanes, [&](std::int64_t at) {
      const std::int32_t word = product_->words[at];
      slots.add(marks_words ? directory_slot(mine, word) : slot_of(mine, word));
      if (!marks_words && launch_.has_directory()) directory.add(directory_slot(mine, word));
    });
    if (!marks_words && launch_.has_directory()) {
      trace.issue(Memory::kMarkInWord - Memory::kMark);
      trace.shared(directory.wavefronts());
      if (launch_.is_sum) trace.shared(1);  // the word of the slot
    }
    trace.issue((marks_words ? Memory::kMarkWord : Memory::kMark) - Memory::kMarkTest);
    trace.shared(slots.wavefronts());
    const TaskWork& work = *mine.work;
    const double new_rate =
        marks_words ? static_cast<double>(work.filled_words) / static_cast<double>(work.words_read)
                    : static_cast<double>(work.columns) / static_cast<double>(work.products);
    const double expected = lanes.lanes * new_rate, rate = std::min(1.0, expected);
    if (std::floor(static_cast<double>(item + 1) * rate) <=
        std::floor(static_cast<double>(item) * rate))
      return;
    trace.shared(std::max(1, static_cast<int>(std::lround(slots.most_of_a_word() * new_rate))));
  }

  /// Finds the places of sums: their ranks, or those of their columns.
  void find_places(const Group& mine, const Lanes& lanes, WarpTrace& trace) const {
    if (lanes.size == 0) return;
    if (lies_at_columns(mine)) return trace.issue(1);
    Banks slots, directory;
    for_lanes(lanes, [&](std::int64_t at) {
      const std::int32_t word = word_of(product_->b.col_indices[at]);
      slots.add(slot_of(mine, word));
      if (launch_.has_directory()) directory.add(directory_slot(mine, word));
    });
    trace.issue(launch_.has_directory() ? Memory::kRankInWord : Memory::kRank);
    if (launch_.has_directory()) trace.shared(directory.wavefronts());
    trace.shared(slots.wavefronts());
  }

  /// Compares the columns of lanes that have products of many segments.
  void compare(const Group& mine, const Lanes& lanes, const Turns& turns, WarpTrace& trace) const {
    trace.issue(Memory::kTurns);
    if (!turns.compares) return;
    Banks sums;
    for_lanes(lanes, [&](std::int64_t at) { sums.add(sum_of(mine, product_->b.col_indices[at])); });
    const int wavefronts = sums.wavefronts();
    trace.issue(Memory::kCompare);
    trace.shared(std::max(wavefronts, turns.count));  // lanes of one sum take turns
    trace.shared(wavefronts);
    if (turns.matches) trace.issue(Memory::kMatch);
  }

  /// Loads, adds to and stores the sums of one turn.
  void add(const Group& mine, const Lanes& lanes, const Turns& turns, int turn,
           WarpTrace& trace) const {
    if (lanes.size == 0) return;
    Banks sums;
    std::size_t lane = 0;
    for_lanes(lanes, [&](std::int64_t at) {
      if (turns.of_lane[lane++] == turn) sums.add(sum_of(mine, product_->b.col_indices[at]));
    });
    const int wavefronts = sums.wavefronts();
    trace.shared(wavefronts);
    trace.issue(Memory::kAdd);
    trace.shared(wavefronts);
  }

  /// Ranks the words of the directory and clears their slots.
  void open(const Group& mine, WarpTrace& trace) const {
    const int words = mine.work == nullptr ? 0 : directory_words(mine.work->task);
    for (std::int64_t round = 0; round < parts(words, shape_.lanes); ++round) rank_round(trace);
    clear(slots_of(mine), trace);
    sync(trace);
  }

  /// Ranks one slot per lane.
  void rank_round(WarpTrace& trace) const {
    trace.issue(Memory::kRankRound);
    trace.shared(1);
    before(trace);
    trace.shared(1);
  }
};

}  // namespace tessera::row_spgemm::tracing
