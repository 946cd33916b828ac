// The first phase of row_spgemm: the kernels that count the columns of C of each task, and those
// that place tasks and rows in C. See kernels/spgemm/row/row_spgemm.hpp.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/spgemm/row/launches.cuh"

namespace tessera::row_spgemm {

/// What the first phase writes.
struct CountOutput {
  Task* tasks;
  std::int32_t* lengths;  // columns of C of each task
  Counters* counters;
  bool has_tiles;  // adds up the columns of each tile, too

  __device__ void set(int id, int length) const {
    lengths[id] = length;
    if (has_tiles)
      atomicAdd(counters->columns + id / kTile, static_cast<unsigned long long>(length));
  }
};

/// Counts the columns of C of a group's task, and the words that it keeps. `counts` is shared
/// memory of the thread block.
template <class Group, class Bitmap>
__device__ void count_task(const OperandsView& operands, const Batch& batch, int bytes,
                           GroupPlace place, unsigned char* shared, int* scratch,
                           const CountOutput& output, std::uint32_t (&counts)[kClasses]) {
  GroupTask<Group> mine(batch, bytes, shared, place);
  Bitmap bitmap(mine.task, mine.bitmap);
  Group::sync();
  mark_columns<Group>(operands, mine.task, mine.staged, scratch, bitmap);
  int found = 0;
  for (int i = Group::lane(); i < bitmap.size(); i += Group::kLanes)
    found += __popc(bitmap.slots()[i].marks);
  int total = 0;
  Group::before(found, total, scratch);
  if (Group::lane() != 0 || mine.sorted.id < 0) return;
  output.set(mine.sorted.id, total);
  if (Bitmap::kHasDirectory) output.tasks[mine.sorted.id].kept = mine.task.kept = bitmap.size();
  atomicAdd(counts + sum_class(mine.task, total, operands.many.sum_size), 1u);
}

template <class Group, class Bitmap>
__global__ void __launch_bounds__(kThreadsOf<Group>)
    count_columns(OperandsView operands, Batch batch, int bytes, CountOutput output) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ int scratch[Group::kWarps];
  __shared__ std::uint32_t counts[kClasses];
  clear_counts(counts);
  count_task<Group, Bitmap>(operands, batch, bytes, place_in_class<Group>(), shared, scratch,
                            output, counts);
  __syncthreads();
  add_counts(counts, output.counters->summary.sum_classes);
}

/// Counts the columns of C of a small task. `cols` [lanes] is shared memory of the row.
template <int kLanes>
__device__ void count_small_task(const OperandsView& operands, const Batch& batch, int number,
                                 std::int32_t* cols, const CountOutput& output) {
  const SortedTask task = batch.at(number);
  const SmallRow<kLanes> row(operands, task, cols);
  if (task.id >= 0 && row.lane() == 0) output.set(task.id, row.columns());
  // A small task has the same class in both phases.
  if (number == 0 && row.lane() == 0)
    output.counters->summary
        .sum_classes[std::countr_zero(static_cast<unsigned>(kLanes / kLeastLanes))] =
        static_cast<std::uint32_t>(batch.count);
}

template <int kLanes>
__global__ void __launch_bounds__(kGroupThreads)
    count_small(OperandsView operands, Batch batch, CountOutput output) {
  __shared__ __align__(16) std::int32_t cols[kGroupThreads];
  count_small_task<kLanes>(operands, batch, small_task_number<kLanes>(),
                           cols + threadIdx.x / kLanes * kLanes, output);
}

/// Counts the columns of C of all tasks, and reports the summary.
static __global__ void __launch_bounds__(kJointThreads)
    count_all(const __grid_constant__ JointLaunch launch, OperandsView operands, Batch all,
              CountOutput output, SummaryReport report) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ int scratch[kJointThreads / kWarpLanes];
  __shared__ std::uint32_t counts[kClasses];
  clear_counts(counts);
  visit_joint_class<false>(
      launch, all,
      [&]<class Group, class Bitmap>(const Batch& batch, int bytes, GroupPlace place) {
        count_task<Group, Bitmap>(operands, batch, bytes, place, shared, scratch, output, counts);
      },
      [&]<int kLanes>(const Batch& batch, int number) {
        count_small_task<kLanes>(
            operands, batch, number,
            reinterpret_cast<std::int32_t*>(shared) + threadIdx.x / kLanes * kLanes, output);
      });
  __syncthreads();
  add_counts(counts, output.counters->summary.sum_classes);
  if (!is_last_block(output.counters->summary.blocks_done + 1)) return;
  if (threadIdx.x == 0) output.counters->summary.nonzeros = 0;
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kMostTiles; i += kJointThreads)
    if (const unsigned long long of_tile = __ldcg(output.counters->columns + i); of_tile > 0)
      atomicAdd(&output.counters->summary.nonzeros, of_tile);
  __threadfence();
  __syncthreads();
  write_report(report);
}

/// Ranks the slots of a bitmap and, unless `cols` is nullptr, writes the task's columns of C there.
/// `found` [columns of the task] is shared memory for use meanwhile.
template <class Group, class Bitmap>
__device__ void rank_columns(Bitmap& bitmap, int* scratch, std::int32_t* found,
                             std::int32_t* cols) {
  const int count = rank_slots<Group>(
      bitmap.slots(), bitmap.size(), scratch, [&](int slot, std::uint32_t marks, int rank) {
        if (marks == 0 || cols == nullptr) return;
        const std::int32_t first = bitmap.first_col(slot);
        for (; marks != 0; marks &= marks - 1)
          found[rank++] = first + __ffs(static_cast<int>(marks)) - 1;
      });
  Group::sync();
  if (cols == nullptr) return;
  for (int i = Group::lane(); i < count; i += Group::kLanes) cols[i] = found[i];
  Group::sync();
}

/// Where the offsets of rows in C are found from those of tasks, all after `before` others.
struct RowPlaces {
  int rows = 0;
  const std::int32_t* first_tasks = nullptr;  // [rows]; nullptr: every row has one task
  const std::int64_t* offsets = nullptr;      // of tasks
  std::int64_t nonzeros = 0;
  std::int64_t before = 0;
  std::int64_t* row_offsets = nullptr;  // [rows + 1]

  /// The thread blocks that find them, with a row per thread; none without an array.
  unsigned blocks() const {
    return row_offsets == nullptr ? 0 : grid_of(thread_each(), std::int64_t{rows} + 1);
  }

  __device__ void find(int thread_block) const {
    const int row =
        static_cast<int>(thread_each().thread_of(thread_block, static_cast<int>(threadIdx.x)));
    if (row > rows) return;
    const int task = first_tasks == nullptr || row == rows ? row : first_tasks[row];
    row_offsets[row] = before + (row < rows ? offsets[task] : nonzeros);
  }
};
static_assert(kRowThreads == kJointThreads, "blocks of a joint launch find rows, too");

static __global__ void __launch_bounds__(kRowThreads) gather_offsets(RowPlaces places) {
  places.find(static_cast<int>(blockIdx.x));
}

}  // namespace tessera::row_spgemm
