// The accesses of row_spgemm's groups to their shared memory: marks, ranks and sums, lane by lane
// where banks can conflict.
#pragma once

#include <cstdint>

#include "kernels/spgemm/row/walk.hpp"
#include "kernels/warp_trace.hpp"

namespace tessera::row_spgemm::tracing {

/// Traces the shared memory of a group. What depends on the marks that a task has so far follows
/// from averages: a word or column is new at the rate of the whole task, the columns of C lie
/// evenly over its words, and the words evenly over their range.
class GroupMemory : protected TaskWalk {
 protected:
  using TaskWalk::TaskWalk;

  void sync(WarpTrace& trace) const;

  /// The shuffles of a prefix sum over the lanes, which wait for each other.
  static void shuffle_up(WarpTrace& trace);
  /// A prefix sum over the group.
  void before(WarpTrace& trace) const;

  /// Clears words by all lanes: four at a time, then one by one.
  void clear(std::int64_t words, WarpTrace& trace) const;

  /// Lanes mark the columns of their words in the slots, or in a directory (marks_words) the words.
  /// Those that find a new mark of one slot go one after another. `item` counts these calls.
  void mark(bool marks_words, const Group& mine, const Lanes& lanes, std::int64_t item,
            WarpTrace& trace) const;

  /// Ranks the words of the directory and clears their slots.
  void open(const Group& mine, WarpTrace& trace) const;
  /// Ranks one slot per lane.
  void rank_round(WarpTrace& trace) const;

  void find_ranks(const Group& mine, const Lanes& lanes, WarpTrace& trace) const;

  /// Compares the columns of lanes that have products of many segments.
  void compare(const Group& mine, const Lanes& lanes, const Turns& turns, WarpTrace& trace) const;

  /// Loads, adds to and stores the sums of one turn.
  void add(const Group& mine, const Lanes& lanes, const Turns& turns, int turn,
           WarpTrace& trace) const;

 private:
  std::int32_t col_at(std::int64_t at) const { return product_->b.col_indices[at]; }

  // Places in shared memory, in words.
  std::int64_t bitmap_of(const Group& mine) const {
    return mine.memory + shape_.segment_bytes() / 4;
  }
  std::int64_t directory_slot(const Group& mine, std::int32_t word) const;
  std::int64_t slot_of(const Group& mine, std::int32_t word) const;
  std::int64_t sum_of(const Group& mine, std::int32_t col) const;
};

}  // namespace tessera::row_spgemm::tracing
