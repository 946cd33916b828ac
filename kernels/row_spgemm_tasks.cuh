// row_spgemm's rows on the GPU: analysed, cut into tasks, and these sorted by class. See
// kernels/row_spgemm.hpp.
#pragma once

#include <climits>
#include <cstdint>

#include "kernels/row_spgemm_group.cuh"

namespace tessera::row_spgemm {

constexpr int kThreads = 256;   // of the kernels that go over rows
constexpr int kLanesOfRow = 8;  // of a row's analysis

/// What is asked about a row of B, in one load. Its words begin where its nonzeros do.
struct alignas(16) RowOfB {
  std::int32_t begin, length, words;
};

/// The columns that a row of B spans.
struct alignas(8) RangeOfB {
  std::int32_t first_col, last_col;
};

/// Up to 32 nonzeros of a row of B that are in one word of a bitmap.
struct alignas(8) WordOfB {
  std::int32_t word;
  std::uint32_t columns;
};

struct View {
  std::int32_t rows, rows_of_b_count;
  std::int64_t nonzeros_of_b;
  const std::int32_t* a_offsets;  // [rows + 1]
  const std::int32_t* a_cols;
  const float* a_values;
  const std::int32_t* b_offsets;  // [rows_of_b_count + 1]
  const std::int32_t* b_cols;
  const float* b_values;
  RowOfB* rows_of_b;      // [rows_of_b_count]
  RangeOfB* ranges_of_b;  // [rows_of_b_count]
  WordOfB* words_of_b;    // [nonzeros_of_b], as many of each row as it has
};

/// Turns a row of B into words, a few lanes each.
static __global__ void __launch_bounds__(kThreads) describe_rows_of_b(View view) {
  const auto thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int lane = static_cast<int>(thread % kLanesOfRow);
  const std::int64_t row = thread / kLanesOfRow;
  const bool is_row = row < view.rows_of_b_count;
  const std::int32_t begin = is_row ? view.b_offsets[row] : 0;
  const std::int32_t length = is_row ? view.b_offsets[row + 1] - begin : 0;
  const int most = __reduce_max_sync(~0u, length);
  constexpr unsigned kLanes = (1u << kLanesOfRow) - 1;
  const int shift = static_cast<int>(threadIdx.x) % 32 / kLanesOfRow * kLanesOfRow;

  int words = 0;        // up to here
  WordOfB last{-1, 0};  // the last of them, so far
  for (int first = 0; first < most; first += kLanesOfRow) {
    const int at = first + lane;
    const std::int32_t col = at < length ? view.b_cols[begin + at] : -1;
    const std::int32_t word = col < 0 ? -1 : word_of(col);
    std::uint32_t columns = col < 0 ? 0 : columns_before(col) + 1;
    if (word == last.word) columns |= last.columns;
#pragma unroll
    for (int step = 1; step < kLanesOfRow; step *= 2) {  // of the lanes before in the same word
      const std::int32_t other = __shfl_up_sync(~0u, word, step, kLanesOfRow);
      const std::uint32_t others = __shfl_up_sync(~0u, columns, step, kLanesOfRow);
      if (lane >= step && other == word) columns |= others;
    }
    const std::int32_t before = __shfl_up_sync(~0u, word, 1, kLanesOfRow);
    const bool begins = col >= 0 && word != (lane == 0 ? last.word : before);
    const unsigned heads = __ballot_sync(~0u, begins) >> shift & kLanes;
    const std::int32_t after = __shfl_down_sync(~0u, word, 1, kLanesOfRow);
    const bool ends = col >= 0 && (lane == kLanesOfRow - 1 || after != word);
    const int place = words + __popc(heads & ((2u << lane) - 1)) - 1;
    if (ends) view.words_of_b[begin + place] = {word, columns};
    words += __popc(heads);
    last.word = __shfl_sync(~0u, word, kLanesOfRow - 1, kLanesOfRow);
    last.columns = __shfl_sync(~0u, columns, kLanesOfRow - 1, kLanesOfRow);
    __syncwarp();  // a word that goes on is written again, by another lane
  }
  if (!is_row || lane != 0) return;
  view.rows_of_b[row] = {begin, length, words};
  view.ranges_of_b[row] =
      length == 0 ? RangeOfB{0, 0} : RangeOfB{view.b_cols[begin], view.b_cols[begin + length - 1]};
}

/// What the host wants to know of all rows, and of all tasks.
struct Summary {
  unsigned long long tasks;
  unsigned long long nonzeros;
  std::uint32_t mark_classes[kMarkClasses];  // tasks of each
  std::uint32_t sum_classes[kSumClasses];
  std::uint32_t mark_cursors[kMarkClasses];  // used while they are sorted
  std::uint32_t sum_cursors[kSumClasses];
};

/// Adds a thread block's counts to those of all.
template <int kCount>
__device__ void add_counts(const std::uint32_t (&of_block)[kCount], std::uint32_t* of_all) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < kCount && of_block[i] > 0) atomicAdd(of_all + i, of_block[i]);
}

template <int kCount>
__device__ void clear_counts(std::uint32_t (&counts)[kCount]) {
  if (threadIdx.x < kCount) counts[threadIdx.x] = 0;
  __syncthreads();
}

__device__ inline RowPlan analyse_row(const View& view, int row, int lane) {
  long long products = 0;
  std::int32_t first = INT_MAX, last = 0, nonzeros = 0;
  if (row < view.rows) {
    const std::int32_t begin = view.a_offsets[row], end = view.a_offsets[row + 1];
    nonzeros = end - begin;
    for (std::int32_t at = begin + lane; at < end; at += kLanesOfRow) {
      const std::int32_t row_of_b = view.a_cols[at];
      const std::int32_t length = view.rows_of_b[row_of_b].length;
      if (length == 0) continue;
      const RangeOfB range = view.ranges_of_b[row_of_b];
      products += length;
      first = min(first, range.first_col);
      last = max(last, range.last_col);
    }
  }
#pragma unroll
  for (int step = kLanesOfRow / 2; step > 0; step /= 2) {
    products += __shfl_xor_sync(~0u, products, step);
    first = min(first, __shfl_xor_sync(~0u, first, step));
    last = max(last, __shfl_xor_sync(~0u, last, step));
  }
  return plan_row(row, products, nonzeros, first, last);
}

static __global__ void __launch_bounds__(kThreads)
    analyse_rows(View view, RowPlan* plans, std::int32_t* slices, Summary* summary) {
  __shared__ std::uint32_t counts[kMarkClasses];
  __shared__ std::uint32_t tasks;
  if (threadIdx.x == 0) tasks = 0;
  clear_counts(counts);
  const auto thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int lane = static_cast<int>(thread % kLanesOfRow);
  const auto row = static_cast<int>(min(thread / kLanesOfRow, std::int64_t{view.rows}));
  const RowPlan plan = analyse_row(view, row, lane);
  if (row < view.rows && lane == 0) {
    plans[row] = plan;
    slices[row] = plan.slices;
    atomicAdd(&tasks, static_cast<std::uint32_t>(plan.slices));
    // All slices but the last have the same class.
    const std::uint32_t alike = plan.slices - 1;
    if (alike > 0) atomicAdd(counts + mark_class(plan.task(0)), alike);
    atomicAdd(counts + mark_class(plan.task(plan.slices - 1)), 1u);
  }
  __syncthreads();
  add_counts(counts, summary->mark_classes);
  if (threadIdx.x == 0) atomicAdd(&summary->tasks, static_cast<unsigned long long>(tasks));
}

/// `first_tasks` [rows] says where a row's tasks go; without, every row has one.
static __global__ void __launch_bounds__(kThreads)
    make_tasks(int rows, const RowPlan* plans, const std::int32_t* first_tasks, Task* tasks) {
  const int row = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (row >= rows) return;
  const RowPlan plan = plans[row];
  Task* to = tasks + (first_tasks != nullptr ? first_tasks[row] : row);
  for (int slice = 0; slice < plan.slices; ++slice) to[slice] = plan.task(slice);
}

/// Where each class begins among the sorted tasks.
template <int kCount>
struct Begins {
  std::uint32_t of[kCount];
};

/// Numbers of tasks by class, in no order within a class.
template <int kCount, class ClassOf>
__global__ void __launch_bounds__(kThreads)
    sort_tasks(int count, Begins<kCount> begins, std::uint32_t* cursors, std::int32_t* sorted,
               ClassOf class_of) {
  __shared__ std::uint32_t counts[kCount], places[kCount];
  clear_counts(counts);
  const int task = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  int of = 0;
  std::uint32_t place = 0;
  if (task < count) {
    of = class_of(task);
    place = atomicAdd(counts + of, 1u);
  }
  __syncthreads();
  if (threadIdx.x < kCount && counts[threadIdx.x] > 0)
    places[threadIdx.x] =
        begins.of[threadIdx.x] + atomicAdd(cursors + threadIdx.x, counts[threadIdx.x]);
  __syncthreads();
  if (task < count) sorted[places[of] + place] = task;
}

struct MarkClassOf {
  const Task* tasks;
  __device__ int operator()(int task) const { return mark_class(tasks[task]); }
};

struct SumClassOf {
  const Task* tasks;
  const std::int32_t* lengths;
  __device__ int operator()(int task) const { return sum_class(tasks[task], lengths[task]); }
};

}  // namespace tessera::row_spgemm
