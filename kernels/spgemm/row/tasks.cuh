// The launches of row_spgemm over rows and over all tasks: they describe the rows of B, cut the
// rows of C into tasks and sort the tasks by class. See kernels/spgemm/row/row_spgemm.hpp.
#pragma once

#include <climits>
#include <cstdint>

#include "kernels/spgemm/row/bitmaps.cuh"
#include "kernels/spgemm/row/row_spgemm.hpp"
#include "kernels/spgemm/shared/reports.cuh"
#include "kernels/spgemm/shared/tile_sums.cuh"

namespace tessera::row_spgemm {

/// The operands on the device, with values of the product's type, and what the analysis writes
/// about B.
template <class Value>
struct OperandsOf {
  std::int32_t rows, rows_of_b_count, cols;
  std::int64_t nonzeros_of_a, nonzeros_of_b;
  Thresholds many;
  const std::int32_t* a_offsets;  // [rows + 1]
  const std::int32_t* a_cols;
  const Value* a_values;
  const std::int32_t* b_offsets;  // [rows_of_b_count + 1]
  const std::int32_t* b_cols;
  const Value* b_values;
  RowOfB* rows_of_b;      // [rows_of_b_count]
  RangeOfB* ranges_of_b;  // [rows_of_b_count]
  WordOfB* words_of_b;    // [nonzeros_of_b], those of a row from its first nonzero on; or nullptr
  std::int32_t* places_of_b;  // [nonzeros_of_b]: the first nonzero of each word; or nullptr
};
/// The analysis reads no values: it takes these for products of any type.
using OperandsView = OperandsOf<float>;

/// The operands of an analysis with the values of a product of another type.
template <class Value>
OperandsOf<Value> with_values(const OperandsView& of, const Value* a_values,
                              const Value* b_values) {
  return {of.rows,       of.rows_of_b_count, of.cols,      of.nonzeros_of_a, of.nonzeros_of_b,
          of.many,       of.a_offsets,       of.a_cols,    a_values,         of.b_offsets,
          of.b_cols,     b_values,           of.rows_of_b, of.ranges_of_b,   of.words_of_b,
          of.places_of_b};
}

/// Where TaskSummary::hubs holds the number of hubs: an operand has fewer than 2^31 nonzeros.
constexpr int kHubShift = 32;

static_assert(kTile == kRowThreads, "a launch over rows or tasks has a thread block per tile");

/// Sums over all rows and all tasks, which the host reads.
struct TaskSummary {
  unsigned long long tasks;
  unsigned long long nonzeros;
  unsigned long long hubs;  // their number times 2^kHubShift, and their nonzeros of A
  unsigned long long hub_products;
  std::uint32_t mark_classes[kClasses];  // the number of tasks of each class
  std::uint32_t sum_classes[kClasses];
  std::uint32_t mark_cursors[kClasses];  // the number of tasks that are sorted so far
  std::uint32_t sum_cursors[kClasses];
  std::uint32_t blocks_done[2];  // thread blocks of the analysis and of the count that are done
};

/// What an analysis adds up on the device. It is all zeros before.
struct Counters {
  TaskSummary summary;
  unsigned long long columns[kMostTiles];  // of C, of the tasks of a tile
  std::uint32_t more_tasks[kMostTiles];    // than rows, of the rows of a tile
};

/// Clears the counters in one thread block.
__device__ inline void clear(Counters* counters) {
  static_assert(sizeof(Counters) % sizeof(std::uint32_t) == 0);
  auto* const words = reinterpret_cast<std::uint32_t*>(counters);
  for (unsigned i = threadIdx.x; i < sizeof(Counters) / sizeof(std::uint32_t); i += blockDim.x)
    words[i] = 0;
}

using SummaryReport = Report<TaskSummary>;

/// The number of this thread in a launch of one thread per item.
__device__ inline int thread_of_launch() {
  return static_cast<int>(thread_each().thread_of(blockIdx.x, threadIdx.x));
}

/// Calls visit.operator()<lanes>(row, first nonzero, nonzeros, most) for the rows of a warp: first
/// with kLanes lanes per row, side by side, then with all lanes for each row that needs a warp.
/// `most` is the largest number of nonzeros of the rows side by side. A row past the last has
/// number -1 and no nonzeros.
template <int kLanes, class Visit>
__device__ void for_rows_of_warp(std::int64_t rows, const std::int32_t* offsets, Visit visit) {
  const std::int64_t row =
      row_launch(kLanes).item_of(std::int64_t{blockIdx.x}, std::int64_t{threadIdx.x});
  const bool is_row = row < rows;
  const std::int32_t begin = is_row ? offsets[row] : 0;
  const std::int32_t length = is_row ? offsets[row + 1] - begin : 0;
  const bool is_long = kLanes < kWarpLanes && needs_warp(length, kLanes);
  const bool is_here = is_row && !is_long;
  visit.template operator()<kLanes>(is_here ? static_cast<std::int32_t>(row) : -1, begin,
                                    is_here ? length : 0,
                                    __reduce_max_sync(kAllLanes, is_here ? length : 0));
  if constexpr (kLanes < 32) {
    unsigned longs = __ballot_sync(kAllLanes, is_long && lane_of_warp() % kLanes == 0);
    for (; longs != 0; longs &= longs - 1) {
      const int from = __ffs(static_cast<int>(longs)) - 1;
      const std::int32_t of = __shfl_sync(kAllLanes, length, from);
      visit.template operator()<32>(__shfl_sync(kAllLanes, static_cast<std::int32_t>(row), from),
                                    __shfl_sync(kAllLanes, begin, from), of, of);
    }
  }
}

/// Turns a row of B into words by kLanes lanes. Every lane of the warp has to call it.
template <int kLanes>
__device__ void describe_row(const OperandsView& operands, std::int32_t row, std::int32_t begin,
                             std::int32_t length, std::int32_t most) {
  const int lane = lane_of_warp() % kLanes;
  constexpr unsigned kOfRow = kLanes == 32 ? kAllLanes : (1u << (kLanes % 32)) - 1;
  const int shift = lane_of_warp() / kLanes * kLanes;
  int words = 0;        // up to here
  WordOfB last{-1, 0};  // the last of them, so far
  for (int first = 0; first < most; first += kLanes) {
    const int at = first + lane;
    const std::int32_t col = at < length ? operands.b_cols[begin + at] : -1;
    const std::int32_t word = col < 0 ? -1 : word_of(col);
    std::uint32_t columns = col < 0 ? 0 : bits_before(col) + 1;
    if (word == last.word) columns |= last.columns;
#pragma unroll
    for (int step = 1; step < kLanes; step *= 2) {  // of the lanes before in the same word
      const std::int32_t other = __shfl_up_sync(kAllLanes, word, step, kLanes);
      const std::uint32_t others = __shfl_up_sync(kAllLanes, columns, step, kLanes);
      if (lane >= step && other == word) columns |= others;
    }
    const std::int32_t before = __shfl_up_sync(kAllLanes, word, 1, kLanes);
    const bool begins = col >= 0 && word != (lane == 0 ? last.word : before);
    const unsigned heads = __ballot_sync(kAllLanes, begins) >> shift & kOfRow;
    const std::int32_t after = __shfl_down_sync(kAllLanes, word, 1, kLanes);
    const bool ends = col >= 0 && (lane == kLanes - 1 || after != word);
    const int place = words + __popc(heads & ((2u << lane) - 1)) - 1;
    if (ends) operands.words_of_b[begin + place] = {word, columns};
    if (begins && operands.places_of_b != nullptr) operands.places_of_b[begin + place] = begin + at;
    words += __popc(heads);
    last.word = __shfl_sync(kAllLanes, word, kLanes - 1, kLanes);
    last.columns = __shfl_sync(kAllLanes, columns, kLanes - 1, kLanes);
    __syncwarp();  // a word that goes on is written again, by another lane
  }
  if (row < 0 || lane != 0) return;
  operands.rows_of_b[row] = {begin, length, words};
  operands.ranges_of_b[row] =
      length == 0 ? RangeOfB{0, 0}
                  : RangeOfB{operands.b_cols[begin], operands.b_cols[begin + length - 1]};
}

template <int kLanes>
__global__ void __launch_bounds__(kRowThreads)
    describe_rows_of_b(OperandsView operands, Counters* to_clear) {
  if (blockIdx.x == 0 && to_clear != nullptr) clear(to_clear);
  for_rows_of_warp<kLanes>(operands.rows_of_b_count, operands.b_offsets,
                           [&]<int kOfRow>(std::int32_t row, std::int32_t begin,
                                           std::int32_t length, std::int32_t most) {
                             describe_row<kOfRow>(operands, row, begin, length, most);
                           });
}

/// Describes the rows of B without their words, and takes the nonzeros for an upper bound on them.
/// Both launches clear the counters, if there are any.
static __global__ void __launch_bounds__(kRowThreads)
    measure_rows_of_b(OperandsView operands, Counters* to_clear) {
  if (blockIdx.x == 0 && to_clear != nullptr) clear(to_clear);
  const int row = thread_of_launch();
  if (row >= operands.rows_of_b_count) return;
  const std::int32_t begin = operands.b_offsets[row], length = operands.b_offsets[row + 1] - begin;
  operands.rows_of_b[row] = {begin, length, length};
  operands.ranges_of_b[row] =
      length == 0 ? RangeOfB{0, 0}
                  : RangeOfB{operands.b_cols[begin], operands.b_cols[begin + length - 1]};
}

/// Adds the counts of a thread block to the sums over all.
__device__ inline void add_counts(const std::uint32_t (&of_block)[kClasses],
                                  std::uint32_t* of_all) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < kClasses && of_block[i] > 0) atomicAdd(of_all + i, of_block[i]);
}

__device__ inline void clear_counts(std::uint32_t (&counts)[kClasses]) {
  if (threadIdx.x < kClasses) counts[threadIdx.x] = 0;
  __syncthreads();
}

/// The facts of a row of C, found by kLanes lanes. Every lane of the warp has to call it.
template <int kLanes>
__device__ RowFacts facts_of_row(const OperandsView& operands, std::int32_t begin,
                                 std::int32_t length) {
  // No decision needs more than this, and sums over 32 lanes stay in 32 bits.
  constexpr std::int32_t kMuch = 1 << 25;
  std::int32_t products = 0, words = 0, first_col = INT_MAX, last_col = 0;
#pragma unroll 4  // the loads of a long row overlap
  for (std::int32_t at = lane_of_warp() % kLanes; at < length; at += kLanes) {
    const std::int32_t row_of_b = operands.a_cols[begin + at];
    const RowOfB of = operands.rows_of_b[row_of_b];
    const RangeOfB range = operands.ranges_of_b[row_of_b];
    products = min(products + min(of.length, kMuch), kMuch);
    words = min(words + min(of.words, kMuch), kMuch);
    first_col = min(first_col, of.length == 0 ? INT_MAX : range.first_col);
    last_col = max(last_col, of.length == 0 ? 0 : range.last_col);
  }
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) {
    products += __shfl_xor_sync(kAllLanes, products, step);
    words += __shfl_xor_sync(kAllLanes, words, step);
    first_col = min(first_col, __shfl_xor_sync(kAllLanes, first_col, step));
    last_col = max(last_col, __shfl_xor_sync(kAllLanes, last_col, step));
  }
  return {products, words, begin, length, first_col, last_col};
}

/// The slices of each row.
struct RowSlicing {
  std::int32_t* counts;  // [rows]
  std::int32_t* words;   // [rows]: words of a slice
};

/// Calls visit(row, facts, plan) in one lane per row of a warp.
template <int kLanes, class Visit>
__device__ void for_plans_of_warp(const OperandsView& operands, Visit visit) {
  for_rows_of_warp<kLanes>(
      operands.rows, operands.a_offsets,
      [&]<int kOfRow>(std::int32_t row, std::int32_t begin, std::int32_t length, std::int32_t) {
        const RowFacts facts = facts_of_row<kOfRow>(operands, begin, length);
        if (row < 0 || lane_of_warp() % kOfRow != 0) return;
        visit(row, facts, plan_row(row, facts, operands.many));
      });
}

template <int kLanes>
__global__ void __launch_bounds__(kRowThreads)
    analyse_rows(OperandsView operands, Task* tasks, RowSlicing slicing, HubRow* hubs,
                 Counters* counters, SummaryReport report) {
  TaskSummary* const summary = &counters->summary;
  __shared__ std::uint32_t counts[kClasses];
  __shared__ std::uint32_t slices;
  if (threadIdx.x == 0) slices = 0;
  clear_counts(counts);
  for_plans_of_warp<kLanes>(operands, [&](std::int32_t row, const RowFacts& facts,
                                          const RowPlan& plan) {
    if (plan.is_hub) {
      const unsigned long long before =
          atomicAdd(&summary->hubs, (1ull << kHubShift) + static_cast<unsigned>(facts.nonzeros));
      hubs[before >> kHubShift] = {row, facts.begin, static_cast<std::uint32_t>(before)};
      atomicAdd(&summary->hub_products, static_cast<unsigned long long>(facts.products));
    }
    tasks[row] = plan.whole;
    slicing.counts[row] = plan.slices;
    slicing.words[row] = plan.slice_words;
    if (plan.slices == 1) {
      atomicAdd(counts + mark_class(plan.whole), 1u);
      return;
    }
    atomicAdd(&slices, static_cast<std::uint32_t>(plan.slices - 1));
    if (operands.rows <= kMostTiled)
      atomicAdd(counters->more_tasks + row / kTile, static_cast<std::uint32_t>(plan.slices - 1));
    // All slices but the last have the same class.
    atomicAdd(counts + mark_class(slice_of(plan.whole, plan.slice_words, 0)),
              static_cast<std::uint32_t>(plan.slices - 1));
    atomicAdd(counts + mark_class(slice_of(plan.whole, plan.slice_words, plan.slices - 1)), 1u);
  });
  __syncthreads();
  add_counts(counts, summary->mark_classes);
  if (threadIdx.x == 0 && slices > 0)
    atomicAdd(&summary->tasks, static_cast<unsigned long long>(slices));
  if (is_last_block(summary->blocks_done)) write_report(report);
}

/// Raises *most to the largest number of tasks of a row, if that is larger.
template <int kLanes>
__global__ void __launch_bounds__(kRowThreads)
    find_most_tasks(OperandsView operands, std::uint32_t* most) {
  for_plans_of_warp<kLanes>(operands, [&](std::int32_t, const RowFacts&, const RowPlan& plan) {
    if (plan.slices > 1) atomicMax(most, static_cast<std::uint32_t>(plan.slices));
  });
}

/// Writes the tasks of all rows, where some rows have several. first_tasks [rows] has the numbers
/// of tasks of each row, which are replaced by their sums over the rows before; `more_tasks` has
/// the numbers of tasks beyond one of the rows of a tile, or is nullptr where the sums are there
/// already.
static __global__ void __launch_bounds__(kRowThreads)
    cut_rows(int rows, const Task* whole, const std::int32_t* slice_words,
             std::int32_t* first_tasks, const std::uint32_t* more_tasks, int num_tasks,
             Task* tasks) {
  const int row = thread_of_launch();
  int first, end;
  if (more_tasks == nullptr) {
    if (row >= rows) return;
    first = first_tasks[row];
    end = row + 1 < rows ? first_tasks[row + 1] : num_tasks;
  } else {
    const int own = row < rows ? first_tasks[row] : 0;
    first = static_cast<int>(
        blockIdx.x * kTile +
        sum_before(own > 0 ? static_cast<std::uint32_t>(own) - 1 : 0, more_tasks) + threadIdx.x);
    end = first + own;
    if (row >= rows) return;
    first_tasks[row] = first;
  }
  if (end - first == 1) {
    tasks[first] = whole[row];
    return;
  }
  for (int task = first; task < end; ++task)
    tasks[task] = slice_of(whole[row], slice_words[row], task - first);
}

/// Sorts tasks by class, in no order within a class: each thread of the launch its task. `counts`
/// has the number of tasks of each class. With `keeps_small` the small tasks, which come first,
/// stay as an earlier call has sorted them.
template <class ClassOf>
__device__ void sort_block(int count, const Task* tasks, const std::uint32_t* counts,
                           std::uint32_t* cursors, SortedTask* sorted, bool keeps_small,
                           ClassOf class_of) {
  __shared__ std::uint32_t of_block[kClasses], places[kClasses];
  clear_counts(of_block);
  const int id = thread_of_launch();
  int of = -1;
  std::uint32_t place = 0;
  Task task;
  if (id < count) {
    task = tasks[id];
    if (!keeps_small || task.storage != MarkStorage::kLanes) {
      of = class_of(task, id);
      place = atomicAdd(of_block + of, 1u);
    }
  }
  __syncthreads();
  if (threadIdx.x < kClasses && of_block[threadIdx.x] > 0) {
    std::uint32_t first = atomicAdd(cursors + threadIdx.x, of_block[threadIdx.x]);
    for (unsigned i = 0; i < threadIdx.x; ++i) first += counts[i];
    places[threadIdx.x] = first;
  }
  __syncthreads();
  if (of >= 0) sorted[places[of] + place] = {id, task.begin, task.nonzeros};
}

struct MarkClassOf {
  __device__ int operator()(const Task& task, int) const { return mark_class(task); }
};

struct SumClassOf {
  const std::int32_t* lengths;
  int sum_size;
  __device__ int operator()(const Task& task, int id) const {
    return sum_class(task, lengths[id], sum_size);
  }
};

/// Sorts the tasks by their classes of the first phase. Where `is_early` is true, the host has not
/// seen the summary, and there is nothing to sort if a row has several tasks or is a hub.
static __global__ void __launch_bounds__(kRowThreads)
    sort_by_marks(int count, const Task* tasks, TaskSummary* summary, SortedTask* sorted,
                  bool is_early) {
  if (is_early && (summary->tasks > 0 || summary->hubs > 0)) return;
  sort_block(count, tasks, summary->mark_classes, summary->mark_cursors, sorted, false,
             MarkClassOf{});
}

/// Sorts the tasks by their classes of the second phase, small ones excepted.
static __global__ void __launch_bounds__(kRowThreads)
    sort_by_sums(int count, const Task* tasks, TaskSummary* summary, SortedTask* sorted,
                 SumClassOf class_of) {
  sort_block(count, tasks, summary->sum_classes, summary->sum_cursors, sorted, true, class_of);
}

/// The same, and finds the offsets of tasks in C from their lengths and from the columns of each
/// tile. Reports the summary with C's nonzeros, if there is a report to make. offsets [count + 1]
static __global__ void __launch_bounds__(kRowThreads)
    place_tasks(int count, const Task* tasks, Counters* counters, SortedTask* sorted,
                SumClassOf class_of, std::int64_t* offsets, SummaryReport report) {
  const int id = thread_of_launch();
  const auto own = static_cast<unsigned long long>(id < count ? class_of.lengths[id] : 0);
  const auto before = static_cast<std::int64_t>(sum_before(own, counters->columns));
  if (id <= count) offsets[id] = before;
  if (report.to != nullptr && blockIdx.x + 1 == gridDim.x) {
    if (id == count) counters->summary.nonzeros = static_cast<unsigned long long>(before);
    __threadfence();
    __syncthreads();
    write_report(report);
  }
  sort_block(count, tasks, counters->summary.sum_classes, counters->summary.sum_cursors, sorted,
             true, class_of);
}

/// Counts the columns of C of rows that have one task each from C's row offsets [rows + 1].
static __global__ void __launch_bounds__(kRowThreads)
    recall_columns(int rows, const Task* tasks, const std::int64_t* row_offsets, int sum_size,
                   std::int32_t* lengths, TaskSummary* summary) {
  __shared__ std::uint32_t counts[kClasses];
  clear_counts(counts);
  const int row = thread_of_launch();
  if (row < rows) {
    const auto length = static_cast<std::int32_t>(row_offsets[row + 1] - row_offsets[row]);
    lengths[row] = length;
    atomicAdd(counts + sum_class(tasks[row], length, sum_size), 1u);
  }
  __syncthreads();
  add_counts(counts, summary->sum_classes);
}

}  // namespace tessera::row_spgemm
