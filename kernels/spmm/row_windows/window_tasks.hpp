// Row windows cut into tasks of about equal size, each for one warp: load balancing by splitting.
//
// Acc-SpMM (section 3.5) caps the TC blocks of a thread block at 32 where windows differ a lot.
// Here a window of more than so many TC blocks becomes several tasks of nearly equal length;
// shorter ones are one task each. The sums of a split window's tasks are added in the order of its
// TC blocks (by whichever task is the last to arrive), or by atomics in any order.
//
// DTC-SpMM's strict balance deals the TC blocks out in equal shares wherever windows begin and end:
// a warp then has the tasks that its share holds of several windows, one after another.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::window_tasks {

/// TC blocks [first, last) of a window, for a warp at a time. Host and device read it.
struct alignas(16) Task {
  std::uint32_t window;
  std::uint32_t first, last;
  std::uint32_t split;  // 0: the whole window; else 1 + index into Tasks::splits
};

/// A window of several tasks, which follow each other; their sums lie in slots that do, too.
struct Split {
  std::uint32_t first_task;
  std::uint32_t parts;
  std::uint32_t first_slot;
};

struct Tasks {
  std::vector<Task> tasks;            // windows in order, also those without TC blocks
  std::vector<Split> splits;          // empty: no window is split
  std::int64_t slots = 0;             // tasks of split windows
  std::vector<std::uint32_t> shares;  // [num_shares() + 1] first task of a warp; empty: one each

  std::int64_t num_shares() const {
    return shares.empty() ? std::ssize(tasks) : std::ssize(shares) - 1;
  }
  std::int64_t first_of(std::int64_t share) const { return shares.empty() ? share : shares[share]; }

  /// How many tasks the window has whose first one task `i` is; 0 where it is not the first.
  std::int64_t parts_from(std::int64_t i) const {
    if (tasks[i].split == 0) return 1;
    const Split& split = splits[tasks[i].split - 1];
    return split.first_task == i ? split.parts : 0;
  }

  /// Whether task `i` is the last of its window, which in order delivers the sums of all.
  bool is_last_part(std::int64_t i) const {
    if (tasks[i].split == 0) return true;
    const Split& split = splits[tasks[i].split - 1];
    return i + 1 == std::int64_t{split.first_task} + split.parts;
  }
};

/// First TC block of each row window, and their number. [row windows + 1]
using WindowOffsets = std::span<const std::uint32_t>;

/// The windows' IBD (formats/base/window_balance.hpp).
double imbalance(WindowOffsets windows);

/// No task has more than `max_blocks` TC blocks; 0: no window is split. A warp for each task.
Tasks cut(WindowOffsets windows, std::int64_t max_blocks);

/// Shares of `blocks` TC blocks; of less at the end, and where more than as many windows in a row
/// have none.
Tasks deal(WindowOffsets windows, std::int64_t blocks);

}  // namespace tessera::window_tasks
