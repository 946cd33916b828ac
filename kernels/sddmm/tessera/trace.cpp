#include "kernels/sddmm/tessera/trace.hpp"

#include <algorithm>
#include <memory>

#include "kernels/spmm_kernel.hpp"

namespace tessera::tessera_sddmm {
namespace {

constexpr std::int64_t kTaskBytes = sizeof(Task), kBitmapBytes = sizeof(Mosaic::Bitmap);
constexpr std::int64_t kTileColBytes = 4 * kTileCols;

/// Instructions of a warp besides memory instructions and MMAs, counted in machine code (CUDA 13.0,
/// sm_90a).
struct InstructionCounts {
  static constexpr int kIdle = 14;       // a warp without a task
  static constexpr int kTask = 60;       // until the first chunk
  static constexpr int kChunk = 60;      // and for every step of it:
  static constexpr int kChunkStep = 26;  // clearing registers, rounding X
  static constexpr int kTile = 47;       // column index, address of the next row, partial sums
  static constexpr int kTileStep = 6;    // rounding Y, predicate of the load
  static constexpr int kSplitStep = 50;  // the same where operands are split
  static constexpr int kHalfStep = 8;    // the same for 16 bits
  static constexpr int kStore = 40;      // places of a TC block's nonzeros
};

/// The addresses of a product's arrays.
struct Addresses {
  std::uint64_t tasks, tile_cols, bitmaps, factors, x, y, s;
};

/// A product: what work and trace need of it.
struct Product {
  Product(const Mosaic& matrix, const TesseraSddmmOptions& chosen, std::int64_t width)
      : a(matrix),
        options(chosen),
        row_bytes(width * chosen.bytes()),
        schedule(chosen.schedule(width)),
        tasks(chosen.tasks(matrix, width)),
        element_bytes(chosen.result_bytes()) {}

  std::int64_t thread_blocks() const { return (std::ssize(tasks) + kWarps - 1) / kWarps; }
  int rows_of(const Task& task) const {
    return static_cast<int>(
        std::min<std::int64_t>(kWindowRows, a.rows() - std::int64_t{task.window} * kWindowRows));
  }
  std::int64_t nonzeros_of(const Task& task) const {
    return std::int64_t{a.tile_offset[task.last]} - a.tile_offset[task.first];
  }
  std::int64_t columns_of(const Task& task) const {
    const auto begin = a.tile_cols.begin() + std::int64_t{task.first} * kTileCols;
    const auto end = a.tile_cols.begin() + std::int64_t{task.last} * kTileCols;
    return end - begin - std::count(begin, end, kNoColumn);
  }
  std::int64_t mmas_of_tile() const {
    return schedule.steps * kMmasPerStep * std::ssize(options.precision().mmas);
  }

  const Mosaic& a;
  TesseraSddmmOptions options;
  std::int64_t row_bytes;  // of X and Y
  Schedule schedule;
  std::vector<Task> tasks;
  int element_bytes;  // of S
};

void add_task(const Product& product, const Task& task, ThreadBlockWork& work) {
  const std::int64_t tiles = task.last - task.first, chunks = product.schedule.chunks;
  work.mma += tiles * chunks * product.mmas_of_tile();
  work.a_bytes += kTaskBytes + tiles * chunks * (kTileColBytes + kBitmapBytes);
  if (product.options.scales_by_a) work.a_bytes += 4 * product.nonzeros_of(task);
  work.b_bytes += (product.rows_of(task) + product.columns_of(task)) * product.row_bytes;
  work.c_bytes += product.element_bytes * product.nonzeros_of(task);
}

/// A step of the cursor is a TC block, a part a chunk.
class Trace final : public LaunchTrace {
 public:
  Trace(std::shared_ptr<const Product> product, const Addresses& at)
      : product_(std::move(product)), p_(*product_), at_(at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::int64_t index = thread_block * kWarps + warp;
    if (index >= std::ssize(p_.tasks)) {
      trace.issue(InstructionCounts::kIdle);
      return false;
    }
    const Task& task = p_.tasks[index];
    if (cursor.step == 0) {
      if (cursor.part == 0) start_task(index, trace);
      start_chunk(task, cursor.part, trace);
    }
    multiply(task, cursor.part, task.first + static_cast<std::uint32_t>(cursor.step), trace);
    if (task.first + ++cursor.step < task.last) return true;
    cursor.step = 0;
    return ++cursor.part < p_.schedule.chunks;
  }

 private:
  static constexpr int kTaskBoard = 0, kColumnBoard = 1, kXBoard = 2, kBitmapBoard = 3,
                       kFactorBoard = 4, kFirstRowBoard = 5;
  /// Quads of four lanes read 64 bytes of a row each: two rows share four wavefronts of 32 lanes.
  static constexpr int kWavefronts = 8;

  std::int64_t chunk_begin(std::int64_t chunk) const { return chunk * p_.schedule.chunk_bytes(); }
  /// The board of the rows of Y of a TC block: one for each that is in flight.
  int row_board(std::uint32_t tile) const {
    return kFirstRowBoard + static_cast<int>(tile % blocks_in_flight(p_.schedule.steps));
  }

  void start_task(std::int64_t index, WarpTrace& trace) const {
    trace.pause(kSpecialRegisterCycles);
    trace.load(kTaskBoard);
    trace.touch(at_.tasks + static_cast<std::uint64_t>(index * kTaskBytes), kTaskBytes);
    trace.wait(kTaskBoard);
    trace.issue(InstructionCounts::kTask);
  }

  void start_chunk(const Task& task, std::int64_t chunk, WarpTrace& trace) const {
    trace.issue(InstructionCounts::kChunk + p_.schedule.steps * InstructionCounts::kChunkStep);
    const int ahead = blocks_in_flight(p_.schedule.steps);
    for (std::uint32_t i = 0; i <= static_cast<std::uint32_t>(ahead); ++i)
      load_columns(task.first + i, trace);
    for (int step = 0; step < p_.schedule.steps; ++step)
      for (int half = 0; half < 2; ++half) load_x(task, chunk, step, half, trace);
    trace.wait(kColumnBoard);
    for (int i = 0; i < ahead; ++i)
      for (int step = 0; step < p_.schedule.steps; ++step)
        load_y(task, task.first + static_cast<std::uint32_t>(i), chunk, step, trace);
    trace.wait(kXBoard);
  }

  void multiply(const Task& task, std::int64_t chunk, std::uint32_t tile, WarpTrace& trace) const {
    const bool stores = chunk + 1 == p_.schedule.chunks;
    trace.wait(kColumnBoard);
    load_columns(tile + 1 + static_cast<std::uint32_t>(blocks_in_flight(p_.schedule.steps)), trace);
    trace.issue(InstructionCounts::kTile);
    if (chunk > 0) trace.shared(kPartialWavefronts);
    trace.load(kBitmapBoard);
    trace.touch(element(at_.bitmaps, tile, kBitmapBytes), kBitmapBytes);
    trace.wait(row_board(tile));
    for (int step = 0; step < p_.schedule.steps; ++step) {
      trace.issue(step_instructions());
      trace.mma(kMmasPerStep * static_cast<int>(p_.options.precision().mmas.size()));
      load_y(task, tile + static_cast<std::uint32_t>(blocks_in_flight(p_.schedule.steps)), chunk,
             step, trace);
    }
    trace.wait_mma();
    if (!stores) return trace.shared(kPartialWavefronts);
    trace.wait(kBitmapBoard);
    trace.issue(InstructionCounts::kStore);
    if (p_.options.scales_by_a) {
      access_s(task, tile, at_.factors, 4, kFactorBoard, trace);
      trace.wait(kFactorBoard);
    }
    access_s(task, tile, at_.s, p_.element_bytes, -1, trace);
  }

  int step_instructions() const {
    if (p_.options.storage.b != ElementType::kFp32) return InstructionCounts::kHalfStep;
    return p_.options.splits() ? InstructionCounts::kSplitStep : InstructionCounts::kTileStep;
  }

  /// The columns of a TC block; those after the last are loaded and not used.
  void load_columns(std::uint32_t tile, WarpTrace& trace) const {
    trace.load(kColumnBoard);
    trace.touch(element(at_.tile_cols, tile, kTileColBytes), kTileColBytes);
  }

  /// The bytes of a row that a step of a chunk reads; 0 beyond its end.
  std::int64_t step_bytes(std::int64_t chunk, int step) const {
    return std::clamp<std::int64_t>(p_.row_bytes - chunk_begin(chunk) - step * kStepBytes, 0,
                                    kStepBytes);
  }
  std::uint64_t place(std::uint64_t array, std::int64_t row, std::int64_t chunk, int step) const {
    return array +
           static_cast<std::uint64_t>(row * p_.row_bytes + chunk_begin(chunk) + step * kStepBytes);
  }

  void load_x(const Task& task, std::int64_t chunk, int step, int half, WarpTrace& trace) const {
    const int rows = std::clamp(p_.rows_of(task) - 8 * half, 0, 8);
    const std::int64_t bytes = step_bytes(chunk, step);
    if (rows == 0 || bytes == 0) return trace.issue(1);
    trace.load(kXBoard);
    for (int r = 0; r < rows; ++r)
      trace.touch(place(at_.x, std::int64_t{task.window} * kWindowRows + 8 * half + r, chunk, step),
                  bytes);
    finish_load(trace);
  }

  /// Nothing after the last TC block of the task.
  void load_y(const Task& task, std::uint32_t tile, std::int64_t chunk, int step,
              WarpTrace& trace) const {
    const std::int64_t bytes = step_bytes(chunk, step);
    if (tile >= task.last || bytes == 0) return trace.issue(1);
    trace.load(row_board(tile));
    for (int k = 0; k < kTileCols; ++k) {
      const std::int32_t col = p_.a.tile_cols[std::int64_t{tile} * kTileCols + k];
      if (col != kNoColumn) trace.touch(place(at_.y, col, chunk, step), bytes);
    }
    finish_load(trace);
  }

  /// Rows that do not begin at multiples of 16 bytes are loaded element by element.
  void finish_load(WarpTrace& trace) const {
    trace.wavefronts(kWavefronts);
    if (p_.row_bytes % kVectorBytes != 0) trace.issue(kVectorBytes / p_.options.bytes() - 1);
  }

  /// Four instructions, one for each of a lane's cells: their sectors are those of the rows' pieces
  /// of an array in the order of S. They are stores, or loads that raise `board`.
  void access_s(const Task& task, std::uint32_t tile, std::uint64_t array, int bytes, int board,
                WarpTrace& trace) const {
    board < 0 ? trace.store(4) : trace.load(board);
    for (int r = 0; r < kWindowRows; ++r) {
      std::int64_t start = task.starts[r];
      for (std::uint32_t before = task.first; before < tile; ++before)
        start += nonzeros_of_row(p_.a, before, r);
      if (const std::int64_t count = nonzeros_of_row(p_.a, tile, r); count > 0)
        trace.touch(element(array, start, bytes), bytes * count);
    }
  }

  static constexpr int kPartialWavefronts = 16 * 32 / kLineBytes;

  std::shared_ptr<const Product> product_;
  const Product& p_;
  Addresses at_;
};

/// Registers allocated for a thread (CUDA 13.0, sm_90a).
int registers_of(const TesseraSddmmOptions& options, int steps) {
  const int warps = resident_warps(steps, options.splits());
  return 65536 / (32 * warps) / 8 * 8;
}

}  // namespace

WorkDescription describe_work(const Mosaic& a, const TesseraSddmmOptions& options, std::int64_t k) {
  const auto product = std::make_shared<const Product>(a, options, k);
  const bool half = options.storage.b != ElementType::kFp32;
  WorkDescription work{.kernel = "tessera_sddmm",
                       .mma_type = half ? "fp16" : "tf32",  // BF16 has FP16's rate
                       .mma_shape = half ? "m16n8k16" : "m16n8k8",
                       .flops_per_mma = 2 * 16 * 8 * options.depth()};
  const Addresses at{
      .tasks = work.memory.add("tasks", kTaskBytes * std::ssize(product->tasks)),
      .tile_cols = work.memory.add("tile_cols", kTileColBytes * (a.num_tiles() + kBlocksAhead)),
      .bitmaps = work.memory.add("bitmaps", kBitmapBytes * a.num_tiles()),
      .factors = work.memory.add("factors", options.scales_by_a ? 4 * a.nnz() : 0),
      .x = work.memory.add("x", product->row_bytes * a.rows()),
      .y = work.memory.add("y", product->row_bytes * a.cols()),
      .s = work.memory.add("s", product->element_bytes * a.nnz())};
  std::int64_t rows_of_x = 0;
  std::int64_t last_window = -1;
  for (const Task& task : product->tasks) {
    if (task.window != last_window) rows_of_x += product->rows_of(task);
    last_window = task.window;
  }
  for (std::int64_t block = 0; block < product->thread_blocks(); ++block) {
    ThreadBlockWork& of_block = work.thread_blocks.emplace_back();
    const std::int64_t end =
        std::min<std::int64_t>((block + 1) * kWarps, std::ssize(product->tasks));
    for (std::int64_t task = block * kWarps; task < end; ++task)
      add_task(*product, product->tasks[task], of_block);
  }
  work.launches.push_back({.name = "multiply",
                           .thread_blocks = product->thread_blocks(),
                           .threads_per_block = 32 * kWarps,
                           .registers_per_thread = registers_of(options, product->schedule.steps),
                           .shared_bytes = product->schedule.shared_bytes(),
                           .trace = std::make_shared<Trace>(product, at)});
  work.footprint_bytes = kTaskBytes * std::ssize(product->tasks) +
                         (kTileColBytes + kBitmapBytes) * a.num_tiles() +
                         (options.scales_by_a ? 4 * a.nnz() : 0);
  work.b_rows_bytes = product->row_bytes * (rows_of_x + count_distinct(a.tile_cols, a.cols()));
  work.c_bytes = product->element_bytes * a.nnz();
  work.useful_flops = 2 * a.nnz() * k;
  return work;
}

}  // namespace tessera::tessera_sddmm
