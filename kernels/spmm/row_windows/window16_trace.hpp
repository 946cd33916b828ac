// The warp trace of a kernel over TC blocks 16 rows high: the tasks of a warp, the copies of rows
// of B and the stores. How a kernel reads A, and what it does with a TC block, is the kernel's own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "formats/me_tcf.hpp"
#include "kernels/spmm/row_windows/split_windows.hpp"
#include "kernels/spmm/row_windows/window16_work.hpp"
#include "kernels/spmm/row_windows/window_tasks.hpp"
#include "kernels/work.hpp"

namespace tessera::window16_tile {

class TileTrace : public LaunchTrace {
 public:
  TileTrace(std::shared_ptr<const MeTcf> a, std::int64_t n, const TileLaunch& launch,
            std::shared_ptr<const window_tasks::Tasks> tasks, const Addresses& at)
      : owned_(std::move(a)),
        a_(*owned_),
        n_(n),
        launch_(launch),
        schedule_(launch.schedule),
        tasks_(std::move(tasks)),
        at_(at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override;

 protected:
  static constexpr int kRowBoard = 1, kCopyBoard = 2, kTaskBoard = 4, kPartBoard = 5;
  static constexpr int kFreeBoard = 6;  // the first that a kernel may use besides 0 and 3
  static constexpr int kEndBoard = kScoreboards - 1;

  /// A task of a warp.
  struct TaskItem {
    std::int64_t task, chunk;
    int warp;  // of its team
  };

  /// Appends what comes before the first TC block of a task that has one.
  virtual void start(const window_tasks::Task& task, const TaskItem& item,
                     WarpTrace& trace) const = 0;
  /// Appends the operations of TC block `tile` of a task.
  virtual void multiply(const window_tasks::Task& task, std::int64_t tile, const TaskItem& item,
                        WarpTrace& trace) const = 0;

  std::int64_t first_col(const TaskItem& item) const { return schedule_.first_col(item.chunk); }
  bool aligned() const { return n_ % piece_cols() == 0; }
  /// Columns of 16 bytes of B.
  int piece_cols() const { return 16 / launch_.b_bytes(); }
  /// Lines of 128 bytes of the rows of B that a warp copies.
  int lines() const { return schedule_.groups * launch_.b_bytes() / 4; }
  void synchronize(WarpTrace& trace) const;

  void load_rows(std::int64_t tile, WarpTrace& trace) const;
  void copy_rows(std::int64_t tile, std::int64_t step, const TaskItem& item, WarpTrace& trace,
                 int board = kCopyBoard) const;

  /// Calls visit(k, address of column `col`) for `count` rows of B from row `first` of the TC block
  /// on, without padding.
  template <class Visit>
  void for_each_row(std::int64_t tile, int first, int count, std::int64_t col, Visit visit) const {
    for (int k = first; k < first + count; ++k) {
      const std::int32_t row = a_.sparse_a_to_b[tile * MeTcf::kTileCols + k];
      if (row != kNoColumn)
        visit(k, at_.b + static_cast<std::uint64_t>(launch_.b_bytes() * (row * n_ + col)));
    }
  }

  std::shared_ptr<const MeTcf> owned_;
  const MeTcf& a_;
  std::int64_t n_;
  TileLaunch launch_;
  row_windows::Schedule schedule_;
  std::shared_ptr<const window_tasks::Tasks> tasks_;
  Addresses at_;

 private:
  /// Returns false at the end of the task.
  bool advance_task(const TaskItem& item, WarpCursor& cursor, WarpTrace& trace) const;
  void store_task(const window_tasks::Task& task, const TaskItem& item, WarpTrace& trace) const;
  void load_end(std::int64_t window, WarpTrace& trace) const;
  void store_ended(const window_tasks::Task& task, std::int64_t end, const TaskItem& item,
                   WarpTrace& trace) const;
  bool combine(const TaskItem& item, WarpTrace& trace) const;
  void store(const window_tasks::Task& task, int half, std::int64_t col, std::int64_t cols,
             bool adds, WarpTrace& trace) const;
};

}  // namespace tessera::window16_tile
