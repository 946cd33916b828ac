#include "kernels/spmm/row_windows/window16_work.hpp"

#include <algorithm>
#include <bit>

#include "kernels/spmm/row_windows/me_tcf_kernel.hpp"
#include "kernels/spmm/row_windows/split_windows_trace.hpp"
#include "kernels/spmm/row_windows/staged_rows.hpp"
#include "kernels/spmm/row_windows/task_work.hpp"
#include "kernels/spmm/row_windows/window16_tile.hpp"

namespace tessera::window16_tile {
namespace {

using row_windows::TaskInstructionCounts;
using window_tasks::CombineMethod;
using window_tasks::Task;
using window_tasks::Tasks;

template <class T>
std::int64_t bytes_of(const std::vector<T>& array) {
  return static_cast<std::int64_t>(array.size() * sizeof(T));
}

/// The addresses of a product's arrays.
struct Addresses {
  Addresses(const MeTcf& a, const Tasks& tasks, std::int64_t n, const TileLaunch& launch,
            AddressSpace& space);

  std::uint64_t tasks, shares, slots, tc_offset, tc_local_id, sparse_a_to_b, values, b, c;
};

class TileTrace final : public LaunchTrace {
 public:
  TileTrace(std::shared_ptr<const MeTcf> a, std::int64_t n, const TileLaunch& launch,
            std::shared_ptr<const Tasks> tasks, const Addresses& at)
      : owned_(std::move(a)),
        a_(*owned_),
        n_(n),
        launch_(launch),
        schedule_(launch.schedule),
        tasks_(std::move(tasks)),
        at_(at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    return row_windows::trace_share(
        schedule_, *tasks_, at_.shares, kTaskBoard, thread_block, warp, cursor, trace,
        [&](std::int64_t index, const row_windows::WorkItem& item) {
          return advance_task(TaskItem{index, item.chunk, warp % schedule_.team}, cursor, trace);
        },
        [&] { synchronize(trace); });
  }

 private:
  static constexpr int kIdBoard = 0, kRowBoard = 1, kCopyBoard = 2, kFragmentBoard = 3,
                       kTaskBoard = 4, kPartBoard = 5, kHeaderBoard = 6, kBitmapBoard = 7,
                       kElementBoard = 8, kFirstStageBoard = 9;

  /// A task of a warp.
  struct TaskItem {
    std::int64_t task, chunk;
    int warp;  // of its team
  };

  std::int64_t first_col(const TaskItem& item) const { return schedule_.first_col(item.chunk); }
  bool staged() const { return launch_.staged; }
  bool aligned() const { return n_ % 4 == 0; }
  int width() const { return launch_.width; }

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
    if (launch_.mosaic != nullptr) return start_by_bitmaps(task, item, trace);
    for (int i = 0; i < 3; ++i) {
      trace.load(kIdBoard);
      trace.touch(at_.tc_offset + 4 * std::uint64_t{std::min(task.first + i, task.last)}, 4);
    }
    trace.wait(kIdBoard);
    load_ids(task.first, item, trace);
    load_rows(task.first, trace);
    trace.issue(launch_.instructions.task_start);
    trace.shared(2);
    synchronize(trace);
    if (launch_.double_buffer) scatter(task, task.first, item, trace);
    trace.wait(kRowBoard);
    if (staged()) copy_rows(task.first, 0, item, trace);
    load_rows(std::min(task.first + 1, task.last - 1), trace);
  }

  void multiply(const Task& task, std::int64_t tile, const TaskItem& item, WarpTrace& trace) const {
    if (launch_.mosaic != nullptr) return multiply_by_bitmaps(task, tile, item, trace);
    const std::int64_t end = task.last;
    if (!launch_.double_buffer) scatter(task, tile, item, trace);
    trace.wait(kCopyBoard);
    synchronize(trace);
    trace.shared(1);
    if (launch_.double_buffer && tile + 1 < end) scatter(task, tile + 1, item, trace);
    trace.wait(kRowBoard);
    if (!staged()) load_fragments(tile, item, trace);
    if (staged() && tile + 1 < end) copy_rows(tile + 1, tile + 1 - task.first, item, trace);
    load_rows(std::min(tile + 2, end - 1), trace);
    trace.issue(launch_.instructions.tile);
    if (first_col(item) >= n_) return;
    for (int i = 0; i < 4; ++i) trace.shared(1);
    if (staged())
      for (int i = 0; i < 2 * schedule_.groups; ++i) trace.shared(row_windows::kWideReadWavefronts);
    if (!staged()) trace.wait(kFragmentBoard);
    trace.issue(launch_.instructions.group * schedule_.groups);
    trace.mma(kMmas * schedule_.groups * kTileCols / launch_.depth * launch_.mmas_per_product);
  }

  /// The board of the rows of B of TC block `step` of a task: one for each stage.
  int stage_board(std::int64_t step) const {
    return kFirstStageBoard + static_cast<int>(step % launch_.stages);
  }

  void start_by_bitmaps(const Task& task, const TaskItem& item, WarpTrace& trace) const {
    load_rows(task.first, trace);
    trace.issue(launch_.instructions.task_start);
    for (int step = 0; step + 1 < launch_.stages && task.first + step < task.last; ++step) {
      trace.wait(kRowBoard);
      copy_rows(task.first + step, step, item, trace, stage_board(step));
      if (task.first + step + 1 < task.last) load_rows(task.first + step + 1, trace);
    }
    for (int ahead = 0; ahead < 3; ++ahead) {
      if (ahead > 1) load_elements(task, ahead - 2, trace);
      if (ahead > 0) load_bitmaps(task, ahead - 1, trace);
      load_header(task, ahead, trace);
    }
  }

  void multiply_by_bitmaps(const Task& task, std::int64_t tile, const TaskItem& item,
                           WarpTrace& trace) const {
    const std::int64_t step = tile - task.first, copied = step + launch_.stages - 1;
    trace.wait(stage_board(step));
    trace.wait(kRowBoard);
    if (task.first + copied < task.last) {
      copy_rows(task.first + copied, copied, item, trace, stage_board(copied));
      if (task.first + copied + 1 < task.last) load_rows(task.first + copied + 1, trace);
    }
    trace.wait(kElementBoard);
    trace.wait(kBitmapBoard);
    load_elements(task, step + 1, trace);
    trace.wait(kHeaderBoard);
    load_bitmaps(task, step + 2, trace);
    load_header(task, step + 3, trace);
    trace.issue(launch_.instructions.tile);
    for (int i = 0; i < 2 * schedule_.groups; ++i) trace.shared(row_windows::kWideReadWavefronts);
    trace.issue(launch_.instructions.group * schedule_.groups);
    trace.mma(kMmas * schedule_.groups * launch_.mmas_per_product);
  }

  /// The step that is `ahead` steps behind the first of a task, or its last.
  static std::int64_t step_of(const Task& task, std::int64_t ahead) {
    return std::min<std::int64_t>(task.first + ahead, std::int64_t{task.last} - 1);
  }

  void load_header(const Task& task, std::int64_t ahead, WarpTrace& trace) const {
    trace.load(kHeaderBoard);
    trace.touch(element(at_.tc_offset, step_of(task, ahead), sizeof(Mosaic::Step)),
                sizeof(Mosaic::Step));
  }

  void load_bitmaps(const Task& task, std::int64_t ahead, WarpTrace& trace) const {
    if (ahead < 2) trace.wait(kHeaderBoard);
    const Mosaic::Step& step = launch_.mosaic->steps[step_of(task, ahead)];
    for (int brick = 0; brick < std::popcount(step.brick_mask); ++brick) {
      trace.load(kBitmapBoard);
      trace.touch(element(at_.tc_local_id, step.first_brick + brick, 8), 8);
    }
  }

  /// Loads a lane's four elements, two of each brick.
  void load_elements(const Task& task, std::int64_t ahead, WarpTrace& trace) const {
    if (ahead < 1) trace.wait(kBitmapBoard);
    const Mosaic::Step& step = launch_.mosaic->steps[step_of(task, ahead)];
    std::int64_t value = step.first_value, brick = step.first_brick;
    for (std::uint32_t rest = step.brick_mask; rest != 0; rest &= rest - 1) {
      const int count = std::popcount(launch_.mosaic->bitmaps[brick++]);
      for (int half = 0; half < 2; ++half) {
        trace.load(kElementBoard);
        trace.touch(at_.values + 4 * static_cast<std::uint64_t>(value), 4 * count);
      }
      value += count;
    }
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

  void copy_rows(std::int64_t tile, std::int64_t step, const TaskItem& item, WarpTrace& trace,
                 int board = kCopyBoard) const {
    const std::int64_t col = first_col(item);
    const std::int64_t cols = std::min<std::int64_t>(schedule_.warp_cols(), n_ - col);
    const int at_once = row_windows::rows_per_copy(schedule_.groups);
    for (int first = 0; first < kTileCols; first += at_once) {
      trace.issue(launch_.instructions.copy);
      for (int i = 0; i < (aligned() ? 1 : 4); ++i) {
        if (aligned())
          trace.async_copy(board);
        else
          trace.load(board);
        if (cols <= 0) continue;
        for_each_row(tile, first, at_once, col, [&](int k, std::uint64_t from) {
          const std::int64_t row = step % launch_.stages * kTileCols + k;
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
    const bool atomic = launch_.combine == CombineMethod::kAtomic;
    trace.issue(TaskInstructionCounts::kStore * (1 + 2 * schedule_.groups));
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

  std::shared_ptr<const MeTcf> owned_;
  const MeTcf& a_;
  std::int64_t n_;
  TileLaunch launch_;
  row_windows::Schedule schedule_;
  std::shared_ptr<const Tasks> tasks_;
  Addresses at_;
};

Addresses::Addresses(const MeTcf& a, const Tasks& tasks, std::int64_t n, const TileLaunch& launch,
                     AddressSpace& space)
    : tasks(space.add("tasks", bytes_of(tasks.tasks))),
      shares(space.add("shares", bytes_of(tasks.shares))),
      slots(space.add("slots", tasks.slots * launch.schedule.chunks(n) *
                                   window_tasks::slot_bytes(launch.schedule.lane_vectors()))),
      tc_offset(launch.mosaic != nullptr ? space.add("steps", bytes_of(launch.mosaic->steps))
                                         : space.add("tc_offset", bytes_of(a.tc_offset))),
      tc_local_id(launch.mosaic != nullptr ? space.add("bitmaps", bytes_of(launch.mosaic->bitmaps))
                                           : space.add("tc_local_id", bytes_of(a.tc_local_id))),
      sparse_a_to_b(space.add("sparse_a_to_b", bytes_of(a.sparse_a_to_b))),
      values(space.add("values", launch.mosaic != nullptr ? bytes_of(launch.mosaic->values)
                                                          : bytes_of(a.values))),
      b(space.add("b", 4 * n * a.cols())),
      c(space.add("c", 4 * n * a.rows())) {}

/// The bytes of A's nonzeros of TC blocks [first, last) and of their positions.
std::int64_t nonzero_bytes(const MeTcf& a, const Mosaic* mosaic, std::int64_t first,
                           std::int64_t last) {
  const std::int64_t nnz = a.tc_offset[last] - a.tc_offset[first];
  if (mosaic == nullptr) return 5 * nnz + 4 * (last - first);
  std::int64_t bytes = 4 * nnz;
  for (std::int64_t step = first; step < last; ++step)
    bytes += static_cast<std::int64_t>(sizeof(Mosaic::Step)) +
             8 * std::popcount(mosaic->steps[step].brick_mask);
  return bytes;
}

/// Adds the work of a task to its thread block, for `cols` columns of B and C.
void add_task(const MeTcf& a, const Tasks& tasks, std::int64_t index, const TileLaunch& launch,
              std::int64_t cols, ThreadBlockWork& work) {
  const row_windows::Schedule& schedule = launch.schedule;
  const Task& task = tasks.tasks[index];
  const std::int64_t blocks = task.last - task.first;
  const std::int64_t warps = (cols + schedule.warp_cols() - 1) / schedule.warp_cols();
  // Columns beyond the edge are multiplied, too, except by warps that have no others.
  work.mma +=
      blocks * warps * schedule.groups * kMmas * kTileCols / launch.depth * launch.mmas_per_product;
  // A's nonzeros once; offsets, column indices and the task for every warp.
  work.a_bytes += nonzero_bytes(a, launch.mosaic, task.first, task.last) +
                  (schedule.team - 1) * 4 * blocks +
                  schedule.team * (4 * MeTcf::kTileCols * blocks + std::int64_t{sizeof(task)});
  work.b_bytes += 4 * row_windows::count_active_cols(a, task.first, task.last) * cols;
  if (schedule.team > 1) work.barriers += schedule.team * (blocks + (blocks > 0 ? 2 : 1));
  row_windows::add_stores(tasks, index, launch.combine, row_windows::rows_of_window(a, task.window),
                          cols, work);
}

}  // namespace

WorkDescription describe(const std::string& kernel, std::shared_ptr<const MeTcf> a, std::int64_t n,
                         std::shared_ptr<const Tasks> tasks, const TileLaunch& launch) {
  WorkDescription work = me_tcf_kernel::describe(kernel, *a, launch.depth, n);
  const Addresses at(*a, *tasks, n, launch, work.memory);
  const std::int64_t cleared = row_windows::add_clear_launch(
      {.window_rows = a->window_rows, .rows = a->rows(), .n = n, .tasks = at.tasks, .c = at.c},
      tasks, launch.combine, work);
  row_windows::add_thread_blocks(
      launch.schedule, *tasks, n,
      [&](std::int64_t task, std::int64_t cols, ThreadBlockWork& thread_block) {
        add_task(*a, *tasks, task, launch, cols, thread_block);
      },
      work.thread_blocks);
  work.launches.push_back(
      {.name = "multiply",
       .thread_blocks = std::ssize(work.thread_blocks) - cleared,
       .threads_per_block = launch.schedule.threads(),
       .registers_per_thread = launch.registers,
       .shared_bytes = launch.shared_bytes,
       .trace = std::make_unique<TileTrace>(std::move(a), n, launch, std::move(tasks), at)});
  return work;
}

}  // namespace tessera::window16_tile
