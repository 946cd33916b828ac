// The walk of row_spgemm's groups over the products of their tasks, as kernels/spgemm/row/steps.cuh
// goes through them: the tasks of a launch, the segments of B's rows, and the products that a
// warp's lanes take at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/spgemm/row/joint.hpp"
#include "kernels/spgemm/row/work.hpp"

namespace tessera::row_spgemm::tracing {

/// The tasks of one class, for one launch or for their part of a joint one.
struct ClassLaunch {
  int number = 0;       // of the class
  bool is_sum = false;  // true in the second phase
  bool is_joint = false;
  std::int64_t first_sorted = 0;
  std::vector<std::int64_t> tasks;

  bool is_small() const { return number < kFirstBitmap; }
  bool has_directory() const { return number >= kFirstWords; }
  GroupLaunch shape() const {
    return is_small() ? GroupLaunch{kLeastLanes << number, 0} : launch_of(number);
  }
  /// Threads and groups of a thread block.
  int threads() const { return is_joint ? kJointThreads : shape().threads(); }
  int groups() const { return is_joint ? joint_groups(number) : shape().groups(); }
  std::int64_t thread_blocks() const { return parts(std::ssize(tasks), groups()); }
};

/// The products or words that a warp takes at a time: consecutive lanes have consecutive places of
/// a segment.
struct Lanes {
  struct Run {
    std::int64_t at = 0;
    int lanes = 0;
  };
  std::array<Run, kWarpLanes> runs;
  int size = 0;
  int lanes = 0;  // of all runs

  void add(std::int64_t at, int count) {
    runs[static_cast<std::size_t>(size++)] = {at, count};
    lanes += count;
  }
  auto begin() const { return runs.begin(); }
  auto end() const { return runs.begin() + size; }
};

/// The number of a warp's chunks of 32 products, and the products of one.
inline std::int64_t count_chunks(const std::vector<Segment>& segments) {
  std::int64_t products = 0;
  for (const Segment& segment : segments) products += segment.length;
  return parts(products, kWarpLanes);
}
inline Lanes chunk_of(const std::vector<Segment>& segments, std::int64_t chunk) {
  Lanes found;
  std::int64_t skipped = kWarpLanes * chunk;
  for (const Segment& segment : segments) {
    const std::int64_t from = std::min<std::int64_t>(skipped, segment.length);
    const std::int64_t count =
        std::min(kWarpLanes - found.lanes, segment.length - static_cast<int>(from));
    if (count > 0) found.add(segment.begin + from, static_cast<int>(count));
    skipped -= from;
  }
  return found;
}

/// The places that a warp takes in a step; `steps` is the walk of its first lane.
inline Lanes lanes_of(const SegmentSteps& steps) {
  Lanes lanes;
  if (steps.lanes() > 0) lanes.add(steps.place(), steps.lanes());
  return lanes;
}

class TaskWalk {
 public:
  TaskWalk(std::shared_ptr<const ProductAnalysis> product, ClassLaunch launch)
      : product_(std::move(product)), launch_(std::move(launch)), shape_(launch_.shape()) {}

  /// The group of a warp. Past the last task it has none.
  struct Group {
    const TaskWork* work = nullptr;
    std::int64_t number = 0, id = 0;   // of the task in the launch, and in the product
    std::int64_t first = 0, last = 0;  // nonzeros of A
    std::int64_t memory = 0;           // where its shared memory begins, in words
    int warp = 0;                      // within the group
    int warp_of_block = 0;

    int words() const { return work == nullptr ? 0 : work->task.words; }
    int columns() const { return work == nullptr ? 0 : work->columns; }
  };

  Group group_of(std::int64_t thread_block, int warp) const {
    const int of_block = shape_.group_of(kWarpLanes * warp);
    Group group{.number = thread_block * launch_.groups() + of_block,
                .memory = of_block * shape_.group_bytes() / 4,
                .warp = warp % shape_.warps(),
                .warp_of_block = warp};
    if (of_block >= launch_.groups() || group.number >= std::ssize(launch_.tasks)) return group;
    group.id = launch_.tasks[static_cast<std::size_t>(group.number)];
    group.work = &product_->tasks[static_cast<std::size_t>(group.id)];
    group.first = group.work->task.begin;
    group.last = group.first + group.work->task.nonzeros;
    return group;
  }

  /// The number of sets of A's nonzeros, one per lane, that the group takes.
  std::int64_t sets_of(const Group& group) const {
    return parts(group.last - group.first, shape_.lanes);
  }

  /// The number of slots of the bitmap.
  int slots_of(const Group& group) const {
    if (group.work == nullptr) return 0;
    return launch_.has_directory() ? group.work->filled_words : group.work->task.words;
  }

  /// The segment of nonzero k of A. Calls visit(place in B, turn) for what the searches for the
  /// ends of a slice look at; both have a turn at a time.
  template <SegmentKind kKind, class Visit>
  Segment segment(const Task& task, std::int64_t k, Visit visit) const {
    const std::int32_t row = product_->a.col_indices[static_cast<std::size_t>(k)];
    const std::int64_t begin = product_->b.row_offsets[row];
    const std::int64_t length = kKind == SegmentKind::kWords
                                    ? product_->num_words[row]
                                    : product_->b.row_offsets[row + 1] - begin;
    Segment segment{static_cast<std::int32_t>(begin), static_cast<std::int32_t>(length)};
    if (!task.is_sliced) return segment;
    struct VisitedWords {
      const ProductAnalysis& product;
      Visit& visit;
      std::size_t turn = 0;

      std::int32_t operator()(std::int32_t at) {
        visit(std::int64_t{at}, turn);
        return kKind == SegmentKind::kWords ? product.words[at]
                                            : word_of(product.b.col_indices[at]);
      }
      void end_turn() { ++turn; }
    };
    cut_segment(segment, task, VisitedWords{*product_, visit});
    return segment;
  }

  /// The segments of a set that are not empty.
  template <SegmentKind kKind>
  std::vector<Segment> segments(const Group& group, std::int64_t set) const {
    std::vector<Segment> found;
    const std::int64_t first = group.first + set * shape_.lanes;
    for (std::int64_t k = first; k < std::min(first + shape_.lanes, group.last); ++k) {
      const Segment one = segment<kKind>(group.work->task, k, [](std::int64_t, std::size_t) {});
      if (one.length > 0) found.push_back(one);
    }
    return found;
  }

  /// Whether a thread block's sums of a task write columns of C, and whether they lie at the places
  /// of their columns.
  bool writes_cols(const Group& group) const {
    return group.work != nullptr && shape_.is_block() && !launch_.has_directory() &&
           writes_cols_with_sums(group.work->task, group.columns());
  }
  bool lies_at_columns(const Group& group) const {
    return group.work != nullptr && shape_.is_block() && !launch_.has_directory() &&
           !writes_cols(group) && sums_lie_at_columns(group.work->task, group.columns());
  }
  /// Whether all lanes of a thread block go through each of the segments without a wait.
  bool are_long(const Group& group, const std::vector<Segment>& segments) const {
    int products = 0;
    for (const Segment& segment : segments) products += most_of_long(segment.length);
    return writes_cols(group) ||
           are_long_segments(products, static_cast<int>(segments.size()), shape_.lanes);
  }
  /// The walk of the first lane of a warp through long segments.
  SegmentSteps long_steps(const Group& group, const std::vector<Segment>& staged) const {
    return {staged.data(), static_cast<int>(staged.size()),
            sum_steps(kPrefetch * shape_.lanes, kWarpLanes * group.warp)};
  }

  /// The walk of the first lane of a thread block's warp through staged segments.
  template <SegmentKind kKind>
  SegmentSteps steps(const Group& group, const std::vector<Segment>& staged) const {
    return {staged.data(), static_cast<int>(staged.size()),
            kKind == SegmentKind::kWords
                ? mark_steps(shape_.warps(), group.warp, 0, static_cast<int>(staged.size()))
                : sum_steps(shape_.lanes, kWarpLanes * group.warp)};
  }

  /// The turn in which each lane of a warp adds its product to its sum.
  struct Turns {
    std::array<std::int8_t, kWarpLanes> of_lane{};
    int count = 0;
    bool compares = false, matches = false;  // lanes compare their columns; some are equal
  };
  Turns turns(const Lanes& lanes) const {
    Turns turns{.count = lanes.size, .compares = lanes.size > kFewSegments};
    int lane = 0, run = 0;
    std::array<std::pair<std::int32_t, int>, kWarpLanes> cols;
    for (const Lanes::Run& of : lanes) {
      for (int i = 0; i < of.lanes; ++i, ++lane) {
        turns.of_lane[static_cast<std::size_t>(lane)] = static_cast<std::int8_t>(run);
        cols[static_cast<std::size_t>(lane)] = {
            product_->b.col_indices[static_cast<std::size_t>(of.at + i)], lane};
      }
      ++run;
    }
    if (!turns.compares) return turns;
    std::sort(cols.begin(), cols.begin() + lane);
    int most = 0;
    for (int i = 0, same = 0; i < lane; ++i) {
      const auto& [col, of] = cols[static_cast<std::size_t>(i)];
      same = i > 0 && cols[static_cast<std::size_t>(i - 1)].first == col ? same + 1 : 0;
      turns.of_lane[static_cast<std::size_t>(of)] = static_cast<std::int8_t>(same);
      most = std::max(most, same);
    }
    turns.matches = most > 0;
    turns.count = most + 1;
    return turns;
  }

 protected:
  std::shared_ptr<const ProductAnalysis> product_;
  ClassLaunch launch_;
  GroupLaunch shape_;
};

}  // namespace tessera::row_spgemm::tracing
