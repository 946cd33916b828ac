#include "kernels/row_spgemm_trace.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "formats/base/check.hpp"
#include "kernels/row_spgemm_groups_trace.hpp"

namespace tessera::row_spgemm {
namespace {

using namespace tracing;

/// The classes that have tasks, in the order in which they are launched: the last first.
template <class ClassOf>
std::vector<Batch> batches(const Product& product, bool is_sum, int classes, ClassOf class_of) {
  std::vector<Batch> all(static_cast<std::size_t>(classes));
  for (std::int64_t id = 0; id < std::ssize(product.tasks); ++id)
    all[static_cast<std::size_t>(class_of(product.tasks[id]))].tasks.push_back(id);
  const int first_table = is_sum ? int{kSumTable} : int{kMarkTable};
  std::int64_t sorted = 0;
  for (int i = 0; i < classes; ++i) {
    Batch& batch = all[static_cast<std::size_t>(i)];
    batch.number = i;
    batch.limits = is_sum ? sum_limits(i) : mark_limits(i);
    if (i >= first_table && i < first_table + kTables) batch.table = i - first_table;
    batch.is_sum = is_sum;
    batch.first_sorted = sorted;
    sorted += std::ssize(batch.tasks);
  }
  std::erase_if(all, [](const Batch& batch) { return batch.tasks.empty(); });
  std::ranges::reverse(all);
  return all;
}

/// What a task adds to its thread block. Searches for slices are not counted.
void add_task(const Product& product, const TaskWork& task, bool is_sum, ThreadBlockWork& work) {
  const CsrMatrix& a = product.a;
  const std::int64_t nonzeros =
      task.task.words > 0 ? a.row_offsets[task.task.row + 1] - a.row_offsets[task.task.row] : 0;
  work.a_bytes += 4 + kTaskBytes + 8 + (4 + 16) * nonzeros;
  work.b_bytes += kWordBytes * task.words_read;
  if (!is_sum) return;
  work.a_bytes += 16 + 8 + (4 + 16 + 4) * nonzeros;
  work.b_bytes += 8 * task.products;
  work.c_bytes += 8 * task.columns;
  work.fma += task.products;
}

void add_launch(const std::shared_ptr<const Product>& product, Batch batch, const Addresses& at,
                WorkDescription& work) {
  const std::int64_t blocks = batch.thread_blocks();
  const auto first = work.thread_blocks.size();
  work.thread_blocks.resize(first + static_cast<std::size_t>(blocks));
  for (std::int64_t i = 0; i < std::ssize(batch.tasks); ++i)
    add_task(*product, product->tasks[batch.tasks[i]], batch.is_sum,
             work.thread_blocks[first + static_cast<std::size_t>(i / batch.groups())]);
  Launch launch{.name = fmt::format("{} {}", batch.is_sum ? "sums" : "counting", batch.number),
                .thread_blocks = blocks,
                .threads_per_block = batch.threads(),
                .registers_per_thread = batch.registers(),
                .shared_bytes = batch.groups() * batch.group_bytes() + 4 * batch.warps_of_group() +
                                (batch.is_sum ? 0 : 4 * kSumClasses)};
  const TracedLaunch traced = trace_launch(product, std::move(batch), at);
  for (std::int64_t block = 0; block < blocks; ++block)
    work.thread_blocks[first + static_cast<std::size_t>(block)].barriers =
        traced.barriers[static_cast<std::size_t>(block)];
  launch.trace = traced.trace;
  work.launches.push_back(std::move(launch));
}

Addresses add_arrays(const Product& product, AddressSpace& memory) {
  const CsrMatrix &a = product.a, &b = product.b;
  const auto tasks = std::ssize(product.tasks);
  const std::int64_t columns = product.offsets.back();
  Addresses at{};
  at.a_offsets = memory.add("a_offsets", 4 * (std::int64_t{a.rows} + 1));
  at.a_cols = memory.add("a_cols", 4 * a.nnz());
  at.a_values = memory.add("a_values", 4 * a.nnz());
  // A product of a matrix with itself has it on the device once.
  at.b_cols = &a == &b ? at.a_cols : memory.add("b_cols", 4 * b.nnz());
  at.b_values = &a == &b ? at.a_values : memory.add("b_values", 4 * b.nnz());
  at.rows_of_b = memory.add("rows_of_b", 16 * std::int64_t{b.rows});
  at.words_of_b = memory.add("words_of_b", kWordBytes * b.nnz());
  at.tasks = memory.add("tasks", kTaskBytes * tasks);
  at.sorted = memory.add("sorted", 4 * tasks);
  at.lengths = memory.add("lengths", 4 * (tasks + 1));
  at.offsets = memory.add("offsets", 8 * (tasks + 1));
  at.summary = memory.add("summary", 4 * kSumClasses);
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
  const Addresses at = add_arrays(*product, work.memory);
  for (Batch& batch : batches(*product, false, kMarkClasses,
                              [](const TaskWork& of) { return mark_class(of.task); }))
    add_launch(product, std::move(batch), at, work);
  for (Batch& batch : batches(*product, true, kSumClasses,
                              [](const TaskWork& of) { return sum_class(of.task, of.columns); }))
    add_launch(product, std::move(batch), at, work);
  work.footprint_bytes = 4 * (std::int64_t{a.rows} + 1) + 8 * a.nnz();
  work.b_rows_bytes = bytes_of_met_rows(a, b);
  work.c_bytes = 8 * (std::int64_t{a.rows} + 1) + 8 * product->offsets.back();
  work.useful_flops = 2 * work.total().fma;
  return work;
}

}  // namespace tessera::row_spgemm
