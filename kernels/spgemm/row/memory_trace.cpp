// A group's accesses to shared memory, lane by lane where banks can conflict. Instruction counts as
// in kernels/spgemm/row/groups_trace.cpp.

#include "kernels/spgemm/row/memory_trace.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/device/shared_banks.hpp"

namespace tessera::row_spgemm::tracing {

namespace {

constexpr int kClearInstructions = 14;
constexpr int kBeforeInstructions = 22, kOthersInstructions = 2, kRoundInstructions = 6;
constexpr int kMarkWordInstructions = 13, kMarkInstructions = 12, kMarkInWordInstructions = 17;
constexpr int kRankInstructions = 7, kRankInWordInstructions = 14;
constexpr int kTurnsInstructions = 9, kAskInstructions = 25, kMatchInstructions = 12;

/// Calls visit(place in B) for each lane.
template <class Visit>
void for_lanes(const Lanes& lanes, Visit visit) {
  for (const Lanes::Run& run : lanes)
    for (int i = 0; i < run.lanes; ++i) visit(run.at + i);
}

}  // namespace

void GroupMemory::sync(WarpTrace& trace) const {
  if (batch_.is_block())
    trace.barrier();
  else
    trace.issue(1);
}

void GroupMemory::shuffle_up(WarpTrace& trace) {
  for (int step = 1; step <= 32; step *= 2) trace.shared(1);
}

void GroupMemory::before(WarpTrace& trace) const {
  trace.issue(kBeforeInstructions);
  shuffle_up(trace);
  if (!batch_.is_block()) return;
  trace.shared(1);
  trace.barrier();
  trace.issue(kOthersInstructions * batch_.warps_of_group());
  trace.shared(batch_.warps_of_group());
  trace.barrier();
}

void GroupMemory::clear(std::int64_t words, WarpTrace& trace) const {
  trace.issue(kClearInstructions);
  const std::int64_t rounds = parts(words, batch_.lanes());
  for (std::int64_t i = 0; i < rounds % 4; ++i) {
    trace.issue(5);
    trace.shared(1);
  }
  for (std::int64_t i = 0; i < rounds / 4; ++i) {
    trace.issue(6);
    trace.shared(4);
  }
}

std::int64_t GroupMemory::directory_slot(const Group& mine, std::int32_t word) const {
  return bitmap_of(mine) + 2 * ((word - mine.work->task.first_word) / 32);
}

std::int64_t GroupMemory::slot_of(const Group& mine, std::int32_t word) const {
  const Task& task = mine.work->task;
  std::int64_t slot = word - task.first_word, begin = bitmap_of(mine);
  if (batch_.has_directory()) {
    slot = slot * mine.work->filled_words / task.words;
    begin += 2 * directory_words(task);
  }
  return begin + batch_.slot_words() * slot;
}

std::int64_t GroupMemory::sum_of(const Group& mine, std::int32_t col) const {
  const TaskWork& work = *mine.work;
  const std::int64_t begin = std::int64_t{work.task.first_word} * kWordCols;
  const std::int64_t range = std::int64_t{work.task.words} * kWordCols;
  const std::int64_t bitmap = batch_.has_directory()
                                  ? 2 * directory_words(work.task) + 3 * work.filled_words
                                  : 2 * work.task.words;
  return bitmap_of(mine) + bitmap + (col - begin) * work.columns / range;
}

void GroupMemory::mark(bool of_words, const Group& mine, const Lanes& lanes, std::int64_t item,
                       WarpTrace& trace) const {
  trace.issue(2);
  if (lanes.size == 0) return;
  Banks slots, directory;
  for_lanes(lanes, [&](std::int64_t at) {
    const std::int32_t word = product_->words[static_cast<std::size_t>(at)];
    slots.add(of_words ? directory_slot(mine, word) : slot_of(mine, word));
    if (!of_words && batch_.has_directory()) directory.add(directory_slot(mine, word));
  });
  if (!of_words && batch_.has_directory()) {
    trace.issue(kMarkInWordInstructions - kMarkInstructions);
    trace.shared(directory.wavefronts());
    if (batch_.is_sum) trace.shared(1);  // the word of the slot
  }
  trace.issue((of_words ? kMarkWordInstructions : kMarkInstructions) - 2);
  trace.shared(slots.wavefronts());
  const TaskWork& work = *mine.work;
  const double new_rate =
      of_words ? static_cast<double>(work.filled_words) / static_cast<double>(work.words_read)
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
    const std::int32_t word = product_->b.col_indices[static_cast<std::size_t>(at)] / kWordCols;
    slots.add(slot_of(mine, word));
    if (batch_.has_directory()) directory.add(directory_slot(mine, word));
  });
  trace.issue(batch_.has_directory() ? kRankInWordInstructions : kRankInstructions);
  if (batch_.has_directory()) trace.shared(directory.wavefronts());
  trace.shared(slots.wavefronts());
}

void GroupMemory::ask(const Group& mine, const Lanes& lanes, const Turns& turns,
                      WarpTrace& trace) const {
  trace.issue(kTurnsInstructions);
  if (!turns.asks) return;
  Banks sums;
  for_lanes(lanes, [&](std::int64_t at) {
    sums.add(sum_of(mine, product_->b.col_indices[static_cast<std::size_t>(at)]));
  });
  const int wavefronts = sums.wavefronts();
  trace.issue(kAskInstructions);
  trace.shared(std::max(wavefronts, turns.count));  // lanes of one sum exchange it in turns
  trace.shared(wavefronts);
  if (turns.matches) trace.issue(kMatchInstructions);
}

void GroupMemory::add(const Group& mine, const Lanes& lanes, const Turns& turns, int turn,
                      WarpTrace& trace) const {
  if (lanes.size == 0) return;
  Banks sums;
  std::size_t lane = 0;
  for_lanes(lanes, [&](std::int64_t at) {
    if (turns.of_lane[lane++] == turn)
      sums.add(sum_of(mine, product_->b.col_indices[static_cast<std::size_t>(at)]));
  });
  const int wavefronts = sums.wavefronts();
  trace.shared(wavefronts);
  trace.issue(1);
  trace.shared(wavefronts);
}

void GroupMemory::open(const Group& mine, WarpTrace& trace) const {
  const int words = mine.work == nullptr ? 0 : directory_words(mine.work->task);
  for (std::int64_t round = 0; round < parts(words, batch_.lanes()); ++round) rank_round(trace);
  clear(slots_of(mine), trace);
  sync(trace);
}

void GroupMemory::rank_round(WarpTrace& trace) const {
  trace.issue(kRoundInstructions);
  trace.shared(1);
  before(trace);
  trace.shared(1);
}

}  // namespace tessera::row_spgemm::tracing
