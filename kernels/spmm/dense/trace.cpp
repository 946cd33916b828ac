#include "kernels/spmm/dense/trace.hpp"

#include <algorithm>
#include <memory>

namespace tessera::dense_spmm {
namespace {

/// Instructions of a warp besides those of memory, counted in machine code (CUDA 13.0, sm_90a) for
/// aligned operands.
struct InstructionCounts {
  static constexpr int kStart = 21, kArrive = 12;        // of all warps, around their barrier
  static constexpr int kBarriers = 31, kCopyStage = 44;  // of the warp that copies
  static constexpr int kFirstStage = 108;                // before the first operands are loaded
  static constexpr int kStage = 39, kEndOfStage = 23;    // besides its operands
  static constexpr int kLoadFp32 = 29, kLoadHalves = 8;  // of the operands of a stage
  static constexpr int kLeave = 51, kSend = 17, kSendPart = 8;
  static constexpr int kAdd = 21, kVector = 46, kPart = 11;  // of sums, four a lane
  static constexpr int kEnd = 10;
};

constexpr int kRegistersFp32 = 88, kRegistersHalves = 80;  // of a thread (CUDA 13.0, sm_90a)

/// A cluster's exchange: the latency of shared memory of another multiprocessor in a cluster of
/// four, 207 cycles, and the 2.78 TB/s that 132 of them exchange so at 1755 MHz (Luo et al.,
/// "Dissecting the NVIDIA Hopper Architecture", on an H800).
constexpr int kClusterCycles = 207, kClusterBytesPerCycle = 12;

/// What bulk copies of operands in the L2 take longer than loads: 365 cycles to 264 (the same).
constexpr int kBulkCycles = 101;

constexpr int kLaneSums = 32;           // of a lane
constexpr int kOperandWavefronts = 16;  // of the loads of a warp's part of B, 64 x 32 bytes
constexpr int kWideWavefronts = 4;      // of an access by 16 bytes a lane
constexpr int kWarpCols = 16;           // of B that a warp multiplies

/// A thread block: a part of the depth for a tile of C. Ends are those of what exists.
struct Item {
  int part;
  std::int64_t first_stage, stages;
  std::int64_t row_tile, first_col, cols;
  std::int64_t first_row, rows;  // of C, those that it adds and stores
};

/// The launch in numbers.
struct Shape {
  Schedule schedule;
  std::int64_t rows, depth, n;
  int c_bytes;

  std::int64_t blocks_of_rows() const { return schedule.row_tiles(rows) * schedule.parts(); }
  std::int64_t thread_blocks() const { return blocks_of_rows() * schedule.column_tiles(n); }
  int multipliers() const { return 4 * schedule.groups; }  // warps
  int warps() const { return schedule.threads() / 32; }

  Item item_of(std::int64_t thread_block) const {
    const std::int64_t x = thread_block % blocks_of_rows();
    const int part = static_cast<int>(x % schedule.parts());
    const auto stages = static_cast<int>(schedule.stages(depth));
    const int first = first_stage(stages, schedule.parts_log2, part);
    const std::int64_t col = thread_block / blocks_of_rows() * schedule.columns();
    const std::int64_t owned = kTileRows / schedule.parts();
    const std::int64_t row = x / schedule.parts() * kTileRows + part * owned;
    return {.part = part,
            .first_stage = first,
            .stages = first_stage(stages, schedule.parts_log2, part + 1) - first,
            .row_tile = x / schedule.parts(),
            .first_col = col,
            .cols = std::min<std::int64_t>(schedule.columns(), n - col),
            .first_row = row,
            .rows = std::clamp<std::int64_t>(rows - row, 0, owned)};
  }

  /// The rows of B of a stage that exist.
  std::int64_t rows_of_stage(std::int64_t stage) const {
    return std::clamp<std::int64_t>(depth - stage * schedule.stage_depth(), 0,
                                    schedule.stage_depth());
  }

  ThreadBlockWork work_of(const Item& item) const {
    // All warps meet once, and twice those that multiply.
    ThreadBlockWork work{.mma = multipliers() * kStageSteps * item.stages,
                         .a_bytes = item.stages * schedule.a_bytes(),
                         .c_bytes = c_bytes * item.rows * item.cols,
                         .barriers = warps() + 2 * multipliers()};
    for (std::int64_t i = 0; i < item.stages; ++i)
      work.b_bytes += schedule.element_bytes * rows_of_stage(item.first_stage + i) * item.cols;
    return work;
  }
};

/// One warp copies in bulk, and each of the others waits for its copies. A trace has only barriers
/// of the whole thread block: here each of the others copies a share of what it waits for, as far
/// ahead.
class DenseTrace final : public LaunchTrace {
 public:
  DenseTrace(const Shape& shape, AddressSpace& memory)
      : shape_(shape),
        schedule_(shape.schedule),
        a_(memory.add("a", schedule_.row_tiles(shape.rows) * schedule_.stages(shape.depth) *
                               schedule_.a_bytes())),
        b_(memory.add("b", schedule_.element_bytes * shape.depth * shape.n)),
        c_(memory.add("c", shape.c_bytes * shape.rows * shape.n)) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const Item item = shape_.item_of(thread_block);
    if (cursor.step == 0) begin(warp, trace);
    if (warp == shape_.multipliers()) {
      trace.issue(InstructionCounts::kCopyStage);
      return ++cursor.step < item.stages;
    }
    if (cursor.step == 0) begin_multiplying(item, warp, trace);
    if (cursor.step < item.stages) multiply(item, warp, cursor.step, trace);
    if (++cursor.step < item.stages) return true;
    finish(item, warp, trace);
    return false;
  }

 private:
  bool has_halves() const { return schedule_.element_bytes == 2; }
  bool is_aligned() const { return shape_.n % (16 / schedule_.element_bytes) == 0; }
  int board_of(std::int64_t stage) const {
    return static_cast<int>(stage % schedule_.ring_stages());
  }

  void begin(int warp, WarpTrace& trace) const {
    trace.issue(InstructionCounts::kStart);
    trace.pause(kSpecialRegisterCycles);
    if (warp == shape_.multipliers()) trace.issue(InstructionCounts::kBarriers);
    trace.barrier();
    trace.issue(InstructionCounts::kArrive);
  }

  void begin_multiplying(const Item& item, int warp, WarpTrace& trace) const {
    for (std::int64_t i = 0; i < std::min<std::int64_t>(schedule_.ring_stages(), item.stages); ++i)
      copy(item, warp, i, trace);
    trace.issue(InstructionCounts::kFirstStage);
    if (item.stages == 0) return;
    trace.pause(kBulkCycles);
    load_operands(0, trace);
  }

  void multiply(const Item& item, int warp, std::int64_t i, WarpTrace& trace) const {
    trace.issue(InstructionCounts::kStage);
    // A warp's part of those of four warps, which read A from shared memory.
    trace.async_mma(kStageSteps, schedule_.a_bytes() / (4 * tessera::kLineBytes));
    if (i + 1 < item.stages) load_operands(i + 1, trace);
    trace.wait_mma();
    trace.issue(InstructionCounts::kEndOfStage);
    if (i + schedule_.ring_stages() < item.stages)
      copy(item, warp, i + schedule_.ring_stages(), trace);
  }

  void load_operands(std::int64_t i, WarpTrace& trace) const {
    trace.wait(board_of(i));
    // Four or eight instructions, one behind another.
    trace.issue((has_halves() ? InstructionCounts::kLoadHalves + kStageSteps
                              : InstructionCounts::kLoadFp32 + 2 * kStageSteps) -
                1);
    trace.shared(kOperandWavefronts);
  }

  /// Copies a warp's share of stage `i`: of the bytes of A, and of the rows of B.
  void copy(const Item& item, int warp, std::int64_t i, WarpTrace& trace) const {
    const std::int64_t stage = item.first_stage + i;
    const std::int64_t a_bytes = schedule_.a_bytes() / shape_.multipliers();
    const auto begin_copy = [&](bool in_bulk) {
      if (in_bulk)
        trace.async_copy(board_of(i));
      else
        trace.load(board_of(i));
    };
    begin_copy(true);
    trace.copy_to_shared(
        a_ + static_cast<std::uint64_t>((item.row_tile * schedule_.stages(shape_.depth) + stage) *
                                            schedule_.a_bytes() +
                                        warp * a_bytes),
        a_bytes, 0);
    const std::int64_t rows = shape_.rows_of_stage(stage);
    for (int line = 0; line < schedule_.lines(); ++line) {
      const std::int64_t col = line * schedule_.line_cols();
      const std::int64_t cols = std::min<std::int64_t>(schedule_.line_cols(), item.cols - col);
      if (cols <= 0) continue;
      begin_copy(is_aligned());
      for (std::int64_t row = warp; row < rows; row += shape_.multipliers()) {
        const std::uint64_t from =
            element(b_, (stage * schedule_.stage_depth() + row) * shape_.n + item.first_col + col,
                    schedule_.element_bytes);
        if (is_aligned())
          trace.copy_to_shared(from, schedule_.element_bytes * cols, 0);
        else
          trace.touch(from, schedule_.element_bytes * cols);
      }
    }
  }

  /// Exchanges the sums with the cluster, adds those of the thread block's rows and stores them.
  void finish(const Item& item, int warp, WarpTrace& trace) const {
    trace.barrier();
    trace.issue(InstructionCounts::kLeave + kLaneSums - 1);
    // The lanes of FP32 write four rows to 16 different banks.
    trace.shared((has_halves() ? 1 : 2) * kLaneSums);
    trace.barrier();
    const int others = schedule_.parts() - 1;
    if (warp == 0) trace.issue(InstructionCounts::kSend + InstructionCounts::kSendPart * others);
    const std::int64_t owned = kTileRows / schedule_.parts();
    if (others > 0)
      trace.pause(kClusterCycles +
                  static_cast<int>(others * owned * schedule_.sum_pitch() / kClusterBytesPerCycle));
    trace.issue(InstructionCounts::kAdd);
    const std::int64_t vectors = schedule_.columns() / 4;  // of a row
    const std::int64_t at_once = 32 / vectors;             // rows
    for (std::int64_t row = warp * at_once; row < owned; row += shape_.multipliers() * at_once) {
      trace.issue(InstructionCounts::kVector + InstructionCounts::kPart * others +
                  schedule_.parts() - 1);
      trace.shared(kWideWavefronts * schedule_.parts());
      store(item, row, std::min(at_once, item.rows - row), trace);
    }
    trace.issue(InstructionCounts::kEnd);
    if (others > 0) trace.pause(kClusterCycles);
  }

  void store(const Item& item, std::int64_t row, std::int64_t rows, WarpTrace& trace) const {
    if (rows <= 0) return;
    trace.store(is_aligned() ? 1 : 4);
    for (std::int64_t r = 0; r < rows; ++r)
      trace.touch(
          element(c_, (item.first_row + row + r) * shape_.n + item.first_col, shape_.c_bytes),
          shape_.c_bytes * item.cols);
  }

  Shape shape_;
  Schedule schedule_;
  std::uint64_t a_, b_, c_;
};

}  // namespace

WorkDescription describe(const DenseTiles& a, std::int64_t n, const DenseSpmmOptions& options) {
  const Storage storage = options.storage();
  const Shape shape{.schedule = options.schedule(a.rows(), a.cols(), n),
                    .rows = a.rows(),
                    .depth = a.cols(),
                    .n = n,
                    .c_bytes = static_cast<int>(bytes_of(storage.c))};
  const bool has_halves = shape.schedule.element_bytes == 2;
  const int depth = depth_of_step(shape.schedule.element_bytes);
  WorkDescription work{.kernel = "dense_spmm",
                       .mma_type = has_halves ? "fp16" : "tf32",  // BF16 has the rate of FP16
                       .mma_shape = has_halves ? "m64n64k16" : "m64n64k8",
                       // A warp's part of the instruction.
                       .flops_per_mma = 2 * kWarpCols * kTileRows * depth};
  for (std::int64_t block = 0; block < shape.thread_blocks(); ++block)
    work.thread_blocks.push_back(shape.work_of(shape.item_of(block)));
  work.launches = {{.name = "multiply",
                    .thread_blocks = shape.thread_blocks(),
                    .threads_per_block = shape.schedule.threads(),
                    .registers_per_thread = has_halves ? kRegistersHalves : kRegistersFp32,
                    .shared_bytes = shape.schedule.shared_bytes(),
                    .overlaps = true,
                    .trace = std::make_shared<DenseTrace>(shape, work.memory)}};
  work.footprint_bytes = stats(a).bytes;
  work.b_rows_bytes = shape.schedule.element_bytes * n * a.cols();
  work.c_bytes = shape.c_bytes * n * a.rows();
  work.useful_flops = 2 * a.nnz() * n;
  return work;
}

}  // namespace tessera::dense_spmm
