// The warps of count_pairs() and multiply_pairs(), in the order of the source. A warp on tensor
// cores goes through the tasks of both tiles of C; without them, two warps through those of one.
// The traces assume that no cell becomes zero.

#include <memory>
#include <utility>

#include "kernels/spgemm/tsparse/schedule.hpp"
#include "kernels/spgemm/tsparse/tiles_trace.hpp"

namespace tessera::tsparse {
namespace {

/// Instructions, counted in machine code for sm_90a, CUDA 13.0, without those that the trace has as
/// operations of their own.
struct Counted {
  int begin, step, finish;
};
constexpr Counted kCount[] = {{38, 31, 45}, {38, 57, 85}};      // [on tensor cores]
constexpr Counted kMultiply[] = {{40, 70, 52}, {38, 104, 16}};  // [on tensor cores]

constexpr int kStepsOfChunk = 4;
constexpr int kFloatBytes = 4;

class PairsTrace : public TilesTrace {
 public:
  PairsTrace(std::shared_ptr<const ListedProduct> product, const ArrayAddresses& at,
             const TsparseOptions& options, const Counted* counted)
      : TilesTrace(std::move(product), at),
        on_tensor_cores_(options.on_tensor_cores),
        counted_(counted[options.on_tensor_cores ? 1 : 0]) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor, WarpTrace& trace) const final {
    const Pair pair = pair_of(thread_block, warp);
    if (cursor.step == 0) {
      trace.issue(counted_.begin);
      trace.pause(kSpecialRegisterCycles);
      if (pair.tile < pair.last) load_heads(pair.tile, pair.last, trace);
    }
    const std::int64_t longest = product_->most_tasks(pair.tile, Pairs::kTiles);
    for (int i = 0; i < kStepsOfChunk && cursor.step < longest; ++i)
      add(pair, cursor.step++, trace);
    if (cursor.step < longest) return true;
    if (on_tensor_cores_ && longest > 0) trace.wait_mma();
    finish(pair, trace);
    return false;
  }

 protected:
  static constexpr int kWarpsOfTile = Pairs::kCells / kWarpSize;

  /// The tiles of C of a thread block, and those whose tasks the warp loads.
  struct Pair {
    std::int64_t tile, last;  // of the thread block, among the existing ones
    std::int64_t begin, end;  // of the warp
    int warp;
  };

  bool on_tensor_cores() const { return on_tensor_cores_; }
  const Counted& counted() const { return counted_; }

  /// Loads the operands of a warp's tasks beyond their bitmaps.
  virtual void load_operands(const Pair& pair, std::int64_t step, WarpTrace& trace) const = 0;
  virtual void finish(const Pair& pair, WarpTrace& trace) const = 0;

  /// Joins the bits of a tile's two warps.
  void join_tile(WarpTrace& trace) const {
    trace.barrier();
    trace.shared(1);
    trace.barrier();
    trace.shared(1);
  }

 private:
  static constexpr int kStoresOfStep = 2;  // of a cell of A and one of B
  static constexpr int kLoadsOfStep = 10;  // of a row of A, 16 bytes at a time, and a column of B

  Pair pair_of(std::int64_t thread_block, int warp) const {
    const std::int64_t tile = Pairs::item_of(thread_block), tiles = product_->tiles();
    const std::int64_t last = std::min(tile + Pairs::kTiles, tiles);
    if (on_tensor_cores_) return {tile, last, tile, last, warp};
    const std::int64_t own = tile + warp / kWarpsOfTile;
    return {tile, last, own, std::min(own + 1, tiles), warp};
  }

  void add(const Pair& pair, std::int64_t step, WarpTrace& trace) const {
    bool present = false;
    for_tasks(pair.begin, pair.end, step, 1, [&](const TileTask&) { present = true; });
    if (present) {
      trace.load(kTaskBoard);
      for (std::int64_t tile = pair.begin; tile < pair.end; ++tile)
        if (step < product_->tasks_of(tile))
          touch_each(at_.tasks, product_->heads[tile] + step, 1, kTaskBytes, trace);
      trace.wait(kTaskBoard);
      for_tasks(pair.begin, pair.end, step, 1, [&](const TileTask& task) {
        trace.load(kDataBoard);
        trace.touch(element(at_.a_tiles, task.a, kTileBytes), 8);
        trace.load(kDataBoard);
        trace.touch(element(at_.b_tiles, task.b, kTileBytes), 8);
      });
      load_operands(pair, step, trace);
      trace.wait(kDataBoard);
    }
    trace.issue(counted_.step);
    if (on_tensor_cores_) {
      trace.mma(Pairs::kMmas);
      return;
    }
    trace.barrier();
    trace.shared(kStoresOfStep);
    trace.barrier();
    if (present) trace.shared(kLoadsOfStep);
  }

  bool on_tensor_cores_;
  Counted counted_;
};

class CountPairsTrace final : public PairsTrace {
 public:
  CountPairsTrace(std::shared_ptr<const ListedProduct> product, const ArrayAddresses& at,
                  const TsparseOptions& options)
      : PairsTrace(std::move(product), at, options, kCount) {}

 private:
  void load_operands(const Pair&, std::int64_t, WarpTrace&) const override {}

  /// Every warp finds the cells of both tiles, and the first one stores them.
  void finish(const Pair& pair, WarpTrace& trace) const override {
    const std::int64_t tiles = product_->tiles();
    for (std::int64_t tile = pair.tile; tile < pair.tile + Pairs::kTiles; ++tile) {
      trace.issue(counted().finish);
      if (!on_tensor_cores()) join_tile(trace);
      if (pair.warp != 0 || tile > tiles) continue;
      trace.store();
      touch_each(at_.first_value, tile, 1, 8, trace);
      if (tile == tiles) continue;
      trace.load(kTaskBoard);
      touch_each(at_.tasks, product_->heads[tile], 1, kTaskBytes, trace);
      trace.wait(kTaskBoard);
      const TileTask task = product_->tasks[product_->heads[tile]];
      trace.load(kDataBoard);
      touch_each(at_.a_rows, task.a, 1, 4, trace);
      trace.load(kDataBoard);
      trace.touch(element(at_.b_tiles, task.b, kTileBytes) + 12, 4);
      trace.wait(kDataBoard);
      for (const std::uint64_t array : {at_.tile_row, at_.tile_col}) {
        trace.store();
        touch_each(array, tile, 1, 4, trace);
      }
      trace.store();
      touch_each(at_.bitmap, tile, 1, 8, trace);
    }
  }
};

class MultiplyPairsTrace final : public PairsTrace {
 public:
  MultiplyPairsTrace(std::shared_ptr<const ListedProduct> product, const ArrayAddresses& at,
                     const TsparseOptions& options)
      : PairsTrace(std::move(product), at, options, kMultiply), drops_zeros_(options.drops_zeros) {}

 private:
  /// Loads the places of the values, then the values: on tensor cores two neighbours for each lane,
  /// otherwise a cell of A and one of B, which is stored by columns.
  void load_operands(const Pair& pair, std::int64_t step, WarpTrace& trace) const override {
    for_tasks(pair.begin, pair.end, step, 1, [&](const TileTask& task) {
      trace.load(kDataBoard);
      trace.touch(element(at_.a_tiles, task.a, kTileBytes) + 8, 4);
      trace.load(kDataBoard);
      trace.touch(element(at_.b_tiles, task.b, kTileBytes) + 8, 4);
    });
    trace.wait(kDataBoard);
    for_tasks(pair.begin, pair.end, step, 1, [&](const TileTask& task) {
      const Tile &a = product_->a.tiles[task.a], &b = product_->b.tiles[task.b];
      if (on_tensor_cores()) {
        load_values(a, at_.a_values, kFloatBytes, trace);
        load_values(b, at_.b_values, kFloatBytes, trace);
        return;
      }
      const bool upper = pair.warp % kWarpsOfTile == 0;  // rows 0 to 3 of the tile
      constexpr std::uint64_t kRows = 0xffffffffu, kRowsOfB = 0x0f0f0f0f0f0f0f0fu;
      load_cells(a, upper ? kRows : ~kRows, at_.a_values, kFloatBytes, trace);
      load_cells(b, upper ? kRowsOfB : ~kRowsOfB, at_.b_values, kFloatBytes, trace);
    });
  }

  void finish(const Pair& pair, WarpTrace& trace) const override {
    trace.issue(counted().finish);
    if (on_tensor_cores()) {
      for (std::int64_t tile = pair.tile; tile < pair.tile + Pairs::kTiles; ++tile)
        store_tile(tile, drops_zeros_, trace);
      return;
    }
    const bool upper = pair.warp % kWarpsOfTile == 0;
    if (pair.begin < pair.end) store_rows(pair.begin, upper, trace);
    if (!drops_zeros_) return;
    join_tile(trace);
    if (!upper || pair.begin >= pair.end) return;
    trace.store();
    touch_each(at_.kept, pair.begin, 1, 8, trace);
  }

  /// Stores the cells in rows 0 to 3 of a tile of C, or those in rows 4 to 7, one for each lane.
  void store_rows(std::int64_t tile, bool upper, WarpTrace& trace) const {
    load_place(tile, trace);
    const std::int64_t begin = product_->first_value[tile];
    const int of_upper = std::popcount(product_->bitmap[tile] & 0xffffffffu);
    const std::int64_t from = upper ? begin : begin + of_upper;
    const std::int64_t to = upper ? begin + of_upper : product_->first_value[tile + 1];
    if (from == to) return;
    trace.store();
    touch_each(at_.values, from, to - from, kFloatBytes, trace);
  }

  bool drops_zeros_;
};

}  // namespace

std::shared_ptr<const LaunchTrace> make_count_pairs_trace(
    std::shared_ptr<const ListedProduct> product, const ArrayAddresses& at,
    const TsparseOptions& options) {
  return std::make_shared<CountPairsTrace>(std::move(product), at, options);
}

std::shared_ptr<const LaunchTrace> make_multiply_pairs_trace(
    std::shared_ptr<const ListedProduct> product, const ArrayAddresses& at,
    const TsparseOptions& options) {
  return std::make_shared<MultiplyPairsTrace>(std::move(product), at, options);
}

}  // namespace tessera::tsparse
