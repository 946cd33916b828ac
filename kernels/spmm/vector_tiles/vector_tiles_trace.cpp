// The launches of a product of vectors in numbers and, for the simulator, instruction by
// instruction in the order of the source.

#include <bit>

#include "kernels/spmm/row_windows/split_windows_trace.hpp"
#include "kernels/spmm/vector_tiles/vector_tiles.hpp"

namespace tessera::vector_tiles {
namespace {

using window_tasks::Task;

struct Addresses {
  std::uint64_t tasks, col_indices, values, slots, b, workspace, c;
};

Addresses place(const Vectors& a, const Plan& plan, std::int64_t n, AddressSpace& space) {
  const auto vectors = static_cast<std::int64_t>(a.col_indices.size());
  Addresses at{};
  at.tasks = space.add("tasks", 16 * std::ssize(plan.tasks.tasks));
  at.col_indices = space.add("col_indices", 4 * vectors);
  at.values = space.add("values", a_bytes(plan.operand) * vectors * a.vector_rows);
  at.slots = space.add("slots", plan.num_chunks(n) * plan.tasks.slots * plan.groups * 1024);
  at.b = space.add("b", 4 * n * a.cols);
  if (has_workspace(plan.operand))
    at.workspace =
        space.add("workspace", b_bytes(plan.operand) * gathered_cols(plan.operand, n) * a.cols);
  at.c = space.add("c", 4 * n * a.rows);
  return at;
}

/// B on its way into the workspace: a warp takes rows_of_warp() rows, 128 columns at a time.
class ConversionTrace final : public LaunchTrace {
 public:
  ConversionTrace(std::int64_t rows, std::int64_t n, Operand operand, bool writes,
                  const Addresses& at)
      : rows_(rows),
        n_(n),
        operand_(operand),
        writes_(writes),
        shape_(rows, gathered_cols(operand, n)),
        at_(at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::int64_t id = thread_block * ConversionShape::kConversionWarps + warp;
    if (cursor.step == 0) {
      trace.issue(kWarpInstructions);
      trace.pause(kSpecialRegisterCycles);
    }
    if (id >= shape_.warps) return false;
    const std::int64_t cols = gathered_cols(operand_, n_), at_once = 4 * shape_.lanes;
    const std::int64_t col = cursor.step++ * at_once, first = id * shape_.rows_of_warp();
    const std::int64_t last = std::min(rows_, first + shape_.rows_of_warp());
    const std::int64_t end = std::min(cols, col + at_once);
    if (col < n_) {
      for (int i = 0; i < (n_ % 4 == 0 ? 1 : 4); ++i) {
        trace.load(0);
        for (std::int64_t row = first; row < last; ++row)
          trace.touch(at_.b + 4 * static_cast<std::uint64_t>(row * n_ + col),
                      4 * (std::min(end, n_) - col));
      }
      trace.wait(0);
    }
    trace.issue(kStepInstructions);
    if (writes_) {
      trace.store();
      for (std::int64_t row = first; row < last; ++row)
        trace.touch(
            at_.workspace + b_bytes(operand_) * static_cast<std::uint64_t>(row * cols + col),
            b_bytes(operand_) * (end - col));
    }
    return end < cols;
  }

 private:
  static constexpr int kWarpInstructions = 30, kStepInstructions = 20;

  std::int64_t rows_, n_;
  Operand operand_;
  bool writes_;
  ConversionShape shape_;
  Addresses at_;
};

class ProductTrace final : public LaunchTrace {
 public:
  ProductTrace(Vectors a, Plan plan, std::int64_t n, const Addresses& at)
      : a_(std::move(a)),
        plan_(std::move(plan)),
        n_(n),
        b_cols_(gathered_cols(plan_.operand, n)),
        b_bytes_(b_bytes(plan_.operand)),
        at_(at),
        gathered_at_(has_workspace(plan_.operand) ? at.workspace : at.b) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::int64_t count = std::ssize(plan_.tasks.tasks);
    const std::int64_t padded = (count + kWarps - 1) / kWarps * kWarps;
    const std::int64_t id = thread_block * kWarps + warp;
    const std::int64_t index = id % padded, chunk = id / padded;
    if (index >= count) {
      trace.issue(kIdleInstructions);
      return false;
    }
    const Task& task = plan_.tasks.tasks[index];
    const std::int64_t col = chunk * plan_.groups * kGroupCols, blocks = a_.blocks_of(task);
    if (cursor.step == 0) {
      trace.issue(kWarpInstructions);
      trace.pause(kSpecialRegisterCycles);
      trace.load(kTaskBoard);
      trace.touch(at_.tasks + 16 * static_cast<std::uint64_t>(index), 16);
      trace.wait(kTaskBoard);
      if (blocks > 0) start(task, col, trace);
    }
    const std::int64_t step = cursor.step++;
    if (step < blocks && plan_.staged) advance_staged(task, step, col, trace);
    if (step < blocks && !plan_.staged) advance_direct(task, step, col, trace);
    if (cursor.step < blocks) return true;
    trace.wait_mma();
    deliver(task, index, chunk, col, trace);
    return false;
  }

 private:
  static constexpr int kIdleInstructions = 30, kWarpInstructions = 60, kStoreInstructions = 20,
                       kBlockInstructions = 60, kCopyInstructions = 8, kGroupInstructions = 20;
  // Scoreboards from kFirstStageBoard on are the stages'.
  static constexpr int kIndexBoard = 0, kValueBoard = 1, kDataBoard = 2, kTaskBoard = 4,
                       kPartBoard = 5, kFirstStageBoard = 8;

  int stage_board(std::int64_t step) const {
    return kFirstStageBoard + static_cast<int>(step % plan_.stages);
  }
  std::uint32_t first_of(const Task& task, std::int64_t step) const {
    return task.first + static_cast<std::uint32_t>(step * a_.depth);
  }
  std::int64_t last_step(const Task& task) const { return a_.blocks_of(task) - 1; }
  std::int64_t b_cols_of(std::int64_t col, std::int64_t cols) const {
    return std::clamp<std::int64_t>(b_cols_ - col, 0, cols);
  }
  bool in_pieces() const { return has_workspace(plan_.operand) || n_ % 4 == 0; }

  /// Column indices of a TC block, one a lane.
  void load_index(const Task& task, std::int64_t step, WarpTrace& trace) const {
    const std::uint32_t first = first_of(task, step);
    trace.load(kIndexBoard);
    trace.touch(at_.col_indices + 4 * std::uint64_t{first}, 4 * a_.width(first, task.last));
  }

  void load_values(const Task& task, std::int64_t step, WarpTrace& trace) const {
    const std::uint32_t first = first_of(task, step);
    const int per_load = 16 / a_bytes(plan_.operand), width = a_.width(first, task.last);
    for (int k = 0; k < width; k += per_load) {
      trace.load(kValueBoard);
      trace.touch(at_.values + static_cast<std::uint64_t>(a_bytes(plan_.operand)) * first *
                                   static_cast<std::uint64_t>(a_.vector_rows),
                  a_bytes(plan_.operand) * width * a_.vector_rows);
    }
  }

  void start(const Task& task, std::int64_t col, WarpTrace& trace) const {
    load_index(task, 0, trace);
    load_values(task, 0, trace);
    if (!plan_.staged) return;
    for (std::int64_t step = 0; step + 1 < plan_.stages; ++step) {
      trace.wait(kIndexBoard);
      if (step <= last_step(task)) copy(task, step, col, trace);
      load_index(task, std::min(step + 1, last_step(task)), trace);
    }
  }

  void advance_staged(const Task& task, std::int64_t step, std::int64_t col,
                      WarpTrace& trace) const {
    const std::int64_t end = last_step(task), ahead = step + plan_.stages - 1;
    trace.wait(stage_board(step));
    trace.wait(kValueBoard);
    trace.wait(kIndexBoard);
    trace.issue(kBlockInstructions);
    if (step < end) load_values(task, step + 1, trace);
    if (ahead <= end) copy(task, ahead, col, trace);
    load_index(task, std::min(ahead + 1, end), trace);
    // Four rows at a time, of 32 columns each.
    trace.shared(plan_.groups * a_.depth / 4 * b_bytes_);
    trace.issue(kGroupInstructions * plan_.groups);
    trace.mma(2 * plan_.groups);
  }

  /// Rows of B to a stage, as many with an instruction as 32 pieces of 16 bytes hold.
  void copy(const Task& task, std::int64_t step, std::int64_t col, WarpTrace& trace) const {
    const std::uint32_t first = first_of(task, step);
    const int width = a_.width(first, task.last), board = stage_board(step);
    const int at_once = 16 / (plan_.groups * b_bytes_);
    const std::int64_t cols = b_cols_of(col, plan_.groups * kGroupCols);
    for (int k = 0; k < a_.depth; k += at_once) {
      trace.issue(kCopyInstructions);
      if (k >= width || a_.col_indices[first + static_cast<std::uint32_t>(k)] == kNoColumn)
        continue;
      for (int piece = 0; piece < (in_pieces() ? 1 : 4); ++piece) {
        if (in_pieces())
          trace.async_copy(board);
        else
          trace.load(board);
        for (int row = k; row < std::min(k + at_once, width); ++row) {
          const std::int32_t b_row = a_.col_indices[first + static_cast<std::uint32_t>(row)];
          if (b_row == kNoColumn) continue;
          const std::uint64_t from = address_of(b_row, col);
          if (in_pieces())
            trace.copy_to_shared(from, b_bytes_ * cols, kStartOfRow);
          else
            trace.touch(from, b_bytes_ * cols);
        }
      }
    }
  }

  void advance_direct(const Task& task, std::int64_t step, std::int64_t col,
                      WarpTrace& trace) const {
    const std::uint32_t first = first_of(task, step);
    trace.wait(kIndexBoard);
    trace.issue(kBlockInstructions);
    const int width = a_.width(first, task.last);
    bool loaded = false;
    for (int k = 0; k < width; k += 4)
      loaded |=
          load_rows(first + static_cast<std::uint32_t>(k), std::min(4, width - k), col, trace);
    load_index(task, std::min(step + 1, last_step(task)), trace);
    trace.wait(kValueBoard);
    if (step < last_step(task)) load_values(task, step + 1, trace);
    if (loaded) trace.wait(kDataBoard);
    trace.issue(kGroupInstructions);
    trace.mma(2);
  }

  /// Up to four rows of B to the lanes that multiply them: of 32 columns, at once or in four parts.
  bool load_rows(std::uint32_t first, int rows, std::int64_t col, WarpTrace& trace) const {
    const bool at_once = plan_.mapped && in_pieces();
    const std::int64_t cols = b_cols_of(col, kGroupCols);
    const std::int64_t step = plan_.mapped ? kGroupCols : kGroupCols / 4;
    bool loaded = false;
    for (int part = 0; part < (at_once ? 1 : 4); ++part) {
      const std::int64_t from = plan_.mapped ? 0 : part * step, count = std::min(step, cols - from);
      if (count <= 0) continue;
      trace.load(kDataBoard);
      loaded = true;
      for (int r = 0; r < rows; ++r)
        trace.touch(address_of(a_.col_indices[first + static_cast<std::uint32_t>(r)], col + from),
                    b_bytes_ * count);
      trace.wavefronts(std::max(1, trace.touched_sectors()));
    }
    return loaded;
  }

  void deliver(const Task& task, std::int64_t index, std::int64_t chunk, std::int64_t col,
               WarpTrace& trace) const {
    trace.issue(kStoreInstructions * (1 + plan_.groups));
    if (task.split != 0 && !plan_.atomic &&
        !window_tasks::trace_combine_split_window(plan_.tasks, index, chunk, 2 * plan_.groups,
                                                  at_.slots, kPartBoard, trace))
      return;
    for (int group = 0; group < plan_.groups; ++group)
      for (int j = 0; j < 2; ++j)
        store(task, col + group * kGroupCols, j, task.split != 0 && plan_.atomic, trace);
  }

  /// Rows 2t + j of the window, 32 columns from `col` on: a lane's four at once, or in four parts.
  void store(const Task& task, std::int64_t col, int j, bool adds, WarpTrace& trace) const {
    const std::int64_t cols = std::clamp<std::int64_t>(n_ - col, 0, kGroupCols);
    const std::int64_t step = plan_.mapped ? kGroupCols : kGroupCols / 4;
    if (j >= a_.rows_of_window(task.window)) return;
    for (std::int64_t from = 0; from < cols; from += step) {
      const int instructions = plan_.mapped && n_ % 4 != 0 ? 4 : 1;
      if (adds)
        trace.atomic(instructions);
      else
        trace.store(instructions);
      for (int r = j; r < a_.rows_of_window(task.window); r += 2)
        trace.touch(
            at_.c + 4 * static_cast<std::uint64_t>(
                            (task.window * std::int64_t{a_.vector_rows} + r) * n_ + col + from),
            4 * std::min(step, cols - from));
      trace.wavefronts(std::max(1, trace.touched_sectors()) * (instructions == 1 ? 1 : 2));
    }
  }

  std::uint64_t address_of(std::int32_t b_row, std::int64_t col) const {
    return gathered_at_ +
           static_cast<std::uint64_t>(b_bytes_ * (std::int64_t{b_row} * b_cols_ + col));
  }

  /// Of a row of B, in 32 bytes of shared memory: row_pitch.
  static constexpr std::uint64_t kStartOfRow = 0;

  Vectors a_;
  Plan plan_;
  std::int64_t n_, b_cols_;
  int b_bytes_;
  Addresses at_;
  std::uint64_t gathered_at_;
};

/// What a task adds to its thread block, with its columns from `col` on.
void add_task(const Vectors& a, const Plan& plan, std::int64_t index, std::int64_t n,
              std::int64_t col, ThreadBlockWork& work) {
  const Task& task = plan.tasks.tasks[index];
  const std::int64_t chunk = plan.groups * kGroupCols, cols = std::min(chunk, n - col);
  const std::int64_t vectors = std::int64_t{task.last} - task.first;
  const auto ids = a.col_indices.subspan(task.first, static_cast<std::size_t>(vectors));
  // Columns beyond the edge are multiplied, too.
  work.mma += a.blocks_of(task) * 2 * plan.groups;
  work.a_bytes += vectors * (4 + a_bytes(plan.operand) * a.vector_rows) + 16;
  work.b_bytes += b_bytes(plan.operand) * (vectors - std::ranges::count(ids, kNoColumn)) *
                  std::min(chunk, gathered_cols(plan.operand, n) - col);
  const std::int64_t values = a.rows_of_window(task.window) * cols;
  const bool last = plan.tasks.is_last_part(index);
  if (task.split != 0 && plan.atomic)
    work.atomics += values;
  else if (last)
    work.c_bytes += 4 * values;
}

/// One of the launches that read B whole; `writes`: into the workspace.
void add_conversion(const char* name, const Vectors& a, Operand operand, std::int64_t n,
                    bool writes, const Addresses& at, WorkDescription& work) {
  const ConversionShape shape(a.cols, gathered_cols(operand, n));
  const std::int64_t rows = std::int64_t{ConversionShape::kConversionWarps} * shape.rows_of_warp();
  for (std::int64_t i = 0; i < shape.thread_blocks(); ++i)
    work.thread_blocks.push_back({.b_bytes = 4 * n * std::min(rows, a.cols - i * rows)});
  work.launches.push_back(
      {.name = name,
       .thread_blocks = shape.thread_blocks(),
       .threads_per_block = 32 * ConversionShape::kConversionWarps,
       .registers_per_thread = writes && operand == Operand::kInt8 ? 32 : 24,
       .trace = std::make_shared<ConversionTrace>(a.cols, n, operand, writes, at)});
}

}  // namespace

WorkDescription describe_work(const std::string& kernel, const PackedMatrix& packed, Vectors a,
                              Plan plan, std::int64_t n) {
  const char* type = plan.operand == Operand::kInt8   ? "int8"
                     : plan.operand == Operand::kTf32 ? "tf32"
                                                      : "fp16";
  WorkDescription work{.kernel = kernel,
                       .mma_type = type,
                       .mma_shape = fmt::format("m16n8k{}", a.depth),
                       .flops_per_mma = 2 * 16 * 8 * a.depth};
  const Addresses at = place(a, plan, n, work.memory);
  if (plan.operand == Operand::kInt8)
    add_conversion("largest", a, plan.operand, n, false, at, work);
  if (has_workspace(plan.operand)) add_conversion("convert", a, plan.operand, n, true, at, work);

  const std::int64_t before = std::ssize(work.thread_blocks);
  const std::int64_t count = std::ssize(plan.tasks.tasks), chunks = plan.num_chunks(n);
  const std::int64_t blocks_of_tasks = (count + kWarps - 1) / kWarps;
  work.thread_blocks.resize(static_cast<std::size_t>(before + blocks_of_tasks * chunks));
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
    for (std::int64_t i = 0; i < count; ++i)
      add_task(a, plan, i, n, chunk * plan.groups * kGroupCols,
               work.thread_blocks[before + chunk * blocks_of_tasks + i / kWarps]);
  work.footprint_bytes = stats(packed).bytes;
  work.b_rows_bytes = 4 * n * count_distinct(a.col_indices, a.cols);
  work.c_bytes = 4 * n * a.rows;
  work.useful_flops = 2 * a.nnz * n;
  const std::int64_t shared_bytes = plan.shared_bytes(a.depth);
  const int registers = plan.registers(a.depth);
  work.launches.push_back(
      {.name = "multiply",
       .thread_blocks = blocks_of_tasks * chunks,
       .threads_per_block = kThreads,
       .registers_per_thread = registers,
       .shared_bytes = shared_bytes,
       .trace = std::make_shared<ProductTrace>(std::move(a), std::move(plan), n, at)});
  return work;
}

}  // namespace tessera::vector_tiles
