// What row_spgemm's groups do with the products of a task: rows of B staged in shared memory, their
// columns marked, their products added. See kernels/row_spgemm.hpp.
#pragma once

#include <cstdint>

#include "kernels/row_spgemm_tasks.cuh"

namespace tessera::row_spgemm {

constexpr int kAhead = 4;  // steps whose products are on their way

/// A part of a row of B, in nonzeros or in words; times a value of A, or with the place of that
/// nonzero of A, as bits.
struct alignas(16) Segment {
  std::int32_t begin = 0, length = 0;
  float value = 0;
};

enum class What { kWords, kNonzeros, kPlaces };

template <What kWhat>
__device__ std::int32_t word_at(const View& view, std::int32_t at) {
  if constexpr (kWhat == What::kWords)
    return view.words_of_b[at].word;
  else
    return word_of(view.b_cols[at]);
}

/// The first place in [begin, end) whose word is not below `word`.
template <What kWhat>
__device__ std::int32_t find_word(const View& view, std::int32_t begin, std::int32_t end,
                                  std::int32_t word) {
  while (begin < end) {
    const std::int32_t middle = begin + (end - begin) / 2;
    if (word_at<kWhat>(view, middle) < word)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

/// Nonzero `at` of A's row, which ends at `end`.
template <What kWhat>
__device__ Segment load_segment(const View& view, const Task& task, std::int32_t at,
                                std::int32_t end) {
  if (at >= end) return {};
  const RowOfB of = view.rows_of_b[view.a_cols[at]];
  Segment segment{of.begin, kWhat == What::kWords ? of.words : of.length, 0};
  if constexpr (kWhat == What::kNonzeros) segment.value = view.a_values[at];
  if constexpr (kWhat == What::kPlaces) segment.value = __int_as_float(at);
  if (task.is_sliced && segment.length > 0) {
    const std::int32_t last = of.begin + segment.length;
    segment.begin = find_word<kWhat>(view, of.begin, last, task.first_word);
    segment.length =
        find_word<kWhat>(view, segment.begin, last, task.first_word + task.words) - segment.begin;
  }
  return segment;
}

/// Calls visit(how many, how many steps of as many as the group has lanes) for the segments of a
/// task that are not empty, in the order of A's columns: `staged`, as many at a time as there are
/// lanes.
template <class Group, What kWhat, class Visit>
__device__ void for_segments(const View& view, const Task& task, Segment* staged, int* scratch,
                             Visit visit) {
  const bool has_work = task.words > 0;
  const std::int32_t begin = has_work ? view.a_offsets[task.row] : 0;
  const std::int32_t end = has_work ? view.a_offsets[task.row + 1] : 0;
  const int most = Group::most(end - begin);
  Segment next = load_segment<kWhat>(view, task, begin + Group::lane(), end);
  for (int first = 0; first < most; first += Group::kLanes) {
    int size = 0, steps = 0;
    const int at = Group::before(next.length > 0 ? 1 : 0, size, scratch);
    Group::before((next.length + Group::kLanes - 1) / Group::kLanes, steps, scratch);
    if (next.length > 0) staged[at] = next;
    Group::sync();
    // The next ones are on their way while these are worked on.
    next = load_segment<kWhat>(view, task, begin + first + Group::kLanes + Group::lane(), end);
    visit(size, steps);
    Group::sync();
  }
}

/// The way of kWidth lanes through staged segments, or every kStride-th of them: kWidth places of
/// one segment a step.
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

/// Marks every column of the task's products.
template <class Group, class Bitmap>
__device__ void mark_columns(const View& view, const Task& task, Segment* staged, int* scratch,
                             Bitmap& bitmap) {
  // Marks come in any order: each warp of a thread block has segments of its own.
  constexpr int kWidth = Group::kIsBlock ? 32 : Group::kLanes;
  for_segments<Group, What::kWords>(view, task, staged, scratch, [&](int size, int) {
    Steps<kWidth, Group::kWarps> steps(staged, size, Group::lane() / kWidth,
                                       Group::lane() % kWidth);
    const auto load = [&] {
      float no_value;
      const std::int32_t at = steps.next(no_value);
      // No columns: marking them would do nothing.
      return at < 0 ? make_uint2(0, 0)
                    : __ldg(reinterpret_cast<const uint2*>(view.words_of_b) + at);
    };
    uint2 next[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) next[u] = load();
    bool is_last = false;
    while (!is_last) {
      is_last = steps.is_at_end();
      uint2 now[kAhead];
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        now[u] = next[u];
        next[u] = load();
      }
#pragma unroll
      for (int u = 0; u < kAhead; ++u)
        if (now[u].y != 0) bitmap.mark(static_cast<std::int32_t>(now[u].x), now[u].y);
    }
  });
}

/// One product; no column where the segment has ended.
struct Product {
  std::int32_t col = -1;
  float left = 0, right = 0;
};

/// Adds the task's products to their sums, element for element in the order of A's columns.
template <class Group, class Bitmap>
__device__ void add_products(const View& view, const Task& task, Segment* staged, int* scratch,
                             const Bitmap& bitmap, float* sums) {
  for_segments<Group, What::kNonzeros>(view, task, staged, scratch, [&](int size, int num_steps) {
    Steps<Group::kLanes, 1> steps(staged, size, 0, Group::lane());
    const auto load = [&] {
      Product product;
      const std::int32_t at = steps.next(product.left);
      if (at >= 0) {
        product.col = __ldg(view.b_cols + at);
        product.right = __ldg(view.b_values + at);
      }
      return product;
    };
    const int most = Group::most(num_steps);
    Product next[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) next[u] = load();
    for (int i = 0; i < most; i += kAhead) {
      Product now[kAhead];
      int places[kAhead];
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        now[u] = next[u];
        next[u] = load();
      }
#pragma unroll
      for (int u = 0; u < kAhead; ++u)
        if (now[u].col >= 0) places[u] = bitmap.rank(now[u].col);
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        if (now[u].col >= 0) {
          float& sum = sums[places[u]];
          sum = fmaf(now[u].left, now[u].right, sum);
        }
        Group::sync();  // the next step may have the same columns
      }
    }
  });
}

}  // namespace tessera::row_spgemm
