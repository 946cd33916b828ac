// The launches of a product of vectors: their work and, for the simulator, the traces of their
// warps in the order of the source.

#include "kernels/spmm/row_windows/split_windows_trace.hpp"
#include "kernels/spmm/row_windows/task_work.hpp"
#include "kernels/spmm/vector_tiles/vector_tiles.hpp"

namespace tessera::vector_tiles {
namespace {

using window_tasks::Task;

/// The addresses of the arrays of a product.
struct TraceAddresses {
  std::uint64_t tasks, col_indices, values, slots, b, workspace, c;
};

TraceAddresses add_arrays(const Vectors& a, const Plan& plan, AddressSpace& space) {
  const auto vectors = static_cast<std::int64_t>(a.col_indices.size());
  const std::int64_t n = plan.schedule.n;
  TraceAddresses at{};
  at.tasks = space.add("tasks", 16 * std::ssize(plan.tasks.tasks));
  at.col_indices = space.add("col_indices", 4 * vectors);
  at.values = space.add("values", a_bytes(plan.operand()) * vectors * a.vector_rows);
  at.slots =
      space.add("slots", plan.schedule.chunks() * plan.tasks.slots * slot_bytes(plan.groups()));
  at.b = space.add("b", 4 * n * a.cols);
  if (has_workspace(plan.operand()))
    at.workspace =
        space.add("workspace", b_bytes(plan.operand()) * gathered_cols(plan.operand(), n) * a.cols);
  at.c = space.add("c", 4 * n * a.rows);
  return at;
}

/// Instructions of a warp that converts rows of B besides memory instructions, counted in machine
/// code (CUDA 13.0, sm_90a): a division of 64 bits finds its rows, and a quotient takes about 20
/// instructions.
struct ConversionInstructions {
  int warp, step;  // at its begin and its end, and for four columns a lane
};
constexpr ConversionInstructions conversion_instructions(Operand operand, bool writes) {
  if (operand != Operand::kInt8) return {80, 25};
  return writes ? ConversionInstructions{95, 104} : ConversionInstructions{94, 22};
}

/// The lengths of the pieces of the machine code of a product of 32 columns a warp, in instructions
/// with those of memory and the MMAs (CUDA 13.0, sm_90a).
struct CodeLengths {
  int start;  // around a task, and before its first TC block
  int tile;   // of a TC block
  int next;   // more to load the values of the next one
  int copy;   // more to copy the rows of B of a later one
  int first;  // of such a copy before the first TC block
  /// Cycles of a TC block beyond two an instruction: the stall counts, and 25 for each wait for a
  /// shuffle, a constant or a special register. With groups of 32 columns they hardly change.
  int stalls = 0;

  static constexpr int kIdle = 40;         // a warp, with a task or without
  static constexpr int kItemCycles = 205;  // beyond two an instruction, until a warp has its task
  static constexpr int kScalarCopy = 9;   // a copy of a word, in whose place others are of 16 bytes
  static constexpr int kPackedValue = 6;  // for each of A's values that are loaded one by one
  static constexpr int kPart = 13;        // of a part of a window, besides those of all kernels
  static constexpr int kInt8Sums = 36;    // to scale sums of integers
  static constexpr int kBegin = 78;       // of the launch that clears split windows, until a store

  /// To store the sums of 32 columns, or to add them in memory; once and for each group.
  static constexpr int store(bool mapped, bool adds, int groups) {
    return mapped ? 9 + (adds ? 74 : 80) * groups : 148;
  }
};
/// More for each further group of 32 columns.
struct GroupLengths {
  int tile, copy;
};

constexpr CodeLengths staged_code(Operand operand, int depth) {
  if (operand == Operand::kTf32)
    return depth == 4 ? CodeLengths{112, 47, 12, 22, 45, 230}
                      : CodeLengths{123, 64, 21, 29, 54, 270};
  if (operand == Operand::kFp16AsIs)
    return depth == 8 ? CodeLengths{110, 44, 17, 33, 65, 290}
                      : CodeLengths{150, 54, 29, 48, 65, 400};
  if (operand == Operand::kFp16)
    return depth == 8 ? CodeLengths{125, 44, 17, 22, 50, 235}
                      : CodeLengths{120, 52, 32, 31, 60, 360};
  return {124, 66, 31, 33, 60, 350};
}
constexpr GroupLengths group_code(Operand operand, int depth) {
  if (operand == Operand::kTf32) return depth == 4 ? GroupLengths{11, 11} : GroupLengths{26, 15};
  if (operand == Operand::kFp16AsIs)
    return depth == 8 ? GroupLengths{10, 15} : GroupLengths{14, 26};
  if (operand == Operand::kFp16) return depth == 8 ? GroupLengths{10, 11} : GroupLengths{14, 18};
  return {27, 17};
}
/// The same where lanes load rows of B of 32 columns themselves, in one access or in four.
constexpr CodeLengths direct_code(Operand operand, int depth, bool at_once) {
  if (operand == Operand::kTf32) {
    if (depth == 4) return {60, at_once ? 31 : 47, 22, 0, 0};
    return at_once ? CodeLengths{68, 72, 40, 0, 0} : CodeLengths{70, 89, 30, 0, 0};
  }
  if (operand == Operand::kFp16AsIs) {
    if (depth == 8) return at_once ? CodeLengths{65, 52, 29, 0, 0} : CodeLengths{66, 78, 25, 0, 0};
    return at_once ? CodeLengths{82, 92, 40, 0, 0} : CodeLengths{92, 109, 39, 0, 0};
  }
  if (depth == 8) return at_once ? CodeLengths{65, 45, 26, 0, 0} : CodeLengths{66, 76, 27, 0, 0};
  return at_once ? CodeLengths{77, 87, 40, 0, 0} : CodeLengths{92, 118, 41, 0, 0};
}
/// A's values that a lane loads at once.
constexpr int pack_of(Operand operand) {
  return operand == Operand::kTf32 ? 1 : operand == Operand::kInt8 ? 4 : 2;
}

/// The conversion of B: a warp takes rows_of_warp() rows, four columns a lane at a time.
class ConversionTrace final : public LaunchTrace {
 public:
  ConversionTrace(std::int64_t rows, std::int64_t n, Operand operand, bool writes,
                  const TraceAddresses& at)
      : rows_(rows),
        n_(n),
        operand_(operand),
        writes_(writes),
        instructions_(conversion_instructions(operand, writes)),
        schedule_(rows, gathered_cols(operand, n)),
        at_(at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::int64_t first =
        ConversionSchedule::first_row(static_cast<std::uint32_t>(thread_block),
                                      static_cast<std::uint32_t>(warp), schedule_.lanes);
    if (cursor.step == 0) {
      trace.issue(instructions_.warp);
      trace.pause(kSpecialRegisterCycles);
    }
    if (first >= rows_) return false;
    const std::int64_t cols = gathered_cols(operand_, n_);
    const std::int64_t at_once = ConversionSchedule::kLaneCols * schedule_.lanes;
    const std::int64_t col = cursor.step++ * at_once;
    const std::int64_t last = std::min(rows_, first + schedule_.rows_of_warp());
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
    trace.issue(instructions_.step);
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
  std::int64_t rows_, n_;
  Operand operand_;
  bool writes_;
  ConversionInstructions instructions_;
  ConversionSchedule schedule_;
  TraceAddresses at_;
};

class ProductTrace final : public LaunchTrace {
 public:
  ProductTrace(Vectors a, Plan plan, const TraceAddresses& at)
      : a_(std::move(a)),
        plan_(std::move(plan)),
        schedule_(plan_.schedule),
        n_(schedule_.n),
        groups_(schedule_.instance.groups),
        b_cols_(gathered_cols(plan_.operand(), n_)),
        a_bytes_(a_bytes(plan_.operand())),
        b_bytes_(b_bytes(plan_.operand())),
        mapped_(schedule_.instance.mapped),
        staged_(schedule_.instance.pipeline == Pipeline::kStaged),
        code_(staged_ ? staged_code(plan_.operand(), a_.depth)
                      : direct_code(plan_.operand(), a_.depth, mapped_ && by_16_bytes())),
        group_(group_code(plan_.operand(), a_.depth)),
        at_(at),
        gathered_at_(has_workspace(plan_.operand()) ? at.workspace : at.b) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const WarpItem item = schedule_.item_of(thread_block, warp);
    const std::int64_t index = item.task, chunk = item.chunk;
    if (index >= schedule_.num_tasks) {
      trace.issue(CodeLengths::kIdle);
      return false;
    }
    const Task& task = plan_.tasks.tasks[index];
    const std::int64_t col = schedule_.first_col(chunk), blocks = a_.blocks_of(task);
    if (cursor.step == 0) {
      const std::size_t begin = trace.ops.size();
      trace.issue(CodeLengths::kIdle);
      trace.pause(CodeLengths::kItemCycles);
      trace.load(kTaskBoard);
      trace.touch(at_.tasks + 16 * static_cast<std::uint64_t>(index), 16);
      trace.wait(kTaskBoard);
      if (blocks > 0) start(task, col, trace);
      const int copies = staged_ ? schedule_.stages - 1 : 0;
      trace.complete(begin, CodeLengths::kIdle + code_.start +
                                copies * (code_.first + (groups_ - 1) * group_.copy));
    }
    const std::int64_t step = cursor.step++;
    if (step < blocks && staged_) advance_staged(task, step, col, trace);
    if (step < blocks && !staged_) advance_direct(task, step, col, trace);
    if (cursor.step < blocks) return true;
    trace.wait_mma();
    deliver(task, index, chunk, col, trace);
    return false;
  }

 private:
  // The stages have the scoreboards from kFirstStageBoard on.
  static constexpr int kIndexBoard = 0, kValueBoard = 1, kDataBoard = 2, kTaskBoard = 4,
                       kPartBoard = 5, kFirstStageBoard = 8;

  int stage_board(std::int64_t step) const {
    return kFirstStageBoard + static_cast<int>(step % schedule_.stages);
  }
  std::uint32_t first_of(const Task& task, std::int64_t step) const {
    return task.first + static_cast<std::uint32_t>(step * a_.depth);
  }
  std::int64_t last_step(const Task& task) const { return a_.blocks_of(task) - 1; }
  std::int64_t b_cols_of(std::int64_t col, std::int64_t cols) const {
    return std::clamp<std::int64_t>(b_cols_ - col, 0, cols);
  }
  /// True where rows of B are copied and loaded 16 bytes at a time.
  bool by_16_bytes() const { return has_workspace(plan_.operand()) || n_ % 4 == 0; }

  /// Loads the column indices of a TC block, one a lane.
  void load_index(const Task& task, std::int64_t step, WarpTrace& trace) const {
    const std::uint32_t first = first_of(task, step);
    trace.load(kIndexBoard);
    trace.touch(at_.col_indices + 4 * std::uint64_t{first}, 4 * a_.width(first, task.last));
  }

  void load_values(const Task& task, std::int64_t step, WarpTrace& trace) const {
    const std::uint32_t first = first_of(task, step);
    const int pack = pack_of(plan_.operand()), width = a_.width(first, task.last);
    const bool one_by_one = width % pack != 0;
    for (int k = 0; k < a_.depth * (one_by_one ? pack : 1); k += 4 * pack) {
      trace.load(kValueBoard);
      if (k >= width) continue;
      trace.touch(at_.values + static_cast<std::uint64_t>(a_bytes_) * first *
                                   static_cast<std::uint64_t>(a_.vector_rows),
                  a_bytes_ * width * a_.vector_rows);
    }
  }

  void start(const Task& task, std::int64_t col, WarpTrace& trace) const {
    load_index(task, 0, trace);
    load_values(task, 0, trace);
    if (!staged_) return;
    for (std::int64_t step = 0; step + 1 < schedule_.stages; ++step) {
      trace.wait(kIndexBoard);
      if (step <= last_step(task)) copy(task, step, col, trace);
      if (step + 1 <= last_step(task)) load_index(task, step + 1, trace);
    }
  }

  /// Of a TC block: `next`, there is another one whose values are loaded; `copies`, rows of B.
  int tile_length(const Task& task, std::int64_t step, bool copies) const {
    int length = code_.tile + (groups_ - 1) * group_.tile;
    if (copies) length += code_.copy + (groups_ - 1) * group_.copy;
    if (staged_ && schedule_.stages > 2) length += 3;
    if (copies && !by_16_bytes())
      length += 3 * CodeLengths::kScalarCopy * a_.depth * groups_ * b_bytes_ / 16;
    if (step == last_step(task)) return length;
    const int pack = pack_of(plan_.operand());
    const bool one_by_one = a_.width(first_of(task, step + 1), task.last) % pack != 0;
    return length + code_.next + (one_by_one ? CodeLengths::kPackedValue * a_.depth / 4 : 0);
  }

  void advance_staged(const Task& task, std::int64_t step, std::int64_t col,
                      WarpTrace& trace) const {
    const std::int64_t end = last_step(task), ahead = step + schedule_.stages - 1;
    trace.wait(stage_board(step));
    trace.wait(kValueBoard);
    trace.wait(kIndexBoard);
    const std::size_t begin = trace.ops.size();
    const int length = tile_length(task, step, ahead <= end);
    trace.issue(length / 4);
    if (step < end) load_values(task, step + 1, trace);
    // In the machine code the copies are in the middle, and the index is loaded behind two thirds.
    trace.issue(length / 4);
    if (ahead <= end) {
      copy(task, ahead, col, trace);
      if (by_16_bytes()) trace.pause(address_cycles(a_.depth * groups_ * b_bytes_ / 16));
    }
    trace.issue(length / 6);
    if (ahead + 1 <= end) load_index(task, ahead + 1, trace);
    trace.pause(code_.stalls);
    // Lanes read four rows of 32 columns at a time; these reads are in flight together.
    trace.shared(groups_ * a_.depth / 4 * b_bytes_);
    trace.complete(begin, length - kMmasPerGroup * groups_);
    trace.mma(kMmasPerGroup * groups_);
  }

  /// Copies rows of B to a stage; an instruction takes as many as 32 times 16 bytes hold.
  void copy(const Task& task, std::int64_t step, std::int64_t col, WarpTrace& trace) const {
    const std::uint32_t first = first_of(task, step);
    const int width = a_.width(first, task.last), board = stage_board(step);
    const int at_once = 16 / (groups_ * b_bytes_);
    const std::int64_t cols = b_cols_of(col, groups_ * kGroupCols);
    for (int k = 0; k < a_.depth; k += at_once) {
      if (k >= width || a_.col_indices[first + static_cast<std::uint32_t>(k)] == kNoColumn)
        continue;
      for (int part = 0; part < (by_16_bytes() ? 1 : 4); ++part) {
        if (by_16_bytes())
          trace.async_copy(board);
        else
          trace.load(board);
        for (int row = k; row < std::min(k + at_once, width); ++row) {
          const std::int32_t b_row = a_.col_indices[first + static_cast<std::uint32_t>(row)];
          if (b_row == kNoColumn) continue;
          const std::uint64_t from = address_of(b_row, col);
          if (by_16_bytes())
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
    const std::size_t begin = trace.ops.size();
    const int length = tile_length(task, step, false);
    trace.issue(length / 3);
    const int width = a_.width(first, task.last);
    bool loaded = false;
    for (int k = 0; k < width; k += 4)
      loaded |=
          load_rows(first + static_cast<std::uint32_t>(k), std::min(4, width - k), col, trace);
    if (step < last_step(task)) load_index(task, step + 1, trace);
    trace.wait(kValueBoard);
    if (step < last_step(task)) load_values(task, step + 1, trace);
    if (loaded) trace.wait(kDataBoard);
    trace.complete(begin, length - kMmasPerGroup);
    trace.mma(kMmasPerGroup);
  }

  /// Loads up to four rows of B of 32 columns to the lanes that multiply them, in one instruction
  /// or in four. Returns false where the rows have no such columns.
  bool load_rows(std::uint32_t first, int rows, std::int64_t col, WarpTrace& trace) const {
    const bool at_once = mapped_ && by_16_bytes();
    const std::int64_t cols = b_cols_of(col, kGroupCols);
    const std::int64_t step = mapped_ ? kGroupCols : kGroupCols / 4;
    bool loaded = false;
    for (int part = 0; part < (at_once ? 1 : 4); ++part) {
      const std::int64_t from = mapped_ ? 0 : part * step, count = std::min(step, cols - from);
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
    const bool adds = task.split != 0 && plan_.atomic;
    if (plan_.operand() == Operand::kInt8) trace.issue(CodeLengths::kInt8Sums * groups_);
    if (task.split != 0 && !adds) trace.issue(CodeLengths::kPart);
    if (task.split != 0 && !plan_.atomic &&
        !window_tasks::trace_combine_split_window(plan_.tasks, index, chunk, slot_vectors(groups_),
                                                  at_.slots, kPartBoard, trace))
      return;
    const std::size_t begin = trace.ops.size();
    for (int group = 0; group < groups_; ++group)
      for (int j = 0; j < 2; ++j) store(task, col + group * kGroupCols, j, adds, trace);
    trace.complete(begin, CodeLengths::store(mapped_, adds, groups_));
  }

  /// Stores rows 2t + j of the window, 32 columns from `col` on: a lane's four columns in one
  /// instruction or in four.
  void store(const Task& task, std::int64_t col, int j, bool adds, WarpTrace& trace) const {
    const std::int64_t cols = std::clamp<std::int64_t>(n_ - col, 0, kGroupCols);
    const std::int64_t step = mapped_ ? kGroupCols : kGroupCols / 4;
    if (j >= a_.rows_of_window(task.window)) return;
    for (std::int64_t from = 0; from < cols; from += step) {
      const int instructions = mapped_ && n_ % 4 != 0 ? 4 : 1;
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

  /// Offset of a row of B in 32 bytes of shared memory; see row_pitch.
  static constexpr std::uint64_t kStartOfRow = 0;

  Vectors a_;
  Plan plan_;
  Schedule schedule_;
  std::int64_t n_;
  int groups_;
  std::int64_t b_cols_;
  int a_bytes_, b_bytes_;
  bool mapped_, staged_;
  CodeLengths code_;
  GroupLengths group_;
  TraceAddresses at_;
  std::uint64_t gathered_at_;
};

/// Adds the work of a task for its columns from `col` on to its thread block.
void add_task(const Vectors& a, const Plan& plan, std::int64_t index, std::int64_t col,
              ThreadBlockWork& work) {
  const Task& task = plan.tasks.tasks[index];
  const std::int64_t n = plan.schedule.n, chunk = plan.schedule.chunk_cols();
  const std::int64_t vectors = std::int64_t{task.last} - task.first;
  const auto ids = a.col_indices.subspan(task.first, static_cast<std::size_t>(vectors));
  // MMAs also multiply the columns beyond the edge of C.
  work.mma += a.blocks_of(task) * kMmasPerGroup * plan.groups();
  work.a_bytes += vectors * (4 + a_bytes(plan.operand()) * a.vector_rows) + 16;
  work.b_bytes += b_bytes(plan.operand()) * (vectors - std::ranges::count(ids, kNoColumn)) *
                  std::min(chunk, gathered_cols(plan.operand(), n) - col);
  const std::int64_t values = a.rows_of_window(task.window) * std::min(chunk, n - col);
  if (task.split != 0 && plan.atomic)
    work.atomics += values;
  else if (plan.tasks.is_last_part(index))
    work.c_bytes += 4 * values;
}

ThreadBlockWork work_of(const Vectors& a, const Plan& plan, std::int64_t thread_block) {
  ThreadBlockWork work;
  for (int warp = 0; warp < kWarps; ++warp) {
    const WarpItem item = plan.schedule.item_of(thread_block, warp);
    if (item.task < plan.schedule.num_tasks)
      add_task(a, plan, item.task, plan.schedule.first_col(item.chunk), work);
  }
  return work;
}

/// Adds one of the launches that read B whole. `writes`: it writes the workspace.
void add_conversion(const char* name, const Vectors& a, Operand operand, std::int64_t n,
                    bool writes, const TraceAddresses& at, WorkDescription& work) {
  const ConversionSchedule schedule(a.cols, gathered_cols(operand, n));
  const std::int64_t rows = schedule.rows_of_block();
  for (std::int64_t i = 0; i < schedule.thread_blocks(); ++i)
    work.thread_blocks.push_back({.b_bytes = 4 * n * std::min(rows, a.cols - i * rows)});
  work.launches.push_back(
      {.name = name,
       .thread_blocks = schedule.thread_blocks(),
       .threads_per_block = ConversionSchedule::kThreads,
       .registers_per_thread = writes && operand == Operand::kInt8 ? 32 : 24,
       .trace = std::make_shared<ConversionTrace>(a.cols, n, operand, writes, at)});
}

const char* mma_type_of(Operand operand) {
  if (operand == Operand::kInt8) return "int8";
  return operand == Operand::kTf32 ? "tf32" : "fp16";
}

}  // namespace

WorkDescription describe_work(const std::string& kernel, const PackedMatrix& packed, Vectors a,
                              Plan plan, std::int64_t n) {
  const Operand operand = plan.operand();
  const Schedule schedule = plan.schedule;
  WorkDescription work{.kernel = kernel,
                       .mma_type = mma_type_of(operand),
                       .mma_shape = fmt::format("m16n8k{}", a.depth),
                       .flops_per_mma = 2 * 16 * 8 * a.depth};
  const TraceAddresses at = add_arrays(a, plan, work.memory);
  if (operand == Operand::kInt8) add_conversion("largest", a, operand, n, false, at, work);
  if (has_workspace(operand)) add_conversion("convert", a, operand, n, true, at, work);
  if (plan.atomic)
    row_windows::add_clear_launch({a.vector_rows, a.rows, n, at.tasks, at.c, CodeLengths::kBegin},
                                  std::make_shared<const window_tasks::Tasks>(plan.tasks),
                                  window_tasks::CombineMethod::kAtomic, work);
  for (std::int64_t i = 0; i < schedule.thread_blocks(); ++i)
    work.thread_blocks.push_back(work_of(a, plan, i));
  work.footprint_bytes = stats(packed).bytes;
  work.b_rows_bytes = 4 * n * count_distinct(a.col_indices, a.cols);
  work.c_bytes = 4 * n * a.rows;
  work.useful_flops = 2 * a.nnz * n;
  work.launches.push_back(
      {.name = "multiply",
       .thread_blocks = schedule.thread_blocks(),
       .threads_per_block = kThreads,
       .registers_per_thread = schedule.instance.registers,
       .shared_bytes = schedule.shared_bytes(),
       .trace = std::make_shared<ProductTrace>(std::move(a), std::move(plan), at)});
  return work;
}

}  // namespace tessera::vector_tiles
