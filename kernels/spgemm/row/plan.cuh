// row_spgemm's host side up to the sums: rows analysed and cut into tasks, tasks sorted by class,
// columns of C counted; and the launches of a kernel for the tasks of each class. What is summed is
// up to the caller: numbers (kernels/spgemm/row/row_spgemm.cu), or products of tiles
// (kernels/spgemm/tile/tile_spgemm.cu). See kernels/spgemm/row/row_spgemm.hpp.
#pragma once

#include <algorithm>
#include <bit>
#include <climits>
#include <cub/device/device_scan.cuh>
#include <vector>

#include "formats/base/check.hpp"
#include "kernels/device/side_streams.hpp"
#include "kernels/gpu_spgemm.hpp"
#include "kernels/spgemm/row/small.cuh"
#include "kernels/spgemm/row/steps.cuh"
#include "kernels/spgemm/shared/rows.cuh"

namespace tessera::row_spgemm {

constexpr int kThreadsOfGroups = 128;  // of a thread block of several groups

/// Sorted tasks of one class.
struct Batch {
  const SortedTask* sorted;
  int count;
  const Task* tasks;

  /// Past the last, one with no number and nothing to do.
  __device__ SortedTask at(int number) const {
    return number < count ? sorted[number] : SortedTask{};
  }
  __device__ Task task(const SortedTask& of) const { return of.id < 0 ? Task{} : tasks[of.id]; }
};

template <class Group>
constexpr int kGroups = Group::kIsBlock ? 1 : kThreadsOfGroups / Group::kLanes;

/// Shared memory of a group: segments, then what bitmaps and sums take.
template <class Group>
constexpr int group_bytes(int bytes) {
  return Group::kLanes * static_cast<int>(sizeof(Segment)) + (bytes + 15) / 16 * 16;
}

/// Counts the columns of C of each task, and how many words it has to keep for them.
template <class Group, class Bitmap>
__global__ void __launch_bounds__(Group::kIsBlock ? Group::kLanes : kThreadsOfGroups)
    count_columns(View view, Batch batch, int bytes, Task* tasks, std::int32_t* lengths,
                  Summary* summary) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ int scratch[Group::kWarps];
  __shared__ std::uint32_t counts[kClasses];
  clear_counts(counts);
  const int group = static_cast<int>(threadIdx.x) / Group::kLanes;
  const int number = static_cast<int>(blockIdx.x) * kGroups<Group> + group;
  const SortedTask sorted = batch.at(number);
  Task task = batch.task(sorted);
  unsigned char* memory = shared + group * group_bytes<Group>(bytes);
  auto* staged = reinterpret_cast<Segment*>(memory);
  Bitmap bitmap(task, memory + Group::kLanes * sizeof(Segment));
  Group::sync();
  mark_columns<Group>(view, task, staged, scratch, bitmap);
  int found = 0;
  for (int i = Group::lane(); i < bitmap.size(); i += Group::kLanes)
    found += __popc(bitmap.slots()[i].marks);
  int total = 0;
  Group::before(found, total, scratch);
  if (Group::lane() == 0 && sorted.id >= 0) {
    lengths[sorted.id] = total;
    if (Bitmap::kHasDirectory) tasks[sorted.id].kept = task.kept = bitmap.size();
    atomicAdd(counts + sum_class(task, total), 1u);
  }
  __syncthreads();
  add_counts(counts, summary->sum_classes);
}

/// Counts the columns of C of tasks with a product in each lane.
template <int kLanes>
__global__ void __launch_bounds__(kThreadsOfGroups)
    count_small(View view, Batch batch, std::int32_t* lengths, Summary* summary) {
  const int number = static_cast<int>(blockIdx.x * kThreadsOfGroups + threadIdx.x) / kLanes;
  const SortedTask task = batch.at(number);
  __shared__ __align__(16) std::int32_t cols[kThreadsOfGroups];
  const SmallRow<kLanes> row(view, task, cols + threadIdx.x / kLanes * kLanes);
  if (task.id >= 0 && row.lane() == 0) lengths[task.id] = row.columns();
  // The tasks are of this class in both phases.
  if (blockIdx.x == 0 && threadIdx.x == 0)
    summary->sum_classes[std::countr_zero(static_cast<unsigned>(kLanes / kLeastLanes))] =
        static_cast<std::uint32_t>(batch.count);
}

/// Gives every column its rank, and writes the columns of C unless that is nullptr, for those that
/// are there. `found` [columns of C] is for use meanwhile.
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

/// The offsets of rows from those of tasks, all after `before` others; without `first_tasks` every
/// row has one.
inline __global__ void __launch_bounds__(kThreads)
    gather_offsets(int rows, const std::int32_t* first_tasks, const std::int64_t* offsets,
                   std::int64_t nonzeros, std::int64_t before, std::int64_t* row_offsets) {
  const int row = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (row > rows) return;
  const int task = first_tasks == nullptr || row == rows ? row : first_tasks[row];
  row_offsets[row] = before + (row < rows ? offsets[task] : nonzeros);
}

inline unsigned blocks_for(std::int64_t count, int each) {
  return static_cast<unsigned>((count + each - 1) / each);
}

/// Calls launch.operator()<Group, Bitmap>(batch, bytes, stream) for the tasks of class `of`, or
/// launch_small.operator()<lanes>(batch, stream) where they are small.
template <bool kWithRanks, int kClass = 0, class Launch, class LaunchSmall>
void launch_class(int of, const Batch& batch, cudaStream_t stream, const Launch& launch,
                  const LaunchSmall& launch_small) {
  if constexpr (kClass < kClasses) {
    if (of != kClass)
      return launch_class<kWithRanks, kClass + 1>(of, batch, stream, launch, launch_small);
    if constexpr (kClass < kSmallSizes) {
      launch_small.template operator()<(kLeastLanes << kClass)>(batch, stream);
    } else {
      constexpr TaskClass limits = limits_of(kClass);
      using Lanes = Group<limits.lanes>;
      if constexpr (kClass < kFirstWords)
        launch.template operator()<Lanes, WholeBitmap<Lanes, kWithRanks>>(batch, limits.bytes,
                                                                          stream);
      else
        launch.template operator()<Lanes, WordsBitmap<Lanes, kWithRanks>>(batch, limits.bytes,
                                                                          stream);
    }
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

/// The same for small tasks.
template <int kLanes, class Kernel, class... Arguments>
void launch_small_groups(Kernel kernel, int count, cudaStream_t stream,
                         const Arguments&... arguments) {
  kernel<<<blocks_for(count, kThreadsOfGroups / kLanes), kThreadsOfGroups, 0, stream>>>(
      arguments...);
  cuda_check(cudaGetLastError(), "launching row_spgemm");
}

/// The tasks of a product. The host waits twice: for their number, and for that of C's columns.
class RowTasks {
 public:
  /// Where what is found out about B lies, which all rows of A share.
  struct PlacesOfB {
    PlacesOfB(RunBlock& block, const View& of, bool with_words = true)
        : rows(block.place<RowOfB>(of.rows_of_b_count)),
          ranges(block.place<RangeOfB>(of.rows_of_b_count)),
          has_words(with_words),
          words(block.place<WordOfB>(with_words ? of.nonzeros_of_b : 0)) {}

    void hand_out(View& view, const RunBlock& block) const {
      view.rows_of_b = block.data<RowOfB>(rows);
      view.ranges_of_b = block.data<RangeOfB>(ranges);
      view.words_of_b = has_words ? block.data<WordOfB>(words) : nullptr;
    }

    std::int64_t rows, ranges;
    bool has_words;
    std::int64_t words;
  };

  /// Memory for one Work after another.
  struct Rooms {
    RunArray<std::byte> of_rows;
    RunArray<std::byte> of_tasks;  // where rows have several
  };

  /// What a product needs beside C: one block, which may have a place for C, too, and others only
  /// where rows are cut into several tasks, or words come late.
  struct Work {
    Work(ProductRun& run, const View& of, RunBlock with_c = {})
        : view(of), num_tasks(of.rows), block(std::move(with_c)) {
      const PlacesOfB of_b(
          block, of,
          !words_can_wait(of.nonzeros_of_a, of.rows, of.nonzeros_of_b, of.rows_of_b_count));
      const RowPlaces of_rows(block, of.rows);
      block.take(run);
      of_b.hand_out(view, block);
      of_rows.hand_out(*this, block);
    }
    /// Of a view with B's rows described, in memory that is there, and outlives it.
    Work(ProductRun& run, const View& of, Rooms& rooms)
        : view(of), num_tasks(of.rows), of_slices_room(&rooms.of_tasks) {
      const RowPlaces of_rows(block, of.rows);
      block.take(run, rooms.of_rows);
      of_rows.hand_out(*this, block);
    }

    /// What this takes for so many rows, and once more for so many tasks where rows have several.
    static std::int64_t bytes_of_rows(std::int64_t rows) {
      RunBlock block;
      const RowPlaces places(block, rows);
      return block.bytes();
    }
    static std::int64_t bytes_of_tasks(std::int64_t tasks) {
      RunBlock block;
      const TaskPlaces places(block, tasks);
      return block.bytes();
    }

    /// Makes room for so many tasks in the place of one for each row; returns these.
    RunArray<Task> reserve(ProductRun& run, int count) {
      RunArray<Task> whole = std::move(tasks);
      num_tasks = count;
      const TaskPlaces places(of_slices, num_tasks);
      if (of_slices_room == nullptr)
        of_slices.take(run);
      else
        of_slices.take(run, *of_slices_room);
      places.hand_out(*this, of_slices);
      return whole;
    }

    /// Makes room for the words that were not there from the beginning.
    void add_words(ProductRun& run) {
      const std::int64_t at_words = of_words.place<WordOfB>(view.nonzeros_of_b);
      of_words.take(run);
      view.words_of_b = of_words.data<WordOfB>(at_words);
    }

    bool is_sliced() const { return num_tasks != view.rows; }

    View view;
    int num_tasks;
    RunBlock block;
    Slicing slicing;                 // its counts, scanned, are each row's first task
    Summary* summary;                // [1]
    RunArray<Task> tasks;            // [num_tasks], likewise:
    RunArray<SortedTask> sorted;     // [num_tasks]
    RunArray<std::int32_t> lengths;  // [num_tasks + 1]: columns of C of each
    RunArray<std::int64_t> offsets;  // [num_tasks + 1]: in C
    RunArray<std::byte> scratch;     // of scans

   private:
    struct TaskPlaces {
      TaskPlaces(RunBlock& block, std::int64_t count)
          : tasks(block.place<Task>(count)),
            sorted(block.place<SortedTask>(count)),
            lengths(block.place<std::int32_t>(count + 1)),
            offsets(block.place<std::int64_t>(count + 1)),
            scratch_bytes(scan_bytes(count + 1)),
            scratch(block.place<std::byte>(scratch_bytes)) {}

      void hand_out(Work& work, const RunBlock& block) const {
        work.tasks = block.array<Task>(tasks, work.num_tasks);
        work.sorted = block.array<SortedTask>(sorted, work.num_tasks);
        work.lengths = block.array<std::int32_t>(lengths, work.num_tasks + std::int64_t{1});
        work.offsets = block.array<std::int64_t>(offsets, work.num_tasks + std::int64_t{1});
        work.scratch = block.array<std::byte>(scratch, scratch_bytes);
      }

      std::int64_t tasks, sorted, lengths, offsets;
      std::int64_t scratch_bytes, scratch;
    };

    struct RowPlaces {
      RowPlaces(RunBlock& block, std::int64_t rows)
          : counts(block.place<std::int32_t>(rows)),
            slice_words(block.place<std::int32_t>(rows)),
            summary(block.place<Summary>(1)),
            tasks(block, rows) {}

      void hand_out(Work& work, const RunBlock& block) const {
        work.slicing = {block.data<std::int32_t>(counts), block.data<std::int32_t>(slice_words)};
        work.summary = block.data<Summary>(summary);
        tasks.hand_out(work, block);
      }

      std::int64_t counts, slice_words, summary;
      TaskPlaces tasks;
    };

    RunBlock of_slices, of_words;
    RunArray<std::byte>* of_slices_room = nullptr;  // where it is somebody else's
  };

  RowTasks() { cuda_check(cudaMallocHost(&summary_, sizeof(Summary)), "allocating pinned memory"); }
  ~RowTasks() { cudaFreeHost(summary_); }
  RowTasks(const RowTasks&) = delete;
  RowTasks& operator=(const RowTasks&) = delete;

  /// Adds the number of products to *sum, on the device.
  static void add_products(const View& view, unsigned long long* sum, cudaStream_t stream) {
    spgemm::add_products(view.nonzeros_of_a, view.a_cols, view.b_offsets, sum, stream);
  }

  /// Describes rows of B, and makes tasks. Waits.
  void analyse(Work& work, ProductRun& run) {
    const View& of = work.view;
    if (of.words_of_b != nullptr)
      describe_b(of, run.stream());
    else if (of.rows_of_b_count > 0)
      measure_rows_of_b<<<blocks_for(of.rows_of_b_count, kThreads), kThreads, 0, run.stream()>>>(
          of);
    make_tasks(work, plan_tasks(work, run.stream()), run);
  }

  static void describe_b(const View& view, cudaStream_t stream) {
    with_lanes(view.nonzeros_of_b, view.rows_of_b_count, [&]<int kLanes>() {
      describe_rows_of_b<kLanes>
          <<<blocks_for(view.rows_of_b_count, kThreads / kLanes), kThreads, 0, stream>>>(view);
    });
    cuda_check(cudaGetLastError(), "launching row_spgemm");
  }

  /// The most tasks that any row becomes; B's rows are described. Waits.
  static std::int64_t most_tasks(const View& view, cudaStream_t stream) {
    DeviceArray<std::uint32_t> most(1);
    cuda_check(cudaMemsetAsync(most.data(), 0, sizeof(std::uint32_t), stream), "clearing");
    with_lanes(view.nonzeros_of_a, view.rows, [&]<int kLanes>() {
      find_most_tasks<kLanes>
          <<<blocks_for(view.rows, kThreads / kLanes), kThreads, 0, stream>>>(view, most.data());
    });
    cuda_check(cudaGetLastError(), "launching row_spgemm");
    cuda_check(cudaStreamSynchronize(stream), "analysing rows");
    return std::max(most.download()[0], 1u);
  }

  /// How many tasks the rows become; B's are described. Waits.
  std::int64_t plan_tasks(Work& work, cudaStream_t stream) {
    const View& view = work.view;
    cuda_check(cudaMemsetAsync(work.summary, 0, sizeof(Summary), stream), "clearing");
    with_lanes(view.nonzeros_of_a, view.rows, [&]<int kLanes>() {
      analyse_rows<kLanes><<<blocks_for(view.rows, kThreads / kLanes), kThreads, 0, stream>>>(
          view, work.tasks.data(), work.slicing, work.summary);
    });
    cuda_check(cudaGetLastError(), "launching row_spgemm");
    const Summary& summary = read_summary(work, stream);
    const std::uint64_t tasks = summary.tasks + static_cast<std::uint64_t>(view.rows);
    require<Unsupported>(tasks <= INT_MAX / 2, "{} tasks are more than row_spgemm counts", tasks);
    return static_cast<std::int64_t>(tasks);
  }

  /// Makes the tasks of which there are so many.
  void make_tasks(Work& work, std::int64_t tasks, ProductRun& run) {
    const cudaStream_t stream = run.stream();
    const View& view = work.view;
    if (tasks > view.rows) {
      const RunArray<Task> whole = work.reserve(run, static_cast<int>(tasks));
      scan(work.slicing.counts, work.slicing.counts, view.rows, work, stream);
      cut_rows<<<blocks_for(view.rows, kThreads), kThreads, 0, stream>>>(
          view.rows, whole.data(), work.slicing.words, work.slicing.counts, work.num_tasks,
          work.tasks.data());
    }
    std::int64_t small = 0;
    for (int i = 0; i < kSmallSizes; ++i) small += summary_->mark_classes[i];
    if (work.view.words_of_b == nullptr && small < work.num_tasks) {
      work.add_words(run);
      describe_b(work.view, run.stream());
    }
    sort(summary_->mark_classes, work.summary->mark_cursors, MarkClassOf{}, work, false, stream);
  }

  /// Counts the columns of C of every task, without waiting.
  void count(Work& work, ProductRun& run) {
    for_classes<false>(
        summary_->mark_classes, work, run.stream(),
        [&]<class Group, class Bitmap>(const Batch& batch, int bytes, cudaStream_t stream) {
          launch_groups<Group>(count_columns<Group, Bitmap>, batch.count, bytes, stream, work.view,
                               batch, bytes, work.tasks.data(), work.lengths.data(), work.summary);
        },
        [&]<int kLanes>(const Batch& batch, cudaStream_t stream) {
          launch_small_groups<kLanes>(count_small<kLanes>, batch.count, stream, work.view, batch,
                                      work.lengths.data(), work.summary);
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

  /// In the place of count() where no row is cut, and C's offsets are known. [rows + 1]
  static void recall(Work& work, const std::int64_t* row_offsets, cudaStream_t stream) {
    recall_columns<<<blocks_for(work.view.rows, kThreads), kThreads, 0, stream>>>(
        work.view.rows, work.tasks.data(), row_offsets, work.lengths.data(), work.summary);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
  }

  /// How many columns of C all tasks have, which are now sorted for with_ranks(). Waits.
  std::int64_t sort_by_columns(Work& work, cudaStream_t stream) {
    const Summary& summary = read_summary(work, stream);
    sort(summary.sum_classes, work.summary->sum_cursors, SumClassOf{work.lengths.data()}, work,
         true, stream);
    return static_cast<std::int64_t>(summary.nonzeros);
  }

  /// Calls launch.operator()<Group, Bitmap>(batch, bytes, stream) for all tasks that are not small:
  /// bitmaps have ranks, and bytes are enough for them and four more for each column of C; and
  /// launch_small.operator()<lanes>(batch, stream) for those that are.
  template <class Launch, class LaunchSmall>
  void with_ranks(const Work& work, cudaStream_t stream, const Launch& launch,
                  const LaunchSmall& launch_small) {
    for_classes<true>(summary_->sum_classes, work, stream, launch, launch_small);
  }

  /// Where each row begins among the columns of C, after `before` of others. [rows + 1]
  static void find_rows(const Work& work, std::int64_t columns, std::int64_t* row_offsets,
                        cudaStream_t stream, std::int64_t before = 0) {
    gather_offsets<<<blocks_for(std::int64_t{work.view.rows} + 1, kThreads), kThreads, 0, stream>>>(
        work.view.rows, work.is_sliced() ? work.slicing.counts : nullptr, work.offsets.data(),
        columns, before, row_offsets);
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

  /// Calls launch.operator()<lanes>() with as many lanes as a row has nonzeros, about.
  template <class Launch>
  static void with_lanes(std::int64_t nonzeros, std::int64_t rows, Launch launch) {
    if (rows == 0) return;
    if (nonzeros <= 4 * rows) return launch.template operator()<4>();
    if (nonzeros <= 8 * rows) return launch.template operator()<8>();
    if (nonzeros <= 16 * rows) return launch.template operator()<16>();
    launch.template operator()<32>();
  }

  template <class ClassOf>
  static void sort(const std::uint32_t (&counts)[kClasses], std::uint32_t* cursors,
                   ClassOf class_of, Work& work, bool keeps_small, cudaStream_t stream) {
    Begins begins{};
    for (int i = 1; i < kClasses; ++i) begins.of[i] = begins.of[i - 1] + counts[i - 1];
    const auto small = static_cast<int>(begins.of[kSmallSizes]);
    if (work.num_tasks == (keeps_small ? small : 0)) return;
    sort_tasks<<<blocks_for(work.num_tasks, kThreads), kThreads, 0, stream>>>(
        work.num_tasks, work.tasks.data(), begins, cursors, work.sorted.data(), keeps_small,
        class_of);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
  }

  /// Launches for the tasks of each class that has any, the largest first.
  template <bool kWithRanks, class Launch, class LaunchSmall>
  void for_classes(const std::uint32_t (&counts)[kClasses], const Work& work, cudaStream_t stream,
                   const Launch& launch, const LaunchSmall& launch_small) {
    struct OfClass {
      int number;
      Batch batch;
    };
    std::vector<OfClass> classes;
    auto end = static_cast<std::uint32_t>(work.num_tasks);
    for (int i = kClasses - 1; i >= 0; --i) {
      end -= counts[i];
      if (counts[i] > 0)
        classes.push_back(
            {i, Batch{work.sorted.data() + end, static_cast<int>(counts[i]), work.tasks.data()}});
    }
    sides_.run(static_cast<int>(classes.size()), stream, [&](int i, cudaStream_t of_class) {
      launch_class<kWithRanks>(classes[i].number, classes[i].batch, of_class, launch, launch_small);
    });
  }

  Summary* summary_ = nullptr;  // [1], pinned
  SideStreams sides_;
};

}  // namespace tessera::row_spgemm
