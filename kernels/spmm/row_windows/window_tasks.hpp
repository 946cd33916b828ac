// Row windows cut into tasks of about equal size, each for one warp: load balancing by window
// splitting.
//
// Acc-SpMM (section 3.5) caps the TC blocks of a thread block at 32 where windows differ a lot.
// Here a window of more TC blocks than the cap becomes several tasks of nearly equal length; every
// shorter window is one task. The sums of a split window's tasks are added in the order of its TC
// blocks (by the last task to arrive), or by atomics in any order.
//
// DTC-SpMM's strict balance cuts the TC blocks into equal shares wherever windows begin and end: a
// warp then computes the tasks of its share, of several windows, one after another. Acc-SpMM's
// shares take equal times instead, in which a window that is written counts, too.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/host_device.hpp"

namespace tessera::window_tasks {

/// TC blocks [first, last) of a window, computed by one warp. Host and device read it.
struct alignas(16) Task {
  static constexpr std::uint32_t kJoined = std::uint32_t{1} << 31;

  std::uint32_t window;
  std::uint32_t first, last;
  // 0: the whole window; 1 + index into Tasks::splits: a part of it; kJoined + a number, after
  // merge_shares(): so many whole windows, of which `window` is the first.
  std::uint32_t split;

  TESSERA_HOST_DEVICE constexpr bool is_joined() const { return split >= kJoined; }
  TESSERA_HOST_DEVICE constexpr bool is_part() const { return split != 0 && !is_joined(); }
  TESSERA_HOST_DEVICE constexpr std::uint32_t windows() const {
    return is_joined() ? split - kJoined : 1;
  }
};

/// A split window: its tasks are consecutive, and so are the slots that hold their sums. With teams
/// (cut_for_teams) a slot holds the sums of a team, and a window of one team has none.
struct Split {
  std::uint32_t first_task;
  std::uint32_t parts;
  std::uint32_t first_slot;
};

struct Tasks {
  std::vector<Task> tasks;            // of all windows, including those without TC blocks
  std::vector<Split> splits;          // empty: no window is split
  std::int64_t slots = 0;             // slots of all split windows
  std::int64_t team = 1;              // tasks of a split window that are added before they take a
                                      // slot, at most
  std::vector<std::uint32_t> shares;  // [num_shares() + 1] first task of a warp; empty: one each

  std::int64_t num_shares() const {
    return shares.empty() ? std::ssize(tasks) : std::ssize(shares) - 1;
  }
  std::int64_t first_of(std::int64_t share) const { return shares.empty() ? share : shares[share]; }

  /// The number of tasks of the window whose first task is `i`; 0 where `i` is not the first.
  std::int64_t parts_from(std::int64_t i) const {
    if (!tasks[i].is_part()) return 1;
    const Split& split = splits[tasks[i].split - 1];
    return split.first_task == i ? split.parts : 0;
  }

  /// The place of task `i` of a split window among the window's tasks, in teams.
  struct TeamPlace {
    std::int64_t size;         // tasks of the team
    bool is_last;              // of its team
    std::int64_t team, teams;  // number of the team, and how many the window has
  };
  TeamPlace place_in_team(std::int64_t i) const {
    const Split& split = splits[tasks[i].split - 1];
    const std::int64_t size = std::min<std::int64_t>(team, split.parts);
    const std::int64_t part = i - split.first_task;
    return {size, (part + 1) % size == 0, part / size, split.parts / size};
  }

  /// True when task `i` is the last of its window. In ordered combining, it stores the window's
  /// sums.
  bool is_last_part(std::int64_t i) const {
    if (!tasks[i].is_part()) return true;
    const Split& split = splits[tasks[i].split - 1];
    return i + 1 == std::int64_t{split.first_task} + split.parts;
  }
};

/// The first TC block of each row window, then the number of TC blocks. [row windows + 1]
using WindowOffsets = std::span<const std::uint32_t>;

/// The windows' IBD (Acc-SpMM, equation 3; formats/base/window_balance.hpp).
double imbalance(WindowOffsets windows);

/// Cuts windows into tasks of at most `max_blocks` TC blocks, one warp each; `max_blocks` = 0
/// splits no window. Throws Unsupported for 2^31 tasks or more.
Tasks cut(WindowOffsets windows, std::int64_t max_blocks);

/// Cuts windows into 1, 2, 4 or a multiple of four tasks of at most `max_blocks` TC blocks, one
/// warp each, those with the most tasks first: in thread blocks of four warps, teams of two or four
/// tasks are then in one thread block, which adds their sums. `max_blocks` = 0 splits no window.
/// Whole windows keep their order, in which neighbours find each other's rows of B in the L2,
/// unless one takes more than half of `blocks_of_warp`, the TC blocks that a resident warp has in
/// all: then the longer ones come first, in four steps, so that none is begun last. Throws
/// Unsupported for 2^31 tasks or more.
Tasks cut_for_teams(WindowOffsets windows, std::int64_t max_blocks, double blocks_of_warp);

/// Joins whole windows that follow each other, as tasks and as windows, in shares of at most
/// `blocks` TC blocks, where a window counts as one more: the warp goes from one to the next
/// without waiting for its first loads anew. The tasks have no shares before; they have none after
/// where nothing is joined.
Tasks join_windows(Tasks tasks, std::int64_t blocks);

/// The same with one task a share, which kernels read that compute joined windows in one loop.
Tasks merge_shares(Tasks tasks);

/// Cuts the TC blocks into shares of `blocks` TC blocks each (DTC-SpMM, section 4.5). The last
/// share is shorter; so is one that ends because more than `blocks` consecutive windows are empty.
/// Throws Unsupported for 2^31 tasks or more.
Tasks cut_into_equal_shares(WindowOffsets windows, std::int64_t blocks);

/// Cuts the TC blocks into shares of nearly equal time (Acc-SpMM, section 3.5, equation 4): the
/// share's number of TC blocks, plus `window_weight` (0 to 1) for each window that it writes, in
/// whole or in part. The time of every share but the last is that of a window of `max_blocks` TC
/// blocks, less at most one TC block and one window, and no share has more than `max_blocks`. Short
/// windows are thus joined, and windows are split where a share is full. The paper does not say
/// which time it aims at; this is the one at which its limit of 32 TC blocks binds. Throws
/// Unsupported for 2^31 tasks or more.
Tasks cut_into_timed_shares(WindowOffsets windows, std::int64_t max_blocks, double window_weight);

}  // namespace tessera::window_tasks
