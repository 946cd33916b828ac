#include "kernels/spmm/dtc_spmm/trace.hpp"
#include "kernels/spmm/row_windows/split_windows_trace.hpp"

#include <algorithm>

#include "kernels/spmm/row_windows/me_tcf_kernel.hpp"

namespace tessera::dtc_spmm {
namespace {

using window16_tile::kTileCols;
using window16_tile::kWarpCols;
using window_tasks::Task;
using window_tasks::Tasks;

template <class T>
std::int64_t bytes_of(const std::vector<T>& array) {
  return static_cast<std::int64_t>(array.size() * sizeof(T));
}

class DtcTrace final : public LaunchTrace {
 public:
  DtcTrace(const MeTcf& a, std::int64_t n, const DtcSpmmOptions& choices,
           std::shared_ptr<const Tasks> tasks, const Addresses& at)
      : a_(a),
        n_(n),
        choices_(choices),
        shape_(choices.geometry(n)),
        tasks_(std::move(tasks)),
        at_(at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::int64_t padded =
        (tasks_->num_shares() + shape_.teams() - 1) / shape_.teams() * shape_.teams();
    const std::int64_t team = thread_block * shape_.teams() + warp / shape_.team;
    const std::int64_t share = team % padded;
    const std::int64_t chunk = team / padded * shape_.team + warp % shape_.team;
    if (share >= tasks_->num_shares()) {
      trace.issue(kIdleInstructions);
      return false;
    }
    if (cursor.part == 0 && cursor.step == 0) begin(share, trace);
    const std::int64_t index = tasks_->first_of(share) + cursor.part;
    if (advance_task(WorkItem{index, chunk, warp % shape_.team}, cursor, trace)) return true;
    meet(trace);
    ++cursor.part, cursor.step = 0;
    return index + 1 < tasks_->first_of(share + 1);
  }

 private:
  // Of the machine code (CUDA 13.0, sm_90a), memory instructions and MMAs not counted.
  static constexpr int kIdleInstructions = 30, kWarpInstructions = 70, kStartInstructions = 60,
                       kTileInstructions = 70, kGroupInstructions = 24, kCopyInstructions = 6,
                       kStoreInstructions = 20;
  static constexpr int kNameBoard = 0, kRowBoard = 1, kCopyBoard = 2, kPieceBoard = 3,
                       kTaskBoard = 4, kPartBoard = 5;

  struct WorkItem {
    std::int64_t task, chunk;
    int warp;  // of its team
  };

  std::int64_t first_col(const WorkItem& place) const { return place.chunk * shape_.warp_cols(); }
  bool staged() const { return choices_.fetch == Fetch::kStaged; }
  bool aligned() const { return n_ % 4 == 0; }
  /// Floats that a lane loads of a row of B at once.
  int width() const {
    if (staged()) return 4;
    if (!aligned() || choices_.fetch == Fetch::kFloat) return 1;
    return choices_.fetch == Fetch::kFloat2 ? 2 : 4;
  }

  /// The extent of the share.
  void begin(std::int64_t share, WarpTrace& trace) const {
    trace.issue(kWarpInstructions);
    trace.pause(kSpecialRegisterCycles);
    for (int i = 0; i < 2; ++i) {
      trace.load(kTaskBoard);
      trace.touch(at_.shares + 4 * static_cast<std::uint64_t>(share + i), 4);
    }
    trace.wait(kTaskBoard);
  }

  void meet(WarpTrace& trace) const {
    if (shape_.team > 1)
      trace.barrier();
    else
      trace.issue(1);
  }

  /// False at its end.
  bool advance_task(const WorkItem& place, WarpCursor& cursor, WarpTrace& trace) const {
    const Task& task = tasks_->tasks[place.task];
    const bool has_cols = first_col(place) < n_;
    if (cursor.step == 0) {
      trace.load(kTaskBoard);
      trace.touch(at_.tasks + 16 * static_cast<std::uint64_t>(place.task), 16);
      trace.wait(kTaskBoard);
      if (task.first < task.last) start(task, place, trace);
    }
    const std::int64_t tile = task.first + cursor.step++;
    if (tile < task.last) multiply(task, tile, place, trace);
    if (task.first + cursor.step < task.last) return true;
    if (!has_cols) return false;
    trace.wait_mma();
    deliver(task, place, trace);
    return false;
  }

  void start(const Task& task, const WorkItem& place, WarpTrace& trace) const {
    for (int i = 0; i < 3; ++i) {
      trace.load(kNameBoard);
      trace.touch(at_.tc_offset + 4 * std::uint64_t{std::min(task.first + i, task.last)}, 4);
    }
    trace.wait(kNameBoard);
    load_names(task.first, place, trace);
    load_rows(task.first, trace);
    trace.issue(kStartInstructions);
    trace.shared(2);
    meet(trace);
    if (choices_.double_buffer) scatter(task, task.first, place, trace);
    trace.wait(kRowBoard);
    if (staged()) copy_rows(task.first, 0, place, trace);
    load_rows(std::min(task.first + 1, task.last - 1), trace);
  }

  void multiply(const Task& task, std::int64_t tile, const WorkItem& place,
                WarpTrace& trace) const {
    const std::int64_t end = task.last;
    if (!choices_.double_buffer) scatter(task, tile, place, trace);
    trace.wait(kCopyBoard);
    meet(trace);
    trace.shared(1);
    if (choices_.double_buffer && tile + 1 < end) scatter(task, tile + 1, place, trace);
    trace.wait(kRowBoard);
    if (!staged()) load_pieces(tile, place, trace);
    if (staged() && tile + 1 < end) copy_rows(tile + 1, tile + 1 - task.first, place, trace);
    load_rows(std::min(tile + 2, end - 1), trace);
    trace.issue(kTileInstructions);
    if (first_col(place) >= n_) return;
    for (int i = 0; i < 4; ++i) trace.shared(1);
    constexpr int kWideWavefronts = 4;  // of 16 bytes a lane, without conflicts: place_of_piece
    if (staged())
      for (int i = 0; i < 2 * shape_.groups; ++i) trace.shared(kWideWavefronts);
    if (!staged()) trace.wait(kPieceBoard);
    trace.issue(kGroupInstructions * shape_.groups);
    trace.mma(window16_tile::kMmas * shape_.groups * kTileCols / choices_.depth);
  }

  /// Calls visit(first nonzero, number of them) for what the warp's lanes take of a TC block.
  template <class Visit>
  void for_each_piece(std::int64_t tile, const WorkItem& place, Visit visit) const {
    const std::int64_t last = a_.tc_offset[tile + 1];
    for (std::int64_t first = a_.tc_offset[tile] + 32 * place.warp; first < last;
         first += 32 * shape_.team)
      visit(first, std::min<std::int64_t>(32, last - first));
  }

  void load_names(std::int64_t tile, const WorkItem& place, WarpTrace& trace) const {
    for_each_piece(tile, place, [&](std::int64_t first, std::int64_t count) {
      trace.load(kNameBoard);
      trace.touch(at_.tc_local_id + static_cast<std::uint64_t>(first), count);
    });
  }

  /// A TC block of A to shared memory, and the names of the next.
  void scatter(const Task& task, std::int64_t tile, const WorkItem& place, WarpTrace& trace) const {
    trace.wait(kNameBoard);
    trace.load(kCopyBoard);
    for_each_piece(tile, place, [&](std::int64_t first, std::int64_t count) {
      if (first >= a_.tc_offset[tile] + 32 * shape_.team) trace.load(kCopyBoard);
      trace.touch(at_.values + 4 * static_cast<std::uint64_t>(first), 4 * count);
    });
    if (tile + 1 >= task.last) return;
    trace.load(kNameBoard);
    trace.touch(
        at_.tc_offset + 4 * static_cast<std::uint64_t>(std::min<std::int64_t>(tile + 3, task.last)),
        4);
    load_names(tile + 1, place, trace);
  }

  void load_rows(std::int64_t tile, WarpTrace& trace) const {
    trace.load(kRowBoard);
    trace.touch(at_.sparse_a_to_b + 4 * static_cast<std::uint64_t>(tile * kTileCols),
                4 * kTileCols);
  }

  /// Calls visit(address) for the columns `col` on of `count` rows of B, as far as there are such.
  template <class Visit>
  void for_each_row(std::int64_t tile, int first, int count, std::int64_t col, Visit visit) const {
    for (int k = first; k < first + count; ++k) {
      const std::int32_t row = a_.sparse_a_to_b[tile * kTileCols + k];
      if (row != kNoColumn)
        visit(k, at_.b + 4 * static_cast<std::uint64_t>(std::int64_t{row} * n_ + col));
    }
  }

  void copy_rows(std::int64_t tile, std::int64_t step, const WorkItem& place,
                 WarpTrace& trace) const {
    const std::int64_t col = first_col(place);
    const std::int64_t cols = std::min<std::int64_t>(shape_.warp_cols(), n_ - col);
    const int at_once = 4 / shape_.groups;
    for (int first = 0; first < kTileCols; first += at_once) {
      trace.issue(kCopyInstructions);
      for (int piece = 0; piece < (aligned() ? 1 : 4); ++piece) {
        if (aligned())
          trace.async_copy(kCopyBoard);
        else
          trace.load(kCopyBoard);
        if (cols <= 0) continue;
        for_each_row(tile, first, at_once, col, [&](int k, std::uint64_t from) {
          const std::int64_t row = step % kStages * kTileCols + k;
          const auto to =
              4 * static_cast<std::uint64_t>(row * row_windows::row_pitch(shape_.groups));
          if (aligned())
            trace.copy_to_shared(from, 4 * cols, to);
          else
            trace.touch(from, 4 * cols);
        });
      }
    }
  }

  /// Rows of B straight to the lanes: a wavefront for every sector.
  void load_pieces(std::int64_t tile, const WorkItem& place, WarpTrace& trace) const {
    const int cols_at_once = 8 * width();
    for (int half = 0; half < 2; ++half) {
      for (std::int64_t col = 0; col < shape_.warp_cols(); col += cols_at_once) {
        trace.load(kPieceBoard);
        const std::int64_t at = first_col(place) + col;
        const std::int64_t cols = std::min<std::int64_t>(cols_at_once, n_ - at);
        if (cols <= 0) continue;
        for_each_row(tile, 4 * half, 4, at,
                     [&](int, std::uint64_t from) { trace.touch(from, 4 * cols); });
        trace.wavefronts(std::max(1, trace.touched_sectors()));
      }
    }
  }

  void deliver(const Task& task, const WorkItem& place, WarpTrace& trace) const {
    const bool atomic = choices_.combine == row_windows::Combine::kAtomic;
    trace.issue(kStoreInstructions * (1 + 2 * shape_.groups));
    if (task.split != 0 && !atomic &&
        !window_tasks::trace_meeting(*tasks_, place.task, place.chunk, 4 * shape_.groups, at_.slots,
                                     kPartBoard, trace))
      return;
    const int cols_at_once = width() == 1 ? 8 : 16;
    for (int upper = 0; upper < 2; ++upper)
      for (std::int64_t col = 0; col < shape_.warp_cols(); col += cols_at_once)
        store(task, upper, first_col(place) + col,
              std::min<std::int64_t>(cols_at_once, n_ - first_col(place) - col),
              task.split != 0 && atomic, trace);
  }

  /// Eight rows of a window and so many columns.
  void store(const Task& task, int upper, std::int64_t col, std::int64_t cols, bool adds,
             WarpTrace& trace) const {
    const std::int64_t rows =
        std::min<std::int64_t>(8, me_tcf_kernel::rows_of_window(a_, task.window) - 8 * upper);
    if (rows <= 0 || cols <= 0) return;
    if (adds)
      trace.atomic(static_cast<int>(rows * cols));
    else
      trace.store(width() == 1 ? 2 : aligned() ? 1 : 4);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t row = task.window * std::int64_t{a_.window_rows} + 8 * upper + r;
      trace.touch(at_.c + 4 * static_cast<std::uint64_t>(row * n_ + col), 4 * cols);
    }
    if (!adds) trace.wavefronts(std::max(1, trace.touched_sectors()));
  }

  const MeTcf& a_;
  std::int64_t n_;
  DtcSpmmOptions choices_;
  Geometry shape_;
  std::shared_ptr<const Tasks> tasks_;
  Addresses at_;
};

}  // namespace

Addresses::Addresses(const MeTcf& a, const Tasks& tasks, std::int64_t n, const Geometry& shape,
                     AddressSpace& space)
    : tasks(space.add("tasks", bytes_of(tasks.tasks))),
      shares(space.add("shares", bytes_of(tasks.shares))),
      slots(space.add("slots", tasks.slots * shape.num_chunks(n) * shape.team * shape.groups *
                                   std::int64_t{4 * 512})),
      tc_offset(space.add("tc_offset", bytes_of(a.tc_offset))),
      tc_local_id(space.add("tc_local_id", bytes_of(a.tc_local_id))),
      sparse_a_to_b(space.add("sparse_a_to_b", bytes_of(a.sparse_a_to_b))),
      values(space.add("values", bytes_of(a.values))),
      b(space.add("b", 4 * n * a.cols())),
      c(space.add("c", 4 * n * a.rows())) {}

std::unique_ptr<LaunchTrace> make_trace(const MeTcf& a, std::int64_t n,
                                        const DtcSpmmOptions& choices,
                                        std::shared_ptr<const Tasks> tasks, const Addresses& at) {
  return std::make_unique<DtcTrace>(a, n, choices, std::move(tasks), at);
}

}  // namespace tessera::dtc_spmm
