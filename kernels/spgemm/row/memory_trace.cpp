#include "kernels/spgemm/row/memory_trace.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/device/shared_banks.hpp"
#include "kernels/spgemm/row/counted.hpp"

namespace tessera::row_spgemm::tracing {

namespace {

using Count = counted::SharedMemory;

/// Calls visit(place in B) for each lane.
template <class Visit>
void for_lanes(const Lanes& lanes, Visit visit) {
  for (const Lanes::Run& run : lanes)
    for (int i = 0; i < run.lanes; ++i) visit(run.at + i);
}

}  // namespace

void GroupMemory::sync(WarpTrace& trace) const {
  if (shape_.is_block())
    trace.barrier();
  else
    trace.issue(1);
}

void GroupMemory::shuffle_up(WarpTrace& trace) {
  for (int step = 1; step <= 32; step *= 2) trace.shared(1);
}

void GroupMemory::before(WarpTrace& trace) const {
  trace.issue(Count::kBefore);
  shuffle_up(trace);
  if (!shape_.is_block()) return;
  trace.shared(1);
  trace.barrier();
  trace.issue(Count::kBeforeWarps * shape_.warps());
  trace.shared(shape_.warps());
  trace.barrier();
}

void GroupMemory::clear(std::int64_t words, WarpTrace& trace) const {
  trace.issue(Count::kClear);
  const std::int64_t rounds = parts(words, shape_.lanes);
  for (std::int64_t i = 0; i < rounds % 4; ++i) {
    trace.issue(Count::kClearOne);
    trace.shared(1);
  }
  for (std::int64_t i = 0; i < rounds / 4; ++i) {
    trace.issue(Count::kClearFour);
    trace.shared(4);
  }
}

std::int64_t GroupMemory::directory_slot(const Group& mine, std::int32_t word) const {
  return bitmap_of(mine) +
         kDirectorySlotBytes / 4 * ((word - mine.work->task.first_word) / kWarpLanes);
}

std::int64_t GroupMemory::slot_of(const Group& mine, std::int32_t word) const {
  const Task& task = mine.work->task;
  std::int64_t slot = word - task.first_word, begin = bitmap_of(mine);
  if (launch_.has_directory()) {
    slot = slot * mine.work->filled_words / task.words;
    begin += kDirectorySlotBytes / 4 * directory_words(task);
  }
  return begin + slot_bytes(launch_.is_sum) / 4 * slot;
}

std::int64_t GroupMemory::sum_of(const Group& mine, std::int32_t col) const {
  const TaskWork& work = *mine.work;
  const std::int64_t begin = std::int64_t{work.task.first_word} * kWordCols;
  const std::int64_t range = std::int64_t{work.task.words} * kWordCols;
  return bitmap_of(mine) + sum_bytes(work.counted(), 0) / 4 + (col - begin) * work.columns / range;
}

void GroupMemory::mark(bool marks_words, const Group& mine, const Lanes& lanes, std::int64_t item,
                       WarpTrace& trace) const {
  trace.issue(Count::kMarkTest);
  if (lanes.size == 0) return;
  Banks slots, directory;
  for_lanes(lanes, [&](std::int64_t at) {
    const std::int32_t word = product_->words[at];
    slots.add(marks_words ? directory_slot(mine, word) : slot_of(mine, word));
    if (!marks_words && launch_.has_directory()) directory.add(directory_slot(mine, word));
  });
  if (!marks_words && launch_.has_directory()) {
    trace.issue(Count::kMarkInWord - Count::kMark);
    trace.shared(directory.wavefronts());
    if (launch_.is_sum) trace.shared(1);  // the word of the slot
  }
  trace.issue((marks_words ? Count::kMarkWord : Count::kMark) - Count::kMarkTest);
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

void GroupMemory::find_ranks(const Group& mine, const Lanes& lanes, WarpTrace& trace) const {
  if (lanes.size == 0) return;
  Banks slots, directory;
  for_lanes(lanes, [&](std::int64_t at) {
    const std::int32_t word = col_at(at) / kWordCols;
    slots.add(slot_of(mine, word));
    if (launch_.has_directory()) directory.add(directory_slot(mine, word));
  });
  trace.issue(launch_.has_directory() ? Count::kRankInWord : Count::kRank);
  if (launch_.has_directory()) trace.shared(directory.wavefronts());
  trace.shared(slots.wavefronts());
}

void GroupMemory::compare(const Group& mine, const Lanes& lanes, const Turns& turns,
                          WarpTrace& trace) const {
  trace.issue(Count::kTurns);
  if (!turns.compares) return;
  Banks sums;
  for_lanes(lanes, [&](std::int64_t at) { sums.add(sum_of(mine, col_at(at))); });
  const int wavefronts = sums.wavefronts();
  trace.issue(Count::kCompare);
  trace.shared(std::max(wavefronts, turns.count));  // lanes of one sum take turns
  trace.shared(wavefronts);
  if (turns.matches) trace.issue(Count::kMatch);
}

void GroupMemory::add(const Group& mine, const Lanes& lanes, const Turns& turns, int turn,
                      WarpTrace& trace) const {
  if (lanes.size == 0) return;
  Banks sums;
  std::size_t lane = 0;
  for_lanes(lanes, [&](std::int64_t at) {
    if (turns.of_lane[lane++] == turn) sums.add(sum_of(mine, col_at(at)));
  });
  const int wavefronts = sums.wavefronts();
  trace.shared(wavefronts);
  trace.issue(Count::kAdd);
  trace.shared(wavefronts);
}

void GroupMemory::open(const Group& mine, WarpTrace& trace) const {
  const int words = mine.work == nullptr ? 0 : directory_words(mine.work->task);
  for (std::int64_t round = 0; round < parts(words, shape_.lanes); ++round) rank_round(trace);
  clear(slots_of(mine), trace);
  sync(trace);
}

void GroupMemory::rank_round(WarpTrace& trace) const {
  trace.issue(Count::kRankRound);
  trace.shared(1);
  before(trace);
  trace.shared(1);
}

}  // namespace tessera::row_spgemm::tracing
