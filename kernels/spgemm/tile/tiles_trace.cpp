// Instruction counts are those of the machine code for sm_90a (CUDA 13.0).

#include "kernels/spgemm/tile/tiles_trace.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "formats/base/check.hpp"
#include "kernels/device/shared_banks.hpp"

namespace tessera::tile_spgemm::tracing {

namespace {

/// Instructions beside those that the trace tells one by one: accesses to memory, shuffles,
/// barriers.
constexpr int kClearInstructions = 24, kClearRoundInstructions = 3;
constexpr int kBeforeInstructions = 27;
constexpr int kBeginInstructions = 142, kLoadRowInstructions = 21, kEndInstructions = 8;
/// Going to the thread's next four nonzeros; one of them, where there is one.
constexpr int kFourInstructions = 22, kOneInstructions = 9;
constexpr int kMarkInstructions = 11, kRankInstructions = 24, kColInstructions = 9;
constexpr int kBatchInstructions = 20, kBitInstructions = 43, kFirstInstructions = 29;
constexpr int kPlaceInstructions = 15, kValueInstructions = 46, kOtherValueInstructions = 24;
constexpr int kScaleInstructions = 37, kScaledValueInstructions = 6;
constexpr int kLoadBoard = 0, kValueBoard = 1;
constexpr int kStep = kThreads, kAhead = 4;

std::int64_t slots_of(std::int64_t cols) { return (cols + kColsOfSlot - 1) / kColsOfSlot; }

/// The tile columns that a thread block has slots for.
std::int64_t cols_of(const TiledMatrix& matrix, const TileRow& row) {
  if (row.count == 0) return 0;
  const std::int32_t first = matrix.tiles[row.begin].col / kColsOfSlot * kColsOfSlot;
  return matrix.tiles[row.begin + static_cast<std::uint32_t>(row.count) - 1].col + 1 - first;
}

std::int64_t rounds_of(std::int64_t lanes) { return (lanes + kThreads - 1) / kThreads; }

class FillTrace final : public LaunchTrace {
 public:
  FillTrace(std::shared_ptr<const Product> product, const TiledMatrix& matrix,
            const MatrixAddresses& at, Sides sides)
      : product_(std::move(product)), matrix_(matrix), at_(at), sides_(sides) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const Row row(matrix_, thread_block);
    if (cursor.part == 0) {
      begin(thread_block, trace);
      if (row.count == 0) return end(thread_block, warp, trace);
      mark(row, warp, trace);
      ++cursor.part;
      return true;
    }
    if (cursor.part == 1) {
      rank(row, warp, trace);
      ++cursor.part;
      return true;
    }
    // Two pieces for each batch of tiles: its bitmaps, its values.
    const std::int64_t first = cursor.step / 2 * kTilesGathered;
    if (cursor.step % 2 == 0)
      gather(row, first, warp, trace);
    else
      place(row, first, warp, trace);
    ++cursor.step;
    if (cursor.step / 2 * kTilesGathered < row.count) return true;
    return end(thread_block, warp, trace);
  }

 private:
  struct Row {
    Row(const TiledMatrix& matrix, std::int64_t tile_row) {
      const CsrMatrix& csr = matrix.csr;
      const TileRow& row = matrix.rows[static_cast<std::size_t>(tile_row)];
      first_row = tile_row * kSide;
      begin = row.begin;
      count = row.count;
      end = csr.row_offsets[std::min<std::int64_t>((tile_row + 1) * kSide, csr.rows)];
      cols = cols_of(matrix, row);
      first_col = count == 0 ? 0 : matrix.tiles[row.begin].col / kColsOfSlot * kColsOfSlot;
    }
    std::int64_t first_row;
    std::int64_t begin, end;  // nonzeros
    std::int64_t count, cols;
    std::int32_t first_col;
  };

  bool scales() const { return product_->numbers == TileArithmetic::kFp16; }

  const Tile& tile_of(const Row& row, std::int64_t nonzero) const {
    return matrix_.tiles[static_cast<std::size_t>(row.begin + matrix_.tile_of[nonzero])];
  }
  std::int64_t slot_of(const Row& row, std::int64_t nonzero) const {
    return (tile_of(row, nonzero).col - row.first_col) / kColsOfSlot;
  }

  /// Where the rows begin, which columns are the first and the last.
  void begin(std::int64_t tile_row, WarpTrace& trace) const {
    trace.pause(kSpecialRegisterCycles);
    if (scales()) {
      trace.issue(kScaleInstructions);
      trace.load(kLoadBoard);
      trace.touch(at_.largest, 4);
      trace.wait(kLoadBoard);
    }
    trace.issue(kBeginInstructions);
    const CsrMatrix& csr = matrix_.csr;
    const std::int64_t first = tile_row * kSide;
    const std::int64_t rows = std::min<std::int64_t>(kSide, csr.rows - first);
    for (int i = 0; i < 2; ++i) {
      trace.load(kLoadBoard);
      trace.touch(element(at_.offsets, first, 8), 8 * (rows + 1));
    }
    trace.wait(kLoadBoard);
    bool any = false;
    for (const bool is_last : {true, false}) {
      trace.load(kLoadBoard);
      for (std::int64_t row = first; row < first + rows; ++row) {
        if (csr.row_length(static_cast<std::int32_t>(row)) == 0) continue;
        trace.touch(
            element(at_.cols, is_last ? csr.row_offsets[row + 1] - 1 : csr.row_offsets[row], 4), 4);
        any = true;
      }
    }
    if (any) trace.wait(kLoadBoard);
    trace.load(kLoadBoard);
    trace.touch(element(at_.offsets, first, 8), 4);
    trace.wait(kLoadBoard);
    if (!any) return;
    for (std::int64_t row = 1; row <= kSide; ++row) {
      trace.load(kLoadBoard);
      trace.touch(element(at_.offsets, std::min<std::int64_t>(first + row, csr.rows), 8), 4);
    }
    trace.issue(kLoadRowInstructions);
    trace.wait(kLoadBoard);
  }

  bool end(std::int64_t tile_row, int warp, WarpTrace& trace) const {
    trace.issue(kEndInstructions);
    if (warp == 0) {
      trace.store();
      trace.touch(element(at_.rows, tile_row, kTileRowBytes), kTileRowBytes);
    }
    return false;
  }

  /// Calls visit(first, count) for what the warp's lanes take at a time; columns are loaded.
  template <class Visit>
  void each(const Row& row, int warp, WarpTrace& trace, Visit visit) const {
    for (std::int64_t at = row.begin + 32 * warp; at < row.end; at += kAhead * kStep) {
      trace.issue(kFourInstructions);
      for (std::int64_t first = at; first < at + kAhead * kStep; first += kStep) {
        if (first >= row.end) {
          trace.issue(1);
          continue;
        }
        trace.load(kLoadBoard);
        trace.touch(element(at_.cols, first, 4), 4 * std::min<std::int64_t>(32, row.end - first));
      }
      trace.wait(kLoadBoard);
      for (std::int64_t first = at; first < at + kAhead * kStep; first += kStep) {
        trace.issue(first < row.end ? kOneInstructions : 4);
        if (first < row.end) visit(first, std::min<std::int64_t>(32, row.end - first));
      }
    }
  }

  /// Lanes that come at once all find a tile's first mark missing.
  void mark(const Row& row, int warp, WarpTrace& trace) const {
    SlotTrace::clear(slots_of(row.cols), warp, trace);
    trace.barrier();
    each(row, warp, trace, [&](std::int64_t first, std::int64_t count) {
      Banks looked(8), marked(8);
      for (std::int64_t k = first; k < first + count; ++k) {
        looked.add(slot_of(row, k));
        const std::int64_t earliest =
            matrix_.first_nonzero[static_cast<std::size_t>(row.begin + matrix_.tile_of[k])];
        if ((k - row.begin) / kStep <= (earliest - row.begin) / kStep) marked.add(slot_of(row, k));
      }
      trace.issue(kMarkInstructions);
      trace.shared(looked.wavefronts());
      if (!marked.is_empty()) trace.shared(marked.turns());
    });
    trace.barrier();
  }

  /// Ranks of slots; columns of tiles, a slot's one after another.
  void rank(const Row& row, int warp, WarpTrace& trace) const {
    for (std::int64_t round = 0; round < rounds_of(slots_of(row.cols)); ++round) {
      trace.issue(kRankInstructions);
      trace.shared(2);
      SlotTrace::before(trace);
      trace.shared(2);
      const std::int64_t first_slot = round * kThreads + 32 * warp;
      std::array<std::vector<std::int64_t>, kColsOfSlot> turns;
      std::array<int, 32> of_slot{};
      for (std::int64_t i = 0; i < row.count; ++i) {
        const std::int64_t slot =
            (matrix_.tiles[static_cast<std::size_t>(row.begin + i)].col - row.first_col) /
                kColsOfSlot -
            first_slot;
        if (slot < 0 || slot >= 32) continue;
        turns[static_cast<std::size_t>(of_slot[static_cast<std::size_t>(slot)]++)].push_back(i);
      }
      for (const auto& turn : turns) {
        if (turn.empty()) break;
        trace.issue(kColInstructions);
        trace.store();
        for (const std::int64_t i : turn)
          trace.touch(element(at_.tiles, row.begin + i, kTileBytes) + 12, 4);
      }
    }
  }

  /// A batch's bitmaps from bits, and where its values begin.
  void gather(const Row& row, std::int64_t batch, int warp, WarpTrace& trace) const {
    const std::int64_t size = std::min<std::int64_t>(row.count - batch, kTilesGathered);
    trace.issue(kBatchInstructions);
    SlotTrace::clear(size, warp, trace);
    trace.barrier();
    each_of_these(row, batch, size, warp, trace, [&](const std::vector<std::int64_t>& nonzeros) {
      Banks halves;
      for (const std::int64_t k : nonzeros) halves.add(half_of(row, k, batch));
      trace.issue(kBitInstructions - kPlaceInstructions);
      trace.shared(halves.turns());
    });
    trace.barrier();
    for (std::int64_t first = 0; first < size; first += kThreads) {
      trace.issue(kFirstInstructions);
      trace.shared(2);
      SlotTrace::before(trace);
      const std::int64_t own = first + 32 * warp, count = std::min<std::int64_t>(32, size - own);
      if (count <= 0) continue;
      trace.shared(1);
      for (const auto& [from, bytes] : {std::pair{0, 8}, std::pair{8, 4}}) {
        trace.store();
        for (std::int64_t i = batch + own; i < batch + own + count; ++i)
          trace.touch(element(at_.tiles, row.begin + i, kTileBytes) + static_cast<unsigned>(from),
                      bytes);
      }
    }
    trace.barrier();
  }

  std::int64_t half_of(const Row& row, std::int64_t nonzero, std::int64_t batch) const {
    const CsrMatrix& csr = matrix_.csr;
    const std::int64_t middle = std::min<std::int64_t>(row.first_row + kSide / 2, csr.rows);
    const int half = nonzero < csr.row_offsets[middle] ? 0 : 1;
    return 2 * (matrix_.tile_of[nonzero] - batch) + half;
  }

  /// Calls visit(nonzeros of the batch's tiles) for what the warp's lanes take at a time.
  template <class Visit>
  void each_of_these(const Row& row, std::int64_t batch, std::int64_t size, int warp,
                     WarpTrace& trace, Visit visit) const {
    std::vector<std::int64_t> nonzeros;
    each(row, warp, trace, [&](std::int64_t first, std::int64_t count) {
      Banks slots(8);
      nonzeros.clear();
      for (std::int64_t k = first; k < first + count; ++k) {
        slots.add(slot_of(row, k));
        const std::int64_t tile = matrix_.tile_of[k] - batch;
        if (tile >= 0 && tile < size) nonzeros.push_back(k);
      }
      trace.issue(kPlaceInstructions);
      trace.shared(slots.wavefronts());
      if (!nonzeros.empty()) visit(nonzeros);
    });
  }

  /// A batch's values.
  void place(const Row& row, std::int64_t batch, int warp, WarpTrace& trace) const {
    const std::int64_t size = std::min<std::int64_t>(row.count - batch, kTilesGathered);
    const int bytes = scales() ? 2 : 4;
    each_of_these(row, batch, size, warp, trace, [&](const std::vector<std::int64_t>& nonzeros) {
      Banks bitmaps(8), firsts;
      trace.load(kValueBoard);
      for (const std::int64_t k : nonzeros) {
        trace.touch(element(at_.values, k, 4), 4);
        bitmaps.add(matrix_.tile_of[k] - batch);
        firsts.add(matrix_.tile_of[k] - batch);
      }
      trace.issue(kValueInstructions + (scales() ? kScaledValueInstructions : 0));
      trace.shared(bitmaps.wavefronts());
      trace.shared(firsts.wavefronts());
      trace.wait(kValueBoard);
      const auto store = [&](std::uint64_t array, const std::vector<std::uint32_t>& places) {
        trace.store();
        for (const std::int64_t k : nonzeros)
          trace.touch(element(array, places[static_cast<std::size_t>(k)], bytes), bytes);
      };
      if (sides_.by_rows) store(at_.by_rows, matrix_.by_rows);
      if (sides_.by_rows && sides_.by_cols) trace.issue(kOtherValueInstructions);
      if (sides_.by_cols) store(at_.by_cols, matrix_.by_cols);
    });
    trace.barrier();
  }

  std::shared_ptr<const Product> product_;
  const TiledMatrix& matrix_;
  MatrixAddresses at_;
  Sides sides_;
};

}  // namespace

void SlotTrace::clear(std::int64_t words, int warp, WarpTrace& trace) {
  trace.issue(kClearInstructions);
  for (std::int64_t at = 32 * warp; at < words; at += kThreads) {
    trace.issue(kClearRoundInstructions);
    trace.shared(words - at > 16 ? 2 : 1);
  }
}

void SlotTrace::before(WarpTrace& trace) {
  trace.issue(kBeforeInstructions);
  for (int step = 1; step <= 32; step *= 2) trace.shared(1);
  trace.shared(1);
  trace.barrier();
  trace.shared(1);
  trace.barrier();
}

std::shared_ptr<const LaunchTrace> trace_filling(std::shared_ptr<const Product> product,
                                                 const TiledMatrix& matrix,
                                                 const MatrixAddresses& at, Sides sides) {
  for (const TileRow& row : matrix.rows)
    require<Unsupported>(cols_of(matrix, row) <= kColsGathered,
                         "a tile row spans {} columns of tiles; tile_spgemm describes its work for "
                         "those that it gathers at once, at most {}",
                         cols_of(matrix, row), kColsGathered);
  return std::make_shared<FillTrace>(std::move(product), matrix, at, sides);
}

std::int64_t barriers_of_filling(const TiledMatrix& matrix, std::int64_t tile_row) {
  const TileRow& row = matrix.rows[static_cast<std::size_t>(tile_row)];
  if (row.count == 0) return 0;
  std::int64_t barriers = 2 + 2 * rounds_of(slots_of(cols_of(matrix, row)));
  for (std::int64_t batch = 0; batch < row.count; batch += kTilesGathered)
    barriers += 4 + 2 * rounds_of(std::min<std::int64_t>(row.count - batch, kTilesGathered));
  return barriers;
}

std::int64_t bytes_of_filling(const TiledMatrix& matrix) {
  constexpr std::int64_t kOfTiles = 12 * kTilesGathered + 16;
  return kOfTiles + 8 * slots_of(std::min(tiles_across(matrix.csr.cols), kColsGathered));
}

}  // namespace tessera::tile_spgemm::tracing
