// The host side of row_spgemm up to the second phase: it analyses rows, cuts them into tasks, sorts
// the tasks by class, counts the columns of C, and launches the kernels of the second phase for the
// tasks of each class. See kernels/spgemm/row/row_spgemm.hpp.
#pragma once

#include <algorithm>
#include <climits>
#include <optional>
#include <type_traits>
#include <vector>

#include "formats/base/check.hpp"
#include "kernels/device/limits_of_gpu.hpp"
#include "kernels/device/side_streams.hpp"
#include "kernels/gpu_spgemm.hpp"
#include "kernels/spgemm/row/counting.cuh"
#include "kernels/spgemm/row/hubs.cuh"
#include "kernels/spgemm/shared/rows.cuh"

namespace tessera::row_spgemm {

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
    Counters* counters;              // [1]
    HubRow* hubs = nullptr;          // [hubs]
    RunArray<Task> tasks;            // [num_tasks]
    RunArray<SortedTask> sorted;     // [num_tasks]
    RunArray<std::int32_t> lengths;  // [num_tasks + 1]: columns of C of each task
    RunArray<std::int64_t> offsets;  // [num_tasks + 1]: in C
    RunArray<std::byte> scratch;     // of scans
    std::optional<HubProducts> of_hubs;
    bool is_placed = false;  // the launches of count() place and sort all tasks, too

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
            counters(block.place<Counters>(1)),
            tasks(block, rows) {}

      void assign(Workspace& work, const RunBlock& block) const {
        work.slicing = {block.data<std::int32_t>(counts), block.data<std::int32_t>(slice_words)};
        work.counters = block.data<Counters>(counters);
        tasks.assign(work, block);
      }

      std::int64_t counts, slice_words, counters;
      TaskArrays tasks;
    };

    RunBlock of_tasks, of_words;
    RunArray<std::byte>* task_buffer = nullptr;  // the caller's memory for of_tasks, if any
  };

  /// Adds the number of products to *sum, on the device.
  static void add_products(const OperandsView& operands, unsigned long long* sum,
                           cudaStream_t stream) {
    spgemm::add_products(operands.nonzeros_of_a, operands.a_cols, operands.b_offsets, sum, stream);
  }

  /// Describes the rows of B and makes the tasks. Waits for the device.
  void analyse(Workspace& work, ProductRun& run) {
    const OperandsView& operands = work.operands;
    if (operands.words_of_b != nullptr)
      describe_b(operands, run.stream(), work.counters);
    else
      measure_b(operands, run.stream(), work.counters);
    std::int64_t tasks = plan_tasks(work, run.stream(), operands.rows_of_b_count > 0);
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
  std::int64_t plan_tasks(Workspace& work, cudaStream_t stream, bool is_cleared = false) {
    const OperandsView& operands = work.operands;
    work.is_placed = false;
    if (!is_cleared)
      cuda_check(cudaMemsetAsync(work.counters, 0, sizeof(Counters), stream), "clearing");
    if (operands.rows == 0) {
      reports_.value() = {};
      return 0;
    }
    const SummaryReport report = next_report(work);
    with_lanes(operands.nonzeros_of_a, operands.rows, [&]<int kLanes>(unsigned grid) {
      analyse_rows<kLanes><<<grid, kRowThreads, 0, stream>>>(
          operands, work.tasks.data(), work.slicing, work.hubs, work.counters, report);
    });
    cuda_check(cudaGetLastError(), "launching row_spgemm");
    if (operands.rows <= kMostTiled) sort_by_marks(work, true, stream);
    reports_.wait(report, stream);
    const std::uint64_t tasks = summary().tasks + static_cast<std::uint64_t>(operands.rows);
    require<Unsupported>(tasks <= INT_MAX / 2, "row_spgemm takes at most {} tasks; there are {}",
                         INT_MAX / 2, tasks);
    return static_cast<std::int64_t>(tasks);
  }

  /// Makes the tasks, whose number plan_tasks() has returned, and sorts them for count().
  void make_tasks(Workspace& work, std::int64_t tasks, ProductRun& run) {
    const cudaStream_t stream = run.stream();
    cut(work, tasks, run);
    std::int64_t small = 0;
    for (int i = 0; i < kSmallSizes; ++i) small += summary().mark_classes[i];
    if (work.operands.words_of_b == nullptr && small < work.num_tasks) {
      work.add_words(run);
      describe_b(work.operands, run.stream());
    }
    const bool is_sorted =
        work.operands.rows <= kMostTiled && !work.is_sliced() && summary().hubs == 0;
    if (!is_sorted && work.num_tasks > 0) sort_by_marks(work, false, stream);
  }

  /// Counts the columns of C of every task. Does not wait for the device.
  void count(Workspace& work, ProductRun& run) {
    const HubCounts hubs = hub_counts();
    const bool has_tiles = hubs.hubs == 0 && work.num_tasks <= kMostTiled;
    if (has_tiles && count_jointly(work, run.stream())) return;
    count_classes(work, has_tiles, run.stream());
    if (has_tiles) {
      counted_ = next_report(work);
      return place(work, counted_, run.stream());
    }
    if (hubs.hubs > 0)
      work.of_hubs.emplace(work.operands, hubs, work.hubs,
                           work.is_sliced() ? work.slicing.counts : nullptr, work.lengths.data(),
                           run);
    // The exclusive scan reads one element past the lengths, whose value no sum includes.
    cuda_check(cudaMemsetAsync(work.lengths.data() + work.num_tasks, 0, sizeof(std::int32_t),
                               run.stream()),
               "clearing");
    scan(work.lengths.data(), work.offsets.data(), work.num_tasks + 1, work, run.stream());
    cuda_check(
        cudaMemcpyAsync(&work.counters->summary.nonzeros, work.offsets.data() + work.num_tasks,
                        sizeof(std::int64_t), cudaMemcpyDeviceToDevice, run.stream()),
        "counting the nonzeros of C");
  }

  /// Replaces count() where no row is cut and C's row offsets [rows + 1] are known.
  static void recall(Workspace& work, const std::int64_t* row_offsets, cudaStream_t stream) {
    recall_columns<<<grid_of(thread_each(), work.operands.rows), kRowThreads, 0, stream>>>(
        work.operands.rows, work.tasks.data(), row_offsets, work.operands.many.sum_size,
        work.lengths.data(), &work.counters->summary);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
  }

  /// Sorts the tasks for launch_ranked() and returns the number of C's nonzeros. Waits for the
  /// device.
  std::int64_t sort_by_columns(Workspace& work, cudaStream_t stream) {
    if (work.is_placed) {
      reports_.wait(counted_, stream);
    } else {
      read_summary(work, stream);
      std::int64_t small = 0;
      for (int i = 0; i < kSmallSizes; ++i) small += summary().sum_classes[i];
      if (small < work.num_tasks)
        row_spgemm::
            sort_by_sums<<<grid_of(thread_each(), work.num_tasks), kRowThreads, 0, stream>>>(
                work.num_tasks, work.tasks.data(), &work.counters->summary, work.sorted.data(),
                sum_class_of(work));
      cuda_check(cudaGetLastError(), "launching row_spgemm");
    }
    return static_cast<std::int64_t>(summary().nonzeros);
  }

  /// Launches the kernels of the second phase for all tasks. Kernels::group<Group, Bitmap>()
  /// returns the kernel of a class, Kernels::small<lanes>() that of small tasks, nullptr for none,
  /// and Kernels::all(), where there is one, the kernel of a joint launch. `argument` is their last
  /// argument.
  template <class Kernels, class Argument>
  void launch_ranked(const Workspace& work, const Argument& argument, cudaStream_t stream) {
    launch_ranked<Kernels>(work, work.operands, argument, stream);
  }
  /// The same with the operands of a product of another type. Finds the places of rows, too.
  template <class Kernels, class Value, class Argument>
  void launch_ranked(const Workspace& work, const OperandsOf<Value>& operands,
                     const Argument& argument, cudaStream_t stream, const RowPlaces& places = {}) {
    std::vector<ClassBatch> classes = classes_of(summary().sum_classes, work);
    const auto launch_one = [&](const ClassBatch& one, cudaStream_t of_class) {
      launch_class<true>(
          one.of, one.batch, of_class,
          [&]<class Group, class Bitmap>(const Batch& batch, int bytes, cudaStream_t) {
            launch_groups<Group>(Kernels::template group<Group, Bitmap>(), batch.count, bytes,
                                 of_class, operands, batch, bytes, argument);
          },
          [&]<int kLanes>(const Batch& batch, cudaStream_t) {
            constexpr bool kHasSmall =
                !std::is_null_pointer_v<decltype(Kernels::template small<kLanes>())>;
            if constexpr (kHasSmall)
              launch_small_groups<kLanes>(Kernels::template small<kLanes>(), batch.count, of_class,
                                          operands, batch, argument);
          });
    };
    if constexpr (requires { Kernels::all(); }) {
      const JointLaunch joint(summary().sum_classes);
      if (joint.is_better(kJointSumRounds * joint_blocks_at_once_)) {
        std::erase_if(classes, [](const ClassBatch& one) { return is_joint_class(one.of); });
        const auto separate = static_cast<int>(classes.size());
        sides_.run(separate + 1, stream, [&](int i, cudaStream_t side) {
          if (i < separate) return launch_one(classes[i], side);
          launch_jointly(Kernels::all(), joint, places.blocks(), side, operands, all_of(work),
                         argument, places);
        });
        return;
      }
    }
    find_rows(places, stream);
    sides_.run(static_cast<int>(classes.size()), stream,
               [&](int i, cudaStream_t of_class) { launch_one(classes[i], of_class); });
  }

  /// Makes the sums of all hubs, in the same form.
  template <class Argument>
  static void launch_hubs(Workspace& work, const Argument& argument, cudaStream_t stream) {
    if (work.of_hubs) work.of_hubs->sum(work.operands, argument, stream);
  }

  /// The places of rows in C, whose offsets are [rows + 1], after `before` nonzeros of earlier
  /// rows.
  static RowPlaces row_places(const Workspace& work, std::int64_t columns,
                              std::int64_t* row_offsets, std::int64_t before = 0) {
    return {.rows = work.operands.rows,
            .first_tasks = work.is_sliced() ? work.slicing.counts : nullptr,
            .offsets = work.offsets.data(),
            .nonzeros = columns,
            .before = before,
            .row_offsets = row_offsets};
  }
  /// Finds them, where there are any.
  static void find_rows(const RowPlaces& places, cudaStream_t stream) {
    if (places.row_offsets == nullptr) return;
    gather_offsets<<<places.blocks(), kRowThreads, 0, stream>>>(places);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
  }

 private:
  static void measure_b(const OperandsView& operands, cudaStream_t stream, Counters* to_clear) {
    if (operands.rows_of_b_count > 0)
      measure_rows_of_b<<<grid_of(thread_each(), operands.rows_of_b_count), kRowThreads, 0,
                          stream>>>(operands, to_clear);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
  }

  /// Counts the columns of C of every task in one launch, and places the tasks in C in another.
  /// False, without a launch, where tasks are too many or too large.
  bool count_jointly(Workspace& work, cudaStream_t stream) {
    const JointLaunch joint(summary().mark_classes);
    if (joint.tasks != work.num_tasks ||
        !joint.is_better(kJointCountRounds * joint_blocks_at_once_))
      return false;
    counted_ = next_report(work);
    launch_jointly(count_all, joint, 0, stream, work.operands, all_of(work),
                   CountOutput{work.tasks.data(), work.lengths.data(), work.counters, true},
                   counted_);
    place(work, {}, stream);
    return true;
  }

  /// Counts the columns of C of every task in a launch per class. With `has_tiles` it adds up those
  /// of each tile, too.
  void count_classes(Workspace& work, bool has_tiles, cudaStream_t stream) {
    const CountOutput output{work.tasks.data(), work.lengths.data(), work.counters, has_tiles};
    const std::vector<ClassBatch> classes = classes_of(summary().mark_classes, work);
    sides_.run(static_cast<int>(classes.size()), stream, [&](int i, cudaStream_t of_class) {
      launch_class<false>(
          classes[i].of, classes[i].batch, of_class,
          [&]<class Group, class Bitmap>(const Batch& batch, int bytes, cudaStream_t side) {
            launch_groups<Group>(count_columns<Group, Bitmap>, batch.count, bytes, side,
                                 work.operands, batch, bytes, output);
          },
          [&]<int kLanes>(const Batch& batch, cudaStream_t side) {
            launch_small_groups<kLanes>(count_small<kLanes>, batch.count, side, work.operands,
                                        batch, output);
          });
    });
  }

  /// Finds the offsets of tasks in C and sorts the tasks, once columns are counted by tile. Makes a
  /// report, unless the count makes it.
  static void place(Workspace& work, const SummaryReport& report, cudaStream_t stream) {
    place_tasks<<<grid_of(thread_each(), std::int64_t{work.num_tasks} + 1), kRowThreads, 0,
                  stream>>>(work.num_tasks, work.tasks.data(), work.counters, work.sorted.data(),
                            sum_class_of(work), work.offsets.data(), report);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
    work.is_placed = true;
  }

  /// Writes the tasks of all rows where there are more tasks than rows.
  static void cut(Workspace& work, std::int64_t tasks, ProductRun& run) {
    const int rows = work.operands.rows;
    if (tasks <= rows) return;
    const RunArray<Task> whole = work.reserve(run, static_cast<int>(tasks));
    const bool is_tiled = rows <= kMostTiled;
    if (!is_tiled) scan(work.slicing.counts, work.slicing.counts, rows, work, run.stream());
    cut_rows<<<grid_of(thread_each(), rows), kRowThreads, 0, run.stream()>>>(
        rows, whole.data(), work.slicing.words, work.slicing.counts,
        is_tiled ? work.counters->more_tasks : nullptr, work.num_tasks, work.tasks.data());
  }

  /// The summary that was reported or read last.
  const TaskSummary& summary() const { return reports_.value(); }

  /// The report of the next launch that makes one.
  SummaryReport next_report(const Workspace& work) {
    return reports_.next(&work.counters->summary);
  }
  /// Reads the summary without a report.
  void read_summary(const Workspace& work, cudaStream_t stream) {
    cuda_check(cudaMemcpyAsync(&reports_.value(), &work.counters->summary, sizeof(TaskSummary),
                               cudaMemcpyDeviceToHost, stream),
               "reading the counts");
    cuda_check(cudaStreamSynchronize(stream), "analysing rows");
  }

  /// The hubs in the summary that was read last.
  HubCounts hub_counts() const {
    constexpr std::uint64_t kNonzeros = (std::uint64_t{1} << kHubShift) - 1;
    return {static_cast<std::int64_t>(summary().hubs >> kHubShift),
            static_cast<std::int64_t>(summary().hubs & kNonzeros),
            static_cast<std::int64_t>(summary().hub_products)};
  }

  template <class In, class Out>
  static void scan(const In* from, Out* to, std::int64_t count, const Workspace& work,
                   cudaStream_t stream) {
    spgemm::running_sum(work.scratch, from, to, count, stream);
  }

  /// Bytes of scratch memory for any scan here of at most `count` elements. CUB is asked once for
  /// small products, because the answer takes the host as long as a launch.
  static std::int64_t scan_bytes(std::int64_t count) {
    static const std::int64_t of_tiled = bytes_from_cub(kMostTiled + 1);
    return count <= kMostTiled + 1 ? of_tiled : bytes_from_cub(count);
  }
  static std::int64_t bytes_from_cub(std::int64_t count) {
    const std::int32_t* from = nullptr;
    return std::max(spgemm::running_sum_bytes<std::int32_t>(from, count),
                    spgemm::running_sum_bytes<std::int64_t>(from, count));
  }

  static void sort_by_marks(const Workspace& work, bool is_early, cudaStream_t stream) {
    row_spgemm::sort_by_marks<<<grid_of(thread_each(), work.num_tasks), kRowThreads, 0, stream>>>(
        work.num_tasks, work.tasks.data(), &work.counters->summary, work.sorted.data(), is_early);
    cuda_check(cudaGetLastError(), "launching row_spgemm");
  }
  static SumClassOf sum_class_of(const Workspace& work) {
    return {work.lengths.data(), work.operands.many.sum_size};
  }

  /// The tasks of a class.
  struct ClassBatch {
    int of;
    Batch batch;
  };
  /// The classes that have tasks, in the order of their launches.
  static std::vector<ClassBatch> classes_of(const std::uint32_t (&counts)[kClasses],
                                            const Workspace& work) {
    std::vector<ClassBatch> classes;
    for_launched_classes(counts, [&](int of, std::int64_t first, std::int64_t count) {
      classes.push_back(
          {of, {work.sorted.data() + first, static_cast<int>(count), work.tasks.data()}});
    });
    return classes;
  }
  static Batch all_of(const Workspace& work) {
    return {work.sorted.data(), work.num_tasks, work.tasks.data()};
  }

  spgemm::Reports<TaskSummary> reports_;
  int joint_blocks_at_once_ = kJointBlocksOfSm * sms_of_gpu();  // that fill the device
  SummaryReport counted_ = {};                                  // of the last count in one launch
  SideStreams sides_;
};

}  // namespace tessera::row_spgemm
