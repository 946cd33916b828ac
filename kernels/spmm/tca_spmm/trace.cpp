#include "kernels/spmm/tca_spmm/trace.hpp"

namespace tessera::tca_spmm {
namespace {

constexpr int kIndexBoard = 0, kCopyBoard = 1, kValueBoard = 2;

/// Instructions of a warp besides memory instructions, MMAs and barriers, counted in machine code
/// (CUDA 13.0, sm_90a, aligned operands). A tile has 64 or 128 columns.
struct InstructionCounts {
  static constexpr int kIdle = 15, kWarp = 31;  // a warp without and with a row
  static constexpr int kFirst = 33;             // more where the row has nonzeros,
  static constexpr int kIndex = 8;              // for a load of indices, predicated, with it
  static constexpr int kCopy = 22;              // for a copy of rows of B
  static constexpr int kNext = 33;              // of a chunk, for the copies of the next one
  static constexpr int kFlush = 20;             // for the output buffer
  /// For a group of columns of a row.
  static constexpr int row(int tile_cols) { return tile_cols == 64 ? 73 : 97; }
  static constexpr int finish(int tile_cols) { return tile_cols == 64 ? 41 : 23; }
  /// For a chunk, and with the MMAs and loads for its fragments, two at a time.
  static constexpr int chunk(Conversion conversion, int tile_cols) {
    const int shorter = tile_cols == 64 ? 0 : 8;
    if (conversion == Conversion::kTf32) return 72 - shorter;
    return (conversion == Conversion::kTf32Raw ? 66 : 61) - shorter;
  }
  static constexpr int fragments(Conversion conversion, int count) {
    const int pair = conversion == Conversion::kTf32      ? 53
                     : conversion == Conversion::kTf32Raw ? 35
                                                          : 33;
    const int single = conversion == Conversion::kTf32      ? 38
                       : conversion == Conversion::kTf32Raw ? 29
                                                            : 30;
    return count / 2 * pair + count % 2 * single;
  }
  /// The traces of two fragments, from their sums to C or to the output buffer.
  static constexpr int traces(int log_p, bool buffered) {
    return (log_p == 0 ? 42 : 63 + 2 * log_p) - (buffered ? 20 : 0);
  }
};

/// Offset of a row of B in 32 bytes of shared memory: pitches are multiples of 32 bytes, and
/// place_of only exchanges halves of them.
constexpr std::uint64_t kStartOfRow = 0;
static_assert(kPadding % 8 == 0);

/// The places of a chunk of one copy of a warp: its lanes take the fours of columns of one row of
/// B, then those of the next row.
struct CopiedPlaces {
  int first, count;
};
CopiedPlaces places_of(const Task& task, int cols, int copy) {
  const int count = 32 >> log_fours_of(task.log_p, cols);
  return {(task.warp + copy * task.warps()) * count, count};
}

}  // namespace

Columns columns_of(const Task& task, int tile_cols, const BlockCols& cols, std::int64_t part) {
  const int step = group_cols(tile_cols, task.log_p, task.log_warps);
  const std::int64_t first = cols.first + part * step;
  return {first, static_cast<int>(std::clamp<std::int64_t>(cols.end - first, 0, step))};
}

Trace::Trace(const CsrMatrix& a, bool output_buffer, Conversion conversion, Plan plan,
             AddressSpace& space)
    : a_(a),
      output_buffer_(output_buffer),
      conversion_(conversion),
      plan_(std::move(plan)),
      n_(plan_.n),
      tile_cols_(plan_.tile_cols),
      tasks_(space.add("tasks", static_cast<std::int64_t>(plan_.tasks.size() * sizeof(Task)))),
      block_cols_(
          space.add("cols", static_cast<std::int64_t>(plan_.cols.size() * sizeof(BlockCols)))),
      row_offsets_(space.add("row_offsets", 8 * (std::int64_t{a.rows} + 1))),
      col_indices_(space.add("col_indices", 4 * a.nnz())),
      values_(space.add("values", 4 * a.nnz())),
      b_(space.add("b", 4 * n_ * a.cols)),
      c_(space.add("c", 4 * n_ * a.rows)) {}

/// cursor.part counts groups of columns, cursor.step chunks.
bool Trace::next(std::int64_t thread_block, int warp, WarpCursor& cursor, WarpTrace& trace) const {
  const std::int64_t block = thread_block % plan_.blocks();
  const BlockCols cols = plan_.cols_of(thread_block);
  const Task& task = plan_.tasks[static_cast<std::size_t>(task_of(block, warp))];
  if (cursor.step == 0 && cursor.part == 0) begin(thread_block, warp, task, trace);
  if (task.row < 0) return false;
  const Columns columns = columns_of(task, tile_cols_, cols, cursor.part);
  const At at{task, a_.row_offsets[task.row], a_.row_offsets[task.row + 1], columns,
              fragments_of(output_buffer_, task.log_p, task.log_warps, task.warp, columns.count)};
  const std::int64_t chunk = at.first + cursor.step * kDepth * task.p();
  if (cursor.step == 0) {
    if (cursor.part > 0 && task.warps() == kWarps) trace.barrier();
    trace.issue(InstructionCounts::row(tile_cols_));
    load_index(at, chunk, trace);
    if (chunk < at.last) {
      trace.issue(InstructionCounts::kFirst);
      load_values(at, chunk, trace);
      copy(at, chunk, trace);
    }
    const std::int64_t second = chunk + kDepth * task.p();
    if (second < at.last) load_index(at, second, trace);
  }
  if (chunk < at.last) advance(at, chunk, trace);
  ++cursor.step;
  if (chunk + kDepth * task.p() < at.last) return true;
  store(at, trace);
  if (output_buffer_) flush(at, trace);
  cursor = {.step = 0, .part = cursor.part + 1};
  return columns_of(task, tile_cols_, cols, cursor.part).count > 0;
}

void Trace::begin(std::int64_t thread_block, int warp, const Task& task, WarpTrace& trace) const {
  const std::int64_t block = thread_block % plan_.blocks();
  trace.issue(InstructionCounts::kIdle);
  trace.pause(kSpecialRegisterCycles);
  trace.load(kIndexBoard);
  trace.touch(tasks_ + sizeof(Task) * static_cast<std::uint64_t>(task_of(block, warp)),
              sizeof(Task));
  trace.wait(kIndexBoard);
  if (task.row < 0) return;
  trace.issue(InstructionCounts::kWarp);
  if (!plan_.cols.empty()) {
    trace.load(kIndexBoard);
    trace.touch(element(block_cols_, thread_block, sizeof(BlockCols)), sizeof(BlockCols));
  }
  for (int end = 0; end < 2; ++end) {
    trace.load(kIndexBoard);
    trace.touch(row_offsets_ + 8 * (static_cast<std::uint64_t>(task.row) + end), 8);
  }
  trace.wait(kIndexBoard);
}

/// A lane without a nonzero loads nothing; there is no load where no lane has one.
void Trace::load_index(const At& at, std::int64_t chunk, WarpTrace& trace) const {
  for (int i = 0; i < tile_cols_ / kMmaRows; ++i) {
    const CopiedPlaces places = places_of(at.task, at.columns.count, i);
    const std::int64_t end =
        std::min({chunk + places.first + places.count, chunk + kDepth * at.task.p(), at.last});
    trace.issue(InstructionCounts::kIndex - (chunk + places.first < end ? 1 : 0));
    if (chunk + places.first >= end) continue;
    trace.load(kIndexBoard);
    trace.touch(col_indices_ + 4 * static_cast<std::uint64_t>(chunk + places.first),
                4 * (end - chunk - places.first));
  }
}

void Trace::copy(const At& at, std::int64_t chunk, WarpTrace& trace) const {
  trace.wait(kIndexBoard);
  for (int i = 0; i < tile_cols_ / kMmaRows; ++i) {
    const CopiedPlaces places = places_of(at.task, at.columns.count, i);
    if (places.first >= kDepth * at.task.p()) return;
    trace.issue(InstructionCounts::kCopy);
    for (int part = 0; part < (n_ % 4 == 0 ? 1 : 4); ++part) {
      if (n_ % 4 == 0)
        trace.async_copy(kCopyBoard);
      else
        trace.load(kCopyBoard);  // four bytes each: through the L1
      const int end = std::min(places.first + places.count, kDepth * at.task.p());
      for (std::int64_t k = chunk + places.first; k < std::min(chunk + end, at.last); ++k) {
        const std::uint64_t from = b_ + 4 * (static_cast<std::uint64_t>(a_.col_indices[k]) *
                                                 static_cast<std::uint64_t>(n_) +
                                             static_cast<std::uint64_t>(at.columns.first));
        if (n_ % 4 == 0)
          trace.copy_to_shared(from, 4 * at.columns.count, kStartOfRow);
        else
          trace.touch(from, 4 * at.columns.count);
      }
    }
  }
}

/// Loads both values of every lane.
void Trace::load_values(const At& at, std::int64_t chunk, WarpTrace& trace) const {
  for (int half = 0; half < 2; ++half) {
    trace.load(kValueBoard);
    trace.touch(values_ + 4 * static_cast<std::uint64_t>(chunk),
                4 * std::min<std::int64_t>(kDepth * at.task.p(), at.last - chunk));
  }
}

void Trace::advance(const At& at, std::int64_t chunk, WarpTrace& trace) const {
  const int size = kDepth * at.task.p();
  trace.issue(InstructionCounts::chunk(conversion_, tile_cols_));
  // A narrow B may not need all warps for its copy.
  if (places_of(at.task, at.columns.count, 0).first < size) trace.wait(kCopyBoard);
  if (at.task.warps() == kWarps) trace.barrier();  // others are of a part of the thread block
  trace.wait(kValueBoard);
  if (chunk + size < at.last) {
    trace.issue(InstructionCounts::kNext);
    copy(at, chunk + size, trace);
    if (chunk + 2 * size < at.last) load_index(at, chunk + 2 * size, trace);
    load_values(at, chunk + size, trace);
  }
  const int fragments = at.fragments.last - at.fragments.first;
  if (fragments == 0) return;
  trace.shared(4 * fragments);  // 16 bytes a lane for two of them, at both depths
  trace.issue(InstructionCounts::fragments(conversion_, fragments) - fragments - 1);
  trace.mma(fragments);
}

void Trace::store(const At& at, WarpTrace& trace) const {
  const int p = at.task.p(), outputs = kMmaRows / p;
  const std::int64_t first = at.columns.first + at.fragments.first * outputs;
  const std::int64_t end =
      at.columns.first + std::min(at.fragments.last * outputs, at.columns.count);
  trace.issue(InstructionCounts::finish(tile_cols_));
  if (first >= end) return;
  if (at.first < at.last) trace.wait_mma();
  // Two fragments have 32 / p columns; those of p = 8 are half a sector, and the stores of p = 2
  // take every other pair of columns.
  const int step = std::max(8, 2 * outputs);
  const int instructions = p == 2 || p == 8 ? 2 : p == 1 && n_ % 4 != 0 ? 4 : 1;
  for (std::int64_t col = first; col < end; col += step) {
    trace.issue(InstructionCounts::traces(at.task.log_p, output_buffer_) * step / (2 * outputs));
    if (output_buffer_) {
      for (int i = 0; i < instructions; ++i) trace.shared(1);
      continue;
    }
    trace.store(instructions);
    trace.touch(c_ + 4 * static_cast<std::uint64_t>(at.task.row * n_ + col),
                4 * std::min<std::int64_t>(step, end - col));
  }
}

/// Writes the output buffer to C, four columns a lane.
void Trace::flush(const At& at, WarpTrace& trace) const {
  if (at.task.warps() == kWarps) trace.barrier();
  trace.issue(InstructionCounts::kFlush);
  const std::int64_t first = 128 * at.task.warp;  // at most 64 columns: there is no second turn
  const std::int64_t count = std::min<std::int64_t>(at.columns.count - first, 128);
  if (count <= 0) return;
  trace.shared(static_cast<int>((count + 31) / 32));
  trace.store(n_ % 4 == 0 ? 1 : 4);
  trace.touch(c_ + 4 * static_cast<std::uint64_t>(at.task.row * n_ + at.columns.first + first),
              4 * count);
}

}  // namespace tessera::tca_spmm
