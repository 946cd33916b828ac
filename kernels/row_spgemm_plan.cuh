// row_spgemm's host side up to the sums: rows analysed and cut into tasks, tasks sorted by class,
// columns of C counted; and the launches of a kernel for the tasks of each class. What is summed is
// up to the caller: numbers (kernels/row_spgemm.cu), or products of tiles
// (kernels/tile_spgemm.cu). See kernels/row_spgemm.hpp.
#pragma once

#include <algorithm>
#include <climits>
#include <cub/device/device_scan.cuh>
#include <vector>

#include "formats/base/check.hpp"
#include "kernels/gpu_spgemm.hpp"
#include "kernels/row_spgemm_steps.cuh"
#include "kernels/side_streams.hpp"

namespace tessera::row_spgemm {

constexpr int kThreadsOfGroups = 128;  // of a thread block of several groups

/// Sorted tasks of one class.
struct Batch {
  const std::int32_t* sorted;
  int count;
  const Task* tasks;

  /// The task of a group, with no words past the last.
  __device__ Task task(int number) const { return number < count ? tasks[sorted[number]] : Task{}; }
};

template <class Group>
constexpr int kGroups = Group::kIsBlock ? 1 : kThreadsOfGroups / Group::kLanes;

/// Shared memory of a group: segments, then what bitmaps and sums take.
template <class Group>
constexpr int group_bytes(int bytes) {
  return Group::kLanes * static_cast<int>(sizeof(Segment)) + (bytes + 15) / 16 * 16;
}

template <class Group, class Bitmap>
__global__ void __launch_bounds__(Group::kIsBlock ? Group::kLanes : kThreadsOfGroups)
    count_columns(View view, Batch batch, int bytes, std::int32_t* lengths, Summary* summary) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ int scratch[Group::kWarps];
  __shared__ std::uint32_t counts[kSumClasses];
  clear_counts(counts);
  const int group = static_cast<int>(threadIdx.x) / Group::kLanes;
  const int number = static_cast<int>(blockIdx.x) * kGroups<Group> + group;
  const Task task = batch.task(number);
  unsigned char* memory = shared + group * group_bytes<Group>(bytes);
  auto* staged = reinterpret_cast<Segment*>(memory);
  Bitmap bitmap(task, memory + Group::kLanes * sizeof(Segment));
  Group::sync();
  mark_columns<Group>(view, task, staged, scratch, bitmap);
  int found = 0;
  for (int i = Group::lane(); i < bitmap.size(); i += Group::kLanes)
    found += __popc(bitmap.marks(i));
  int total = 0;
  Group::before(found, total, scratch);
  if (Group::lane() == 0 && number < batch.count) {
    lengths[batch.sorted[number]] = total;
    atomicAdd(counts + sum_class(task, total), 1u);
  }
  __syncthreads();
  add_counts(counts, summary->sum_classes);
}

/// Gives every word its rank, and writes the columns of C. `found` [columns of C] is for use
/// meanwhile.
template <class Group, class Bitmap>
__device__ void rank_columns(Bitmap& bitmap, int* scratch, std::int32_t* found,
                             std::int32_t* cols) {
  bitmap.sort(scratch);
  constexpr int kBits = 16;  // of a count of columns; words with any are counted above them
  static_assert(kMostWords * kWordCols < 1 << kBits);
  std::uint32_t before = 0;
  const int most = Group::most(bitmap.words());
  for (int first = 0; first < most; first += Group::kLanes) {
    const int i = first + Group::lane();
    const int slot = i < bitmap.words() ? bitmap.slot(i) : 0;
    const std::uint32_t marks = i < bitmap.words() ? bitmap.marks(slot) : 0;
    if constexpr (!Group::kIsBlock)
      if (__all_sync(~0u, marks == 0)) continue;
    int all = 0;
    const std::uint32_t place =
        before + Group::before(marks == 0 ? 0 : (1 << kBits) + __popc(marks), all, scratch);
    before += all;
    if (marks == 0) continue;
    bitmap.set_rank(slot, place % (1u << kBits));
    found[place >> kBits] = slot;
  }
  Group::sync();
  const int words = static_cast<int>(before >> kBits);
  for (int i = Group::lane(); i < words; i += Group::kLanes) {
    const int slot = found[i];
    const std::int32_t col = bitmap.first_col(slot);
    std::int32_t* to = cols + bitmap.rank(col);
    for (std::uint32_t marks = bitmap.marks(slot); marks != 0; marks &= marks - 1)
      *to++ = col + __ffs(static_cast<int>(marks)) - 1;
  }
  Group::sync();
}

/// The offsets of rows from those of tasks; without `first_tasks` every row has one.
inline __global__ void __launch_bounds__(kThreads)
    gather_offsets(int rows, const std::int32_t* first_tasks, const std::int64_t* offsets,
                   std::int64_t nonzeros, std::int64_t* row_offsets) {
  const int row = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (row > rows) return;
  const int task = first_tasks == nullptr || row == rows ? row : first_tasks[row];
  row_offsets[row] = row < rows ? offsets[task] : nonzeros;
}

inline unsigned blocks_for(std::int64_t count, int each) {
  return static_cast<unsigned>((count + each - 1) / each);
}

/// Calls body.operator()<Group, Bitmap>(bytes) for one of the classes, those from kFrom to kCount;
/// those of the tables begin at kTable.
template <bool kWithRanks, auto kLimits, int kCount, int kTable, int kFrom = 0, class Body>
void with_class(int of, Body body) {
  if constexpr (kFrom < kCount) {
    if (of != kFrom) return with_class<kWithRanks, kLimits, kCount, kTable, kFrom + 1>(of, body);
    constexpr TaskClass limits = kLimits(kFrom);
    using Lanes = Group<limits.lanes>;
    if constexpr (kFrom >= kTable && kFrom < kTable + kTables)
      body.template
      operator()<Lanes, HashedBitmap<Lanes, kWithRanks, kLeastTable << (kFrom - kTable)>>(
          limits.bytes);
    else
      body.template operator()<Lanes, PlainBitmap<Lanes, kWithRanks>>(limits.bytes);
  }
}

/// Launches a kernel that takes tasks of one class.
template <class Group, class Kernel, class... Arguments>
void launch_groups(Kernel kernel, int count, int bytes, cudaStream_t stream,
                   const Arguments&... arguments) {
  const int shared = kGroups<Group> * group_bytes<Group>(bytes);
  constexpr int kWithoutAsking = 48 << 10;
  if (shared > kWithoutAsking)
    cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared),
               "asking for shared memory");
  kernel<<<blocks_for(count, kGroups<Group>), kGroups<Group> * Group::kLanes,
           static_cast<std::size_t>(shared), stream>>>(arguments...);
  cuda_check(cudaGetLastError(), "launching row_spgemm");
}

/// The tasks of a product. The host waits twice: for their number, and for that of C's columns.
class RowTasks {
 public:
  /// What a product needs beside C: one block, and more only where rows are cut into many tasks.
  struct Work {
    Work(ProductRun& run, const View& of)
        : view(of), capacity(std::int64_t{of.rows} + of.rows / 8 + 1024) {
      const std::int64_t at_rows_of_b = block.place<RowOfB>(of.rows_of_b_count);
      const std::int64_t at_ranges = block.place<RangeOfB>(of.rows_of_b_count);
      const std::int64_t at_words = block.place<WordOfB>(of.nonzeros_of_b);
      const std::int64_t at_plans = block.place<RowPlan>(of.rows);
      const std::int64_t at_slices = block.place<std::int32_t>(of.rows);
      const std::int64_t at_summary = block.place<Summary>(1);
      const TaskPlaces places(block, capacity);
      block.take(run);
      view.rows_of_b = block.array<RowOfB>(at_rows_of_b, of.rows_of_b_count).data();
      view.ranges_of_b = block.array<RangeOfB>(at_ranges, of.rows_of_b_count).data();
      view.words_of_b = block.array<WordOfB>(at_words, of.nonzeros_of_b).data();
      plans = block.array<RowPlan>(at_plans, of.rows);
      slices = block.array<std::int32_t>(at_slices, of.rows);
      summary = block.array<Summary>(at_summary, 1).data();
      places.hand_out(*this, block, capacity);
    }

    /// Makes room for that many tasks.
    void reserve(ProductRun& run, std::int64_t tasks) {
      if (tasks <= capacity) return;
      capacity = tasks;
      const TaskPlaces places(more, capacity);
      more.take(run);
      places.hand_out(*this, more, capacity);
    }

    bool is_sliced() const { return num_tasks != static_cast<int>(plans.size()); }

    View view;
    std::int64_t capacity;
    int num_tasks = 0;
    RunArray<RowPlan> plans;         // [rows]
    RunArray<std::int32_t> slices;   // [rows]: of each row; then its first task
    Summary* summary;                // [1]
    RunArray<Task> tasks;            // [capacity], num_tasks of them used; likewise:
    RunArray<std::int32_t> sorted;   // [capacity]
    RunArray<std::int32_t> lengths;  // [capacity + 1]: columns of C of each
    RunArray<std::int64_t> offsets;  // [capacity + 1]: in C
    RunArray<std::byte> scratch;     // of scans

   private:
    struct TaskPlaces {
      TaskPlaces(RunBlock& block, std::int64_t capacity)
          : tasks(block.place<Task>(capacity)),
            sorted(block.place<std::int32_t>(capacity)),
            lengths(block.place<std::int32_t>(capacity + 1)),
            offsets(block.place<std::int64_t>(capacity + 1)),
            scratch_bytes(scan_bytes(capacity + 1)),
            scratch(block.place<std::byte>(scratch_bytes)) {}

      void hand_out(Work& work, const RunBlock& block, std::int64_t capacity) const {
        work.tasks = block.array<Task>(tasks, capacity);
        work.sorted = block.array<std::int32_t>(sorted, capacity);
        work.lengths = block.array<std::int32_t>(lengths, capacity + 1);
        work.offsets = block.array<std::int64_t>(offsets, capacity + 1);
        work.scratch = block.array<std::byte>(scratch, scratch_bytes);
      }

      std::int64_t tasks, sorted, lengths, offsets;
      std::int64_t scratch_bytes, scratch;
    };

    RunBlock block, more;
  };

  RowTasks() { cuda_check(cudaMallocHost(&summary_, sizeof(Summary)), "allocating pinned memory"); }
  ~RowTasks() { cudaFreeHost(summary_); }
  RowTasks(const RowTasks&) = delete;
  RowTasks& operator=(const RowTasks&) = delete;

  /// Describes rows of B, and makes tasks. Waits.
  void analyse(Work& work, ProductRun& run) {
    const cudaStream_t stream = run.stream();
    cuda_check(cudaMemsetAsync(work.summary, 0, sizeof(Summary), stream), "clearing");
    if (work.view.rows_of_b_count > 0)
      describe_rows_of_b<<<blocks_for(std::int64_t{work.view.rows_of_b_count} * kLanesOfRow,
                                      kThreads),
                           kThreads, 0, stream>>>(work.view);
    if (work.view.rows > 0)
      analyse_rows<<<blocks_for(std::int64_t{work.view.rows} * kLanesOfRow, kThreads), kThreads, 0,
                     stream>>>(work.view, work.plans.data(), work.slices.data(), work.summary);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
    const Summary& summary = read_summary(work, stream);
    require<Unsupported>(summary.tasks <= INT_MAX / 2, "{} tasks are more than row_spgemm counts",
                         summary.tasks);
    work.num_tasks = static_cast<int>(summary.tasks);
    work.reserve(run, work.num_tasks);
    if (work.num_tasks == 0) return;
    if (work.is_sliced())
      scan(work.slices.data(), work.slices.data(), work.view.rows, work, stream);
    make_tasks<<<blocks_for(work.view.rows, kThreads), kThreads, 0, stream>>>(
        work.view.rows, work.plans.data(), work.is_sliced() ? work.slices.data() : nullptr,
        work.tasks.data());
    sort(summary.mark_classes, work.summary->mark_cursors, MarkClassOf{work.tasks.data()}, work,
         stream);
  }

  /// Counts the columns of C of every task, without waiting.
  void count(Work& work, ProductRun& run) {
    for_classes(summary_->mark_classes, work, run.stream(),
                [&](int of, const Batch& batch, cudaStream_t stream) {
                  with_class<false, mark_limits, kMarkClasses, kMarkTable>(
                      of, [&]<class Group, class Bitmap>(int bytes) {
                        launch_groups<Group>(count_columns<Group, Bitmap>, batch.count, bytes,
                                             stream, work.view, batch, bytes, work.lengths.data(),
                                             work.summary);
                      });
                });
    // What lies beyond the last length is read, and counts for nothing: the scan excludes it.
    cuda_check(cudaMemsetAsync(work.lengths.data() + work.num_tasks, 0, sizeof(std::int32_t),
                               run.stream()),
               "clearing");
    scan(work.lengths.data(), work.offsets.data(), work.num_tasks + 1, work, run.stream());
    cuda_check(cudaMemcpyAsync(&work.summary->nonzeros, work.offsets.data() + work.num_tasks,
                               sizeof(std::int64_t), cudaMemcpyDeviceToDevice, run.stream()),
               "counting the nonzeros of C");
  }

  /// How many columns of C all tasks have, which are now sorted for with_ranks(). Waits.
  std::int64_t sort_by_columns(Work& work, cudaStream_t stream) {
    const Summary& summary = read_summary(work, stream);
    sort(summary.sum_classes, work.summary->sum_cursors,
         SumClassOf{work.tasks.data(), work.lengths.data()}, work, stream);
    return static_cast<std::int64_t>(summary.nonzeros);
  }

  /// Calls launch.operator()<Group, Bitmap>(batch, bytes, stream) for all tasks: bitmaps have
  /// ranks, and bytes are enough for them and four more for each column of C.
  template <class Launch>
  void with_ranks(const Work& work, cudaStream_t stream, Launch launch) {
    for_classes(summary_->sum_classes, work, stream,
                [&](int of, const Batch& batch, cudaStream_t of_class) {
                  with_class<true, sum_limits, kSumClasses, kSumTable>(
                      of, [&]<class Group, class Bitmap>(int bytes) {
                        launch.template operator()<Group, Bitmap>(batch, bytes, of_class);
                      });
                });
  }

  /// Where each row begins among the columns of C. [rows + 1]
  static void find_rows(const Work& work, std::int64_t columns, std::int64_t* row_offsets,
                        cudaStream_t stream) {
    gather_offsets<<<blocks_for(std::int64_t{work.view.rows} + 1, kThreads), kThreads, 0, stream>>>(
        work.view.rows, work.is_sliced() ? work.slices.data() : nullptr, work.offsets.data(),
        columns, row_offsets);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
  }

 private:
  /// What the device has found so far. Waits.
  const Summary& read_summary(const Work& work, cudaStream_t stream) {
    cuda_check(
        cudaMemcpyAsync(summary_, work.summary, sizeof(Summary), cudaMemcpyDeviceToHost, stream),
        "reading what was counted");
    cuda_check(cudaStreamSynchronize(stream), "analysing rows");
    return *summary_;
  }

  template <class In, class Out>
  static void scan(const In* from, Out* to, std::int64_t count, const Work& work,
                   cudaStream_t stream) {
    auto bytes = static_cast<std::size_t>(work.scratch.size());
    cuda_check(cub::DeviceScan::ExclusiveScan(work.scratch.data(), bytes, from, to,
                                              cuda::std::plus<Out>{}, Out{0}, count, stream),
               "scanning");
  }

  /// Scratch of any scan here of at most so many elements.
  static std::int64_t scan_bytes(std::int64_t count) {
    std::size_t narrow = 0, wide = 0;
    const std::int32_t* from = nullptr;
    cuda_check(
        cub::DeviceScan::ExclusiveScan(nullptr, narrow, from, static_cast<std::int32_t*>(nullptr),
                                       cuda::std::plus<std::int32_t>{}, 0, count),
        "sizing a scan");
    cuda_check(
        cub::DeviceScan::ExclusiveScan(nullptr, wide, from, static_cast<std::int64_t*>(nullptr),
                                       cuda::std::plus<std::int64_t>{}, std::int64_t{0}, count),
        "sizing a scan");
    return static_cast<std::int64_t>(std::max(narrow, wide));
  }

  template <int kCount, class ClassOf>
  static void sort(const std::uint32_t (&counts)[kCount], std::uint32_t* cursors, ClassOf class_of,
                   Work& work, cudaStream_t stream) {
    if (work.num_tasks == 0) return;
    Begins<kCount> begins{};
    for (int i = 1; i < kCount; ++i) begins.of[i] = begins.of[i - 1] + counts[i - 1];
    sort_tasks<kCount><<<blocks_for(work.num_tasks, kThreads), kThreads, 0, stream>>>(
        work.num_tasks, begins, cursors, work.sorted.data(), class_of);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
  }

  /// Calls launch(class, batch, stream) for the tasks of each class that has any, the largest
  /// first.
  template <int kCount, class Launch>
  void for_classes(const std::uint32_t (&counts)[kCount], const Work& work, cudaStream_t stream,
                   Launch launch) {
    struct OfClass {
      int number;
      Batch batch;
    };
    std::vector<OfClass> classes;
    auto end = static_cast<std::uint32_t>(work.num_tasks);
    for (int i = kCount - 1; i >= 0; --i) {
      end -= counts[i];
      if (counts[i] > 0)
        classes.push_back(
            {i, Batch{work.sorted.data() + end, static_cast<int>(counts[i]), work.tasks.data()}});
    }
    sides_.run(static_cast<int>(classes.size()), stream, [&](int i, cudaStream_t of_class) {
      launch(classes[i].number, classes[i].batch, of_class);
    });
  }

  Summary* summary_ = nullptr;  // [1], pinned
  SideStreams sides_;
};

}  // namespace tessera::row_spgemm
