// Row windows cut into tasks of about equal size, each for one warp: load balancing by splitting.
//
// Acc-SpMM (section 3.5) caps the TC blocks of a thread block at 32 where windows differ a lot.
// Here a window of more than so many TC blocks becomes several tasks of nearly equal length;
// shorter ones are one task each. The sums of a split window's tasks are added in the order of its
// TC blocks (by whichever task is the last to arrive), or by atomics in any order.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/bit_tcf.hpp"

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
  std::vector<Task> tasks;    // windows in order, also those without TC blocks
  std::vector<Split> splits;  // empty: no window is split
  std::int64_t slots = 0;     // tasks of split windows
};

/// The windows' IBD (formats/base/window_balance.hpp).
double imbalance(const BitTcf& a);

/// No task has more than `max_blocks` TC blocks; 0: no window is split.
Tasks cut(const BitTcf& a, std::int64_t max_blocks);

}  // namespace tessera::window_tasks
