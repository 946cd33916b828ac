// row_spgemm in limited memory. It takes A's rows in slices, first to count the columns of C and,
// once C is allocated, to sum. The description of B stays in memory. Every slice is analysed twice,
// except for the last one, which is summed first. See kernels/spgemm/row/row_spgemm.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/spgemm/row/plan.cuh"

namespace tessera::row_spgemm {

/// Multiplies slice by slice with a workspace of at most `limit` bytes.
class RowSlices {
 public:
  /// Describes B. Throws an Error that names the least possible limit, in bytes, where this one is
  /// too small for the description and the row of A that needs most. All references have to outlive
  /// the object.
  RowSlices(RowTasks& tasks, const OperandsView& operands, std::int64_t limit, ProductRun& run)
      : tasks_(tasks), operands_(operands), limit_(limit), run_(run) {
    run.stage("analysis");
    const DescriptionOfB description(of_b_, operands);
    of_b_.take(run);
    description.assign(operands_, of_b_);
    describe_b(operands_, run.stream());
    free_ = limit - of_b_.bytes();
    if (RowTasks::Workspace::bytes_of_rows(1) > free_) refuse();
    most_rows_ = rows_that_fit();
  }

  /// Writes C's row offsets [rows + 1] and returns the number of its nonzeros. Waits for the
  /// device.
  std::int64_t count(std::int64_t* row_offsets) {
    std::int64_t nonzeros = 0;
    int most = most_rows_;
    for (int row = 0; row < operands_.rows;) {
      Slice slice{row, std::min(most, operands_.rows - row), nonzeros};
      plan(slice);
      run_.stage("counting");
      tasks_.count(*work_, run_);
      const std::int64_t of_slice = tasks_.sort_by_columns(*work_, run_.stream());
      RowTasks::find_rows(RowTasks::row_places(*work_, of_slice, row_offsets + row, nonzeros),
                          run_.stream());
      slices_.push_back(slice);
      nonzeros += of_slice;
      row += slice.rows;
      most = std::min(2 * std::int64_t{slice.rows}, std::int64_t{most_rows_});
    }
    return nonzeros;
  }

  /// Calls sum(workspace, offsets of its tasks in C from `first_cell` on, first_cell) for each
  /// slice, with the row offsets that count() has written.
  template <class Sum>
  void sum(const std::int64_t* row_offsets, Sum sum) {
    for (std::size_t i = slices_.size(); i-- > 0;) {
      Slice slice = slices_[i];
      const std::int64_t* of_slice = row_offsets + slice.first_row;
      if (i + 1 == slices_.size()) {  // its workspace is still valid
        sum(*work_, work_->offsets.data(), slice.first_cell);
        continue;
      }
      plan(slice);
      run_.stage("counting");
      const bool is_known = !work_->is_sliced();
      if (is_known)
        RowTasks::recall(*work_, of_slice, run_.stream());
      else
        tasks_.count(*work_, run_);
      tasks_.sort_by_columns(*work_, run_.stream());
      if (is_known)
        sum(*work_, of_slice, std::int64_t{0});
      else
        sum(*work_, work_->offsets.data(), slice.first_cell);
    }
  }

 private:
  struct Slice {
    std::int32_t first_row, rows;
    std::int64_t first_cell;  // of C
  };

  /// Makes the tasks of a slice, which it shortens to the rows that fit.
  void plan(Slice& slice) {
    run_.stage("analysis");
    for (;;) {
      const std::int64_t bytes = RowTasks::Workspace::bytes_of_rows(slice.rows);
      allocate_rows(bytes);
      work_.emplace(run_, operands_of(slice), buffers_);
      const std::int64_t tasks = tasks_.plan_tasks(*work_, run_.stream());
      if (tasks == slice.rows || allocate_tasks(RowTasks::Workspace::bytes_of_tasks(tasks))) {
        tasks_.make_tasks(*work_, tasks, run_);
        return;
      }
      work_.reset();
      const bool is_exact = buffers_.of_rows.size() == bytes;
      buffers_ = {};
      if (!is_exact) continue;
      if (slice.rows == 1) refuse();
      slice.rows /= 2;
    }
  }

  OperandsView operands_of(const Slice& slice) const {
    OperandsView operands = operands_;
    operands.rows = slice.rows;
    operands.nonzeros_of_a = operands_.nonzeros_of_a * slice.rows / operands_.rows;  // an estimate
    operands.a_offsets = operands_.a_offsets + slice.first_row;
    return operands;
  }

  void allocate_rows(std::int64_t bytes) {
    if (buffers_.of_rows.size() >= bytes) return;
    buffers_.of_rows = {};
    if (bytes + buffers_.of_tasks.size() > free_) buffers_.of_tasks = {};
    buffers_.of_rows = RunArray<std::byte>(run_, bytes);
  }
  /// False where the limit does not allow it.
  bool allocate_tasks(std::int64_t bytes) {
    if (buffers_.of_tasks.size() >= bytes) return true;
    buffers_.of_tasks = {};
    if (buffers_.of_rows.size() + bytes > free_) return false;
    buffers_.of_tasks = RunArray<std::byte>(run_, bytes);
    return true;
  }

  /// All rows if they fit; else the most that leave a quarter of the memory for the tasks of rows
  /// that are cut, at least one.
  int rows_that_fit() const {
    if (RowTasks::Workspace::bytes_of_rows(operands_.rows) <= free_) return operands_.rows;
    const std::int64_t most = std::max(free_ - free_ / 4, RowTasks::Workspace::bytes_of_rows(1));
    int fit = 1, too_many = operands_.rows;
    while (too_many - fit > 1) {
      const int rows = fit + (too_many - fit) / 2;
      (RowTasks::Workspace::bytes_of_rows(rows) <= most ? fit : too_many) = rows;
    }
    return fit;
  }

  [[noreturn]] void refuse() {
    const std::int64_t tasks = RowTasks::most_tasks(operands_, run_.stream());
    const std::int64_t of_row = RowTasks::Workspace::bytes_of_rows(1) +
                                (tasks > 1 ? RowTasks::Workspace::bytes_of_tasks(tasks) : 0);
    throw Error(fmt::format(
        "row_spgemm needs a workspace_limit of {} bytes or more for these operands; it is {}",
        of_b_.bytes() + of_row, limit_));
  }

  RowTasks& tasks_;
  OperandsView operands_;  // with B described
  std::int64_t limit_, free_ = 0;
  ProductRun& run_;
  RunBlock of_b_;
  int most_rows_ = 0;  // of a slice
  RowTasks::Buffers buffers_;
  std::optional<RowTasks::Workspace> work_;  // of the slice that was planned last
  std::vector<Slice> slices_;
};

}  // namespace tessera::row_spgemm
