// The work description and the warp traces of cutespmm. A trace follows the compiled loop
// (CUDA 13.0, sm_90a).

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

/// The addresses of the arrays of a product.
struct TraceAddresses {
  TraceAddresses(const Hrpb& a, const std::vector<Task>& task_list, std::int64_t n,
                 AddressSpace& space)
      : packed_blocks(space.add("packed_blocks", bytes_of(a.packed_blocks))),
        active_cols(space.add("active_cols", bytes_of(a.active_cols))),
        size_ptr(space.add("size_ptr", bytes_of(a.size_ptr))),
        tasks(space.add("tasks", bytes_of(task_list))),
        b(space.add("b", 4 * n * a.cols())),
        c(space.add("c", 4 * n * a.rows())) {}

  std::uint64_t packed_blocks, active_cols, size_ptr, tasks, b, c;
};

/// A product: the matrix, the options and the tasks of its launches.
struct TracedProduct {
  TracedProduct(const Hrpb& packed, std::int64_t columns, const CuteSpmmOptions& chosen,
                AddressSpace& space)
      : a(packed),
        n(columns),
        options(chosen),
        shape(geometry(a, n, options)),
        tasks(plan_tasks(a, n, options)),
        split(split_panels(tasks)),
        at(a, tasks, n, space) {}

  /// Groups of as many tasks as a thread block has teams.
  std::int64_t num_groups() const {
    return tasks.empty() ? 0 : count_groups(static_cast<std::uint32_t>(tasks.size()), teams());
  }
  /// The task of a team of a thread block, and the thread block's chunk of columns.
  std::int64_t task_of(std::int64_t thread_block, int team) const {
    return cutespmm::task_of(static_cast<std::uint32_t>(thread_block),
                             static_cast<std::uint32_t>(team),
                             static_cast<std::uint32_t>(num_groups()), teams());
  }
  std::int64_t chunk_of(std::int64_t thread_block) const {
    return cutespmm::chunk_of(static_cast<std::uint32_t>(thread_block),
                              static_cast<std::uint32_t>(num_groups()));
  }
  std::uint32_t teams() const { return static_cast<std::uint32_t>(shape.teams); }
  /// Columns of C of a chunk.
  std::int64_t cols_of(std::int64_t chunk) const {
    return std::min<std::int64_t>(shape.team_cols(), n - chunk * shape.team_cols());
  }

  const Hrpb& a;
  std::int64_t n;
  CuteSpmmOptions options;
  Geometry shape;
  std::vector<Task> tasks;
  std::vector<std::uint32_t> split;
  TraceAddresses at;
};

/// The lengths of the pieces of the machine code (CUDA 13.0, sm_90a) for aligned operands, in
/// instructions with those of memory and the MMAs. A warp has `chunks` of 32 columns.
struct InstructionCounts {
  static constexpr int kClear = 30, kClearStore = 6;  // of the clearing launch
  static constexpr int kIdle = 49;                    // a warp without a task
  static constexpr int kWarp = 173;                   // before the first block, besides copies
  static constexpr int kBlock = 44;                   // of a block, besides its bricks,
  static constexpr int kCopy = 63;                    // more for the copy of a block,
  static constexpr int kCopyBytes = 11;               // and of 512 bytes of its bricks
  static constexpr int kStore = 29;                   // for 16 columns of eight rows of C

  /// Of the rows of B of an MMA's depth.
  static constexpr int rows(int depth, int chunks) { return 9 + 11 * chunks * depth / 4; }
  /// Of the bricks of an MMA: one, or two above each other of which one may be empty.
  static constexpr int bricks(bool pair, int depth, Tf32Precision precision, int chunks) {
    const bool raw = precision == Tf32Precision::kRaw;
    if (precision == Tf32Precision::kSplit) return 100 + 115 * chunks;
    if (depth == 4)
      return pair ? (raw ? 90 : 93) + (raw ? 15 : 35) * chunks
                  : (raw ? 20 : 25) + (raw ? 5 : 14) * chunks;
    return pair ? (raw ? 168 + 26 * chunks : 181 + 43 * chunks)
                : (raw ? 43 + 15 * chunks : 62 + 28 * chunks);
  }
};

/// The trace of a warp of the first launch, which clears a row panel 128 bytes at a time.
class ClearTrace final : public LaunchTrace {
 public:
  explicit ClearTrace(std::shared_ptr<const TracedProduct> product) : p_(std::move(product)) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::int64_t panel = p_->split[thread_block];
    const std::int64_t values = rows_of_panel(p_->a, panel) * p_->n;
    const std::int64_t at = cursor.step++ * kClearThreads + 32 * warp;
    trace.issue(cursor.step == 1 ? InstructionCounts::kClear : InstructionCounts::kClearStore);
    if (at < values) {
      trace.store();
      trace.touch(p_->at.c + 4 * static_cast<std::uint64_t>(panel * p_->a.tile_rows * p_->n + at),
                  4 * std::min<std::int64_t>(32, values - at));
    }
    return at + kClearThreads < values;
  }

 private:
  std::shared_ptr<const TracedProduct> p_;
};

/// The trace of a warp of the second launch, which multiplies the blocks of its task one by one.
class CuteTrace final : public LaunchTrace {
 public:
  explicit CuteTrace(std::shared_ptr<const TracedProduct> product) : p_(std::move(product)) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::int64_t id = p_->task_of(thread_block, warp / p_->shape.warps);
    const std::int64_t chunk = p_->chunk_of(thread_block);
    if (id >= std::ssize(p_->tasks)) {
      trace.issue(InstructionCounts::kIdle);
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

  static constexpr int kPopulationCounts = 20;  // cycles that a warp waits for them
  static constexpr int kTaskBoard = kMaxStages, kIndexBoard = kMaxStages + 1;

  int stages() const { return p_->shape.stages; }
  bool aligned() const { return p_->n % 4 == 0; }

  void begin(std::int64_t id, const Task& task, const Warp& warp, WarpTrace& trace) const {
    trace.issue(InstructionCounts::kWarp - 4);
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
    trace.issue(InstructionCounts::kBlock - 2);  // with the barrier and the number of bricks
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
    const std::size_t begin = trace.ops.size();
    int length = InstructionCounts::kCopy;
    trace.issue(length / 3);
    trace.shared(1);
    const int stage = static_cast<int>(step % stages()), cols = count_cols(p_->a, block);
    const int chunks = p_->shape.warp_cols / kChunkCols;
    for (int first = 0; first < cols; first += p_->options.depth) {
      length += InstructionCounts::rows(p_->options.depth, (aligned() ? 1 : 4) * chunks);
      for (int place = first; place < first + p_->options.depth; place += Hrpb::kBrickCols)
        copy_rows(block, place, stage, warp, trace);
    }
    length += InstructionCounts::kCopyBytes * copy_bytes(block, stage, warp, trace);
    if (block + 1 < task.last) load_index(block + 1, trace);
    trace.complete(begin, length);
  }

  /// The warp's part of the rows of B of a brick column.
  void copy_rows(std::int64_t block, int place, int stage, const Warp& warp,
                 WarpTrace& trace) const {
    const int rows_at_once = 128 / p_->shape.team_cols();  // of the warp
    const int rows_of_thread = p_->shape.warp_cols / kChunkCols;
    const int copies = aligned() ? 1 : 4;
    trace.shared(1);
    for (int i = 0; i < rows_of_thread; ++i) {
      for (int copy = 0; copy < copies; ++copy) {
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

  /// Returns the number of copies.
  int copy_bytes(std::int64_t block, int stage, const Warp& warp, WarpTrace& trace) const {
    constexpr std::int64_t kAtOnce = 16 * 32;
    int copies = 0;
    const std::int64_t first = p_->a.size_ptr[block], last = p_->a.size_ptr[block + 1];
    for (std::int64_t at = first + kAtOnce * warp.index; at < last;
         at += kAtOnce * p_->shape.warps, ++copies) {
      trace.async_copy(stage);
      trace.copy_to_shared(
          p_->at.packed_blocks + static_cast<std::uint64_t>(at), std::min(kAtOnce, last - at),
          place_in_stage(stage, 4 * p_->shape.pitch() * p_->shape.stage_rows + at - first));
    }
    return copies;
  }

  void multiply(std::int64_t block, WarpTrace& trace) const {
    constexpr int kWideWavefronts = 4;  // of 16 bytes a lane, without conflicts: place_of_piece
    const int halves = p_->options.depth / Hrpb::kBrickCols;
    const int chunks = p_->shape.warp_cols / kChunkCols;
    trace.shared(1);  // the number of bricks
    int loaded = -1;  // the brick column whose rows of B are in registers
    for_each_mma(p_->a, block, p_->options.depth, [&](const BlockMma& mma) {
      const std::size_t begin = trace.ops.size();
      const bool pair = p_->a.tile_rows > Hrpb::kBrickRows, next = loaded != mma.first_col;
      const int mmas = kChunkMmas * chunks * mmas_per_product(p_->options);
      // The second of a pair takes the MMAs alone: the code of both is executed once.
      const int length = pair && !next ? mmas
                                       : InstructionCounts::bricks(pair, p_->options.depth,
                                                                   p_->options.precision, chunks);
      if (!pair || next) trace.shared(3 * halves);
      trace.issue(std::max(1, length / 3));
      trace.pause(kPopulationCounts);
      if (next) trace.shared(halves * chunks * kWideWavefronts);
      trace.complete(begin, std::max(0, length - mmas));
      trace.mma(mmas);
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
    trace.issue(InstructionCounts::kStore);
    if (rows == 0 || cols == 0) return;
    if (task.is_part != 0)
      trace.atomic(static_cast<int>(rows * cols));
    else
      trace.store(aligned() ? 1 : 4);
    for (std::int64_t row = first + above; row < first + above + rows; ++row)
      trace.touch(p_->at.c + 4 * static_cast<std::uint64_t>(row * p_->n + col), 4 * cols);
  }

  std::shared_ptr<const TracedProduct> p_;
};

/// The work of a task for one chunk of columns, except the bytes of B and C, which depend on its
/// width.
struct TaskWork {
  std::int64_t mma = 0, a_bytes = 0, b_rows = 0, barriers = 0;
};

TaskWork work_of(const TracedProduct& p, const Task& task) {
  const std::int64_t blocks = task.last - task.first, warps = p.shape.warps;
  TaskWork work;
  work.a_bytes = warps * (std::int64_t{sizeof(Task)} + blocks * (4 * p.a.tile_cols + 8)) +
                 p.a.size_ptr[task.last] - p.a.size_ptr[task.first];
  if (warps > 1) work.barriers = warps * blocks * (p.shape.stages == 1 ? 2 : 1);
  for (std::int64_t b = task.first; b < task.last; ++b) {
    work.b_rows += count_cols(p.a, b);
    for_each_mma(p.a, b, p.options.depth, [&](const BlockMma&) {
      work.mma += p.shape.team_cols() / 8 * mmas_per_product(p.options);
    });
  }
  return work;
}

void add_thread_blocks(const TracedProduct& p, WorkDescription& work) {
  for (const std::uint32_t panel : p.split)
    work.thread_blocks.push_back({.c_bytes = 4 * rows_of_panel(p.a, panel) * p.n});
  std::vector<TaskWork> of_tasks;
  for (const Task& task : p.tasks) of_tasks.push_back(work_of(p, task));
  for (std::int64_t i = 0; i < p.num_groups() * p.shape.num_chunks(p.n); ++i) {
    const std::int64_t cols = p.cols_of(p.chunk_of(i));
    ThreadBlockWork block;
    for (int team = 0; team < p.shape.teams; ++team) {
      const std::int64_t id = p.task_of(i, team);
      if (id >= std::ssize(p.tasks)) continue;
      const Task& task = p.tasks[id];
      const std::int64_t cells = rows_of_panel(p.a, task.panel) * cols;
      block.mma += of_tasks[id].mma;
      block.a_bytes += of_tasks[id].a_bytes;
      block.b_bytes += 4 * of_tasks[id].b_rows * cols;
      block.barriers += of_tasks[id].barriers;
      if (task.is_part != 0)
        block.atomics += cells;
      else
        block.c_bytes += 4 * cells;
    }
    work.thread_blocks.push_back(block);
  }
}

}  // namespace

int count_cols(const Hrpb& a, std::int64_t block) {
  const auto first = a.active_cols.begin() + block * a.tile_cols;
  return static_cast<int>(std::find(first, first + a.tile_cols, kNoColumn) - first);
}

void describe_cute_launches(const Hrpb& a, std::int64_t n, const CuteSpmmOptions& options,
                            WorkDescription& work) {
  const auto product = std::make_shared<const TracedProduct>(a, n, options, work.memory);
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
  // A trace has only barriers of a whole thread block; several teams of several warps have their
  // own.
  if (shape.warps == 1 || shape.teams == 1) multiply.trace = std::make_shared<CuteTrace>(product);
  work.launches.push_back(std::move(multiply));
}

}  // namespace tessera::cutespmm
