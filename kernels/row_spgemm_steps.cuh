// What row_spgemm's groups do with the products of a task: rows of B staged in shared memory, their
// columns marked, their products added. See kernels/row_spgemm.hpp.
#pragma once

#include <cstdint>

#include "kernels/row_spgemm_group.cuh"
#include "kernels/row_spgemm_tasks.cuh"

namespace tessera::row_spgemm {

constexpr int kAhead = 4;  // steps whose products are on their way

/// A part of a row of B, times a value of A.
struct alignas(16) Segment {
  std::int32_t begin = 0, length = 0;
  float value = 0;
};

/// The first of the ascending columns [begin, end) that is not below `col`.
__device__ inline std::int32_t lower_bound(const std::int32_t* cols, std::int32_t begin,
                                           std::int32_t end, std::int64_t col) {
  while (begin < end) {
    const std::int32_t middle = begin + (end - begin) / 2;
    if (cols[middle] < col)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

/// Nonzero `at` of A's row, which ends at `end`.
__device__ inline Segment load_segment(const View& view, const Task& task, std::int32_t at,
                                       std::int32_t end) {
  if (at >= end) return {};
  const RowOfB of = view.rows_of_b[view.a_cols[at]];
  Segment segment{of.begin, of.length, view.a_values[at]};
  if (task.is_sliced && of.length > 0) {
    const std::int64_t first = std::int64_t{task.first_word} * kWordCols;
    const std::int64_t beyond = first + std::int64_t{task.words} * kWordCols;
    segment.begin = lower_bound(view.b_cols, of.begin, of.begin + of.length, first);
    segment.length =
        lower_bound(view.b_cols, segment.begin, of.begin + of.length, beyond) - segment.begin;
  }
  return segment;
}

/// The segments of a task that are not empty, in the order of A's columns: as many at a time in
/// shared memory as the group has lanes.
template <class Group>
class Segments {
 public:
  /// `staged` [lanes] and `scratch` are shared memory of the group.
  __device__ Segments(const View& view, const Task& task, Segment* staged, int* scratch)
      : view_(view), task_(task), staged_(staged), scratch_(scratch) {
    if (task.words > 0) {
      begin_ = view.a_offsets[task.row];
      end_ = view.a_offsets[task.row + 1];
    }
    most_ = Group::most(end_ - begin_);
  }

  /// Calls visit(staged, how many, how many steps of as many products as the group has lanes).
  template <class Visit>
  __device__ void for_all(Visit visit) {
    if (most_ <= Group::kLanes) {  // they stay where they are for the next time
      if (!is_staged_) stage(load(begin_ + Group::lane()));
      is_staged_ = true;
      visit(staged_, size_, steps_);
      Group::sync();
      return;
    }
    Segment next = load(begin_ + Group::lane());
    for (int first = 0; first < most_; first += Group::kLanes) {
      stage(next);
      // The next ones are on their way while these are worked on.
      next = load(begin_ + first + Group::kLanes + Group::lane());
      visit(staged_, size_, steps_);
      Group::sync();
    }
  }

 private:
  __device__ Segment load(std::int32_t at) const { return load_segment(view_, task_, at, end_); }

  __device__ void stage(const Segment& segment) {
    const int at = Group::before(segment.length > 0 ? 1 : 0, size_, scratch_);
    Group::before((segment.length + Group::kLanes - 1) / Group::kLanes, steps_, scratch_);
    if (segment.length > 0) staged_[at] = segment;
    Group::sync();
  }

  const View& view_;
  const Task& task_;
  Segment* staged_;
  int* scratch_;
  std::int32_t begin_ = 0, end_ = 0;  // A's row
  int most_ = 0;                      // nonzeros, of the rows of the warp's groups
  int size_ = 0, steps_ = 0;          // what is staged
  bool is_staged_ = false;
};

/// One product of a step; none where the segment has ended.
struct Product {
  std::int32_t col = -1;
  float left = 0, right = 0;
};

/// The way of kWidth lanes through staged segments, or every kStride-th of them: kWidth products of
/// one segment a step.
template <int kWidth, int kStride, bool kWithValues>
class Steps {
 public:
  __device__ Steps(const View& view, const Segment* staged, int size, int first, int lane)
      : cols_(view.b_cols),
        values_(view.b_values),
        staged_(staged),
        size_(size),
        at_(first),
        lane_(lane) {
    if (at_ < size_) now_ = staged_[at_];
  }

  __device__ bool is_at_end() const { return at_ >= size_; }

  /// The lane's product of the next step.
  __device__ Product load() {
    Product product;
    if (is_at_end()) return product;
    if (offset_ + lane_ < now_.length) {
      const std::int32_t at = now_.begin + offset_ + lane_;
      product.col = __ldg(cols_ + at);
      if constexpr (kWithValues) {
        product.left = now_.value;
        product.right = __ldg(values_ + at);
      }
    }
    offset_ += kWidth;
    if (offset_ >= now_.length) {
      offset_ = 0;
      at_ += kStride;
      if (at_ < size_) now_ = staged_[at_];
    }
    return product;
  }

 private:
  const std::int32_t* cols_;
  const float* values_;
  const Segment* staged_;
  int size_, at_;
  int lane_;
  int offset_ = 0;
  Segment now_;
};

/// Marks every column of the task's products.
template <class Group, class Bitmap>
__device__ void mark_columns(const View& view, Segments<Group>& segments, Bitmap& bitmap) {
  // Marks come in any order: each warp of a thread block has segments of its own.
  constexpr int kWidth = Group::kIsBlock ? 32 : Group::kLanes;
  segments.for_all([&](const Segment* staged, int size, int) {
    Steps<kWidth, Group::kWarps, false> steps(view, staged, size, Group::lane() / kWidth,
                                              Group::lane() % kWidth);
    std::int32_t next[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) next[u] = steps.load().col;
    bool is_last = false;
    while (!is_last) {
      is_last = steps.is_at_end();
      std::int32_t now[kAhead];
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        now[u] = next[u];
        next[u] = steps.load().col;
      }
#pragma unroll
      for (int u = 0; u < kAhead; ++u)
        if (now[u] >= 0) bitmap.mark(now[u]);
    }
  });
}

/// Adds the task's products to their sums, element for element in the order of A's columns.
template <class Group, class Bitmap>
__device__ void add_products(const View& view, Segments<Group>& segments, const Bitmap& bitmap,
                             float* sums) {
  segments.for_all([&](const Segment* staged, int size, int num_steps) {
    Steps<Group::kLanes, 1, true> steps(view, staged, size, 0, Group::lane());
    const int most = Group::most(num_steps);
    Product next[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) next[u] = steps.load();
    for (int i = 0; i < most; i += kAhead) {
      Product now[kAhead];
      int places[kAhead];
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        now[u] = next[u];
        next[u] = steps.load();
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
