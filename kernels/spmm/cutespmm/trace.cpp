// Work and traces of cutespmm. A trace follows the compiled loop (CUDA 13.0, sm_90a).

#include "kernels/spmm/cutespmm/trace.hpp"

#include <algorithm>

namespace tessera::cutespmm {
namespace {

template <class T>
std::int64_t bytes_of(const std::vector<T>& array) {
  return static_cast<std::int64_t>(array.size() * sizeof(T));
}

std::int64_t rows_of_panel(const Hrpb& a, std::int64_t panel) {
  return std::min<std::int64_t>(a.tile_rows, a.rows() - panel * a.tile_rows);
}

/// Where the arrays of a product lie.
struct Addresses {
  Addresses(const Hrpb& a, const std::vector<Task>& task_list, std::int64_t n, AddressSpace& space)
      : packed_blocks(space.add("packed_blocks", bytes_of(a.packed_blocks))),
        active_cols(space.add("active_cols", bytes_of(a.active_cols))),
        size_ptr(space.add("size_ptr", bytes_of(a.size_ptr))),
        tasks(space.add("tasks", bytes_of(task_list))),
        b(space.add("b", 4 * n * a.cols())),
        c(space.add("c", 4 * n * a.rows())) {}

  std::uint64_t packed_blocks, active_cols, size_ptr, tasks, b, c;
};

/// A product, as its launches see it.
struct Product {
  Product(const Hrpb& packed, std::int64_t columns, const Options& chosen, AddressSpace& space)
      : a(packed),
        n(columns),
        options(chosen),
        shape(geometry(a, n, options)),
        tasks(plan_tasks(a, n, options)),
        split(split_panels(tasks)),
        at(a, tasks, n, space) {}

  std::int64_t num_groups() const { return (std::ssize(tasks) + shape.teams - 1) / shape.teams; }
  /// Columns of C that a chunk has.
  std::int64_t cols_of(std::int64_t chunk) const {
    return std::min<std::int64_t>(shape.team_cols(), n - chunk * shape.team_cols());
  }

  const Hrpb& a;
  std::int64_t n;
  Options options;
  Geometry shape;
  std::vector<Task> tasks;
  std::vector<std::uint32_t> split;
  Addresses at;
};

/// What a warp of the first launch does: zeros in a row panel, 128 bytes at a time.
class ClearTrace final : public LaunchTrace {
 public:
  explicit ClearTrace(std::shared_ptr<const Product> product) : p_(std::move(product)) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::int64_t panel = p_->split[thread_block];
    const std::int64_t values = rows_of_panel(p_->a, panel) * p_->n;
    const std::int64_t at = cursor.step++ * kClearThreads + 32 * warp;
    trace.issue(cursor.step == 1 ? kInstructions : kStoreInstructions);
    if (at < values) {
      trace.store();
      trace.touch(p_->at.c + 4 * static_cast<std::uint64_t>(panel * p_->a.tile_rows * p_->n + at),
                  4 * std::min<std::int64_t>(32, values - at));
    }
    return at + kClearThreads < values;
  }

 private:
  static constexpr int kInstructions = 30, kStoreInstructions = 6;

  std::shared_ptr<const Product> p_;
};

/// What a warp of the second launch does: its task's blocks one after another.
class CuteTrace final : public LaunchTrace {
 public:
  explicit CuteTrace(std::shared_ptr<const Product> product) : p_(std::move(product)) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::int64_t groups = p_->num_groups(), chunk = thread_block / groups;
    const std::int64_t id = thread_block % groups * p_->shape.teams + warp / p_->shape.warps;
    if (id >= std::ssize(p_->tasks)) {
      trace.issue(kIdleInstructions);
      return false;
    }
    const Task& task = p_->tasks[id];
    const Warp mine{warp % p_->shape.warps, chunk * p_->shape.team_cols(), p_->cols_of(chunk)};
    if (cursor.step == 0) begin(id, task, mine, trace);
    const std::int64_t step = cursor.step++;
    if (task.first + step < task.last) {
      advance(task, step, mine, trace);
      if (task.first + step + 1 < task.last) return true;
    }
    trace.wait_mma();
    finish(task, mine, trace);
    return false;
  }

 private:
  struct Warp {
    int index;               // in its team
    std::int64_t col, cols;  // the team's
  };

  // Of the machine code for 128 columns a warp, TM = 16, m16n8k8, aligned operands; those of a
  // warp, a row and a store so that ten matrices execute what an H200 counts, within 3 % at N =
  // 128.
  static constexpr int kIdleInstructions = 25, kWarpInstructions = 157, kBlockInstructions = 90;
  static constexpr int kRowInstructions = 11, kDecodeInstructions = 40;
  static constexpr int kOperandInstructions[] = {2, 0, 7};  // of Tf32Precision
  static constexpr int kStoreInstructions = 25;
  static constexpr int kPopulationCounts = 20;
  static constexpr int kTaskBoard = kMaxStages, kIndexBoard = kMaxStages + 1;

  int stages() const { return p_->shape.stages; }
  bool aligned() const { return p_->n % 4 == 0; }

  void begin(std::int64_t id, const Task& task, const Warp& warp, WarpTrace& trace) const {
    trace.issue(kWarpInstructions);
    trace.pause(kSpecialRegisterCycles);
    trace.load(kTaskBoard);
    trace.touch(p_->at.tasks + sizeof(Task) * static_cast<std::uint64_t>(id), sizeof(Task));
    trace.wait(kTaskBoard);
    if (task.first == task.last) return;
    load_index(task.first, trace);
    for (int i = 0; i + 1 < stages(); ++i) copy(task, i, warp, trace);
  }

  void load_index(std::int64_t block, WarpTrace& trace) const {
    const std::int64_t cols = p_->a.tile_cols;
    trace.load(kIndexBoard);
    trace.touch(p_->at.active_cols + 4 * static_cast<std::uint64_t>(block * cols), 4 * cols);
    for (int end = 0; end < 2; ++end) {
      trace.load(kIndexBoard);
      trace.touch(p_->at.size_ptr + 4 * static_cast<std::uint64_t>(block + end), 4);
    }
  }

  void advance(const Task& task, std::int64_t step, const Warp& warp, WarpTrace& trace) const {
    const int stage = static_cast<int>(step % stages());
    if (stages() == 1) {
      barrier(trace);
      copy(task, step, warp, trace);
      trace.wait(stage);
      barrier(trace);
    } else {
      trace.wait(stage);
      barrier(trace);
      copy(task, step + stages() - 1, warp, trace);
    }
    multiply(task.first + step, trace);
  }

  void barrier(WarpTrace& trace) const {
    if (p_->shape.warps > 1)
      trace.barrier();
    else
      trace.issue(1);
  }

  /// Block first + step of the task, where there is one, and the index of the next.
  void copy(const Task& task, std::int64_t step, const Warp& warp, WarpTrace& trace) const {
    const std::int64_t block = task.first + step;
    if (block >= task.last) return;
    trace.wait(kIndexBoard);
    trace.issue(kBlockInstructions);
    trace.shared(1);
    const int stage = static_cast<int>(step % stages()), cols = count_cols(p_->a, block);
    for (int first = 0; first < cols; first += p_->options.depth)
      for (int place = first; place < first + p_->options.depth; place += Hrpb::kBrickCols)
        copy_rows(block, place, stage, warp, trace);
    copy_bytes(block, stage, warp, trace);
    if (block + 1 < task.last) load_index(block + 1, trace);
  }

  /// The warp's part of the rows of B of a brick column.
  void copy_rows(std::int64_t block, int place, int stage, const Warp& warp,
                 WarpTrace& trace) const {
    const int rows_at_once = 128 / p_->shape.team_cols();  // of the warp
    const int rows_of_thread = p_->shape.warp_cols / kChunkCols;
    const int pieces = aligned() ? 1 : 4;
    trace.shared(1);
    for (int i = 0; i < rows_of_thread; ++i) {
      trace.issue(pieces * kRowInstructions - 1);
      for (int piece = 0; piece < pieces; ++piece) {
        if (aligned())
          trace.async_copy(stage);
        else
          trace.load(stage);
        for (int r = 0; r < rows_at_once; ++r)
          touch_b(block, place + (warp.index * rows_at_once + r) * rows_of_thread + i, stage, warp,
                  trace);
      }
    }
  }

  void touch_b(std::int64_t block, int place, int stage, const Warp& warp, WarpTrace& trace) const {
    if (place >= p_->a.tile_cols) return;
    const std::int32_t row = p_->a.active_cols[block * p_->a.tile_cols + place];
    if (row == kNoColumn) return;
    const auto from = p_->at.b + 4 * static_cast<std::uint64_t>(row * p_->n + warp.col);
    if (aligned())
      trace.copy_to_shared(from, 4 * warp.cols,
                           place_in_stage(stage, 4 * p_->shape.pitch() * place));
    else
      trace.touch(from, 4 * warp.cols);
  }

  std::uint64_t place_in_stage(int stage, std::int64_t byte) const {
    return static_cast<std::uint64_t>(stage * p_->shape.stage_bytes() + byte);
  }

  void copy_bytes(std::int64_t block, int stage, const Warp& warp, WarpTrace& trace) const {
    constexpr std::int64_t kAtOnce = 16 * 32;
    const std::int64_t first = p_->a.size_ptr[block], last = p_->a.size_ptr[block + 1];
    for (std::int64_t at = first + kAtOnce * warp.index; at < last;
         at += kAtOnce * p_->shape.warps) {
      trace.async_copy(stage);
      trace.copy_to_shared(
          p_->at.packed_blocks + static_cast<std::uint64_t>(at), std::min(kAtOnce, last - at),
          place_in_stage(stage, 4 * p_->shape.pitch() * p_->shape.stage_rows + at - first));
      trace.issue(4);
    }
  }

  void multiply(std::int64_t block, WarpTrace& trace) const {
    constexpr int kWideWavefronts = 4;  // of 16 bytes a lane, without conflicts: place_of_piece
    const int halves = p_->options.depth / Hrpb::kBrickCols;
    const int chunks = p_->shape.warp_cols / kChunkCols;
    trace.shared(1);  // how many bricks
    int loaded = -1;  // whose rows of B are in registers
    for_each_mma(p_->a, block, p_->options.depth, [&](const BlockMma& mma) {
      const int elements = halves * (loaded == mma.first_col ? 2 : 2 + 4 * chunks);
      trace.shared(3 * halves);
      trace.issue(halves * kDecodeInstructions);
      trace.pause(kPopulationCounts);
      if (loaded != mma.first_col) trace.shared(halves * chunks * kWideWavefronts);
      trace.issue(elements * kOperandInstructions[static_cast<int>(p_->options.precision)]);
      trace.mma(4 * chunks * mmas_of_chunk(p_->options));
      loaded = mma.first_col;
    });
  }

  void finish(const Task& task, const Warp& warp, WarpTrace& trace) const {
    for (int r = 0; r < p_->a.tile_rows; r += 8)
      for (int chunk = 0; chunk < p_->shape.warp_cols / kChunkCols; ++chunk) {
        const std::int64_t col = warp.index * p_->shape.warp_cols + chunk * kChunkCols;
        const std::int64_t left = warp.cols - col;
        for (int half = 0; half < 2; ++half)
          put(task, r, warp.col + col + 16 * half,
              std::clamp<std::int64_t>(left - 16 * half, 0, 16), trace);
      }
  }

  /// Eight rows from `above` on, 16 columns of them.
  void put(const Task& task, int above, std::int64_t col, std::int64_t cols,
           WarpTrace& trace) const {
    const std::int64_t first = std::int64_t{task.panel} * p_->a.tile_rows;
    const std::int64_t rows =
        std::clamp<std::int64_t>(rows_of_panel(p_->a, task.panel) - above, 0, 8);
    trace.issue(kStoreInstructions);
    if (rows == 0 || cols == 0) return;
    if (task.is_part != 0)
      trace.atomic(static_cast<int>(rows * cols));
    else
      trace.store(aligned() ? 1 : 4);
    for (std::int64_t row = first + above; row < first + above + rows; ++row)
      trace.touch(p_->at.c + 4 * static_cast<std::uint64_t>(row * p_->n + col), 4 * cols);
  }

  std::shared_ptr<const Product> p_;
};

/// What a task is for one chunk of columns, but for rows of B and C: those go by the columns.
struct TaskWork {
  std::int64_t mma = 0, a_bytes = 0, b_rows = 0, barriers = 0;
};

TaskWork work_of(const Product& p, const Task& task) {
  const std::int64_t blocks = task.last - task.first, warps = p.shape.warps;
  TaskWork work;
  work.a_bytes = warps * (std::int64_t{sizeof(Task)} + blocks * (4 * p.a.tile_cols + 8)) +
                 p.a.size_ptr[task.last] - p.a.size_ptr[task.first];
  if (warps > 1) work.barriers = warps * blocks * (p.shape.stages == 1 ? 2 : 1);
  for (std::int64_t b = task.first; b < task.last; ++b) {
    work.b_rows += count_cols(p.a, b);
    for_each_mma(p.a, b, p.options.depth, [&](const BlockMma&) {
      work.mma += p.shape.team_cols() / 8 * mmas_of_chunk(p.options);
    });
  }
  return work;
}

void add_thread_blocks(const Product& p, WorkDescription& work) {
  for (const std::uint32_t panel : p.split)
    work.thread_blocks.push_back({.c_bytes = 4 * rows_of_panel(p.a, panel) * p.n});
  std::vector<TaskWork> of_tasks;
  for (const Task& task : p.tasks) of_tasks.push_back(work_of(p, task));
  for (std::int64_t chunk = 0; chunk < p.shape.num_chunks(p.n); ++chunk) {
    const std::int64_t cols = p.cols_of(chunk);
    for (std::int64_t group = 0; group < p.num_groups(); ++group) {
      ThreadBlockWork block;
      const std::int64_t first = group * p.shape.teams;
      for (std::int64_t id = first; id < std::min(first + p.shape.teams, std::ssize(p.tasks));
           ++id) {
        const std::int64_t cells = rows_of_panel(p.a, p.tasks[id].panel) * cols;
        block.mma += of_tasks[id].mma;
        block.a_bytes += of_tasks[id].a_bytes;
        block.b_bytes += 4 * of_tasks[id].b_rows * cols;
        block.barriers += of_tasks[id].barriers;
        if (p.tasks[id].is_part != 0)
          block.atomics += cells;
        else
          block.c_bytes += 4 * cells;
      }
      work.thread_blocks.push_back(block);
    }
  }
}

}  // namespace

int count_cols(const Hrpb& a, std::int64_t block) {
  const auto first = a.active_cols.begin() + block * a.tile_cols;
  return static_cast<int>(std::find(first, first + a.tile_cols, kNoColumn) - first);
}

void describe_cute_launches(const Hrpb& a, std::int64_t n, const Options& options,
                            WorkDescription& work) {
  const auto product = std::make_shared<const Product>(a, n, options, work.memory);
  const Geometry& shape = product->shape;
  add_thread_blocks(*product, work);
  const auto clearings = std::ssize(product->split);
  if (clearings > 0)
    work.launches.push_back({.name = "clear",
                             .thread_blocks = clearings,
                             .threads_per_block = kClearThreads,
                             .registers_per_thread = kClearRegisters,
                             .trace = std::make_shared<ClearTrace>(product)});
  Launch multiply{.name = "multiply",
                  .thread_blocks = product->num_groups() * shape.num_chunks(n),
                  .threads_per_block = shape.threads(),
                  .registers_per_thread = registers_per_thread(shape, options, a.tile_rows),
                  .shared_bytes = shape.shared_bytes()};
  // A trace knows barriers of a whole thread block only, and teams have their own.
  if (shape.warps == 1 || shape.teams == 1) multiply.trace = std::make_shared<CuteTrace>(product);
  work.launches.push_back(std::move(multiply));
}

}  // namespace tessera::cutespmm
