// The host side of row_spgemm up to the second phase: it analyses rows, cuts them into tasks, sorts
// the tasks by class, counts the columns of C, and launches the kernels of the second phase for the
// tasks of each class. See kernels/spgemm/row/row_spgemm.hpp.
#pragma once

#include <algorithm>
#include <bit>
#include <climits>
#include <cub/device/device_scan.cuh>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "formats/base/check.hpp"
#include "kernels/device/side_streams.hpp"
#include "kernels/gpu_spgemm.hpp"
#include "kernels/spgemm/row/description.cuh"
#include "kernels/spgemm/row/hubs.cuh"
#include "kernels/spgemm/row/small.cuh"
#include "kernels/spgemm/row/steps.cuh"
#include "kernels/spgemm/shared/rows.cuh"

namespace tessera::row_spgemm {

/// Sorted tasks of one class.
struct Batch {
  const SortedTask* sorted;
  int count;
  const Task* tasks;

  /// Past the last, a task without a number and without nonzeros.
  __device__ SortedTask at(int number) const {
    return number < count ? sorted[number] : SortedTask{};
  }
  __device__ Task task(const SortedTask& of) const { return of.id < 0 ? Task{} : tasks[of.id]; }
};

/// The launch of a class whose groups have `bytes` of shared memory for marks and sums.
template <class Group>
constexpr GroupLaunch group_launch(int bytes) {
  return {Group::kLanes, bytes};
}
template <class Group>
constexpr int kThreadsOf = group_launch<Group>(0).threads();

/// The task of this thread's group, and the group's shared memory.
template <class Group>
struct GroupTask {
  __device__ GroupTask(const Batch& batch, int bytes, unsigned char* shared) {
    const GroupLaunch launch = group_launch<Group>(bytes);
    const int group = launch.group_of(static_cast<int>(threadIdx.x));
    sorted = batch.at(launch.task_of(static_cast<int>(blockIdx.x), group));
    task = batch.task(sorted);
    unsigned char* memory = shared + group * launch.group_bytes();
    staged = reinterpret_cast<Segment*>(memory);
    bitmap = memory + launch.segment_bytes();
  }

  SortedTask sorted;
  Task task;
  Segment* staged;        // [lanes of the group]
  unsigned char* bitmap;  // where the bitmap begins
};

/// Counts the columns of C of each task, and the words that it keeps.
template <class Group, class Bitmap>
__global__ void __launch_bounds__(kThreadsOf<Group>)
    count_columns(OperandsView operands, Batch batch, int bytes, Task* tasks, std::int32_t* lengths,
                  TaskSummary* summary) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ int scratch[Group::kWarps];
  __shared__ std::uint32_t counts[kClasses];
  clear_counts(counts);
  GroupTask<Group> mine(batch, bytes, shared);
  Bitmap bitmap(mine.task, mine.bitmap);
  Group::sync();
  mark_columns<Group>(operands, mine.task, mine.staged, scratch, bitmap);
  int found = 0;
  for (int i = Group::lane(); i < bitmap.size(); i += Group::kLanes)
    found += __popc(bitmap.slots()[i].marks);
  int total = 0;
  Group::before(found, total, scratch);
  if (Group::lane() == 0 && mine.sorted.id >= 0) {
    lengths[mine.sorted.id] = total;
    if (Bitmap::kHasDirectory) tasks[mine.sorted.id].kept = mine.task.kept = bitmap.size();
    atomicAdd(counts + sum_class(mine.task, total, operands.many.sum_size), 1u);
  }
  __syncthreads();
  add_counts(counts, summary->sum_classes);
}

/// Counts the columns of C of small tasks.
template <int kLanes>
__global__ void __launch_bounds__(kGroupThreads)
    count_small(OperandsView operands, Batch batch, std::int32_t* lengths, TaskSummary* summary) {
  const SortedTask task = batch.at(small_task_number<kLanes>());
  __shared__ __align__(16) std::int32_t cols[kGroupThreads];
  const SmallRow<kLanes> row(operands, task, cols + threadIdx.x / kLanes * kLanes);
  if (task.id >= 0 && row.lane() == 0) lengths[task.id] = row.columns();
  // A small task has the same class in both phases.
  if (blockIdx.x == 0 && threadIdx.x == 0)
    summary->sum_classes[std::countr_zero(static_cast<unsigned>(kLanes / kLeastLanes))] =
        static_cast<std::uint32_t>(batch.count);
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

/// Finds the offsets of rows from those of tasks, all after `before` others. Without `first_tasks`
/// [rows] every row has one task.
inline __global__ void __launch_bounds__(kRowThreads)
    gather_offsets(int rows, const std::int32_t* first_tasks, const std::int64_t* offsets,
                   std::int64_t nonzeros, std::int64_t before, std::int64_t* row_offsets) {
  const int row = thread_of_launch();
  if (row > rows) return;
  const int task = first_tasks == nullptr || row == rows ? row : first_tasks[row];
  row_offsets[row] = before + (row < rows ? offsets[task] : nonzeros);
}

/// Calls launch.operator()<Group, Bitmap>(batch, bytes, stream) for the tasks of a class, or
/// launch_small.operator()<lanes>(batch, stream) if they are small.
template <bool kWithRanks, int kClass = 0, class Launch, class LaunchSmall>
void launch_class(int of, const Batch& batch, cudaStream_t stream, const Launch& launch,
                  const LaunchSmall& launch_small) {
  if constexpr (kClass < kClasses) {
    if (of != kClass)
      return launch_class<kWithRanks, kClass + 1>(of, batch, stream, launch, launch_small);
    if constexpr (kClass < kSmallSizes) {
      launch_small.template operator()<(kLeastLanes << kClass)>(batch, stream);
    } else {
      constexpr GroupLaunch kLaunch = launch_of(kClass);
      using Lanes = Group<kLaunch.lanes>;
      if constexpr (kClass < kFirstWords)
        launch.template operator()<Lanes, WholeBitmap<Lanes, kWithRanks>>(batch, kLaunch.bytes,
                                                                          stream);
      else
        launch.template operator()<Lanes, WordsBitmap<Lanes, kWithRanks>>(batch, kLaunch.bytes,
                                                                          stream);
    }
  }
}

/// Launches a kernel for the tasks of one class.
template <class Group, class Kernel, class... Arguments>
void launch_groups(Kernel kernel, int count, int bytes, cudaStream_t stream,
                   const Arguments&... arguments) {
  const GroupLaunch launch = group_launch<Group>(bytes);
  constexpr int kDefaultLimit = 48 << 10;
  if (launch.shared_bytes() > kDefaultLimit)
    cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    launch.shared_bytes()),
               "raising the limit of shared memory");
  kernel<<<static_cast<unsigned>(launch.thread_blocks(count)), launch.threads(),
           static_cast<std::size_t>(launch.shared_bytes()), stream>>>(arguments...);
  cuda_check(cudaGetLastError(), "launching row_spgemm");
}

/// The same for small tasks.
template <int kLanes, class Kernel, class... Arguments>
void launch_small_groups(Kernel kernel, int count, cudaStream_t stream,
                         const Arguments&... arguments) {
  kernel<<<grid_of(small_launch(kLanes), count), kGroupThreads, 0, stream>>>(arguments...);
  cuda_check(cudaGetLastError(), "launching row_spgemm");
}

/// Makes the tasks of a product. The host waits twice: for the number of tasks, and for that of C's
/// nonzeros.
class RowTasks {
 public:
  /// Memory for one Workspace after another.
  struct Buffers {
    RunArray<std::byte> of_rows;
    RunArray<std::byte> of_tasks;  // used where a row has several tasks
  };

  /// The memory of a product beside C. One block holds it, and may hold C, too. There are further
  /// blocks where rows are cut into several tasks, and where the words of B come late.
  struct Workspace {
    Workspace(ProductRun& run, const OperandsView& of, RunBlock with_c = {})
        : operands(of), num_tasks(of.rows), block(std::move(with_c)) {
      const DescriptionOfB of_b(
          block, of,
          !words_can_wait(of.nonzeros_of_a, of.rows, of.nonzeros_of_b, of.rows_of_b_count));
      const RowArrays of_rows(block, of.rows);
      const std::int64_t most_hubs = of.many.takes_hubs ? of.nonzeros_of_a / kNonzerosOfHub : 0;
      const std::int64_t of_hubs = block.place<HubRow>(most_hubs);
      block.take(run);
      of_b.assign(operands, block);
      of_rows.assign(*this, block);
      hubs = block.data<HubRow>(of_hubs);
    }
    /// For operands whose B is described, in buffers that outlive the workspace.
    Workspace(ProductRun& run, const OperandsView& of, Buffers& buffers)
        : operands(of), num_tasks(of.rows), task_buffer(&buffers.of_tasks) {
      const RowArrays of_rows(block, of.rows);
      block.take(run, buffers.of_rows);
      of_rows.assign(*this, block);
    }

    /// Bytes of a workspace for `rows` rows, and of the further block for `tasks` tasks where a row
    /// has several.
    static std::int64_t bytes_of_rows(std::int64_t rows) {
      RunBlock block;
      const RowArrays arrays(block, rows);
      return block.bytes();
    }
    static std::int64_t bytes_of_tasks(std::int64_t tasks) {
      RunBlock block;
      const TaskArrays arrays(block, tasks);
      return block.bytes();
    }

    /// Replaces the arrays for one task per row by arrays for `count` tasks; returns the tasks that
    /// they held.
    RunArray<Task> reserve(ProductRun& run, int count) {
      RunArray<Task> whole = std::move(tasks);
      num_tasks = count;
      const TaskArrays arrays(of_tasks, num_tasks);
      if (task_buffer == nullptr)
        of_tasks.take(run);
      else
        of_tasks.take(run, *task_buffer);
      arrays.assign(*this, of_tasks);
      return whole;
    }

    /// Allocates the words of B, which the constructor has left out.
    void add_words(ProductRun& run) {
      const std::int64_t at_words = of_words.place<WordOfB>(operands.nonzeros_of_b);
      of_words.take(run);
      operands.words_of_b = of_words.data<WordOfB>(at_words);
    }

    bool is_sliced() const { return num_tasks != operands.rows; }

    OperandsView operands;
    int num_tasks;
    RunBlock block;
    RowSlicing slicing;              // after the scan, counts holds each row's first task
    TaskSummary* summary;            // [1]
    HubRow* hubs = nullptr;          // [hubs]
    RunArray<Task> tasks;            // [num_tasks]
    RunArray<SortedTask> sorted;     // [num_tasks]
    RunArray<std::int32_t> lengths;  // [num_tasks + 1]: columns of C of each task
    RunArray<std::int64_t> offsets;  // [num_tasks + 1]: in C
    RunArray<std::byte> scratch;     // of scans
    std::optional<HubProducts> of_hubs;

   private:
    struct TaskArrays {
      TaskArrays(RunBlock& block, std::int64_t count)
          : tasks(block.place<Task>(count)),
            sorted(block.place<SortedTask>(count)),
            lengths(block.place<std::int32_t>(count + 1)),
            offsets(block.place<std::int64_t>(count + 1)),
            scratch_bytes(scan_bytes(count + 1)),
            scratch(block.place<std::byte>(scratch_bytes)) {}

      void assign(Workspace& work, const RunBlock& block) const {
        work.tasks = block.array<Task>(tasks, work.num_tasks);
        work.sorted = block.array<SortedTask>(sorted, work.num_tasks);
        work.lengths = block.array<std::int32_t>(lengths, work.num_tasks + std::int64_t{1});
        work.offsets = block.array<std::int64_t>(offsets, work.num_tasks + std::int64_t{1});
        work.scratch = block.array<std::byte>(scratch, scratch_bytes);
      }

      std::int64_t tasks, sorted, lengths, offsets;
      std::int64_t scratch_bytes, scratch;
    };

    struct RowArrays {
      RowArrays(RunBlock& block, std::int64_t rows)
          : counts(block.place<std::int32_t>(rows)),
            slice_words(block.place<std::int32_t>(rows)),
            summary(block.place<TaskSummary>(1)),
            tasks(block, rows) {}

      void assign(Workspace& work, const RunBlock& block) const {
        work.slicing = {block.data<std::int32_t>(counts), block.data<std::int32_t>(slice_words)};
        work.summary = block.data<TaskSummary>(summary);
        tasks.assign(work, block);
      }

      std::int64_t counts, slice_words, summary;
      TaskArrays tasks;
    };

    RunBlock of_tasks, of_words;
    RunArray<std::byte>* task_buffer = nullptr;  // the caller's memory for of_tasks, if any
  };

  RowTasks() {
    cuda_check(cudaMallocHost(&summary_, sizeof(TaskSummary)), "allocating pinned memory");
  }
  ~RowTasks() { cudaFreeHost(summary_); }
  RowTasks(const RowTasks&) = delete;
  RowTasks& operator=(const RowTasks&) = delete;

  /// Adds the number of products to *sum, on the device.
  static void add_products(const OperandsView& operands, unsigned long long* sum,
                           cudaStream_t stream) {
    spgemm::add_products(operands.nonzeros_of_a, operands.a_cols, operands.b_offsets, sum, stream);
  }

  /// Describes the rows of B and makes the tasks. Waits for the device.
  void analyse(Workspace& work, ProductRun& run) {
    const OperandsView& operands = work.operands;
    if (operands.words_of_b != nullptr)
      describe_b(operands, run.stream());
    else
      measure_b(operands, run.stream());
    std::int64_t tasks = plan_tasks(work, run.stream());
    if (!hub_counts().can_be_sorted(operands.cols)) {
      work.operands.many.takes_hubs = false;
      tasks = plan_tasks(work, run.stream());
    }
    make_tasks(work, tasks, run);
  }

  /// The largest number of tasks of a row, once B is described. Waits for the device.
  static std::int64_t most_tasks(const OperandsView& operands, cudaStream_t stream) {
    DeviceArray<std::uint32_t> most(1);
    cuda_check(cudaMemsetAsync(most.data(), 0, sizeof(std::uint32_t), stream), "clearing");
    with_lanes(operands.nonzeros_of_a, operands.rows, [&]<int kLanes>(unsigned grid) {
      find_most_tasks<kLanes><<<grid, kRowThreads, 0, stream>>>(operands, most.data());
    });
    cuda_check(cudaGetLastError(), "launching row_spgemm");
    cuda_check(cudaStreamSynchronize(stream), "analysing rows");
    return std::max(most.download()[0], 1u);
  }

  /// Plans the tasks of all rows, once B is described, and returns their number. Waits for the
  /// device. Throws Unsupported where 32 bits do not count them.
  std::int64_t plan_tasks(Workspace& work, cudaStream_t stream) {
    const OperandsView& operands = work.operands;
    cuda_check(cudaMemsetAsync(work.summary, 0, sizeof(TaskSummary), stream), "clearing");
    with_lanes(operands.nonzeros_of_a, operands.rows, [&]<int kLanes>(unsigned grid) {
      analyse_rows<kLanes><<<grid, kRowThreads, 0, stream>>>(operands, work.tasks.data(),
                                                             work.slicing, work.hubs, work.summary);
    });
    cuda_check(cudaGetLastError(), "launching row_spgemm");
    const TaskSummary& summary = read_summary(work, stream);
    const std::uint64_t tasks = summary.tasks + static_cast<std::uint64_t>(operands.rows);
    require<Unsupported>(tasks <= INT_MAX / 2, "row_spgemm takes at most {} tasks; there are {}",
                         INT_MAX / 2, tasks);
    return static_cast<std::int64_t>(tasks);
  }

  /// Makes the tasks, whose number plan_tasks() has returned, and sorts them for count().
  void make_tasks(Workspace& work, std::int64_t tasks, ProductRun& run) {
    const cudaStream_t stream = run.stream();
    cut(work, tasks, run);
    std::int64_t small = 0;
    for (int i = 0; i < kSmallSizes; ++i) small += summary_->mark_classes[i];
    if (work.operands.words_of_b == nullptr && small < work.num_tasks) {
      work.add_words(run);
      describe_b(work.operands, run.stream());
    }
    sort(summary_->mark_classes, work.summary->mark_cursors, MarkClassOf{}, work, false, stream);
  }

  /// Counts the columns of C of every task. Does not wait for the device.
  void count(Workspace& work, ProductRun& run) {
    for_classes<false>(
        summary_->mark_classes, work, run.stream(),
        [&]<class Group, class Bitmap>(const Batch& batch, int bytes, cudaStream_t stream) {
          launch_groups<Group>(count_columns<Group, Bitmap>, batch.count, bytes, stream,
                               work.operands, batch, bytes, work.tasks.data(), work.lengths.data(),
                               work.summary);
        },
        [&]<int kLanes>(const Batch& batch, cudaStream_t stream) {
          launch_small_groups<kLanes>(count_small<kLanes>, batch.count, stream, work.operands,
                                      batch, work.lengths.data(), work.summary);
        });
    const HubCounts hubs = hub_counts();
    if (hubs.hubs > 0)
      work.of_hubs.emplace(work.operands, hubs, work.hubs,
                           work.is_sliced() ? work.slicing.counts : nullptr, work.lengths.data(),
                           run);
    // The exclusive scan reads one element past the lengths, whose value no sum includes.
    cuda_check(cudaMemsetAsync(work.lengths.data() + work.num_tasks, 0, sizeof(std::int32_t),
                               run.stream()),
               "clearing");
    scan(work.lengths.data(), work.offsets.data(), work.num_tasks + 1, work, run.stream());
    cuda_check(cudaMemcpyAsync(&work.summary->nonzeros, work.offsets.data() + work.num_tasks,
                               sizeof(std::int64_t), cudaMemcpyDeviceToDevice, run.stream()),
               "counting the nonzeros of C");
  }

  /// Replaces count() where no row is cut and C's row offsets [rows + 1] are known.
  static void recall(Workspace& work, const std::int64_t* row_offsets, cudaStream_t stream) {
    recall_columns<<<grid_of(thread_each(), work.operands.rows), kRowThreads, 0, stream>>>(
        work.operands.rows, work.tasks.data(), row_offsets, work.operands.many.sum_size,
        work.lengths.data(), work.summary);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
  }

  /// Sorts the tasks for launch_ranked() and returns the number of C's nonzeros. Waits for the
  /// device.
  std::int64_t sort_by_columns(Workspace& work, cudaStream_t stream) {
    const TaskSummary& summary = read_summary(work, stream);
    sort(summary.sum_classes, work.summary->sum_cursors,
         SumClassOf{work.lengths.data(), work.operands.many.sum_size}, work, true, stream);
    return static_cast<std::int64_t>(summary.nonzeros);
  }

  /// Launches the kernels of the second phase for all tasks. Kernels::group<Group, Bitmap>()
  /// returns the kernel of a class, Kernels::small<lanes>() that of small tasks, nullptr for none;
  /// `argument` is their last argument.
  template <class Kernels, class Argument>
  void launch_ranked(const Workspace& work, const Argument& argument, cudaStream_t stream) {
    launch_ranked<Kernels>(work, work.operands, argument, stream);
  }
  /// The same with the operands of a product of another type.
  template <class Kernels, class Value, class Argument>
  void launch_ranked(const Workspace& work, const OperandsOf<Value>& operands,
                     const Argument& argument, cudaStream_t stream) {
    for_classes<true>(
        summary_->sum_classes, work, stream,
        [&]<class Group, class Bitmap>(const Batch& batch, int bytes, cudaStream_t of_class) {
          launch_groups<Group>(Kernels::template group<Group, Bitmap>(), batch.count, bytes,
                               of_class, operands, batch, bytes, argument);
        },
        [&]<int kLanes>(const Batch& batch, cudaStream_t of_class) {
          constexpr bool kHasSmall =
              !std::is_null_pointer_v<decltype(Kernels::template small<kLanes>())>;
          if constexpr (kHasSmall)
            launch_small_groups<kLanes>(Kernels::template small<kLanes>(), batch.count, of_class,
                                        operands, batch, argument);
        });
  }

  /// Makes the sums of all hubs, in the same form.
  template <class Argument>
  static void launch_hubs(Workspace& work, const Argument& argument, cudaStream_t stream) {
    if (work.of_hubs) work.of_hubs->sum(work.operands, argument, stream);
  }

  /// Finds the offsets of rows in C, after `before` nonzeros of earlier rows. [rows + 1]
  static void find_rows(const Workspace& work, std::int64_t columns, std::int64_t* row_offsets,
                        cudaStream_t stream, std::int64_t before = 0) {
    const int rows = work.operands.rows;
    gather_offsets<<<grid_of(thread_each(), std::int64_t{rows} + 1), kRowThreads, 0, stream>>>(
        rows, work.is_sliced() ? work.slicing.counts : nullptr, work.offsets.data(), columns,
        before, row_offsets);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
  }

 private:
  static void measure_b(const OperandsView& operands, cudaStream_t stream) {
    if (operands.rows_of_b_count > 0)
      measure_rows_of_b<<<grid_of(thread_each(), operands.rows_of_b_count), kRowThreads, 0,
                          stream>>>(operands);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
  }

  /// Writes the tasks of all rows where there are more tasks than rows.
  static void cut(Workspace& work, std::int64_t tasks, ProductRun& run) {
    const int rows = work.operands.rows;
    if (tasks <= rows) return;
    const RunArray<Task> whole = work.reserve(run, static_cast<int>(tasks));
    scan(work.slicing.counts, work.slicing.counts, rows, work, run.stream());
    cut_rows<<<grid_of(thread_each(), rows), kRowThreads, 0, run.stream()>>>(
        rows, whole.data(), work.slicing.words, work.slicing.counts, work.num_tasks,
        work.tasks.data());
  }

  /// The summary as it is on the device. Waits for it.
  const TaskSummary& read_summary(const Workspace& work, cudaStream_t stream) {
    cuda_check(cudaMemcpyAsync(summary_, work.summary, sizeof(TaskSummary), cudaMemcpyDeviceToHost,
                               stream),
               "reading the counts");
    cuda_check(cudaStreamSynchronize(stream), "analysing rows");
    return *summary_;
  }

  /// The hubs in the summary that was read last.
  HubCounts hub_counts() const {
    constexpr std::uint64_t kNonzeros = (std::uint64_t{1} << kHubShift) - 1;
    return {static_cast<std::int64_t>(summary_->hubs >> kHubShift),
            static_cast<std::int64_t>(summary_->hubs & kNonzeros),
            static_cast<std::int64_t>(summary_->hub_products)};
  }

  template <class In, class Out>
  static void scan(const In* from, Out* to, std::int64_t count, const Workspace& work,
                   cudaStream_t stream) {
    auto bytes = static_cast<std::size_t>(work.scratch.size());
    cuda_check(cub::DeviceScan::ExclusiveScan(work.scratch.data(), bytes, from, to,
                                              cuda::std::plus<Out>{}, Out{0}, count, stream),
               "scanning");
  }

  /// Bytes of scratch memory for any scan here of at most `count` elements.
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

  template <class ClassOf>
  static void sort(const std::uint32_t (&counts)[kClasses], std::uint32_t* cursors,
                   ClassOf class_of, Workspace& work, bool keeps_small, cudaStream_t stream) {
    ClassBegins begins{};
    for (int i = 1; i < kClasses; ++i) begins.of[i] = begins.of[i - 1] + counts[i - 1];
    const auto small = static_cast<int>(begins.of[kSmallSizes]);
    if (work.num_tasks == (keeps_small ? small : 0)) return;
    sort_tasks<<<grid_of(thread_each(), work.num_tasks), kRowThreads, 0, stream>>>(
        work.num_tasks, work.tasks.data(), begins, cursors, work.sorted.data(), keeps_small,
        class_of);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
  }

  /// Launches for the tasks of each class that has any, on streams side by side.
  template <bool kWithRanks, class Launch, class LaunchSmall>
  void for_classes(const std::uint32_t (&counts)[kClasses], const Workspace& work,
                   cudaStream_t stream, const Launch& launch, const LaunchSmall& launch_small) {
    std::vector<std::pair<int, Batch>> classes;
    for_launched_classes(counts, [&](int of, std::int64_t first, std::int64_t count) {
      classes.push_back(
          {of, {work.sorted.data() + first, static_cast<int>(count), work.tasks.data()}});
    });
    sides_.run(static_cast<int>(classes.size()), stream, [&](int i, cudaStream_t of_class) {
      const auto& [of, batch] = classes[i];
      launch_class<kWithRanks>(of, batch, of_class, launch, launch_small);
    });
  }

  TaskSummary* summary_ = nullptr;  // [1], pinned
  SideStreams sides_;
};

}  // namespace tessera::row_spgemm
