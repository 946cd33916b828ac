#include "kernels/spgemm/row/trace.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "formats/base/check.hpp"
#include "kernels/spgemm/row/rows_trace.hpp"

namespace tessera::row_spgemm {
namespace {

using namespace tracing;

/// Registers of a thread, and shared memory of a thread block that is not of its groups, as
/// compiled for sm_90a.
struct Compiled {
  int registers;
  std::int64_t shared_bytes = 0;
};
constexpr std::int64_t kSummaryBytes = 4 * kClasses;

Compiled compiled(const Batch& batch) {
  if (batch.is_small()) {
    constexpr std::array<int, kSmallSizes> kMarks{21, 29, 31}, kSums{27, 32, 32};
    const auto size = static_cast<std::size_t>(batch.number);
    return {batch.is_sum ? kSums[size] : kMarks[size], 4 * kThreadsOfGroups};
  }
  const std::int64_t scratch = batch.is_block() ? 4 * batch.warps_of_group() : 0;
  if (batch.is_sum) return {batch.is_block() ? 64 : batch.has_directory() ? 56 : 48, scratch};
  const int of_whole = batch.lanes() == 32 ? 36 : batch.lanes() == 256 ? 48 : 49;
  const int of_words = batch.lanes() == 32 ? 40 : batch.lanes() == 256 ? 48 : 55;
  return {batch.has_directory() ? of_words : of_whole, scratch + kSummaryBytes};
}

int class_of(const TaskWork& of, bool is_sum) {
  return is_sum ? sum_class(of.counted(), of.columns) : mark_class(of.task);
}

/// The classes that have tasks, in the order in which they are launched: the last first.
std::vector<Batch> batches(const Product& product, bool is_sum) {
  std::vector<Batch> all(kClasses);
  for (std::int64_t id = 0; id < std::ssize(product.tasks); ++id)
    all[static_cast<std::size_t>(class_of(product.tasks[static_cast<std::size_t>(id)], is_sum))]
        .tasks.push_back(id);
  std::int64_t sorted = 0;
  for (int i = 0; i < kClasses; ++i) {
    Batch& batch = all[static_cast<std::size_t>(i)];
    batch.number = i;
    batch.is_sum = is_sum;
    batch.first_sorted = sorted;
    sorted += std::ssize(batch.tasks);
  }
  std::erase_if(all, [](const Batch& batch) { return batch.tasks.empty(); });
  std::ranges::reverse(all);
  return all;
}

/// What a task adds to its thread block. Searches for slices are not counted.
void add_task(const TaskWork& task, const Batch& batch, ThreadBlockWork& work) {
  const bool is_small = batch.is_small(), is_one_wave = !batch.is_block() && task.is_one_wave();
  const std::int64_t nonzeros = task.task.nonzeros, of_nonzeros = (4 + kRowOfBBytes) * nonzeros;
  work.a_bytes += of_nonzeros + (is_small ? kSortedTaskBytes : 4 + kTaskBytes);
  if (is_small) {
    work.b_bytes += 4 * task.products;
  } else {
    const int ways = batch.has_directory() && !is_one_wave ? 2 : 1;
    work.a_bytes += (ways - 1) * of_nonzeros;
    work.b_bytes += ways * kWordBytes * task.words_read;
  }
  if (!batch.is_sum) return;
  work.a_bytes += 4 * nonzeros + (is_small ? 8 : 16 + of_nonzeros);

  work.b_bytes += (is_small ? 4 : 8) * task.products;
  work.c_bytes += 8 * task.columns;
  work.fma += task.products;
}

/// Launches as they follow each other.
class Launches {
 public:
  Launches(std::shared_ptr<const Product> product, const Addresses& at, WorkDescription& work)
      : product_(std::move(product)), at_(at), work_(work) {}

  void add_batches(bool is_sum) {
    for (Batch& batch : batches(*product_, is_sum)) add_batch(std::move(batch));
  }
  /// Rows of B: with their words, or without.
  void describe(bool with_words) {
    const CsrMatrix& b = product_->b;
    if (b.rows == 0) return;
    const int lanes = with_words ? lanes_for(b.nnz(), b.rows) : 1;
    add({.name = with_words ? "describing rows of B" : "measuring rows of B",
         .thread_blocks = parts(b.rows, kThreads / lanes),
         .threads_per_block = kThreads,
         .registers_per_thread = !with_words  ? 16
                                 : lanes < 16 ? 30
                                              : 28,
         .trace = with_words ? trace_description(product_, at_) : trace_measure(product_, at_)});
    for_rows(b.rows, kThreads / lanes, [&](std::int64_t row, ThreadBlockWork& work) {
      const std::int64_t length = b.row_offsets[row + 1] - b.row_offsets[row];
      work.b_bytes += 8 + (with_words ? 4 * length : 0) + (length > 0 ? 8 : 0);
    });
  }

  void analyse() {
    const CsrMatrix& a = product_->a;
    if (a.rows == 0) return;

    const int lanes = lanes_for(a.nnz(), a.rows);
    add({.name = "analysing rows",
         .thread_blocks = parts(a.rows, kThreads / lanes),
         .threads_per_block = kThreads,
         .registers_per_thread = lanes == 32 ? 32 : 43,
         .shared_bytes = kSummaryBytes + 4,
         .trace = trace_analysis(product_, at_)},
        2);
    for_rows(a.rows, kThreads / lanes, [&](std::int64_t row, ThreadBlockWork& work) {
      work.a_bytes +=
          8 + (4 + kRowOfBBytes + kRangeOfBBytes) * (a.row_offsets[row + 1] - a.row_offsets[row]);
    });
  }

  void cut() {
    const std::int64_t rows = product_->a.rows;
    scan({.count = rows, .is_wide = false, .from = at_.slice_counts, .to = at_.slice_counts});
    add({.name = "cutting rows",
         .thread_blocks = parts(rows, kThreads),
         .threads_per_block = kThreads,
         .registers_per_thread = 30,
         .trace = trace_cut(product_, at_)});
    for_rows(rows, kThreads, [&](std::int64_t row, ThreadBlockWork& work) {
      work.a_bytes += 8 + kTaskBytes * (product_->first_tasks[static_cast<std::size_t>(row + 1)] -
                                        product_->first_tasks[static_cast<std::size_t>(row)]);
    });
  }

  void sort(bool is_sum) {
    const std::int64_t tasks = std::ssize(product_->tasks);
    if (tasks == 0 || (is_sum && !product_->is_marked)) return;
    std::vector<std::int64_t> places(static_cast<std::size_t>(tasks));
    for (const Batch& batch : batches(*product_, is_sum))
      for (std::size_t i = 0; i < batch.tasks.size(); ++i)
        places[static_cast<std::size_t>(batch.tasks[i])] =
            batch.first_sorted + static_cast<std::int64_t>(i);
    add({.name = is_sum ? "sorting for sums" : "sorting for counting",
         .thread_blocks = parts(tasks, kThreads),
         .threads_per_block = kThreads,
         .registers_per_thread = is_sum ? 17 : 18,
         .shared_bytes = 2 * kSummaryBytes,
         .trace = trace_sort(product_, is_sum, std::move(places), at_)},
        3);
    for_rows(tasks, kThreads, [&](std::int64_t, ThreadBlockWork& work) {
      work.a_bytes += kTaskBytes + (is_sum ? 4 : 0);
    });
  }

  void scan_lengths() {
    scan({.count = std::ssize(product_->tasks) + 1,
          .is_wide = true,
          .from = at_.lengths,
          .to = at_.offsets});
  }

  void gather() {
    const std::int64_t rows = product_->a.rows;
    add({.name = "gathering offsets",
         .thread_blocks = parts(rows + 1, kThreads),
         .threads_per_block = kThreads,
         .registers_per_thread = 16,
         .trace = trace_gather(product_, at_)});
    for_rows(rows + 1, kThreads, [&](std::int64_t row, ThreadBlockWork& work) {
      if (row < rows) work.a_bytes += 8 + (product_->is_sliced() ? 4 : 0);
      work.c_bytes += 8;
    });
  }

 private:
  /// Each warp of its thread blocks meets the others so many times.
  void add(Launch launch, std::int64_t barriers = 0) {
    first_ = work_.thread_blocks.size();
    work_.thread_blocks.resize(
        first_ + static_cast<std::size_t>(launch.thread_blocks),
        {.barriers = barriers * static_cast<std::int64_t>(launch.threads_per_block / 32)});
    work_.launches.push_back(std::move(launch));
  }

  /// Calls visit(row, its thread block's work) for what the launch added last goes over.
  template <class Visit>
  void for_rows(std::int64_t count, std::int64_t of_block, Visit visit) {
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
         .trace = trace_scan(scan)},
        Scan::kBarriers);
    for_rows(scan.count, std::int64_t{scan.threads()} * scan.items(),
             [](std::int64_t, ThreadBlockWork& work) { work.a_bytes += 4; });
  }

  void add_batch(Batch batch) {
    const auto [registers, shared_bytes] = compiled(batch);
    Launch launch{.name = fmt::format("{} {}", batch.is_sum ? "sums" : "counting", batch.number),
                  .thread_blocks = batch.thread_blocks(),
                  .threads_per_block = batch.threads(),
                  .registers_per_thread = registers,
                  .shared_bytes = shared_bytes};
    if (!batch.is_small()) launch.shared_bytes += batch.groups() * batch.group_bytes();
    add(launch);
    for_rows(std::ssize(batch.tasks), batch.groups(), [&](std::int64_t i, ThreadBlockWork& work) {
      const auto id = static_cast<std::size_t>(batch.tasks[static_cast<std::size_t>(i)]);
      add_task(product_->tasks[id], batch, work);
    });
    const TracedLaunch traced = batch.is_small() ? trace_small(product_, std::move(batch), at_)
                                                 : trace_groups(product_, std::move(batch), at_);
    for (std::size_t block = 0; block < traced.barriers.size(); ++block)
      work_.thread_blocks[first_ + block].barriers = traced.barriers[block];
    work_.launches.back().trace = traced.trace;
  }

  std::shared_ptr<const Product> product_;
  Addresses at_;
  WorkDescription& work_;
  std::size_t first_ = 0;  // thread block of the launch added last
};

Addresses add_arrays(const Product& product, AddressSpace& memory) {
  const CsrMatrix &a = product.a, &b = product.b;
  const auto tasks = std::ssize(product.tasks);
  const std::int64_t columns = product.offsets.back();
  // A product of a matrix with itself has it on the device once.
  const bool is_same = &a == &b;
  Addresses at{};
  at.a_offsets = memory.add("a_offsets", 4 * (std::int64_t{a.rows} + 1));
  at.a_cols = memory.add("a_cols", 4 * a.nnz());
  at.a_values = memory.add("a_values", 4 * a.nnz());
  at.b_offsets = is_same ? at.a_offsets : memory.add("b_offsets", 4 * (std::int64_t{b.rows} + 1));
  at.b_cols = is_same ? at.a_cols : memory.add("b_cols", 4 * b.nnz());
  at.b_values = is_same ? at.a_values : memory.add("b_values", 4 * b.nnz());
  at.rows_of_b = memory.add("rows_of_b", kRowOfBBytes * std::int64_t{b.rows});
  at.ranges_of_b = memory.add("ranges_of_b", kRangeOfBBytes * std::int64_t{b.rows});
  at.words_of_b = memory.add("words_of_b", kWordBytes * b.nnz());
  at.slice_counts = memory.add("slice_counts", 4 * (std::int64_t{a.rows} + 1));
  at.slice_words = memory.add("slice_words", 4 * std::int64_t{a.rows});
  at.summary = memory.add("summary", kSummaryBytes);
  at.whole_tasks = memory.add("whole_tasks", kTaskBytes * std::int64_t{a.rows});
  at.tasks = product.is_sliced() ? memory.add("tasks", kTaskBytes * tasks) : at.whole_tasks;
  at.sorted = memory.add("sorted", kSortedTaskBytes * tasks);
  at.lengths = memory.add("lengths", 4 * (tasks + 1));
  at.offsets = memory.add("offsets", 8 * (tasks + 1));
  at.c_offsets = memory.add("c_offsets", 8 * (std::int64_t{a.rows} + 1));
  at.c_cols = memory.add("c_cols", 4 * columns);
  at.c_values = memory.add("c_values", 4 * columns);
  return at;
}

/// Of the rows of B that A has a nonzero for.
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
  const auto product = std::make_shared<const Product>(analyse(a, b));
  WorkDescription work{.kernel = "row_spgemm"};
  Launches launches(product, add_arrays(*product, work.memory), work);
  launches.describe(!product->words_wait);
  launches.analyse();
  if (product->is_sliced()) launches.cut();
  if (product->words_wait && product->is_marked) launches.describe(true);

  launches.sort(false);
  launches.add_batches(false);
  launches.scan_lengths();
  launches.sort(true);
  launches.gather();
  launches.add_batches(true);
  work.footprint_bytes = 4 * (std::int64_t{a.rows} + 1) + 8 * a.nnz();
  work.b_rows_bytes = bytes_of_met_rows(a, b);
  work.c_bytes = 8 * (std::int64_t{a.rows} + 1) + 8 * product->offsets.back();
  work.useful_flops = 2 * work.total().fma;
  return work;
}

}  // namespace tessera::row_spgemm
