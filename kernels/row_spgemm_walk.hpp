// Tasks of one class of row_spgemm as a launch takes them: which a warp has, the segments of B's
// rows that its lanes go through, and step by step what they do.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/row_spgemm_work.hpp"

namespace tessera::row_spgemm::tracing {

constexpr int kThreadsOfGroups = 128, kAhead = 4;  // as on the device
constexpr int kSegmentBytes = 16;

/// Tasks of one class, as one launch takes them.
struct Batch {
  int number = 0;  // of the class
  TaskClass limits;
  int table = -1;       // of the hash tables, by size
  bool is_sum = false;  // the second phase
  std::int64_t first_sorted = 0;
  std::vector<std::int64_t> tasks;

  bool is_block() const { return limits.lanes > 32; }
  int threads() const { return is_block() ? limits.lanes : kThreadsOfGroups; }
  int groups() const { return is_block() ? 1 : kThreadsOfGroups / limits.lanes; }  // a thread block
  int groups_of_warp() const { return is_block() ? 1 : 32 / limits.lanes; }
  int warps_of_group() const { return is_block() ? limits.lanes / 32 : 1; }
  int lanes_of_warp() const { return std::min(limits.lanes, 32); }
  std::int64_t group_bytes() const {
    return limits.lanes * kSegmentBytes + (limits.bytes + 15) / 16 * 16;
  }
  std::int64_t thread_blocks() const { return parts(std::ssize(tasks), groups()); }
  /// As compiled for sm_90a.
  int registers() const { return is_sum ? 64 : table >= 0 && limits.lanes > 8 ? 44 : 48; }
  int slot_words() const { return is_sum ? 2 : 1; }
  int slots() const { return kLeastTable << table; }
};

/// A part of a row of B, in nonzeros or words.
struct Segment {
  std::int64_t begin = 0, length = 0;
};

/// What a warp's lanes of one group do in a step.
struct Step {
  std::int64_t at = 0;
  int lanes = 0;              // with something to do
  bool ends_segment = false;  // another one is fetched
  std::int64_t staged = 0;    // the number of the segment fetched
};

class BatchWalk {
 public:
  BatchWalk(std::shared_ptr<const Product> product, Batch batch)
      : product_(std::move(product)), batch_(std::move(batch)) {}

  /// A group of this warp, or the warp's part of one that is a thread block.
  struct Group {
    const TaskWork* work = nullptr;
    std::int64_t id = 0;               // of the task
    std::int64_t first = 0, last = 0;  // nonzeros of A
    std::int64_t memory = 0;           // of its shared memory, in words
    int warp = 0;                      // within the group
  };
  struct Warp {
    std::int64_t first_number = 0;  // of its tasks in the batch
    bool is_first = false;          // of the thread block
    std::array<Group, 8> groups;
    int count = 0;

    auto begin() const { return groups.begin(); }
    auto end() const { return groups.begin() + count; }
  };

  /// Those that have tasks.
  Warp groups_of(std::int64_t thread_block, int warp) const {
    Warp mine;
    mine.is_first = warp == 0;
    mine.first_number = thread_block * batch_.groups() +
                        (batch_.is_block() ? 0 : std::int64_t{warp} * batch_.groups_of_warp());
    for (int i = 0; i < batch_.groups_of_warp(); ++i) {
      if (mine.first_number + i >= std::ssize(batch_.tasks)) break;
      Group& group = mine.groups[static_cast<std::size_t>(mine.count++)];
      group.id = batch_.tasks[mine.first_number + i];
      group.work = &product_->tasks[group.id];
      const Task& task = group.work->task;
      if (task.words > 0) {
        group.first = product_->a.row_offsets[task.row];
        group.last = product_->a.row_offsets[task.row + 1];
      }
      const int number = batch_.is_block() ? 0 : warp * batch_.groups_of_warp() + i;
      group.memory = number * batch_.group_bytes() / 4;
      group.warp = batch_.is_block() ? warp : 0;
    }
    return mine;
  }

  std::int64_t chunks_of(const Group& group) const {
    return parts(group.last - group.first, batch_.limits.lanes);
  }

  /// The most of all groups, of what of(group) says.
  template <class Of>
  static std::int64_t most(const Warp& mine, Of of) {
    std::int64_t most = 0;
    for (const Group& group : mine) most = std::max<std::int64_t>(most, of(group));
    return most;
  }

  /// Slots of the bitmap that a lane goes over.
  std::int64_t slots_of_lane(const Warp& mine) const {
    if (batch_.table >= 0) return batch_.slots() / batch_.limits.lanes;
    return parts(most(mine, [](const Group& group) { return group.work->task.words; }),
                 batch_.limits.lanes);
  }

  /// The place in [begin, end) of B's nonzeros or words from where they are not below `word`;
  /// visit(place) for each that is looked at.
  template <bool kAdds, class Visit>
  std::int64_t find_word(std::int64_t begin, std::int64_t end, std::int32_t word,
                         Visit visit) const {
    while (begin < end) {
      const std::int64_t middle = begin + (end - begin) / 2;
      visit(middle);
      const std::int32_t found =
          kAdds ? product_->b.col_indices[middle] / kWordCols : product_->words[middle];
      if (found < word)
        begin = middle + 1;
      else
        end = middle;
    }
    return begin;
  }

  template <bool kAdds, class Visit>
  Segment segment(const Task& task, std::int64_t k, Visit visit) const {
    const std::int32_t row = product_->a.col_indices[k];
    const std::int64_t begin = product_->b.row_offsets[row];
    const std::int64_t end =
        kAdds ? product_->b.row_offsets[row + 1] : begin + product_->num_words[row];
    if (!task.is_sliced) return {begin, end - begin};
    const std::int64_t first = find_word<kAdds>(begin, end, task.first_word, visit);
    return {first, find_word<kAdds>(first, end, task.first_word + task.words, visit) - first};
  }

  /// Calls visit(segment) for those of a chunk of A's nonzeros that are not empty.
  template <bool kAdds, class Visit>
  void for_segments(const Group& group, std::int64_t chunk, Visit visit) const {
    const std::int64_t first = group.first + chunk * batch_.limits.lanes;
    for (std::int64_t k = first; k < std::min(first + batch_.limits.lanes, group.last); ++k) {
      const Segment found = segment<kAdds>(group.work->task, k, [](std::int64_t) {});
      if (found.length > 0) visit(found);
    }
  }

  /// Places of a step; marks are made by each warp of a thread block for itself.
  template <bool kAdds>
  int width() const {
    return kAdds ? batch_.limits.lanes : batch_.lanes_of_warp();
  }

  /// Calls visit(segment, its number) for those that the warp goes through.
  template <bool kAdds, class Visit>
  void for_own_segments(const Group& group, std::int64_t chunk, Visit visit) const {
    const int stride = kAdds ? 1 : batch_.warps_of_group();
    std::int64_t number = 0;
    for_segments<kAdds>(group, chunk, [&](const Segment& segment) {
      if (kAdds || number % stride == group.warp) visit(segment, number);
      ++number;
    });
  }

  template <bool kAdds>
  std::int64_t steps_of(const Group& group, std::int64_t chunk) const {
    std::int64_t steps = 0;
    for_own_segments<kAdds>(group, chunk, [&](const Segment& segment, std::int64_t) {
      steps += parts(segment.length, width<kAdds>());
    });
    return steps;
  }

  /// Steps [first, last) of a chunk, as far as there are any.
  template <bool kAdds>
  std::vector<Step> steps(const Group& group, std::int64_t chunk, std::int64_t first,
                          std::int64_t last) const {
    std::vector<Step> found(static_cast<std::size_t>(last - first));
    const std::int64_t own = kAdds ? 32 * group.warp : 0;  // of a step's places, the warp's first
    std::int64_t step = 0;
    for_own_segments<kAdds>(group, chunk, [&](const Segment& segment, std::int64_t number) {
      const std::int64_t begin = step;
      step += parts(segment.length, width<kAdds>());
      for (std::int64_t i = std::max(first, begin); i < std::min(last, step); ++i) {
        const std::int64_t from = (i - begin) * width<kAdds>() + own;
        found[static_cast<std::size_t>(i - first)] = {
            .at = segment.begin + from,
            .lanes = static_cast<int>(
                std::clamp<std::int64_t>(segment.length - from, 0, batch_.lanes_of_warp())),
            .ends_segment = i + 1 == step,
            .staged = number};
      }
    });
    return found;
  }

 protected:
  std::shared_ptr<const Product> product_;
  Batch batch_;
};

}  // namespace tessera::row_spgemm::tracing
