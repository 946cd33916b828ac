// The warps of fill_tiles().

#include <algorithm>
#include <array>

#include "formats/base/check.hpp"
#include "kernels/device/shared_banks.hpp"
#include "kernels/spgemm/tile/warps.hpp"

namespace tessera::tile_spgemm::tracing {

namespace {

using Counted = CountedFillTiles;

constexpr int kLoadBoard = 0, kValueBoard = 1;
constexpr std::int64_t kAhead = FillTiles::kAhead;

/// A tile row and the columns that its thread block has slots for.
struct Row {
  Row(const TiledMatrix& matrix, std::int64_t thread_block)
      : number(FillTiles::item_of(thread_block)),
        begin(matrix.rows[number].begin),
        count(matrix.rows[number].count) {
    const CsrMatrix& csr = matrix.csr;
    first_row = number * kSide;
    end_row = std::min<std::int64_t>(first_row + kSide, csr.rows);
    end = csr.row_offsets[end_row];
    if (count == 0) return;
    first_col = slot_begin(matrix.tiles[begin].col);
    cols = matrix.tiles[begin + count - 1].col + 1 - first_col;
  }

  std::int64_t slots() const { return slots_of(cols); }
  std::int64_t slot_of(const Tile& tile) const { return (tile.col - first_col) / kColsOfSlot; }

  std::int64_t number, first_row, end_row;
  std::int64_t begin, end;  // nonzeros
  std::int64_t count;       // tiles
  std::int32_t first_col = 0, cols = 0;
};

class FillTrace final : public LaunchTrace {
 public:
  FillTrace(std::shared_ptr<const ProductAnalysis> product, const TiledMatrix& matrix,
            const MatrixAddresses& at, ValueOrders orders)
      : product_(std::move(product)), matrix_(matrix), at_(at), orders_(orders) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const Row row(matrix_, thread_block);
    Warp w{trace, warp};
    if (cursor.part == 0) {
      begin(row, w);
      if (row.count == 0) return end(row, w);
      mark(row, w);
      ++cursor.part;
      return true;
    }
    if (cursor.part == 1) {
      rank(row, w);
      ++cursor.part;
      return true;
    }
    // Two pieces for each batch of tiles: its bitmaps, its values.
    const std::int64_t first = cursor.step / 2 * kTilesGathered;
    if (cursor.step % 2 == 0)
      gather(row, first, w);
    else
      place(row, first, w);
    ++cursor.step;
    if (cursor.step / 2 * kTilesGathered < row.count) return true;
    return end(row, w);
  }

 private:
  bool scales() const { return product_->arithmetic == TileArithmetic::kFp16; }

  std::int64_t slot_of(const Row& row, std::int64_t nonzero) const {
    return row.slot_of(matrix_.tiles[row.begin + matrix_.tile_of[nonzero]]);
  }

  /// Finds where the rows begin, and their first and last columns.
  void begin(const Row& row, Warp& w) const {
    w.trace.pause(kSpecialRegisterCycles);
    if (scales()) {
      w.issue(Counted::kScale);
      w.load_and_wait(kLoadBoard, at_.largest, 4);
    }
    w.issue(Counted::kBegin);
    const CsrMatrix& csr = matrix_.csr;
    const auto offset = [&](std::int64_t at) { return element(at_.offsets, at, 8); };
    for (int i = 0; i < 2; ++i)
      w.load(kLoadBoard, offset(row.first_row), 8 * (row.end_row - row.first_row + 1));
    w.wait(kLoadBoard);
    for (const bool is_last : {true, false}) {
      w.trace.load(kLoadBoard);
      for (std::int64_t i = row.first_row; i < row.end_row; ++i)
        if (csr.row_offsets[i] < csr.row_offsets[i + 1])
          w.trace.touch(
              element(at_.cols, is_last ? csr.row_offsets[i + 1] - 1 : csr.row_offsets[i], 4), 4);
    }
    if (row.count > 0) w.wait(kLoadBoard);
    w.load_and_wait(kLoadBoard, offset(row.first_row), 4);
    if (row.count == 0) return;
    for (std::int64_t i = 1; i <= kSide; ++i)
      w.load(kLoadBoard, offset(std::min<std::int64_t>(row.first_row + i, csr.rows)), 4);
    w.issue(Counted::kRowBegins);
    w.wait(kLoadBoard);
  }

  bool end(const Row& row, Warp& w) const {
    w.issue(Counted::kEnd);
    if (w.number == 0) w.store(at_.row(row.number), kTileRowBytes);
    return false;
  }

  /// Calls visit(first, end) for the nonzeros that the warp's lanes take at a time, whose columns
  /// are loaded.
  template <class Visit>
  void each(const Row& row, Warp& w, Visit visit) const {
    for (std::int64_t at = row.begin + w.first_thread(); at < row.end; at += kAhead * kThreads) {
      const auto end_of = [&](std::int64_t first) { return std::min(first + kWarpSize, row.end); };
      w.issue(Counted::kRound);
      for (std::int64_t first = at; first < at + kAhead * kThreads; first += kThreads)
        if (first < row.end)
          w.load(kLoadBoard, element(at_.cols, first, 4), 4 * (end_of(first) - first));
        else
          w.issue(Counted::kNoLoad);
      w.wait(kLoadBoard);
      for (std::int64_t first = at; first < at + kAhead * kThreads; first += kThreads) {
        w.issue(first < row.end ? Counted::kNonzero : Counted::kNoNonzero);
        if (first < row.end) visit(first, end_of(first));
      }
    }
  }

  /// Marks tile columns. Lanes that look at a tile's slot at once all find its mark missing.
  void mark(const Row& row, Warp& w) const {
    w.clear(row.slots());
    w.barrier();
    each(row, w, [&](std::int64_t first, std::int64_t end) {
      Banks read(8), marked(8);
      for (std::int64_t k = first; k < end; ++k) {
        read.add(slot_of(row, k));
        const std::int64_t earliest = matrix_.first_nonzero[row.begin + matrix_.tile_of[k]];
        if ((k - row.begin) / kThreads <= (earliest - row.begin) / kThreads)
          marked.add(slot_of(row, k));
      }
      w.issue(Counted::kMark);
      w.shared(read.wavefronts());
      if (!marked.is_empty()) w.shared(marked.turns());
    });
    w.barrier();
  }

  /// Ranks the slots and stores the columns of tiles, those of a slot one after another.
  void rank(const Row& row, Warp& w) const {
    for (std::int64_t round = 0; round < rounds<std::int64_t>(row.slots(), kThreads); ++round) {
      w.issue(Counted::kRank);
      w.shared(2);
      w.prefix_sum();
      w.shared(2);
      const std::int64_t first_slot = round * kThreads + w.first_thread();
      std::array<std::vector<std::int64_t>, kColsOfSlot> turns;
      std::array<int, kWarpSize> of_slot{};
      for (std::int64_t i = row.begin; i < row.begin + row.count; ++i) {
        const std::int64_t slot = row.slot_of(matrix_.tiles[i]) - first_slot;
        if (slot >= 0 && slot < kWarpSize) turns[of_slot[slot]++].push_back(i);
      }
      for (const auto& turn : turns) {
        if (turn.empty()) break;
        w.issue(Counted::kColumn);
        w.trace.store();
        for (const std::int64_t i : turn) w.trace.touch(at_.col_of_tile(i), 4);
      }
    }
  }

  /// Gathers the bitmaps of a batch of tiles and finds where their values begin.
  void gather(const Row& row, std::int64_t batch, Warp& w) const {
    const std::int64_t size = std::min<std::int64_t>(row.count - batch, kTilesGathered);
    w.issue(Counted::kBatch);
    w.clear(size);
    w.barrier();
    const std::int64_t middle = std::min<std::int64_t>(row.first_row + kSide / 2, matrix_.csr.rows);
    each_of_batch(row, batch, size, w, [&](const std::vector<std::int64_t>& nonzeros) {
      Banks halves;
      for (const std::int64_t k : nonzeros)
        halves.add(2 * (matrix_.tile_of[k] - batch) +
                   (k < matrix_.csr.row_offsets[middle] ? 0 : 1));
      w.issue(Counted::kBit);
      w.shared(halves.turns());
    });
    w.barrier();
    for (std::int64_t first = 0; first < size; first += kThreads) {
      w.issue(Counted::kFirstValue);
      w.shared(2);
      w.prefix_sum();
      const std::int64_t own = first + w.first_thread();
      if (own >= size) continue;
      w.shared(1);
      for (const auto& [from, bytes] : {std::pair{0u, 8}, std::pair{8u, 4}}) {
        w.trace.store();
        for (std::int64_t i = own; i < std::min(own + kWarpSize, size); ++i)
          w.trace.touch(at_.tile(row.begin + batch + i) + from, bytes);
      }
    }
    w.barrier();
  }

  /// Calls visit(nonzeros in the batch's tiles) for what the warp's lanes take at a time.
  template <class Visit>
  void each_of_batch(const Row& row, std::int64_t batch, std::int64_t size, Warp& w,
                     Visit visit) const {
    std::vector<std::int64_t> nonzeros;
    each(row, w, [&](std::int64_t first, std::int64_t end) {
      Banks slots(8);
      nonzeros.clear();
      for (std::int64_t k = first; k < end; ++k) {
        slots.add(slot_of(row, k));
        const std::int64_t tile = matrix_.tile_of[k] - batch;
        if (tile >= 0 && tile < size) nonzeros.push_back(k);
      }
      w.issue(Counted::kFind);
      w.shared(slots.wavefronts());
      if (!nonzeros.empty()) visit(nonzeros);
    });
  }

  /// Places the values of a batch of tiles.
  void place(const Row& row, std::int64_t batch, Warp& w) const {
    const std::int64_t size = std::min<std::int64_t>(row.count - batch, kTilesGathered);
    const int bytes = value_bytes(product_->arithmetic);
    each_of_batch(row, batch, size, w, [&](const std::vector<std::int64_t>& nonzeros) {
      Banks bitmaps(8), firsts;
      w.trace.load(kValueBoard);
      for (const std::int64_t k : nonzeros) {
        w.trace.touch(element(at_.values, k, 4), 4);
        bitmaps.add(matrix_.tile_of[k] - batch);
        firsts.add(matrix_.tile_of[k] - batch);
      }
      w.issue(Counted::kValue + (scales() ? Counted::kScaledValue : 0));
      w.shared(bitmaps.wavefronts());
      w.shared(firsts.wavefronts());
      w.wait(kValueBoard);
      const auto store = [&](std::uint64_t array, const std::vector<std::uint32_t>& index) {
        w.trace.store();
        for (const std::int64_t k : nonzeros) w.trace.touch(element(array, index[k], bytes), bytes);
      };
      if (orders_.by_rows) store(at_.by_rows, matrix_.by_rows);
      if (orders_.by_rows && orders_.by_cols) w.issue(Counted::kSecondOrder);
      if (orders_.by_cols) store(at_.by_cols, matrix_.by_cols);
    });
    w.barrier();
  }

  std::shared_ptr<const ProductAnalysis> product_;
  const TiledMatrix& matrix_;
  MatrixAddresses at_;
  ValueOrders orders_;
};

}  // namespace

std::shared_ptr<const LaunchTrace> trace_fill_tiles(std::shared_ptr<const ProductAnalysis> product,
                                                    const TiledMatrix& matrix,
                                                    const MatrixAddresses& at, ValueOrders orders) {
  for (std::int64_t i = 0; i < matrix.tile_rows(); ++i)
    require<Unsupported>(Row(matrix, i).cols <= kColsGathered,
                         "a tile row spans {} tile columns; the work of tile_spgemm is described "
                         "only up to {}, which it gathers at once",
                         Row(matrix, i).cols, kColsGathered);
  return std::make_shared<FillTrace>(std::move(product), matrix, at, orders);
}

std::int64_t barriers_of_filling(const TiledMatrix& matrix, std::int64_t tile_row) {
  const Row row(matrix, tile_row);
  if (row.count == 0) return 0;
  const auto scans_of = [](std::int64_t items) {
    return Warp::kPrefixSumBarriers * rounds<std::int64_t>(items, kThreads);
  };
  std::int64_t barriers = 2 + scans_of(row.slots());
  for (std::int64_t batch = 0; batch < row.count; batch += kTilesGathered)
    barriers += 4 + scans_of(std::min<std::int64_t>(row.count - batch, kTilesGathered));
  return barriers;
}

}  // namespace tessera::tile_spgemm::tracing
