// Launches of row_spgemm over the tasks of all classes, for small products: which thread blocks
// they have. Device code and warp traces read it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/spgemm/row/schedule.hpp"

namespace tessera::row_spgemm {

// The classes of the largest thread blocks have launches of their own.
constexpr int kJointSizes = kSizes - 1;
constexpr int kJointThreads = launch_of(kFirstBitmap + kJointSizes - 1).threads();
/// Shared memory of a thread block: kJointBlocksOfSm of them share a multiprocessor's.
constexpr int kMostJointBytes = launch_of(kFirstBitmap + kJointSizes - 1).shared_bytes();

/// The groups of a thread block of a class: as many as its threads and its shared memory suffice
/// for.
constexpr int joint_groups(int of) {
  if (of < kSmallSizes) return kJointThreads / (kLeastLanes << of);
  if (is_block_class(of)) return 1;
  return std::min(kJointThreads / kWarpLanes, kMostJointBytes / launch_of(of).group_bytes());
}
/// The shared memory of a thread block of a class. Small tasks keep a column per lane.
constexpr int joint_bytes(int of) {
  if (of < kSmallSizes) return kJointThreads * static_cast<int>(sizeof(std::int32_t));
  return joint_groups(of) * launch_of(of).group_bytes();
}
/// The thread blocks of a joint launch that a multiprocessor has at a time: its kernels have the
/// registers of their largest class. A joint launch is slower than launches of classes where these
/// fill the device for longer than the host needs to launch them. To count columns, most classes
/// need two thirds of the registers, and that comes sooner; to sum, they need as many.
constexpr int kJointBlocksOfSm = 4;
constexpr int kJointCountRounds = 5, kJointSumRounds = 16;
constexpr bool is_joint_class(int of) {
  return of < kSmallSizes || (of - kFirstBitmap) % kSizes < kJointSizes;
}
/// Calls visit(class) for the classes of a joint launch, the longest tasks first.
template <class Visit>
constexpr void for_joint_classes(Visit visit) {
  for (int size = kJointSizes - 1; size >= 0; --size) {
    visit(kFirstWords + size);
    visit(kFirstBitmap + size);
  }
  for (int of = kSmallSizes - 1; of >= 0; --of) visit(of);
}
static_assert(!is_block_class(kFirstBitmap) && is_block_class(kFirstBitmap + kWarpSizes));
static_assert(launch_of(kFirstBitmap + kWarpSizes).threads() == kJointThreads);

/// The thread blocks of one class in a launch over the tasks of all classes.
struct JointClass {
  std::int16_t of;
  std::int16_t groups;  // per thread block; further threads have no task
  std::int32_t bytes;   // of a group, for marks and sums
  std::int32_t blocks;
  std::int32_t first, count;  // of the sorted tasks
};

/// A launch over the tasks of all classes but the one that needs more threads, the longest tasks
/// first. It takes the place of many launches where the host needs more time to launch than the
/// device to work.
struct JointLaunch {
  JointClass classes[kClasses];
  int size = 0;  // classes that have tasks
  int tasks = 0;
  int blocks = 0;
  int shared_bytes = 0;  // of a thread block, at least a column per thread for small tasks

  /// `counts` [kClasses] has the number of tasks of each class.
  template <class Counts>
  explicit JointLaunch(const Counts& counts) {
    std::int32_t firsts[kClasses] = {};
    for (int i = 1; i < kClasses; ++i)
      firsts[i] = firsts[i - 1] + static_cast<std::int32_t>(counts[i - 1]);
    for_joint_classes([&](int of) {
      if (counts[of] == 0) return;
      const int groups = joint_groups(of);
      const auto count = static_cast<std::int32_t>(counts[of]);
      const auto of_class = static_cast<std::int32_t>(parts(count, groups));
      classes[size++] = {.of = static_cast<std::int16_t>(of),
                         .groups = static_cast<std::int16_t>(groups),
                         .bytes = of < kSmallSizes ? 0 : launch_of(of).bytes,
                         .blocks = of_class,
                         .first = firsts[of],
                         .count = count};
      tasks += count;
      blocks += of_class;
      shared_bytes = std::max(shared_bytes, joint_bytes(of));
    });
  }

  /// True where there are tasks, and few of them.
  bool is_better(int most_blocks) const { return blocks > 0 && blocks <= most_blocks; }
};

}  // namespace tessera::row_spgemm
