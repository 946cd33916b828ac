// Tasks of one class of row_spgemm as a launch takes them: which a group of threads has, the
// segments of B's rows that it goes through, and which products its warps' lanes take at a time. As
// kernels/spgemm/row/steps.cuh has it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/spgemm/row/work.hpp"

namespace tessera::row_spgemm::tracing {

constexpr int kThreadsOfGroups = 128, kAhead = 4;  // as on the device
constexpr int kSegmentBytes = 16;

/// Tasks of one class, as one launch takes them.
struct Batch {
  int number = 0;       // of the class
  bool is_sum = false;  // the second phase
  std::int64_t first_sorted = 0;
  std::vector<std::int64_t> tasks;

  bool is_small() const { return number < kFirstBitmap; }
  bool has_directory() const { return number >= kFirstWords; }
  TaskClass limits() const {
    return is_small() ? TaskClass{kLeastLanes << number, 0} : limits_of(number);
  }
  int lanes() const { return limits().lanes; }
  bool is_block() const { return lanes() > 32; }
  int threads() const { return is_block() ? lanes() : kThreadsOfGroups; }
  int groups() const { return is_block() ? 1 : kThreadsOfGroups / lanes(); }  // of a thread block
  int warps_of_group() const { return is_block() ? lanes() / 32 : 1; }
  std::int64_t group_bytes() const {
    return lanes() * kSegmentBytes + (limits().bytes + 15) / 16 * 16;
  }
  std::int64_t thread_blocks() const { return parts(std::ssize(tasks), groups()); }
  int slot_words() const { return is_sum ? 2 : 1; }  // of shared memory
};

/// A part of a row of B, in nonzeros or words.
struct Segment {
  std::int64_t begin = 0, length = 0;
};

/// What the lanes of a warp take at a time: consecutive lanes have consecutive places of a segment.
struct Lanes {
  struct Run {
    std::int64_t at = 0;
    int lanes = 0;
  };
  std::array<Run, 32> runs;
  int size = 0;
  int lanes = 0;  // of all runs

  void add(std::int64_t at, int count) {
    runs[static_cast<std::size_t>(size++)] = {at, count};
    lanes += count;
  }
  auto begin() const { return runs.begin(); }
  auto end() const { return runs.begin() + size; }
};

/// What a warp takes of the 32 segments that its lanes know, 32 products at a time.
class Chunks {
 public:
  explicit Chunks(const std::vector<Segment>& segments) : segments_(segments) {
    for (const Segment& segment : segments) total_ += segment.length;
  }

  std::int64_t count() const { return parts(total_, 32); }

  /// Later ones than before.
  Lanes next(std::int64_t chunk) {
    Lanes found;
    std::int64_t first = 32 * chunk;
    while (found.lanes < 32 && first < total_) {
      const Segment& segment = segments_[at_];
      if (first >= before_ + segment.length) {
        before_ += segment.length;
        ++at_;
        continue;
      }
      const auto count = static_cast<int>(
          std::min<std::int64_t>(32 - found.lanes, before_ + segment.length - first));
      found.add(segment.begin + first - before_, count);
      first += count;
    }
    return found;
  }

 private:
  const std::vector<Segment>& segments_;
  std::int64_t total_ = 0;
  std::size_t at_ = 0;
  std::int64_t before_ = 0;  // products of segments before that one
};

/// What a warp takes of the segments that its thread block has staged: `width` places of one
/// segment a step, of every stride-th segment, of which it has those from `own` on.
class Steps {
 public:
  Steps(const std::vector<Segment>& segments, int width, int stride, int first, int own)
      : segments_(segments), width_(width), stride_(stride), at_(first), own_(own) {}

  std::int64_t count() const {
    std::int64_t steps = 0;
    for (std::int64_t i = at_; i < std::ssize(segments_); i += stride_)
      steps += parts(segments_[static_cast<std::size_t>(i)].length, width_);
    return steps;
  }

  /// Later ones than before; past the last there is nothing.
  Lanes next(std::int64_t step) {
    Lanes found;
    for (; at_ < std::ssize(segments_); at_ += stride_) {
      const Segment& segment = segments_[static_cast<std::size_t>(at_)];
      const std::int64_t steps = parts(segment.length, width_);
      if (step < before_ + steps) {
        const std::int64_t from = (step - before_) * width_ + own_;
        const std::int64_t lanes = std::clamp<std::int64_t>(segment.length - from, 0, 32);
        if (lanes > 0) found.add(segment.begin + from, static_cast<int>(lanes));
        break;
      }
      before_ += steps;
    }
    return found;
  }

  /// Whether a step is a segment's last: another one is fetched after it.
  bool ends_segment(std::int64_t step) const {
    return at_ < std::ssize(segments_) &&
           step + 1 == before_ + parts(segments_[static_cast<std::size_t>(at_)].length, width_);
  }

 private:
  const std::vector<Segment>& segments_;
  int width_, stride_;
  std::int64_t at_;
  int own_;
  std::int64_t before_ = 0;  // steps of segments before that one
};

class BatchWalk {
 public:
  BatchWalk(std::shared_ptr<const Product> product, Batch batch)
      : product_(std::move(product)), batch_(std::move(batch)) {}

  /// The group of a warp; without a task past the last.
  struct Group {
    const TaskWork* work = nullptr;
    std::int64_t number = 0, id = 0;   // of the task in the batch, and in the product
    std::int64_t first = 0, last = 0;  // nonzeros of A
    std::int64_t memory = 0;           // of its shared memory, in words
    int warp = 0;                      // within the group
    int warp_of_block = 0;

    int words() const { return work == nullptr ? 0 : work->task.words; }
    int columns() const { return work == nullptr ? 0 : work->columns; }
  };

  Group group_of(std::int64_t thread_block, int warp) const {
    const int of_block = batch_.is_block() ? 0 : warp;
    Group group{.number = thread_block * batch_.groups() + of_block,
                .memory = of_block * batch_.group_bytes() / 4,
                .warp = batch_.is_block() ? warp : 0,
                .warp_of_block = warp};
    if (group.number >= std::ssize(batch_.tasks)) return group;
    group.id = batch_.tasks[static_cast<std::size_t>(group.number)];
    group.work = &product_->tasks[static_cast<std::size_t>(group.id)];
    group.first = group.work->task.begin;
    group.last = group.first + group.work->task.nonzeros;
    return group;
  }

  /// How often the group takes as many of A's nonzeros as it has lanes.
  std::int64_t sets_of(const Group& group) const {
    return parts(group.last - group.first, batch_.lanes());
  }

  /// Slots of the bitmap.
  int slots_of(const Group& group) const {
    if (group.work == nullptr) return 0;
    return batch_.has_directory() ? group.work->filled_words : group.work->task.words;
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

  /// Calls visit(place, turn) for what is looked at to find both ends, side by side.
  template <bool kAdds, class Visit>
  Segment segment(const Task& task, std::int64_t k, Visit visit) const {
    const std::int32_t row = product_->a.col_indices[k];
    const std::int64_t begin = product_->b.row_offsets[row];
    const std::int64_t end =
        kAdds ? product_->b.row_offsets[row + 1] : begin + product_->num_words[row];
    if (!task.is_sliced) return {begin, end - begin};
    const auto find = [&](std::int32_t word) {
      std::size_t turn = 0;
      return find_word<kAdds>(begin, end, word, [&](std::int64_t at) { visit(at, turn++); });
    };
    const std::int64_t first = find(task.first_word);
    return {first, find(task.first_word + task.words) - first};
  }

  /// Those of a set that are not empty.
  template <bool kAdds>
  std::vector<Segment> segments(const Group& group, std::int64_t set) const {
    std::vector<Segment> found;
    const std::int64_t first = group.first + set * batch_.lanes();
    for (std::int64_t k = first; k < std::min(first + batch_.lanes(), group.last); ++k) {
      const Segment one = segment<kAdds>(group.work->task, k, [](std::int64_t, std::size_t) {});
      if (one.length > 0) found.push_back(one);
    }
    return found;
  }

  /// Marks are made by each warp of a thread block for itself, sums by all at once.
  template <bool kAdds>
  Steps steps(const Group& group, const std::vector<Segment>& segments) const {
    if (kAdds) return {segments, batch_.lanes(), 1, 0, 32 * group.warp};
    return {segments, 32, batch_.warps_of_group(), group.warp, 0};
  }

  /// The turn of each lane, when the products of 32 lanes are added to their sums. [32]
  struct Turns {
    std::array<std::int8_t, 32> of_lane{};
    int count = 0;
    bool asks = false, matches = false;  // whether columns are different; which are the same
  };
  Turns turns(const Lanes& lanes) const {
    constexpr int kFew = 4;
    Turns turns{.count = lanes.size, .asks = lanes.size > kFew};
    int lane = 0, run = 0;
    std::array<std::pair<std::int32_t, int>, 32> cols;
    for (const Lanes::Run& of : lanes) {
      for (int i = 0; i < of.lanes; ++i, ++lane) {
        turns.of_lane[static_cast<std::size_t>(lane)] = static_cast<std::int8_t>(run);
        cols[static_cast<std::size_t>(lane)] = {
            product_->b.col_indices[static_cast<std::size_t>(of.at + i)], lane};
      }
      ++run;
    }
    if (!turns.asks) return turns;
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
  std::shared_ptr<const Product> product_;
  Batch batch_;
};

}  // namespace tessera::row_spgemm::tracing
