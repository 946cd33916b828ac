// What a group of row_spgemm's threads does in its shared memory: marks, ranks and sums, for the
// simulator.
#pragma once

#include <cstdint>

#include "kernels/spgemm/row/walk.hpp"
#include "kernels/warp_trace.hpp"

namespace tessera::row_spgemm::tracing {

/// What depends on the marks that a task has so far is told by averages: a word or column is new as
/// often as the task has some for those it reads, the columns of C lie evenly over its words, and
/// these over their range.
class GroupMemory : protected BatchWalk {
 protected:
  using BatchWalk::BatchWalk;

  void sync(WarpTrace& trace) const;

  /// A prefix sum over the lanes: shuffles wait for each other.
  static void shuffle_up(WarpTrace& trace);
  /// The same over the group.
  void before(WarpTrace& trace) const;

  /// Zeros to so many words, by all lanes: four at a time, then one by one.
  void clear(std::int64_t words, WarpTrace& trace) const;

  /// Lanes that find a new column mark it, those of one slot one after another; or a new word, in
  /// the directory. The item is the number of these lanes among the warp's.
  void mark(bool of_words, const Group& mine, const Lanes& lanes, std::int64_t item,
            WarpTrace& trace) const;

  /// Words get ranks in the directory, and their slots are cleared.
  void open(const Group& mine, WarpTrace& trace) const;
  /// As many slots as there are lanes get ranks.
  void rank_round(WarpTrace& trace) const;

  void find_ranks(const Group& mine, const Lanes& lanes, WarpTrace& trace) const;

  /// Whether lanes have to wait for each other, where that is not known.
  void ask(const Group& mine, const Lanes& lanes, const Turns& turns, WarpTrace& trace) const;

  /// Sums are loaded and stored.
  void add(const Group& mine, const Lanes& lanes, const Turns& turns, int turn,
           WarpTrace& trace) const;

 private:
  // Where things are, in words of shared memory.
  std::int64_t bitmap_of(const Group& mine) const { return mine.memory + 4 * batch_.lanes(); }
  std::int64_t directory_slot(const Group& mine, std::int32_t word) const;
  std::int64_t slot_of(const Group& mine, std::int32_t word) const;
  std::int64_t sum_of(const Group& mine, std::int32_t col) const;
};

}  // namespace tessera::row_spgemm::tracing
