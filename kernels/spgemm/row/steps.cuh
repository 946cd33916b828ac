// What row_spgemm's groups do with the products of a task: they go over them 32 at a time, each in
// a lane of its own whatever the lengths of B's rows, to mark their columns or to add them up. See
// kernels/spgemm/row/row_spgemm.hpp.
#pragma once

#include <climits>
#include <cstdint>

#include "kernels/spgemm/row/tasks.cuh"

namespace tessera::row_spgemm {

constexpr int kAhead = 4;  // chunks whose products are on their way

/// A part of a row of B, in nonzeros or in words; times a value of A, or with the place of that
/// nonzero of A, as bits.
struct alignas(16) Segment {
  std::int32_t begin = 0, length = 0;
  float value = 0;
};

enum class SegmentKind { kWords, kNonzeros, kPlaces };

template <SegmentKind kWhat>
__device__ std::int32_t word_at(const View& view, std::int32_t at) {
  if constexpr (kWhat == SegmentKind::kWords)
    return view.words_of_b[at].word;
  else
    return word_of(view.b_cols[at]);
}

/// The part of a segment that is in a slice of columns.
template <SegmentKind kWhat>
__device__ void cut_segment(const View& view, const Task& task, Segment& segment) {
  // The first places whose words are not below the slice's, and not in it.
  std::int32_t begin = segment.begin, below_begin = segment.begin + segment.length;
  std::int32_t end = begin, below_end = below_begin;
  while (begin < below_begin || end < below_end) {
    const std::int32_t for_begin = begin + (below_begin - begin) / 2;
    const std::int32_t for_end = end + (below_end - end) / 2;
    const bool seeks_begin = begin < below_begin, seeks_end = end < below_end;
    const std::int32_t at_begin = seeks_begin ? word_at<kWhat>(view, for_begin) : 0;
    const std::int32_t at_end = seeks_end ? word_at<kWhat>(view, for_end) : 0;
    if (seeks_begin)
      (at_begin < task.first_word ? begin : below_begin) =
          at_begin < task.first_word ? for_begin + 1 : for_begin;
    const bool is_before = at_end < task.first_word + task.words;
    if (seeks_end) (is_before ? end : below_end) = is_before ? for_end + 1 : for_end;
  }
  segment.begin = begin;
  segment.length = end - begin;
}

/// Nonzero `at` of A's row, which ends at `end`.
template <SegmentKind kWhat>
__device__ Segment load_segment(const View& view, const Task& task, std::int32_t at,
                                std::int32_t end) {
  if (at >= end) return {};
  const RowOfB of = view.rows_of_b[view.a_cols[at]];
  Segment segment{of.begin, kWhat == SegmentKind::kWords ? of.words : of.length, 0};
  if constexpr (kWhat == SegmentKind::kNonzeros) segment.value = view.a_values[at];
  if constexpr (kWhat == SegmentKind::kPlaces) segment.value = __int_as_float(at);
  if (task.is_sliced) cut_segment<kWhat>(view, task, segment);
  return segment;
}

/// Chunks of 32 consecutive products of a task, one in each lane, whatever segments they are of: of
/// at most 32 segments, one known to each lane.
class Chunks {
 public:
  /// Each lane brings a segment. `staged` [32] is shared memory.
  __device__ Chunks(Segment segment, Segment* staged) {
    const unsigned live = __ballot_sync(kAllLanes, segment.length > 0);
    if ((live & (live + 1)) != 0) {  // empty ones are among them: close the gaps
      if (segment.length > 0) staged[__popc(live & lanes_before())] = segment;
      __syncwarp();
      segment = lane_of_warp() < __popc(live) ? staged[lane_of_warp()] : Segment{};
      __syncwarp();
    }
    const int sum = sum_up_to(segment.length);
    total_ = __shfl_sync(kAllLanes, sum, 31);
    start_ = segment.length > 0 ? sum - segment.length : INT_MAX;
    to_place_ = segment.begin - (sum - segment.length);
    value_ = segment.value;
  }

  /// How many products the segments have.
  __device__ int total() const { return total_; }
  __device__ bool is_at_end() const { return first_ >= total_; }

  /// The next chunk: this lane's place in B, -1 for none, and its segment's value; and how many
  /// segments the chunk's products are of, its own being number `segment`.
  __device__ std::int32_t next(float& value, int& segment, int& segments) {
    const auto since = static_cast<unsigned>(start_ - first_);
    const unsigned starts = __reduce_or_sync(kAllLanes, since < 32 ? 1u << since : 0);
    const int begun = __popc(starts & (lanes_before() << 1 | 1));
    const int from = (started_ + begun - 1) & 31;
    const std::int32_t to_place = __shfl_sync(kAllLanes, to_place_, from);
    value = __shfl_sync(kAllLanes, value_, from);
    segment = begun - static_cast<int>(starts & 1);
    segments = __popc(starts | 1);
    started_ += __popc(starts);
    const int product = first_ + lane_of_warp();
    first_ += 32;
    return product < total_ ? to_place + product : -1;
  }

 private:
  int total_;
  int start_, to_place_;  // of this lane's segment
  float value_;
  int first_ = 0, started_ = 0;  // of the next chunk; segments begun before it
};

/// The way of a thread block, or of one of its warps, through staged segments: kWidth places of one
/// segment a step, of every kStride-th segment.
template <int kWidth, int kStride>
class Steps {
 public:
  __device__ Steps(const Segment* staged, int size, int first, int lane)
      : staged_(staged), size_(size), at_(first), lane_(lane) {
    fetch();
  }

  __device__ bool is_at_end() const { return at_ >= size_; }

  /// The lane's place in the next step, or -1 where the segment has ended; the segment's value.
  __device__ std::int32_t next(float& value) {
    const std::int32_t place = offset_ + lane_ < now_.length ? now_.begin + offset_ + lane_ : -1;
    value = now_.value;
    offset_ += kWidth;
    if (offset_ >= now_.length) {
      at_ += kStride;
      fetch();
    }
    return place;
  }

 private:
  __device__ void fetch() {
    offset_ = 0;
    now_ = at_ < size_ ? staged_[at_] : Segment{};
  }

  const Segment* staged_;
  int size_, at_;
  int lane_;
  int offset_ = 0;
  Segment now_;
};

/// Calls visit(the group's next segments) for as many of a task as the group has lanes, in the
/// order of A's columns: for Chunks of a warp; a thread block has those that are not empty staged,
/// `size` of them.
template <class Group, SegmentKind kWhat, class Visit>
__device__ void for_segments(const View& view, const Task& task, Segment* staged, int* scratch,
                             Visit visit) {
  const std::int32_t end = task.begin + task.nonzeros;
  Segment next = load_segment<kWhat>(view, task, task.begin + Group::lane(), end);
  for (std::int32_t first = task.begin; first < end; first += Group::kLanes) {
    const Segment own = next;
    // The next ones are on their way while these are worked on.
    next = load_segment<kWhat>(view, task, first + Group::kLanes + Group::lane(), end);
    if constexpr (Group::kIsBlock) {
      int size = 0;
      const int at = Group::before(own.length > 0 ? 1 : 0, size, scratch);
      if (own.length > 0) staged[at] = own;
      Group::sync();
      visit(size);
      Group::sync();
    } else {
      visit(Chunks(own, staged));
    }
  }
}

/// Words of a wave, one in each lane; without columns where there are no more.
struct WordsOfWave {
  uint2 words[kAhead];

  /// next() gives the place of a chunk's word in B, or -1.
  template <class Next>
  __device__ void load(const View& view, Next next) {
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const std::int32_t at = next();
      words[u] =
          at < 0 ? make_uint2(0, 0) : __ldg(reinterpret_cast<const uint2*>(view.words_of_b) + at);
    }
  }
  __device__ void load(const View& view, Chunks& chunks) {
    load(view, [&] {
      float no_value;
      int segment, segments;
      return chunks.is_at_end() ? -1 : chunks.next(no_value, segment, segments);
    });
  }

  /// Calls visit(word, columns).
  template <class Visit>
  __device__ void each(Visit visit) const {
#pragma unroll
    for (int u = 0; u < kAhead; ++u)
      if (words[u].y != 0) visit(static_cast<std::int32_t>(words[u].x), words[u].y);
  }
};

/// Calls visit(word, columns) for all words of a task's products, in any order.
template <class Group, class Visit>
__device__ void for_words(const View& view, const Task& task, Segment* staged, int* scratch,
                          Visit visit) {
  for_segments<Group, SegmentKind::kWords>(view, task, staged, scratch, [&](auto segments) {
    if constexpr (Group::kIsBlock) {
      // Marks come in any order: each warp has segments of its own.
      Steps<32, Group::kWarps> steps(staged, segments, Group::warp(), lane_of_warp());
      const auto next_place = [&] {
        float no_value;
        return steps.next(no_value);
      };
      WordsOfWave next;
      next.load(view, next_place);
      bool is_last = false;
      while (!is_last) {
        is_last = steps.is_at_end();
        const WordsOfWave now = next;
        next.load(view, next_place);
        now.each(visit);
      }
    } else {
      while (!segments.is_at_end()) {
        WordsOfWave now;
        now.load(view, segments);
        now.each(visit);
      }
    }
  });
  Group::sync();
}

/// Marks every column of the task's products.
template <class Group, class Bitmap>
__device__ void mark_columns(const View& view, const Task& task, Segment* staged, int* scratch,
                             Bitmap& bitmap) {
  const auto mark = [&](std::int32_t word, std::uint32_t columns) { bitmap.mark(word, columns); };
  if constexpr (Bitmap::kHasDirectory) {
    const auto mark_word = [&](std::int32_t word, std::uint32_t) { bitmap.mark_word(word); };
    if constexpr (!Group::kIsBlock) {
      if (task.nonzeros <= 32) {
        Chunks chunks(load_segment<SegmentKind::kWords>(view, task, task.begin + lane_of_warp(),
                                                        task.begin + task.nonzeros),
                      staged);
        if (chunks.total() <= 32 * kAhead) {  // one wave: it is there the second time
          WordsOfWave words;
          words.load(view, chunks);
          words.each(mark_word);
          __syncwarp();
          bitmap.open(scratch);
          __syncwarp();
          words.each(mark);
          __syncwarp();
          return;
        }
      }
    }
    for_words<Group>(view, task, staged, scratch, mark_word);
    bitmap.open(scratch);
    Group::sync();
  }
  for_words<Group>(view, task, staged, scratch, mark);
}

/// Whether no two lanes of a warp have the same cell; -1 is none. The cells are as before: the lane
/// that takes a cell first gets what was in it, and puts it back; the others find it taken. Where a
/// cell holds that number itself, lanes only seem to be the same.
__device__ inline bool are_different(std::uint32_t* cells, int cell) {
  constexpr std::uint32_t kTaken = ~0u;       // neither a sum nor a count
  std::uint32_t* const place = cells + cell;  // where there is a cell
  const std::uint32_t was = cell >= 0 ? atomicExch(place, kTaken) : kTaken;
  const bool is_first = was != kTaken;
  const bool all_are_first = __all_sync(kAllLanes, is_first || cell < 0) != 0;
  __syncwarp();
  if (is_first) *place = was;
  __syncwarp();
  return all_are_first;
}

/// Calls add() for each lane whose cell is not -1, those of one cell one after another in the order
/// of lanes, which have products of so many segments: a segment's products have different cells.
template <class Add>
__device__ void add_in_order(std::uint32_t* cells, int cell, int segment, int segments, Add add) {
  constexpr int kFew = 4;  // for which turns take less time than asking
  if (segments > kFew) {
    if (are_different(cells, cell)) {
      segment = 0;
      segments = 1;
    } else {
      const unsigned same = __match_any_sync(kAllLanes, cell >= 0 ? cell : -1 - lane_of_warp());
      segment = __popc(same & lanes_before());
      segments = __reduce_max_sync(kAllLanes, segment) + 1;
    }
  }
  for (int turn = 0; turn < segments; ++turn) {
    if (cell >= 0 && segment == turn) add();
    __syncwarp();
  }
}

/// Goes over the products of a task in the order of A's columns: load(place in B, value of the
/// segment) gives an item, for no product of place -1; cell_of(item) says which cell it is added
/// to, -1 none; add(item, cell) is called for one item of a cell at a time, in their order.
template <class Group, SegmentKind kWhat, class Load, class CellOf, class Add>
__device__ void for_products(const View& view, const Task& task, Segment* staged, int* scratch,
                             std::uint32_t* cells, Load load, CellOf cell_of, Add add) {
  for_segments<Group, kWhat>(view, task, staged, scratch, [&](auto segments) {
    using Item = decltype(load(std::int32_t{}, float{}));
    if constexpr (Group::kIsBlock) {
      // A step's products are of one segment, and have different cells.
      Steps<Group::kLanes, 1> steps(staged, segments, 0, Group::lane());
      const auto load_next = [&] {
        float value;
        const std::int32_t at = steps.next(value);
        return load(at, value);
      };
      Item next[kAhead];
#pragma unroll
      for (int u = 0; u < kAhead; ++u) next[u] = load_next();
      bool is_last = false;
      while (!is_last) {
        is_last = steps.is_at_end();
        Item now[kAhead];
        int cell[kAhead];
#pragma unroll
        for (int u = 0; u < kAhead; ++u) {
          now[u] = next[u];
          next[u] = load_next();
        }
#pragma unroll
        for (int u = 0; u < kAhead; ++u) cell[u] = cell_of(now[u]);
#pragma unroll
        for (int u = 0; u < kAhead; ++u) {
          if (cell[u] >= 0) add(now[u], cell[u]);
          Group::sync();  // the next step may have the same cells
        }
      }
    } else {
      while (!segments.is_at_end()) {
        Item items[kAhead];
        int cell[kAhead], segment[kAhead], of_chunk[kAhead];
#pragma unroll
        for (int u = 0; u < kAhead; ++u) {
          float value = 0;
          segment[u] = of_chunk[u] = 0;
          const std::int32_t at =
              segments.is_at_end() ? -1 : segments.next(value, segment[u], of_chunk[u]);
          items[u] = load(at, value);
        }
#pragma unroll
        for (int u = 0; u < kAhead; ++u) cell[u] = cell_of(items[u]);
#pragma unroll
        for (int u = 0; u < kAhead; ++u)
          add_in_order(cells, cell[u], segment[u], of_chunk[u], [&] { add(items[u], cell[u]); });
      }
    }
  });
}

/// One product; no column where there is none.
struct KernelArguments {
  std::int32_t col = -1;
  float left = 0, right = 0;

  __device__ KernelArguments() = default;
  /// Of what is at a place in B.
  __device__ KernelArguments(const View& view, std::int32_t at, float value) : left(value) {
    if (at < 0) return;
    col = __ldg(view.b_cols + at);
    right = __ldg(view.b_values + at);
  }
};

/// Adds the task's products to their sums, element for element in the order of A's columns.
template <class Group, class Bitmap>
__device__ void add_products(const View& view, const Task& task, Segment* staged, int* scratch,
                             const Bitmap& bitmap, float* sums) {
  for_products<Group, SegmentKind::kNonzeros>(
      view, task, staged, scratch, reinterpret_cast<std::uint32_t*>(sums),
      [&](std::int32_t at, float value) { return KernelArguments(view, at, value); },
      [&](const KernelArguments& product) {
        return product.col < 0 ? -1 : bitmap.rank(product.col);
      },
      [&](const KernelArguments& product, int cell) {
        sums[cell] = fmaf(product.left, product.right, sums[cell]);
      });
}

}  // namespace tessera::row_spgemm
