// The schedule of row_spgemm: which thread block, warp and lane does what. It holds the records in
// device memory, the classes of tasks and their launches, the layout of shared memory, and the
// walk over the products of a task. Device code (*.cuh, row_spgemm.cu), host analysis (work.cpp)
// and warp traces (*_trace.cpp) all read it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/host_device.hpp"

namespace tessera::row_spgemm {

constexpr int kWarpLanes = 32;
constexpr int kWordCols = 32;  // columns of C in a word of the bitmap

/// The number of parts of at most `most` that make up `whole`.
TESSERA_HOST_DEVICE constexpr std::int64_t parts(std::int64_t whole, std::int64_t most) {
  return (whole + most - 1) / most;
}

// Records in device memory.

/// The storage for the columns that a task has found.
enum class MarkStorage : std::int8_t {
  kLanes,   // in registers: each lane has one product
  kBitmap,  // in a bitmap of every word of the column range
  kWords,   // in a bitmap of the words that have marks, found through a directory
};

/// The columns [32 first_word, 32 (first_word + words)) of a row of C: the work of one group of
/// threads.
struct alignas(16) Task {
  std::int32_t row = 0;
  std::int32_t begin = 0, nonzeros = 0;  // of the row of A
  std::int32_t first_word = 0;
  std::int32_t words = 0;  // in the column range
  std::int32_t kept = 0;   // upper bound on words with marks; exact once columns are counted
  MarkStorage storage = MarkStorage::kBitmap;
  std::int8_t small_size = 0;  // kLeastLanes << small_size lanes hold one product each
  bool is_heavy = false;       // the group is a thread block
  bool is_sliced = false;      // the row has other tasks
};

/// A task's number and its nonzeros of A, which is all that a small task needs.
struct alignas(16) SortedTask {
  std::int32_t id = -1;
  std::int32_t begin = 0, nonzeros = 0;
};

/// A row of A that is no task. Hubs are numbered as they are found, in any order.
struct alignas(16) HubRow {
  std::int32_t row = 0;
  std::int32_t begin = 0;   // of the row of A
  std::uint32_t first = 0;  // nonzeros of A of the hubs before it
};

/// A row of B, for one load. Its words begin at the index where its nonzeros do.
struct alignas(16) RowOfB {
  std::int32_t begin, length, words;
};

/// The first and the last column of a row of B.
struct alignas(8) RangeOfB {
  std::int32_t first_col, last_col;
};

/// The word of a column.
TESSERA_HOST_DEVICE constexpr std::int32_t word_of(std::int32_t col) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(col) / kWordCols);
}

/// Up to 32 nonzeros of a row of B that share a word of a bitmap.
struct alignas(8) WordOfB {
  std::int32_t word;
  std::uint32_t columns;  // bit i: column 32 word + i
};

/// The array that a segment is a part of, and the content of its value.
enum class SegmentKind {
  kWords,      // words of B; no value
  kNonzeros,   // nonzeros of B; the value of A
  kPositions,  // nonzeros of B; the index of A's nonzero, as bits
};

/// A part of a row of B, for one nonzero of A. The value is in the type of the product.
template <class Value>
struct alignas(16) SegmentOf {
  std::int32_t begin = 0, length = 0;
  Value value = 0;
};
using Segment = SegmentOf<float>;
static_assert(sizeof(Segment) == sizeof(SegmentOf<double>));

/// A segment, and the number of its first product in the task less its place in B.
struct alignas(16) NumberedSegment {
  std::int32_t begin = 0, length = 0;
  float value = 0;
  std::int32_t to_number = 0;
};
static_assert(sizeof(Segment) == sizeof(NumberedSegment));

// Launches over rows and over tasks of all classes.

constexpr int kRowThreads = 256;    // per thread block, in launches over rows and over all tasks
constexpr int kGroupThreads = 128;  // per thread block with several groups

/// A launch that gives `lanes` consecutive threads to each item: a row, a task or a window.
struct LaunchShape {
  int threads;  // per thread block
  int lanes;    // per item

  constexpr int items() const { return threads / lanes; }  // per thread block
  constexpr std::int64_t thread_blocks(std::int64_t count) const { return parts(count, items()); }

  /// The number of a thread in the launch, and the item of the thread with that number. Count is
  /// the type to count in.
  template <class Count>
  TESSERA_HOST_DEVICE constexpr Count thread_of(Count thread_block, Count thread) const {
    return thread_block * static_cast<Count>(threads) + thread;
  }
  template <class Count>
  TESSERA_HOST_DEVICE constexpr Count item_of(Count thread_of_launch) const {
    return thread_of_launch / static_cast<Count>(lanes);
  }
  template <class Count>
  TESSERA_HOST_DEVICE constexpr Count item_of(Count thread_block, Count thread) const {
    return item_of(thread_of(thread_block, thread));
  }
};
constexpr LaunchShape row_launch(int lanes) { return {kRowThreads, lanes}; }
constexpr LaunchShape thread_each() { return row_launch(1); }
constexpr LaunchShape warp_each() { return row_launch(kWarpLanes); }

/// Lanes per row in a launch over rows: the least of 4, 8 and 16 that is not below the mean number
/// of nonzeros, else a warp.
constexpr int lanes_for(std::int64_t nonzeros, std::int64_t rows) {
  for (const int lanes : {4, 8, 16})
    if (nonzeros <= lanes * rows) return lanes;
  return kWarpLanes;
}

/// True for a row that its whole warp takes, after the warp's other rows: one of more than four
/// nonzeros per lane.
TESSERA_HOST_DEVICE constexpr bool needs_warp(std::int32_t nonzeros, int lanes) {
  constexpr int kNonzerosPerLane = 4;
  return lanes < kWarpLanes && nonzeros > lanes * kNonzerosPerLane;
}

// Launches over the tasks of a class.

/// A launch over the tasks of a class, each of which gets a group of threads: a part of a warp, a
/// warp or a thread block.
struct GroupLaunch {
  int lanes;  // per group
  int bytes;  // shared memory per group for marks and sums, at most

  TESSERA_HOST_DEVICE constexpr bool is_block() const { return lanes > kWarpLanes; }
  /// Threads and groups of a thread block; warps of a group.
  TESSERA_HOST_DEVICE constexpr int threads() const { return is_block() ? lanes : kGroupThreads; }
  TESSERA_HOST_DEVICE constexpr int groups() const { return is_block() ? 1 : threads() / lanes; }
  TESSERA_HOST_DEVICE constexpr int warps() const { return is_block() ? lanes / kWarpLanes : 1; }

  /// Shared memory of a group, in bytes: a segment per lane, then marks and sums.
  TESSERA_HOST_DEVICE constexpr int segment_bytes() const {
    return lanes * static_cast<int>(sizeof(Segment));
  }
  TESSERA_HOST_DEVICE constexpr int group_bytes() const {
    return segment_bytes() + (bytes + 15) / 16 * 16;
  }
  constexpr int shared_bytes() const { return groups() * group_bytes(); }

  /// The group of a thread in its thread block, and the number of the group's task in the class.
  TESSERA_HOST_DEVICE constexpr int group_of(int thread) const { return thread / lanes; }
  template <class Count>
  TESSERA_HOST_DEVICE constexpr Count task_of(Count thread_block, int group) const {
    return thread_block * groups() + group;
  }
  constexpr std::int64_t thread_blocks(std::int64_t tasks) const { return parts(tasks, groups()); }
};

/// Lanes of a small task, which holds one product per lane: the least, each twice the one before.
constexpr int kLeastLanes = 8, kSmallSizes = 3, kMostLanes = kLeastLanes << (kSmallSizes - 1);
constexpr LaunchShape small_launch(int lanes) { return {kGroupThreads, lanes}; }

/// The classes of tasks, in both phases: small ones by their lanes, then those with a whole bitmap
/// and those that keep words, each by the shared memory they need.
constexpr int kWarpSizes = 5, kBlockSizes = 4, kSizes = kWarpSizes + kBlockSizes;
constexpr int kFirstBitmap = kSmallSizes, kFirstWords = kFirstBitmap + kSizes,
              kClasses = kFirstWords + kSizes;

/// Words of the widest whole bitmap of a task: a thread block holds it with a sum per column. Sums
/// take 4 bytes in FP32, 8 in FP64.
constexpr int kMostWords = 1536;
constexpr int kSumSize = sizeof(float), kWideSumSize = sizeof(double);
constexpr int kMostBytes = (8 + kSumSize * kWordCols) * kMostWords;
constexpr int kMostWideWords = kMostBytes / (8 + kWideSumSize * kWordCols);
TESSERA_HOST_DEVICE constexpr int most_words(int sum_size) {
  return sum_size == kSumSize ? kMostWords : kMostWideWords;
}

/// The launch of a class that is not small. Four thread blocks of the classes of 256 lanes find
/// place on a multiprocessor of 228 KiB, 1 KiB of which each of them has for itself.
constexpr GroupLaunch launch_of(int task_class) {
  constexpr GroupLaunch all[kSizes] = {{32, 1 << 10},   {32, 2 << 10},   {32, 4 << 10},
                                       {32, 8 << 10},   {32, 16 << 10},  {256, 10 << 10},
                                       {256, 24 << 10}, {256, 51 << 10}, {512, kMostBytes}};
  return all[(task_class - kFirstBitmap) % kSizes];
}

/// The number of classes, among kCount from kFirst on, that have less shared memory than `bytes`.
/// It recurses because the device would keep an indexed table in local memory.
template <int kFirst, int kCount>
TESSERA_HOST_DEVICE constexpr int too_small(int bytes) {
  if constexpr (kCount == 0) {
    return 0;
  } else {
    constexpr int kMost = launch_of(kFirst).bytes;
    return (bytes > kMost ? 1 : 0) + too_small<kFirst + 1, kCount - 1>(bytes);
  }
}

/// The class of a task that needs that much shared memory.
TESSERA_HOST_DEVICE constexpr int class_of(const Task& task, std::int64_t bytes) {
  if (task.storage == MarkStorage::kLanes) return task.small_size;
  constexpr int kFirstBlock = kFirstBitmap + kWarpSizes;
  constexpr int kMostOfWarp = launch_of(kFirstBlock - 1).bytes;
  const int needed = bytes < kMostBytes ? static_cast<int>(bytes) : kMostBytes;
  const int size = task.is_heavy || needed > kMostOfWarp
                       ? kWarpSizes + too_small<kFirstBlock, kBlockSizes - 1>(needed)
                       : too_small<kFirstBitmap, kWarpSizes - 1>(needed);
  return (task.storage == MarkStorage::kWords ? kFirstWords : kFirstBitmap) + size;
}

/// Calls visit(class, first, count) for every class that has tasks, in the order of the launches:
/// the largest class first. Tasks [first, first + count) of the sorted tasks are of that class.
template <class Counts, class Visit>
void for_launched_classes(const Counts& counts, Visit visit) {
  std::int64_t end = 0;
  for (int i = 0; i < kClasses; ++i) end += counts[i];
  for (int i = kClasses - 1; i >= 0; --i) {
    end -= counts[i];
    if (counts[i] > 0) visit(i, end, static_cast<std::int64_t>(counts[i]));
  }
}

/// True for a class whose groups are thread blocks, and for one that keeps words.
TESSERA_HOST_DEVICE constexpr bool is_block_class(int of) {
  return of >= kFirstBitmap && (of - kFirstBitmap) % kSizes >= kWarpSizes;
}
TESSERA_HOST_DEVICE constexpr bool is_words_class(int of) { return of >= kFirstWords; }

// Shared memory of a task: a directory of words, slots of marks, the words of slots, then sums.

/// Words of the bitmap that says which words of the column range are kept.
TESSERA_HOST_DEVICE constexpr int directory_words(const Task& task) {
  return (task.words + kWarpLanes - 1) / kWarpLanes;
}

/// Bytes of a slot: the marks of 32 columns and, in the second phase, the rank of the first.
TESSERA_HOST_DEVICE constexpr int slot_bytes(bool has_ranks) { return has_ranks ? 8 : 4; }
constexpr int kDirectorySlotBytes = slot_bytes(true);

/// Bytes of a bitmap of all words, and of one that keeps some; with ranks, a kept word has its
/// number, too. Bytes is the type to count in.
template <class Bytes>
TESSERA_HOST_DEVICE constexpr Bytes whole_bitmap_bytes(int words, bool has_ranks) {
  return Bytes{slot_bytes(has_ranks)} * words;
}
template <class Bytes>
TESSERA_HOST_DEVICE constexpr Bytes words_bitmap_bytes(int directory, int kept, bool has_ranks) {
  return Bytes{kDirectorySlotBytes} * directory +
         (slot_bytes(has_ranks) + (has_ranks ? 4 : 0)) * kept;
}

/// The place of the sums after so many bytes of marks, which are a multiple of 4.
template <class Bytes>
TESSERA_HOST_DEVICE constexpr Bytes place_of_sums(Bytes marks, int sum_size) {
  return sum_size == kSumSize ? marks : (marks + kWideSumSize - 1) / kWideSumSize * kWideSumSize;
}

/// Bytes of a task's marks in the first phase, and of its marks, ranks and `sums` sums in the
/// second.
TESSERA_HOST_DEVICE constexpr int mark_bytes(const Task& task) {
  if (task.storage == MarkStorage::kWords)
    return words_bitmap_bytes<int>(directory_words(task), task.kept, false);
  return whole_bitmap_bytes<int>(task.words, false);
}
TESSERA_HOST_DEVICE constexpr std::int64_t sum_bytes(const Task& task, std::int64_t sums,
                                                     int sum_size = kSumSize) {
  const std::int64_t marks =
      task.storage == MarkStorage::kWords
          ? words_bitmap_bytes<std::int64_t>(directory_words(task), task.kept, true)
          : whole_bitmap_bytes<std::int64_t>(task.words, true);
  return place_of_sums(marks, sum_size) + (sum_size == kSumSize ? 4 : 8) * sums;
}

/// The class of a task in the first phase, and in the second with `sums` columns of C.
TESSERA_HOST_DEVICE constexpr int mark_class(const Task& task) {
  return class_of(task, mark_bytes(task));
}
/// A task without words makes no sums: its row has no products, or is a hub.
TESSERA_HOST_DEVICE constexpr int sum_class(const Task& task, std::int64_t sums,
                                            int sum_size = kSumSize) {
  return class_of(task, task.words == 0 ? 0 : sum_bytes(task, sums, sum_size));
}

/// True where a thread block's sums lie at the places of their columns, not at their ranks: hardly
/// a column of the range has no sum, and a place is found without a look at the marks.
TESSERA_HOST_DEVICE constexpr bool sums_lie_at_columns(const Task& task, std::int64_t sums,
                                                       int sum_size = kSumSize) {
  const std::int64_t columns = std::int64_t{task.words} * kWordCols;
  const int of = sum_class(task, sums, sum_size);
  return task.storage == MarkStorage::kBitmap && 4 * sums >= 3 * columns && is_block_class(of) &&
         class_of(task, sum_bytes(task, columns, sum_size)) == of;
}

// The walk over the products of a task. A group takes the nonzeros of A in sets, one per lane, each
// of which names a segment of a row of B. A warp goes through the segments of its set in chunks of
// 32 consecutive products; a thread block stages its segments in shared memory and takes each in
// steps.

/// Chunks or steps that are loaded before the first of them is used.
constexpr int kPrefetch = 4;

/// True when a warp loads all words of a task at once and keeps them in registers.
TESSERA_HOST_DEVICE constexpr bool is_one_set(std::int32_t nonzeros) {
  return nonzeros <= kWarpLanes;
}
template <class Count>
TESSERA_HOST_DEVICE constexpr bool is_one_prefetch(Count words) {
  return words <= kPrefetch * kWarpLanes;
}

/// Products of one segment have different columns. From more segments than this, a warp compares
/// the columns of its lanes; from fewer, it adds the products segment by segment.
constexpr int kFewSegments = 4;

/// True for a thread block's segments that have at least twice as many products on average as the
/// block has lanes. All lanes go through such a segment without waiting for each other.
TESSERA_HOST_DEVICE constexpr bool are_long_segments(int products, int segments, int lanes) {
  return products >= 2 * lanes * segments;
}
/// A segment's length in that sum, which stays in 32 bits.
TESSERA_HOST_DEVICE constexpr int most_of_long(std::int32_t length) {
  constexpr std::int32_t kMost = 1 << 20;
  return length < kMost ? length : kMost;
}

/// The columns of C per segment, on average, from which hardly a sum has a second product: a row of
/// A meets a hub of B there.
constexpr int kColumnsOfHub = 512;
/// True for a thread block's task in which the first product of a sum writes its column.
TESSERA_HOST_DEVICE constexpr bool writes_cols_with_sums(const Task& task, int columns) {
  return columns >= kColumnsOfHub * task.nonzeros;
}

/// Cuts a segment to the part that lies in the task's slice of columns. Two binary searches side by
/// side find the first word of the slice and the first word past it; word_at(place in B) returns
/// the word there. Both searches look at one place per turn, and word_at.end_turn(), where there is
/// one, ends a turn.
template <class Value, class WordAt>
TESSERA_HOST_DEVICE constexpr void cut_segment(SegmentOf<Value>& segment, const Task& task,
                                               WordAt word_at) {
  std::int32_t begin = segment.begin, begin_limit = segment.begin + segment.length;
  std::int32_t end = begin, end_limit = begin_limit;
  while (begin < begin_limit || end < end_limit) {
    const std::int32_t for_begin = begin + (begin_limit - begin) / 2;
    const std::int32_t for_end = end + (end_limit - end) / 2;
    const bool seeks_begin = begin < begin_limit, seeks_end = end < end_limit;
    const std::int32_t at_begin = seeks_begin ? word_at(for_begin) : 0;
    const std::int32_t at_end = seeks_end ? word_at(for_end) : 0;
    if (seeks_begin)
      (at_begin < task.first_word ? begin : begin_limit) =
          at_begin < task.first_word ? for_begin + 1 : for_begin;
    const bool is_before = at_end < task.first_word + task.words;
    if (seeks_end) (is_before ? end : end_limit) = is_before ? for_end + 1 : for_end;
    if constexpr (requires { word_at.end_turn(); }) word_at.end_turn();
  }
  segment.begin = begin;
  segment.length = end - begin;
}

/// The walk of a thread block, or one of its warps, through staged segments: `width` places of one
/// segment per step, of every `stride`-th segment from `first` on; `lane` is the lane's place among
/// them.
struct StepShape {
  int width, stride, first, lane;
};
/// Marks come in any order, so each warp has segments of its own, unless there are fewer segments
/// than warps. Sums are made in the order of A's columns, so all warps take a segment together.
TESSERA_HOST_DEVICE constexpr StepShape mark_steps(int warps, int warp, int lane_of_warp,
                                                   int segments) {
  if (segments < warps) return {warps * kWarpLanes, 1, 0, warp * kWarpLanes + lane_of_warp};
  return {kWarpLanes, warps, warp, lane_of_warp};
}
TESSERA_HOST_DEVICE constexpr StepShape sum_steps(int lanes, int lane) {
  return {lanes, 1, 0, lane};
}

/// A lane's walk through staged segments.
template <class Staged>
class StepsOf {
 public:
  TESSERA_HOST_DEVICE constexpr StepsOf(const Staged* staged, int size, const StepShape& shape)
      : staged_(staged), size_(size), at_(shape.first), shape_(shape) {
    fetch();
  }

  TESSERA_HOST_DEVICE constexpr bool is_at_end() const { return at_ >= size_; }

  /// The lane's place in B in this step, -1 beyond the segment's end, and the segment's value.
  TESSERA_HOST_DEVICE constexpr std::int32_t place() const {
    return offset_ + shape_.lane < now_.length ? now_.begin + offset_ + shape_.lane : -1;
  }
  TESSERA_HOST_DEVICE constexpr auto value() const { return now_.value; }
  TESSERA_HOST_DEVICE constexpr const Staged& now() const { return now_; }
  /// The products of the segment from the lane's place on; none or less beyond its end.
  TESSERA_HOST_DEVICE constexpr int left() const { return now_.length - offset_ - shape_.lane; }
  /// The lanes, from this one to the end of its warp, that have a place; the lane is a warp's
  /// first.
  constexpr int lanes() const { return std::clamp(left(), 0, int{kWarpLanes}); }

  /// Goes to the next step.
  TESSERA_HOST_DEVICE constexpr void advance() {
    offset_ += shape_.width;
    if (offset_ >= now_.length) {
      at_ += shape_.stride;
      fetch();
    }
  }
  /// True where the next advance() fetches a segment.
  TESSERA_HOST_DEVICE constexpr bool is_last_of_segment() const {
    return !is_at_end() && offset_ + shape_.width >= now_.length;
  }

  /// Goes forward by that many steps, at most to the end.
  constexpr void skip(std::int64_t steps) {
    while (steps > 0 && !is_at_end()) {
      const std::int64_t left = parts(now_.length - offset_, shape_.width);
      if (steps < left) {
        offset_ += static_cast<int>(steps) * shape_.width;
        return;
      }
      steps -= left;
      at_ += shape_.stride;
      fetch();
    }
  }

  /// The number of steps from here to the end.
  constexpr std::int64_t count() const {
    std::int64_t steps = 0;
    for (int i = at_; i < size_; i += shape_.stride)
      steps += parts(staged_[i].length - (i == at_ ? offset_ : 0), shape_.width);
    return steps;
  }

 private:
  TESSERA_HOST_DEVICE constexpr void fetch() {
    offset_ = 0;
    now_ = at_ < size_ ? staged_[at_] : Staged{};
  }

  const Staged* staged_;
  int size_, at_;
  StepShape shape_;
  int offset_ = 0;  // of the step in its segment
  Staged now_;
};
using SegmentSteps = StepsOf<Segment>;

/// A thread block loads kPrefetch steps while it works on those before, once more than needed if
/// there are none.
constexpr std::int64_t step_iterations(std::int64_t steps) {
  return std::max<std::int64_t>(1, parts(steps, kPrefetch));
}

// Lists of products (lists.cuh).

constexpr int kCellsOfStrip = kWarpLanes;
constexpr int kCellsOfWindow = 1024, kStripsOfWindow = kCellsOfWindow / kCellsOfStrip;
constexpr LaunchShape window_each() { return row_launch(kRowThreads); }
constexpr LaunchShape strip_each() { return {kGroupThreads, kWarpLanes}; }

}  // namespace tessera::row_spgemm
