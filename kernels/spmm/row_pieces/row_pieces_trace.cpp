#include "kernels/spmm/row_pieces/row_pieces_trace.hpp"

#include <algorithm>

namespace tessera::row_pieces {
namespace {

struct Addresses {
  std::uint64_t pieces, shares, col_indices, values, b, c, slots, cleared;
};

/// Zeros for a row, 128 bytes at a time.
class ClearTrace final : public LaunchTrace {
 public:
  ClearTrace(std::vector<std::uint32_t> rows, std::int64_t n, const Addresses& at)
      : rows_(std::move(rows)), n_(n), at_(at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::int64_t index = thread_block * kClearRows + warp;
    if (cursor.step++ == 0) trace.issue(kInstructions);
    if (index >= std::ssize(rows_)) return false;
    if (cursor.part == 0) {
      trace.load(0);
      trace.touch(at_.cleared + 4 * static_cast<std::uint64_t>(index), 4);
      trace.wait(0);
    }
    const std::int64_t first = 32 * cursor.part++;
    trace.store();
    trace.touch(at_.c + 4 * (rows_[index] * static_cast<std::uint64_t>(n_) + first),
                4 * std::min<std::int64_t>(32, n_ - first));
    trace.issue(kStoreInstructions);
    return first + 32 < n_;
  }

 private:
  static constexpr int kInstructions = 20, kStoreInstructions = 5;

  std::vector<std::uint32_t> rows_;
  std::int64_t n_;
  Addresses at_;
};

/// Units of a warp, side by side: each memory instruction is one for all of them.
class PiecesTrace final : public LaunchTrace {
 public:
  PiecesTrace(const CsrMatrix& a, std::shared_ptr<const Plan> plan, const Shape& shape, bool atomic,
              std::int64_t n, const Addresses& at)
      : a_(a), plan_(std::move(plan)), shape_(shape), atomic_(atomic), n_(n), at_(at) {}

  /// Bytes of B that a warp's loads ask for: those of a row once, where several units want it at
  /// once.
  std::int64_t b_bytes(std::int64_t thread_block, int warp) const {
    const Warp mine(*this, thread_block, warp);
    std::int64_t rows = 0;
    for (std::int64_t i = 0; i < mine.steps(*this) * group(); ++i) {
      std::vector<std::int32_t> seen;
      for (std::int64_t unit = mine.first; unit < mine.last; ++unit) {
        const std::int64_t k = start(unit) + i;
        if (k < begin_of(unit) || k >= end(unit)) continue;
        if (std::ranges::find(seen, a_.col_indices[k]) != seen.end()) continue;
        seen.push_back(a_.col_indices[k]);
        ++rows;
      }
    }
    return 4 * rows * mine.cols;
  }

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const Warp mine(*this, thread_block, warp);
    if (mine.first == mine.last) {
      trace.issue(kIdleInstructions);
      return false;
    }
    const std::int64_t step = cursor.step++, steps = mine.steps(*this);
    if (step == 0) begin(mine, steps, trace);
    if (step < steps) advance(mine, step, steps, trace);
    if (step + 1 < steps) return true;
    for (std::int64_t unit = mine.first; unit < mine.last; ++unit) deliver(mine, unit, trace);
    return false;
  }

 private:
  // Of the machine code (CUDA 13.0, sm_90a): around a unit, for a nonzero besides its load, for
  // four values of a lane.
  static constexpr int kIdleInstructions = 30, kWarpInstructions = 52, kNonzeroInstructions = 12,
                       kStoreInstructions = 12, kMeetInstructions = 40;
  static constexpr int kPieceBoard = 0, kIndexBoard = 1, kDataBoard = 2, kPartBoard = 3;
  static constexpr int kCached = 32;  // nonzeros that a warp takes over at a time

  /// A warp's units and columns.
  struct Warp {
    std::int64_t first, last;
    std::int64_t chunk, col, cols;

    Warp(const PiecesTrace& trace, std::int64_t thread_block, int warp) {
      const Shape& shape = trace.shape_;
      const std::int64_t blocks = shape.blocks_of_units(*trace.plan_);
      const std::int64_t units = trace.plan_->num_units();
      chunk = thread_block / blocks;
      first = thread_block % blocks * shape.units_per_block() + warp * shape.units_per_warp();
      last = std::min(first + shape.units_per_warp(), units);
      first = std::min(first, last);
      col = chunk * shape.columns();
      cols = std::min<std::int64_t>(shape.columns(), trace.n_ - col);
    }
    std::int64_t steps(const PiecesTrace& trace) const {
      std::int64_t most = 0;
      for (std::int64_t unit = first; unit < last; ++unit)
        most = std::max(most,
                        (trace.end(unit) - trace.start(unit) + trace.group() - 1) / trace.group());
      return most;
    }
  };

  const Piece& first_piece(std::int64_t unit) const {
    return plan_->pieces[plan_->first_piece(unit)];
  }
  const Piece& last_piece(std::int64_t unit) const {
    return plan_->pieces[plan_->last_piece(unit) - 1];
  }
  std::int64_t begin_of(std::int64_t unit) const { return first_piece(unit).first; }
  std::int64_t end(std::int64_t unit) const { return last_piece(unit).last; }
  /// From where groups are counted.
  std::int64_t start(std::int64_t unit) const {
    const std::int64_t first = begin_of(unit);
    return shape_.reach == NonzeroDelivery::kBroadcast && first < end(unit) ? first / 4 * 4 : first;
  }
  bool hands_out() const {
    return shape_.reach == NonzeroDelivery::kShuffle || shape_.reach == NonzeroDelivery::kShared;
  }
  /// Nonzeros of a unit in one step.
  int group() const { return shape_.unroll * shape_.groups; }

  void begin(const Warp& mine, std::int64_t steps, WarpTrace& trace) const {
    trace.issue(kWarpInstructions);
    trace.pause(kSpecialRegisterCycles);
    if (!plan_->shares.empty()) {
      trace.load(kPieceBoard);
      trace.touch(at_.shares + 4 * static_cast<std::uint64_t>(mine.first),
                  4 * (mine.last - mine.first + 1));
      trace.wait(kPieceBoard);
    }
    trace.load(kPieceBoard);
    for (std::int64_t unit = mine.first; unit < mine.last; ++unit)
      trace.touch(at_.pieces + 16 * static_cast<std::uint64_t>(plan_->first_piece(unit)), 16);
    trace.wait(kPieceBoard);
    if (steps > 0) load_columns(mine, 0, trace);
  }

  void touch_nonzeros(std::uint64_t array, std::int64_t first, std::int64_t count,
                      WarpTrace& trace) const {
    count = std::min(count, a_.nnz() - first);
    if (count > 0) trace.touch(array + 4 * static_cast<std::uint64_t>(first), 4 * count);
  }

  /// Nonzeros of all units that have some in a step, in fours or for each group another.
  void load_nonzeros(const Warp& mine, std::uint64_t array, std::int64_t step, int board,
                     WarpTrace& trace) const {
    const int at_once = shape_.reach == NonzeroDelivery::kOwn ? shape_.groups : 4;
    for (int j = 0; j < group(); j += at_once) {
      trace.load(board);
      for (std::int64_t unit = mine.first; unit < mine.last; ++unit) {
        const std::int64_t k = start(unit) + step * group();
        if (k < end(unit)) touch_nonzeros(array, k + j, at_once, trace);
      }
    }
  }

  void load_columns(const Warp& mine, std::int64_t step, WarpTrace& trace) const {
    if (!hands_out()) return load_nonzeros(mine, at_.col_indices, step, kIndexBoard, trace);
    if (step * group() % kCached != 0) return;
    const std::int64_t k = start(mine.first) + step * group();
    for (const std::uint64_t array : {at_.col_indices, at_.values}) {
      trace.load(kIndexBoard);
      touch_nonzeros(array, k, std::min<std::int64_t>(kCached, end(mine.first) - k), trace);
    }
  }

  void advance(const Warp& mine, std::int64_t step, std::int64_t steps, WarpTrace& trace) const {
    trace.wait(kIndexBoard);
    if (shape_.reach == NonzeroDelivery::kShared) trace.shared(4);
    trace.issue(kNonzeroInstructions * shape_.unroll / 2);
    for (int j = 0; j < group(); j += shape_.groups) load_rows(mine, step, j, trace);
    if (!hands_out()) load_nonzeros(mine, at_.values, step, kDataBoard, trace);
    if (step + 1 < steps) load_columns(mine, step + 1, trace);
    trace.wait(kDataBoard);
    trace.issue((kNonzeroInstructions / 2 + shape_.values) * shape_.unroll);
    for (std::int64_t unit = mine.first; unit < mine.last; ++unit) {
      const std::int64_t k = start(unit) + step * group();
      finish_rows(mine, unit, step == 0 ? begin_of(unit) : k + 1, k + group(), trace);
    }
  }

  /// Rows of B for nonzero j of a step, of each group one further.
  void load_rows(const Warp& mine, std::int64_t step, int j, WarpTrace& trace) const {
    const int vectors = (shape_.values + 3) / 4;
    for (int v = 0; v < vectors; ++v) {
      const std::int64_t col = v * 4 * shape_.lanes;
      const std::int64_t cols = std::min<std::int64_t>(shape_.columns() / vectors, mine.cols - col);
      if (cols <= 0) continue;
      trace.load(kDataBoard);
      for (std::int64_t unit = mine.first; unit < mine.last; ++unit) {
        for (int g = 0; g < shape_.groups; ++g) {
          const std::int64_t k = start(unit) + step * group() + j + g;
          if (k < begin_of(unit) || k >= end(unit)) continue;
          const std::uint64_t row = static_cast<std::uint64_t>(a_.col_indices[k]);
          trace.touch(at_.b + 4 * (row * static_cast<std::uint64_t>(n_) + mine.col + col),
                      4 * cols);
        }
      }
    }
  }

  /// Whole rows of a share, but for its last, that end in [from, to].
  void finish_rows(const Warp& mine, std::int64_t unit, std::int64_t from, std::int64_t to,
                   WarpTrace& trace) const {
    const auto begin = plan_->pieces.begin() + plan_->first_piece(unit);
    const auto last = plan_->pieces.begin() + plan_->last_piece(unit) - 1;
    auto piece = std::lower_bound(begin, last, from,
                                  [](const Piece& p, std::int64_t k) { return p.last < k; });
    for (; piece < last && piece->last <= to; ++piece)
      if (piece->slot == 0) store(mine, piece->row, trace);
  }

  void touch_row(const Warp& mine, std::uint32_t row, WarpTrace& trace) const {
    trace.touch(at_.c + 4 * (row * static_cast<std::uint64_t>(n_) + mine.col), 4 * mine.cols);
  }

  void store(const Warp& mine, std::uint32_t row, WarpTrace& trace) const {
    trace.issue(kStoreInstructions);
    trace.store((shape_.values + 3) / 4);
    touch_row(mine, row, trace);
  }

  void deliver(const Warp& mine, std::int64_t unit, WarpTrace& trace) const {
    const Piece &first = first_piece(unit), &last = last_piece(unit);
    // A unit of empty rows alone has no step in which they would be stored.
    if (begin_of(unit) == end(unit)) finish_rows(mine, unit, begin_of(unit), end(unit), trace);
    deliver(mine, last, trace);
    if (&first != &last && first.slot != 0) deliver(mine, first, trace);
  }

  void deliver(const Warp& mine, const Piece& piece, WarpTrace& trace) const {
    if (piece.slot == 0) return store(mine, piece.row, trace);
    if (atomic_) {
      trace.issue(kStoreInstructions);
      trace.atomic(static_cast<int>(mine.cols));
      touch_row(mine, piece.row, trace);
      return;
    }
    const Split& split = plan_->splits[plan_->split_of_slot[piece.slot - 1]];
    trace.issue(kMeetInstructions);
    for (int i = 0; i < shape_.values; ++i) {
      trace.store();
      touch_slot(mine, piece.slot - 1, i, trace);
    }
    // The last part is taken for the last to arrive, which reads all.
    if (piece.slot != split.first_slot + split.parts) return;
    for (std::uint32_t part = 0; part < split.parts; ++part) {
      for (int i = 0; i < shape_.values; ++i) {
        trace.load(kPartBoard);
        touch_slot(mine, split.first_slot + part, i, trace);
      }
      if (part % 4 == 3 || part + 1 == split.parts) trace.wait(kPartBoard);
      trace.issue(2 * shape_.values);
    }
    store(mine, piece.row, trace);
  }

  void touch_slot(const Warp& mine, std::uint32_t slot, int value, WarpTrace& trace) const {
    const std::int64_t index =
        mine.chunk * static_cast<std::int64_t>(plan_->split_of_slot.size()) + slot;
    trace.touch(
        at_.slots + 4 * static_cast<std::uint64_t>(index * shape_.columns() + value * shape_.lanes),
        std::int64_t{4} * shape_.lanes);
  }

  const CsrMatrix& a_;
  std::shared_ptr<const Plan> plan_;
  Shape shape_;
  bool atomic_;
  std::int64_t n_;
  Addresses at_;
};

/// What a unit adds to its thread block, but for rows of B.
void add_unit(const Plan& plan, std::int64_t unit, bool atomic, std::int64_t cols,
              ThreadBlockWork& work) {
  for (std::int64_t p = plan.first_piece(unit); p < plan.last_piece(unit); ++p) {
    const Piece& piece = plan.pieces[p];
    const std::int64_t nonzeros = piece.last - piece.first;
    work.fma += nonzeros * cols;
    work.a_bytes += 16 + 8 * nonzeros;
    if (piece.slot != 0 && atomic) {
      work.atomics += cols;
      continue;
    }
    if (piece.slot != 0) {
      const Split& split = plan.splits[plan.split_of_slot[piece.slot - 1]];
      if (piece.slot != split.first_slot + split.parts) continue;
    }
    work.c_bytes += 4 * cols;
  }
}

Addresses add_arrays(const CsrMatrix& a, const Plan& plan, const Shape& shape, std::int64_t n,
                     std::int64_t cleared, AddressSpace& memory) {
  const auto slots = static_cast<std::int64_t>(plan.split_of_slot.size());
  return {.pieces = memory.add("pieces", 16 * static_cast<std::int64_t>(plan.pieces.size())),
          .shares = memory.add("shares", 4 * static_cast<std::int64_t>(plan.shares.size())),
          .col_indices = memory.add("col_indices", 4 * a.nnz()),
          .values = memory.add("values", 4 * a.nnz()),
          .b = memory.add("b", 4 * n * a.cols),
          .c = memory.add("c", 4 * n * a.rows),
          .slots = memory.add("slots", 4 * slots * shape.chunks(n) * shape.columns()),
          .cleared = memory.add("cleared", 4 * cleared)};
}

}  // namespace

void describe_launches(const CsrMatrix& a, std::shared_ptr<const Plan> plan, const Method& method,
                       std::int64_t n, WorkDescription& work) {
  const Shape shape = method.shape(a, n);
  std::vector<std::uint32_t> cleared = plan->cleared(method.atomic);
  const auto rows = static_cast<std::int64_t>(cleared.size());
  const std::int64_t clearings = clearing_blocks(rows);
  const Addresses at = add_arrays(a, *plan, shape, n, rows, work.memory);
  if (rows > 0) {
    for (std::int64_t row = 0; row < rows; row += kClearRows) {
      const std::int64_t count = std::min<std::int64_t>(kClearRows, rows - row);
      work.thread_blocks.push_back({.a_bytes = 4 * count, .c_bytes = 4 * n * count});
    }
    work.launches.push_back({.name = "clear",
                             .thread_blocks = clearings,
                             .threads_per_block = kClearThreads,
                             .registers_per_thread = kClearRegisters,
                             .trace = std::make_shared<ClearTrace>(std::move(cleared), n, at)});
  }
  const std::int64_t blocks = shape.blocks_of_units(*plan);
  const auto trace = std::make_shared<PiecesTrace>(a, plan, shape, method.atomic, n, at);
  work.thread_blocks.resize(static_cast<std::size_t>(clearings + blocks * shape.chunks(n)));
  for (std::int64_t chunk = 0; chunk < shape.chunks(n); ++chunk)
    for (std::int64_t unit = 0; unit < plan->num_units(); ++unit)
      add_unit(*plan, unit, method.atomic,
               std::min<std::int64_t>(shape.columns(), n - chunk * shape.columns()),
               work.thread_blocks[clearings + chunk * blocks + unit / shape.units_per_block()]);
  for (std::int64_t block = 0; block < blocks * shape.chunks(n); ++block)
    for (int warp = 0; warp < shape.warps; ++warp)
      work.thread_blocks[clearings + block].b_bytes += trace->b_bytes(block, warp);
  work.launches.push_back({.name = "multiply",
                           .thread_blocks = blocks * shape.chunks(n),
                           .threads_per_block = 32 * shape.warps,
                           .registers_per_thread = registers(shape),
                           .shared_bytes = shared_bytes(shape),
                           .trace = trace});
}

}  // namespace tessera::row_pieces
