// row_spgemm in limited memory: A's rows go in slices, first to count the columns of C and then,
// where C has its room, to sum. What is known of B stays; what a slice needs is found out twice,
// but for the last one's, which is summed first. See kernels/spgemm/row/row_spgemm.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/spgemm/row/plan.cuh"

namespace tessera::row_spgemm {

/// The slices of a product, one after another in memory that stays below a limit.
class RowSlices {
 public:
  /// Takes what depends on B alone. Throws an Error that names the least limit where one of so many
  /// bytes is too small for that and the row of A that needs most. The view and the run have to
  /// live as long.
  RowSlices(RowTasks& tasks, const View& view, std::int64_t limit, ProductRun& run)
      : tasks_(tasks), view_(view), limit_(limit), run_(run) {
    run.stage("analysis");
    const RowTasks::PlacesOfB places(of_b_, view);
    of_b_.take(run);
    places.hand_out(view_, of_b_);
    RowTasks::describe_b(view_, run.stream());
    free_ = limit - of_b_.bytes();
    if (RowTasks::Work::bytes_of_rows(1) > free_) refuse();
    most_rows_ = rows_that_fit();
  }

  /// Writes where C's rows begin, [rows + 1], and tells how many nonzeros it has. Waits.
  std::int64_t count(std::int64_t* row_offsets) {
    std::int64_t nonzeros = 0;
    int most = most_rows_;
    for (int row = 0; row < view_.rows;) {
      Slice slice{row, std::min(most, view_.rows - row), nonzeros};
      plan(slice);
      run_.stage("counting");
      tasks_.count(*work_, run_);
      const std::int64_t of_slice = tasks_.sort_by_columns(*work_, run_.stream());
      RowTasks::find_rows(*work_, of_slice, row_offsets + row, run_.stream(), nonzeros);
      slices_.push_back(slice);
      nonzeros += of_slice;
      row += slice.rows;
      most = std::min(2 * std::int64_t{slice.rows}, std::int64_t{most_rows_});
    }
    return nonzeros;
  }

  /// Calls sum(work, where its tasks begin in C, counted from `first_cell` on, first_cell) for each
  /// slice, with what count() has written.
  template <class Sum>
  void sum(const std::int64_t* row_offsets, Sum sum) {
    for (std::size_t i = slices_.size(); i-- > 0;) {
      Slice slice = slices_[i];
      const std::int64_t* of_slice = row_offsets + slice.first_row;
      if (i + 1 == slices_.size()) {  // its work is still there
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

  /// Makes the tasks of a slice, or of its first rows where not all fit.
  void plan(Slice& slice) {
    run_.stage("analysis");
    for (;;) {
      const std::int64_t bytes = RowTasks::Work::bytes_of_rows(slice.rows);
      make_room_for_rows(bytes);
      work_.emplace(run_, view_of(slice), rooms_);
      const std::int64_t tasks = tasks_.plan_tasks(*work_, run_.stream());
      if (tasks == slice.rows || has_room_for_tasks(RowTasks::Work::bytes_of_tasks(tasks))) {
        tasks_.make_tasks(*work_, tasks, run_);
        return;
      }
      work_.reset();
      const bool is_exact = rooms_.of_rows.size() == bytes;
      rooms_ = {};
      if (!is_exact) continue;
      if (slice.rows == 1) refuse();
      slice.rows /= 2;
    }
  }

  View view_of(const Slice& slice) const {
    View view = view_;
    view.rows = slice.rows;
    view.nonzeros_of_a = view_.nonzeros_of_a * slice.rows / view_.rows;  // about
    view.a_offsets = view_.a_offsets + slice.first_row;
    return view;
  }

  void make_room_for_rows(std::int64_t bytes) {
    if (rooms_.of_rows.size() >= bytes) return;
    rooms_.of_rows = {};
    if (bytes + rooms_.of_tasks.size() > free_) rooms_.of_tasks = {};
    rooms_.of_rows = RunArray<std::byte>(run_, bytes);
  }
  bool has_room_for_tasks(std::int64_t bytes) {
    if (rooms_.of_tasks.size() >= bytes) return true;
    rooms_.of_tasks = {};
    if (rooms_.of_rows.size() + bytes > free_) return false;
    rooms_.of_tasks = RunArray<std::byte>(run_, bytes);
    return true;
  }

  /// All rows if they fit; else as many as leave a quarter for the tasks of rows that are cut, or
  /// take no more than one.
  int rows_that_fit() const {
    if (RowTasks::Work::bytes_of_rows(view_.rows) <= free_) return view_.rows;
    const std::int64_t most = std::max(free_ - free_ / 4, RowTasks::Work::bytes_of_rows(1));
    int fit = 1, too_many = view_.rows;
    while (too_many - fit > 1) {
      const int rows = fit + (too_many - fit) / 2;
      (RowTasks::Work::bytes_of_rows(rows) <= most ? fit : too_many) = rows;
    }
    return fit;
  }

  [[noreturn]] void refuse() {
    const std::int64_t tasks = RowTasks::most_tasks(view_, run_.stream());
    const std::int64_t of_row =
        RowTasks::Work::bytes_of_rows(1) + (tasks > 1 ? RowTasks::Work::bytes_of_tasks(tasks) : 0);
    throw Error(fmt::format(
        "row_spgemm needs a workspace_limit of {} bytes for these operands, at the least; it is {}",
        of_b_.bytes() + of_row, limit_));
  }

  RowTasks& tasks_;
  View view_;  // with B's rows described
  std::int64_t limit_, free_ = 0;
  ProductRun& run_;
  RunBlock of_b_;
  int most_rows_ = 0;  // of a slice
  RowTasks::Rooms rooms_;
  std::optional<RowTasks::Work> work_;  // of the slice that was planned last
  std::vector<Slice> slices_;
};

}  // namespace tessera::row_spgemm
