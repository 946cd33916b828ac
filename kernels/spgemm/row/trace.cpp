#include "kernels/spgemm/row/trace.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "formats/base/check.hpp"
#include "kernels/gpu_limits.hpp"
#include "kernels/spgemm/row/counted.hpp"
#include "kernels/spgemm/row/launch_traces.hpp"
#include "kernels/spgemm/shared/scan_trace.hpp"

namespace tessera::row_spgemm {
namespace {

using namespace tracing;
using spgemm::Scan;

constexpr std::int64_t kSummaryBytes = sizeof(std::uint32_t) * kClasses;

/// The launches over tasks of a class, in order.
std::vector<ClassLaunch> class_launches(const ProductAnalysis& product, bool is_sum) {
  std::vector<std::vector<std::int64_t>> tasks(kClasses);
  for (std::int64_t id = 0; id < std::ssize(product.tasks); ++id)
    tasks[static_cast<std::size_t>(product.tasks[static_cast<std::size_t>(id)].class_in(is_sum))]
        .push_back(id);
  std::array<std::int64_t, kClasses> counts;
  std::ranges::transform(tasks, counts.begin(), [](const auto& of) { return std::ssize(of); });
  std::vector<ClassLaunch> launches;
  for_launched_classes(counts, [&](int of, std::int64_t first, std::int64_t) {
    launches.push_back({.number = of,
                        .is_sum = is_sum,
                        .first_sorted = first,
                        .tasks = std::move(tasks[static_cast<std::size_t>(of)])});
  });
  return launches;
}

/// The launches of a phase: those of single classes, and classes of a joint one in its order.
struct PhaseLaunches {
  std::vector<ClassLaunch> single, joint;
};
PhaseLaunches phase_launches(const ProductAnalysis& product, bool is_sum) {
  PhaseLaunches launches{.single = class_launches(product, is_sum), .joint = {}};
  std::array<std::int64_t, kClasses> counts{};
  for (const ClassLaunch& of : launches.single) counts[of.number] = std::ssize(of.tasks);
  const JointLaunch joint(counts);
  const int rounds = is_sum ? kJointSumRounds : kJointCountRounds;
  const bool is_joint =
      joint.is_better(rounds * kJointBlocksOfSm * static_cast<int>(kH200Limits.sms)) &&
      (is_sum || (product.is_tiled() && joint.tasks == std::ssize(product.tasks)));
  if (!is_joint) return launches;
  for (int i = 0; i < joint.size; ++i) {
    const auto of = std::ranges::find(launches.single, joint.classes[i].of, &ClassLaunch::number);
    of->is_joint = true;
    launches.joint.push_back(std::move(*of));
    launches.single.erase(of);
  }
  return launches;
}

/// Static shared memory of a thread block of a launch, in bytes.
std::int64_t static_shared_bytes(const ClassLaunch& launch) {
  const GroupLaunch shape = launch.shape();
  if (launch.is_small()) return sizeof(std::int32_t) * launch.threads();
  const std::int64_t scratch = shape.is_block() ? sizeof(int) * shape.warps() : 0;
  return scratch + (launch.is_sum ? 0 : kSummaryBytes);
}

/// Adds a task to the work of its thread block, in bytes. Searches for slices are not counted.
void add_task(const TaskWork& task, const ClassLaunch& launch, ThreadBlockWork& work) {
  const bool is_small = launch.is_small();
  const bool is_one_prefetch = !launch.shape().is_block() && task.is_one_prefetch();
  const std::int64_t nonzeros = task.task.nonzeros;
  const std::int64_t of_nonzeros = (sizeof(std::int32_t) + sizeof(RowOfB)) * nonzeros;
  work.a_bytes +=
      of_nonzeros + (is_small ? sizeof(SortedTask) : sizeof(SortedTask::id) + sizeof(Task));
  if (is_small) {
    work.b_bytes += sizeof(std::int32_t) * task.products;
  } else {
    const int walks = launch.has_directory() && !is_one_prefetch ? 2 : 1;
    work.a_bytes += (walks - 1) * of_nonzeros;
    work.b_bytes += walks * sizeof(WordOfB) * task.words_read;
  }
  if (!launch.is_sum) return;
  constexpr std::int64_t kElement = sizeof(std::int32_t) + sizeof(float), kOffset = 8;
  work.a_bytes += sizeof(float) * nonzeros + (is_small ? kOffset : 2 * kOffset + of_nonzeros);
  work.b_bytes += (is_small ? sizeof(float) : kElement) * task.products;
  work.c_bytes += kElement * task.columns;
  work.fma += task.products;
}

/// Adds the launches of a product to its work, one after another.
class Launches {
 public:
  Launches(AnalysisPtr product, const DeviceArrays& at, WorkDescription& work)
      : product_(std::move(product)), at_(at), work_(work) {}

  /// The host waits for the device before the next launch, and makes so many allocations then.
  void wait(int allocations) { waits_ = true, allocations_ += allocations; }
  void allocate() { ++allocations_; }

  /// Counts or sums the tasks of all classes, whose launches run side by side. Returns whether
  /// classes have a joint launch.
  bool add_tasks(bool is_sum) {
    PhaseLaunches launches = phase_launches(*product_, is_sum);
    if (is_sum && launches.joint.empty()) gather();
    bool is_beside = false;
    for (ClassLaunch& launch : launches.single) {
      add_class(std::move(launch));
      work_.launches.back().is_beside = std::exchange(is_beside, true);
    }
    if (launches.joint.empty()) return false;
    add_joint(std::move(launches.joint), is_sum);
    work_.launches.back().is_beside = is_beside;
    return true;
  }

  /// Describes the rows of B, with their words or without.
  void describe(bool with_words) {
    const CsrMatrix& b = product_->b;
    if (b.rows == 0) return;
    const LaunchShape shape = with_words ? row_launch(lanes_for(b.nnz(), b.rows)) : thread_each();
    add(shape, b.rows,
        {.name = with_words ? "describing rows of B" : "measuring rows of B",
         .registers_per_thread = with_words ? counted::DescribeRowsOfB::registers(shape.lanes)
                                            : counted::MeasureRowsOfB::kRegisters,
         .trace = with_words ? trace_description(product_, at_) : trace_measure(product_, at_)});
    for_items(b.rows, shape.items(), [&](std::int64_t row, ThreadBlockWork& work) {
      const std::int64_t length = b.row_offsets[row + 1] - b.row_offsets[row];
      work.b_bytes += 8 + (with_words ? 4 * length : 0) + (length > 0 ? 8 : 0);
    });
  }

  void analyse() {
    const CsrMatrix& a = product_->a;
    if (a.rows == 0) return;
    const LaunchShape shape = row_launch(lanes_for(a.nnz(), a.rows));
    add(shape, a.rows,
        {.name = "analysing rows",
         .registers_per_thread = counted::AnalyseRows::registers(shape.lanes),
         .shared_bytes = kSummaryBytes + 4,
         .trace = trace_analysis(product_, at_)},
        4);
    for_items(a.rows, shape.items(), [&](std::int64_t row, ThreadBlockWork& work) {
      constexpr std::int64_t kOfNonzero = sizeof(std::int32_t) + sizeof(RowOfB) + sizeof(RangeOfB);
      work.a_bytes += 8 + kOfNonzero * (a.row_offsets[row + 1] - a.row_offsets[row]);
    });
  }

  void cut() {
    const std::int64_t rows = product_->a.rows;
    allocate();
    if (rows > spgemm::kMostTiled)
      scan({.count = rows,
            .is_wide = false,
            .from = at_.slice_counts.begin,
            .to = at_.slice_counts.begin});
    add(thread_each(), rows,
        {.name = "cutting rows",
         .registers_per_thread = counted::CutRows::kRegisters,
         .trace = trace_cut(product_, at_)},
        rows > spgemm::kMostTiled ? 0 : 2);
    for_items(rows, kRowThreads, [&](std::int64_t row, ThreadBlockWork& work) {
      work.a_bytes += 8 + sizeof(Task) * (product_->first_tasks[static_cast<std::size_t>(row + 1)] -
                                          product_->first_tasks[static_cast<std::size_t>(row)]);
    });
  }

  void sort(bool is_sum) {
    const std::int64_t tasks = std::ssize(product_->tasks);
    if (tasks == 0 || (is_sum && !product_->is_marked)) return;
    add(thread_each(), tasks,
        {.name = is_sum ? "sorting for sums" : "sorting for counting",
         .registers_per_thread = counted::SortTasks::registers(is_sum),
         .shared_bytes = 2 * kSummaryBytes,
         .trace = trace_sort(product_, is_sum, places(is_sum), at_)},
        3);
    for_items(tasks, kRowThreads, [&](std::int64_t, ThreadBlockWork& work) {
      work.a_bytes += sizeof(Task) + (is_sum ? 4 : 0);
    });
  }

  /// Finds the offsets of tasks in C from the columns of tiles, and sorts the tasks for sums.
  void place() {
    const std::int64_t tasks = std::ssize(product_->tasks);
    add(thread_each(), tasks + 1,
        {.name = "placing tasks",
         .registers_per_thread = counted::PlaceTasks::kRegisters,
         .shared_bytes = 2 * kSummaryBytes + 8 * (kRowThreads / kWarpLanes + 1),
         .trace = trace_place(product_, places(true), at_)},
        5);
    for_items(tasks, kRowThreads,
              [&](std::int64_t, ThreadBlockWork& work) { work.a_bytes += sizeof(Task) + 4; });
  }
  /// The last launch runs while the host waits for what the launch before it has reported.
  void hide_wait() { work_.launches.back().hides_wait = true; }

  void scan_lengths() {
    scan({.count = std::ssize(product_->tasks) + 1,
          .is_wide = true,
          .from = at_.lengths.begin,
          .to = at_.offsets.begin});
  }

  void gather() {
    const std::int64_t rows = product_->a.rows;
    add(thread_each(), rows + 1,
        {.name = "gathering offsets",
         .registers_per_thread = counted::GatherOffsets::kRegisters,
         .trace = trace_gather(product_, at_)});
    add_work_of_rows();
  }

 private:
  /// Adds a launch over `count` items; each warp has that many barriers.
  void add(const LaunchShape& shape, std::int64_t count, Launch launch, std::int64_t barriers = 0) {
    launch.thread_blocks = shape.thread_blocks(count);
    launch.threads_per_block = shape.threads;
    add(std::move(launch), barriers);
  }
  void add(Launch launch, std::int64_t barriers = 0) {
    launch.waits = std::exchange(waits_, false);
    launch.allocations = std::exchange(allocations_, 0);
    first_ = work_.thread_blocks.size();
    work_.thread_blocks.resize(first_ + static_cast<std::size_t>(launch.thread_blocks),
                               {.barriers = barriers * (launch.threads_per_block / kWarpLanes)});
    work_.launches.push_back(std::move(launch));
  }

  /// Calls visit(item, work of its thread block) for the items of the launch that was added last,
  /// of which a thread block takes `of_block`.
  template <class Visit>
  void for_items(std::int64_t count, std::int64_t of_block, Visit visit) {
    for (std::int64_t i = 0; i < count; ++i)
      visit(i, work_.thread_blocks[first_ + static_cast<std::size_t>(i / of_block)]);
  }

  void scan(const Scan& scan) {
    const std::int64_t blocks = scan.thread_blocks();
    add({.name = scan.is_wide ? "scanning lengths" : "scanning tasks of rows",
         .thread_blocks = blocks,
         .threads_per_block = scan.threads(),
         .registers_per_thread = scan.registers(),
         .shared_bytes = scan.shared_bytes(),
         .trace = spgemm::trace_scan(scan)},
        Scan::kBarriers);
    for_items(scan.count, std::int64_t{scan.threads()} * scan.items(),
              [](std::int64_t, ThreadBlockWork& work) { work.a_bytes += 4; });
  }

  void add_class(ClassLaunch of) {
    const GroupLaunch shape = of.shape();
    add({.name = fmt::format("{} {}", of.is_sum ? "sums" : "counting", of.number),
         .thread_blocks = of.thread_blocks(),
         .threads_per_block = shape.threads(),
         .registers_per_thread =
             of.is_small() ? counted::SmallTasks::registers(of.number, of.is_sum)
                           : counted::GroupTasks::registers(shape, of.has_directory(), of.is_sum),
         .shared_bytes = static_shared_bytes(of) + (of.is_small() ? 0 : shape.shared_bytes())});
    work_.launches.back().trace = add_class_work(std::move(of));
  }

  /// Adds the work of a class to the thread blocks from first_ on; returns its trace.
  TracePtr add_class_work(ClassLaunch of) {
    for_items(std::ssize(of.tasks), of.groups(), [&](std::int64_t i, ThreadBlockWork& work) {
      const auto id = static_cast<std::size_t>(of.tasks[static_cast<std::size_t>(i)]);
      add_task(product_->tasks[id], of, work);
    });
    const ClassTrace traced = of.is_small() ? trace_small(product_, std::move(of), at_)
                                            : trace_groups(product_, std::move(of), at_);
    for (std::size_t block = 0; block < traced.barriers.size(); ++block)
      work_.thread_blocks[first_ + block].barriers = traced.barriers[block];
    return traced.trace;
  }

  /// A launch over the tasks of several classes; with sums, it finds the places of rows, too.
  void add_joint(std::vector<ClassLaunch> classes, bool is_sum) {
    constexpr std::int64_t kScratch = sizeof(int) * (kJointThreads / kWarpLanes);
    std::int64_t blocks = 0;
    int shared = 0;
    for (const ClassLaunch& of : classes) {
      blocks += of.thread_blocks();
      shared = std::max(shared, joint_bytes(of.number));
    }
    const std::int64_t rows = std::int64_t{product_->a.rows} + 1;
    const std::int64_t for_rows = is_sum ? thread_each().thread_blocks(rows) : 0;
    add({.name = is_sum ? "sums of all classes" : "counting all classes",
         .thread_blocks = blocks + for_rows,
         .threads_per_block = kJointThreads,
         .registers_per_thread = counted::joint_registers(is_sum),
         .shared_bytes = kScratch + (is_sum ? 0 : kSummaryBytes) + shared});
    std::vector<PartOfLaunch> parts;
    for (ClassLaunch& of : classes) {
      const std::int64_t of_class = of.thread_blocks();
      parts.push_back({of_class, add_class_work(std::move(of))});
      first_ += static_cast<std::size_t>(of_class);
    }
    if (is_sum) {
      parts.push_back({for_rows, trace_gather(product_, at_)});
      add_work_of_rows();
    }
    work_.launches.back().trace = trace_jointly(std::move(parts));
  }

  void add_work_of_rows() {
    const std::int64_t rows = product_->a.rows;
    for_items(rows + 1, kRowThreads, [&](std::int64_t row, ThreadBlockWork& work) {
      if (row < rows) work.a_bytes += 8 + (product_->is_sliced() ? 4 : 0);
      work.c_bytes += 8;
    });
  }

  /// The index of each task among those sorted by class. [tasks]
  std::vector<std::int64_t> places(bool is_sum) const {
    std::vector<std::int64_t> places(product_->tasks.size());
    for (const ClassLaunch& launch : class_launches(*product_, is_sum))
      for (std::size_t i = 0; i < launch.tasks.size(); ++i)
        places[static_cast<std::size_t>(launch.tasks[i])] =
            launch.first_sorted + static_cast<std::int64_t>(i);
    return places;
  }

  AnalysisPtr product_;
  DeviceArrays at_;
  WorkDescription& work_;
  std::size_t first_ = 0;  // first thread block of the launch that was added last
  bool waits_ = false;     // the host, before the next launch
  int allocations_ = 0;    // by the host, before the next launch
};

DeviceArrays add_arrays(const ProductAnalysis& product, AddressSpace& memory) {
  const CsrMatrix &a = product.a, &b = product.b;
  const std::int64_t rows = a.rows, rows_of_b = b.rows, tasks = std::ssize(product.tasks);
  const auto add = [&]<class T>(ArrayAt<T>& array, const char* name, std::int64_t size) {
    array.begin = memory.add(name, static_cast<std::int64_t>(sizeof(T)) * size);
  };
  DeviceArrays at{};
  add(at.a_offsets, "a_offsets", rows + 1);
  add(at.a_cols, "a_cols", a.nnz());
  add(at.a_values, "a_values", a.nnz());
  if (&a == &b) {  // the device has one copy
    at.b_offsets = at.a_offsets;
    at.b_cols = at.a_cols;
    at.b_values = at.a_values;
  } else {
    add(at.b_offsets, "b_offsets", rows_of_b + 1);
    add(at.b_cols, "b_cols", b.nnz());
    add(at.b_values, "b_values", b.nnz());
  }
  add(at.rows_of_b, "rows_of_b", rows_of_b);
  add(at.ranges_of_b, "ranges_of_b", rows_of_b);
  add(at.words_of_b, "words_of_b", b.nnz());
  add(at.slice_counts, "slice_counts", rows + 1);
  add(at.slice_words, "slice_words", rows);
  add(at.summary, "summary", kClasses);
  add(at.columns_of_tiles, "columns_of_tiles", spgemm::kMostTiles);
  add(at.whole_tasks, "whole_tasks", rows);
  at.tasks = at.whole_tasks;
  if (product.is_sliced()) add(at.tasks, "tasks", tasks);
  add(at.sorted, "sorted", tasks);
  add(at.lengths, "lengths", tasks + 1);
  add(at.offsets, "offsets", tasks + 1);
  add(at.c_offsets, "c_offsets", rows + 1);
  add(at.c_cols, "c_cols", product.offsets.back());
  add(at.c_values, "c_values", product.offsets.back());
  return at;
}

/// Bytes of the rows of B for which A has a nonzero.
std::int64_t bytes_of_met_rows(const CsrMatrix& a, const CsrMatrix& b) {
  std::vector<bool> is_met(static_cast<std::size_t>(b.rows));
  for (const std::int32_t col : a.col_indices) is_met[col] = true;
  std::int64_t bytes = 0;
  for (std::int32_t row = 0; row < b.rows; ++row)
    if (is_met[row]) bytes += 8 + 8 * (b.row_offsets[row + 1] - b.row_offsets[row]);
  return bytes;
}

}  // namespace

WorkDescription describe_work(const CsrMatrix& a, const CsrMatrix& b) {
  require(a.cols == b.rows, "A has {} columns and B {} rows", a.cols, b.rows);
  const auto product = std::make_shared<const ProductAnalysis>(analyse(a, b));
  WorkDescription work{.kernel = "row_spgemm"};
  Launches launches(product, add_arrays(*product, work.memory), work);
  launches.allocate();
  launches.describe(!product->words_wait);
  launches.analyse();
  // Rows are sorted as tasks before the host knows whether they are.
  const bool sorts_early = a.rows <= spgemm::kMostTiled && !product->is_sliced();
  if (sorts_early) {
    launches.sort(false);
    launches.hide_wait();
  }
  launches.wait(0);
  if (product->is_sliced()) launches.cut();
  if (product->words_wait && product->is_marked) {
    launches.allocate();
    launches.describe(true);
  }
  if (!sorts_early) launches.sort(false);
  const bool counts_jointly = launches.add_tasks(false);
  if (product->is_tiled()) {
    launches.place();
    if (counts_jointly) launches.hide_wait();
    launches.wait(1);
  } else {
    launches.scan_lengths();
    launches.wait(1);
    launches.sort(true);
  }
  launches.add_tasks(true);
  work.footprint_bytes = 4 * (std::int64_t{a.rows} + 1) + 8 * a.nnz();
  work.b_rows_bytes = bytes_of_met_rows(a, b);
  work.c_bytes = 8 * (std::int64_t{a.rows} + 1) + 8 * product->offsets.back();
  work.useful_flops = 2 * work.total().fma;
  return work;
}

}  // namespace tessera::row_spgemm
