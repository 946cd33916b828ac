#include "kernels/spmm/dtc_spmm/trace.hpp"

#include <algorithm>

#include "kernels/spmm/row_windows/me_tcf_kernel.hpp"
#include "kernels/spmm/row_windows/split_windows_trace.hpp"
#include "kernels/spmm/row_windows/task_work.hpp"

namespace tessera::dtc_spmm {
namespace {

using window16_tile::kMmaRows;
using window16_tile::kTileCols;
using window_tasks::Task;
using window_tasks::Tasks;

template <class T>
std::int64_t bytes_of(const std::vector<T>& array) {
  return static_cast<std::int64_t>(array.size() * sizeof(T));
}

class DtcTrace final : public LaunchTrace {
 public:
  DtcTrace(const MeTcf& a, std::int64_t n, const DtcSpmmOptions& options,
           std::shared_ptr<const Tasks> tasks, const Addresses& at)
      : a_(a),
        n_(n),
        options_(options),
        schedule_(options.schedule(n)),
        tasks_(std::move(tasks)),
        at_(at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const auto num_shares = static_cast<std::uint32_t>(tasks_->num_shares());
    const auto [share, chunk] = schedule_.item_of(static_cast<std::uint32_t>(thread_block),
                                                  static_cast<std::uint32_t>(warp), num_shares);
    if (share >= num_shares) {
      trace.issue(InstructionCounts::kIdle);
      return false;
    }
    if (cursor.part == 0 && cursor.step == 0)
      row_windows::trace_share_extent(*tasks_, share, at_.shares, kTaskBoard, trace);
    const std::int64_t index = tasks_->first_of(share) + cursor.part;
    if (advance_task(TaskItem{index, chunk, warp % schedule_.team}, cursor, trace)) return true;
    synchronize(trace);
    ++cursor.part, cursor.step = 0;
    return index + 1 < tasks_->first_of(share + 1);
  }

 private:
  /// Instructions of a warp besides memory instructions and MMAs, counted in machine code
  /// (CUDA 13.0, sm_90a).
  struct InstructionCounts : row_windows::TaskInstructionCounts {
    static constexpr int kTaskStart = 60, kTile = 70, kGroup = 24, kCopy = 6;
  };
  static constexpr int kIdBoard = 0, kRowBoard = 1, kCopyBoard = 2, kFragmentBoard = 3,
                       kTaskBoard = 4, kPartBoard = 5;

  /// A task of a warp.
  struct TaskItem {
    std::int64_t task, chunk;
    int warp;  // of its team
  };

  std::int64_t first_col(const TaskItem& item) const { return schedule_.first_col(item.chunk); }
  bool staged() const { return options_.fetch == Fetch::kStaged; }
  bool aligned() const { return n_ % 4 == 0; }
  /// The number of floats of a row of B that a lane loads at once.
  int width() const {
    if (staged()) return 4;
    if (!aligned() || options_.fetch == Fetch::kFloat) return 1;
    return options_.fetch == Fetch::kFloat2 ? 2 : 4;
  }

  void synchronize(WarpTrace& trace) const {
    if (schedule_.team > 1)
      trace.barrier();
    else
      trace.issue(1);
  }

  /// Returns false at the end of the task.
  bool advance_task(const TaskItem& item, WarpCursor& cursor, WarpTrace& trace) const {
    const Task& task = tasks_->tasks[item.task];
    const bool has_cols = first_col(item) < n_;
    if (cursor.step == 0) {
      trace.load(kTaskBoard);
      trace.touch(at_.tasks + 16 * static_cast<std::uint64_t>(item.task), 16);
      trace.wait(kTaskBoard);
      if (task.first < task.last) start(task, item, trace);
    }
    const std::int64_t tile = task.first + cursor.step++;
    if (tile < task.last) multiply(task, tile, item, trace);
    if (task.first + cursor.step < task.last) return true;
    if (!has_cols) return false;
    trace.wait_mma();
    store_task(task, item, trace);
    return false;
  }

  void start(const Task& task, const TaskItem& item, WarpTrace& trace) const {
    for (int i = 0; i < 3; ++i) {
      trace.load(kIdBoard);
      trace.touch(at_.tc_offset + 4 * std::uint64_t{std::min(task.first + i, task.last)}, 4);
    }
    trace.wait(kIdBoard);
    load_ids(task.first, item, trace);
    load_rows(task.first, trace);
    trace.issue(InstructionCounts::kTaskStart);
    trace.shared(2);
    synchronize(trace);
    if (options_.double_buffer) scatter(task, task.first, item, trace);
    trace.wait(kRowBoard);
    if (staged()) copy_rows(task.first, 0, item, trace);
    load_rows(std::min(task.first + 1, task.last - 1), trace);
  }

  void multiply(const Task& task, std::int64_t tile, const TaskItem& item, WarpTrace& trace) const {
    const std::int64_t end = task.last;
    if (!options_.double_buffer) scatter(task, tile, item, trace);
    trace.wait(kCopyBoard);
    synchronize(trace);
    trace.shared(1);
    if (options_.double_buffer && tile + 1 < end) scatter(task, tile + 1, item, trace);
    trace.wait(kRowBoard);
    if (!staged()) load_fragments(tile, item, trace);
    if (staged() && tile + 1 < end) copy_rows(tile + 1, tile + 1 - task.first, item, trace);
    load_rows(std::min(tile + 2, end - 1), trace);
    trace.issue(InstructionCounts::kTile);
    if (first_col(item) >= n_) return;
    for (int i = 0; i < 4; ++i) trace.shared(1);
    if (staged())
      for (int i = 0; i < 2 * schedule_.groups; ++i) trace.shared(row_windows::kWideReadWavefronts);
    if (!staged()) trace.wait(kFragmentBoard);
    trace.issue(InstructionCounts::kGroup * schedule_.groups);
    trace.mma(window16_tile::kMmas * schedule_.groups * kTileCols / options_.depth);
  }

  /// Calls visit(first nonzero, number of nonzeros) for those of a TC block that the warp's lanes
  /// read at once.
  template <class Visit>
  void for_each_round(std::int64_t tile, const TaskItem& item, Visit visit) const {
    const std::int64_t last = a_.tc_offset[tile + 1];
    for (std::int64_t first = a_.tc_offset[tile] + 32 * item.warp; first < last;
         first += 32 * schedule_.team)
      visit(first, std::min<std::int64_t>(32, last - first));
  }

  void load_ids(std::int64_t tile, const TaskItem& item, WarpTrace& trace) const {
    for_each_round(tile, item, [&](std::int64_t first, std::int64_t count) {
      trace.load(kIdBoard);
      trace.touch(at_.tc_local_id + static_cast<std::uint64_t>(first), count);
    });
  }

  /// Copies a TC block of A to shared memory and loads the local ids of the next.
  void scatter(const Task& task, std::int64_t tile, const TaskItem& item, WarpTrace& trace) const {
    trace.wait(kIdBoard);
    trace.load(kCopyBoard);
    for_each_round(tile, item, [&](std::int64_t first, std::int64_t count) {
      if (first >= a_.tc_offset[tile] + 32 * schedule_.team) trace.load(kCopyBoard);
      trace.touch(at_.values + 4 * static_cast<std::uint64_t>(first), 4 * count);
    });
    if (tile + 1 >= task.last) return;
    trace.load(kIdBoard);
    trace.touch(
        at_.tc_offset + 4 * static_cast<std::uint64_t>(std::min<std::int64_t>(tile + 3, task.last)),
        4);
    load_ids(tile + 1, item, trace);
  }

  void load_rows(std::int64_t tile, WarpTrace& trace) const {
    trace.load(kRowBoard);
    trace.touch(at_.sparse_a_to_b + 4 * static_cast<std::uint64_t>(tile * kTileCols),
                4 * kTileCols);
  }

  /// Calls visit(k, address of column `col`) for `count` rows of B from row `first` of the TC block
  /// on, without padding.
  template <class Visit>
  void for_each_row(std::int64_t tile, int first, int count, std::int64_t col, Visit visit) const {
    for (int k = first; k < first + count; ++k) {
      const std::int32_t row = a_.sparse_a_to_b[tile * kTileCols + k];
      if (row != kNoColumn)
        visit(k, at_.b + 4 * static_cast<std::uint64_t>(std::int64_t{row} * n_ + col));
    }
  }

  void copy_rows(std::int64_t tile, std::int64_t step, const TaskItem& item,
                 WarpTrace& trace) const {
    const std::int64_t col = first_col(item);
    const std::int64_t cols = std::min<std::int64_t>(schedule_.warp_cols(), n_ - col);
    const int at_once = row_windows::rows_per_copy(schedule_.groups);
    for (int first = 0; first < kTileCols; first += at_once) {
      trace.issue(InstructionCounts::kCopy);
      for (int i = 0; i < (aligned() ? 1 : 4); ++i) {
        if (aligned())
          trace.async_copy(kCopyBoard);
        else
          trace.load(kCopyBoard);
        if (cols <= 0) continue;
        for_each_row(tile, first, at_once, col, [&](int k, std::uint64_t from) {
          const std::int64_t row = step % kStages * kTileCols + k;
          const auto to =
              4 * static_cast<std::uint64_t>(row * row_windows::row_pitch(schedule_.groups));
          if (aligned())
            trace.copy_to_shared(from, 4 * cols, to);
          else
            trace.touch(from, 4 * cols);
        });
      }
    }
  }

  /// Loads rows of B to the lanes that multiply them: a wavefront for every sector.
  void load_fragments(std::int64_t tile, const TaskItem& item, WarpTrace& trace) const {
    const int cols_at_once = 8 * width();
    for (int half = 0; half < 2; ++half) {
      for (std::int64_t col = 0; col < schedule_.warp_cols(); col += cols_at_once) {
        trace.load(kFragmentBoard);
        const std::int64_t at = first_col(item) + col;
        const std::int64_t cols = std::min<std::int64_t>(cols_at_once, n_ - at);
        if (cols <= 0) continue;
        for_each_row(tile, 4 * half, 4, at,
                     [&](int, std::uint64_t from) { trace.touch(from, 4 * cols); });
        trace.wavefronts(std::max(1, trace.touched_sectors()));
      }
    }
  }

  void store_task(const Task& task, const TaskItem& item, WarpTrace& trace) const {
    const bool atomic = options_.combine == CombineMethod::kAtomic;
    trace.issue(InstructionCounts::kStore * (1 + 2 * schedule_.groups));
    if (task.split != 0 && !atomic &&
        !window_tasks::trace_combine_split_window(
            *tasks_, item.task, item.chunk, schedule_.lane_vectors(), at_.slots, kPartBoard, trace))
      return;
    const int cols_at_once = width() == 1 ? 8 : 16;
    for (int half = 0; half < 2; ++half)
      for (std::int64_t col = 0; col < schedule_.warp_cols(); col += cols_at_once)
        store(task, half, first_col(item) + col,
              std::min<std::int64_t>(cols_at_once, n_ - first_col(item) - col),
              task.split != 0 && atomic, trace);
  }

  /// Stores or adds `cols` columns of eight rows of a window.
  void store(const Task& task, int half, std::int64_t col, std::int64_t cols, bool adds,
             WarpTrace& trace) const {
    const std::int64_t rows = std::min<std::int64_t>(
        kMmaRows, row_windows::rows_of_window(a_, task.window) - kMmaRows * half);
    if (rows <= 0 || cols <= 0) return;
    if (adds)
      trace.atomic(static_cast<int>(rows * cols));
    else
      trace.store(width() == 1 ? 2 : aligned() ? 1 : 4);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t row = task.window * std::int64_t{a_.window_rows} + kMmaRows * half + r;
      trace.touch(at_.c + 4 * static_cast<std::uint64_t>(row * n_ + col), 4 * cols);
    }
    if (!adds) trace.wavefronts(std::max(1, trace.touched_sectors()));
  }

  const MeTcf& a_;
  std::int64_t n_;
  DtcSpmmOptions options_;
  row_windows::Schedule schedule_;
  std::shared_ptr<const Tasks> tasks_;
  Addresses at_;
};

}  // namespace

Addresses::Addresses(const MeTcf& a, const Tasks& tasks, std::int64_t n,
                     const row_windows::Schedule& schedule, AddressSpace& space)
    : tasks(space.add("tasks", bytes_of(tasks.tasks))),
      shares(space.add("shares", bytes_of(tasks.shares))),
      slots(space.add("slots", tasks.slots * schedule.chunks(n) *
                                   window_tasks::slot_bytes(schedule.lane_vectors()))),
      tc_offset(space.add("tc_offset", bytes_of(a.tc_offset))),
      tc_local_id(space.add("tc_local_id", bytes_of(a.tc_local_id))),
      sparse_a_to_b(space.add("sparse_a_to_b", bytes_of(a.sparse_a_to_b))),
      values(space.add("values", bytes_of(a.values))),
      b(space.add("b", 4 * n * a.cols())),
      c(space.add("c", 4 * n * a.rows())) {}

std::unique_ptr<LaunchTrace> make_trace(const MeTcf& a, std::int64_t n,
                                        const DtcSpmmOptions& options,
                                        std::shared_ptr<const Tasks> tasks, const Addresses& at) {
  return std::make_unique<DtcTrace>(a, n, options, std::move(tasks), at);
}

}  // namespace tessera::dtc_spmm
