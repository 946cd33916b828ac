// The parts that the warp traces of tsparse's launches share: the listed product, the addresses of
// its arrays, and the loads and stores of tasks and tiles.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/spgemm/tsparse/schedule.hpp"
#include "kernels/spgemm/tsparse/tsparse.hpp"
#include "kernels/warp_trace.hpp"

namespace tessera::tsparse {

constexpr int kTileBytes = sizeof(Tile), kTaskBytes = sizeof(TileTask);
constexpr int kHeadBoard = 0, kTaskBoard = 1, kDataBoard = 2;

struct ArrayAddresses {
  std::uint64_t tasks, heads, keys, a_rows, a_tiles, a_values, b_tiles, b_values, tile_row,
      tile_col, bitmap, first_value, values, kept;
};

/// Instructions that store a tile of C, counted in PTX, CUDA 13.0.
struct CountedStore {
  static constexpr int kStore = 32, kKeep = 20;
};

/// The sorted tasks, and the tiles of C that they make.
struct ListedProduct {
  TileOperand a, b;
  std::vector<TileTask> tasks = {};
  std::vector<std::uint32_t> heads = {};       // [tiles + 1]
  std::vector<std::uint64_t> bitmap = {};      // [tiles]
  std::vector<std::int64_t> first_value = {};  // [tiles + 1]

  std::int64_t tiles() const { return std::ssize(bitmap); }
  std::int64_t tasks_of(std::int64_t tile) const {
    return tile < tiles() ? heads[tile + 1] - heads[tile] : 0;
  }
  std::int64_t most_tasks(std::int64_t first, int count) const {
    std::int64_t most = 0;
    for (std::int64_t tile = first; tile < first + count; ++tile)
      most = std::max(most, tasks_of(tile));
    return most;
  }
};

/// Steps that the launches share: a warp goes through the tasks of some tiles of C side by side.
class TilesTrace : public LaunchTrace {
 public:
  TilesTrace(std::shared_ptr<const ListedProduct> product, const ArrayAddresses& at)
      : product_(std::move(product)), at_(at) {}

 protected:
  void touch_each(std::uint64_t array, std::int64_t first, std::int64_t count, int bytes,
                  WarpTrace& trace) const {
    trace.touch(array + static_cast<std::uint64_t>(bytes * first), bytes * count);
  }

  /// Loads where the tasks of the tiles [first, last) begin and end.
  void load_heads(std::int64_t first, std::int64_t last, WarpTrace& trace) const {
    trace.load(kHeadBoard);
    touch_each(at_.heads, first, last - first, 4, trace);
    if (const std::int64_t next = std::min(last + 1, product_->tiles()); next > first + 1) {
      trace.load(kHeadBoard);
      touch_each(at_.heads, first + 1, next - first - 1, 4, trace);
    }
    trace.wait(kHeadBoard);
  }

  /// Calls visit(task) for the tasks [begin, begin + most) of each of the tiles [first, last).
  template <class Visit>
  void for_tasks(std::int64_t first, std::int64_t last, std::int64_t begin, std::int64_t most,
                 Visit visit) const {
    for (std::int64_t tile = first; tile < last; ++tile)
      for (std::int64_t i = begin; i < std::min(begin + most, product_->tasks_of(tile)); ++i)
        visit(product_->tasks[product_->heads[tile] + i]);
  }

  /// Loads those of a tile's values that are in these cells, a value to a lane.
  void load_cells(const Tile& tile, std::uint64_t cells, std::uint64_t array, int bytes,
                  WarpTrace& trace) const {
    if ((tile.bitmap & cells) == 0) return;
    trace.load(kDataBoard);
    for (std::uint64_t rest = tile.bitmap & cells; rest != 0; rest &= rest - 1) {
      const int bit = std::countr_zero(rest);
      const int before = std::popcount(tile.bitmap & ((std::uint64_t{1} << bit) - 1));
      trace.touch(element(array, std::int64_t{tile.first_value} + before, bytes), bytes);
    }
  }
  /// Loads the values of a tile, at most two for each lane: those in even cells, then in odd ones.
  void load_values(const Tile& tile, std::uint64_t array, int bytes, WarpTrace& trace) const {
    constexpr std::uint64_t kEven = 0x5555555555555555u;
    load_cells(tile, kEven, array, bytes, trace);
    load_cells(tile, ~kEven, array, bytes, trace);
  }

  /// Loads a batch of tasks, then `bytes` of each of their tiles.
  void load_batch(std::int64_t first, std::int64_t last, std::int64_t begin, int most, int bytes,
                  WarpTrace& trace) const {
    trace.load(kTaskBoard);
    for (std::int64_t tile = first; tile < last; ++tile) {
      const std::int64_t count = std::min<std::int64_t>(most, product_->tasks_of(tile) - begin);
      if (count > 0) touch_each(at_.tasks, product_->heads[tile] + begin, count, kTaskBytes, trace);
    }
    trace.wait(kTaskBoard);
    for (int offset = 0; offset < kTileBytes / 2 * (bytes == kTileBytes ? 2 : 1); offset += 8) {
      trace.load(kDataBoard);
      for_tasks(first, last, begin, most, [&](const TileTask& task) {
        trace.touch(at_.a_tiles + kTileBytes * std::uint64_t{task.a} + offset, 8);
      });
      trace.load(kDataBoard);
      for_tasks(first, last, begin, most, [&](const TileTask& task) {
        trace.touch(at_.b_tiles + kTileBytes * std::uint64_t{task.b} + offset, 8);
      });
    }
    trace.wait(kDataBoard);
  }

  /// Stores the cells of a tile of C, two for each lane, and which of them are not zero.
  void store_tile(std::int64_t tile, bool drops_zeros, WarpTrace& trace) const {
    trace.issue(CountedStore::kStore);
    if (tile >= product_->tiles()) return;
    load_place(tile, trace);
    // A lane has two cells: two instructions share the sectors.
    trace.store(2);
    const std::int64_t begin = product_->first_value[tile];
    touch_each(at_.values, begin, product_->first_value[tile + 1] - begin, 4, trace);
    if (!drops_zeros) return;
    trace.issue(CountedStore::kKeep);
    trace.shared(2);
    trace.store();
    touch_each(at_.kept, tile, 1, 8, trace);
  }
  /// Loads the bitmap and the place of a tile of C.
  void load_place(std::int64_t tile, WarpTrace& trace) const {
    trace.load(kHeadBoard);
    touch_each(at_.bitmap, tile, 1, 8, trace);
    trace.load(kHeadBoard);
    touch_each(at_.first_value, tile, 1, 8, trace);
    trace.wait(kHeadBoard);
  }

  std::shared_ptr<const ListedProduct> product_;
  ArrayAddresses at_;
};

/// The traces of count_pairs() and multiply_pairs().
std::shared_ptr<const LaunchTrace> make_count_pairs_trace(
    std::shared_ptr<const ListedProduct> product, const ArrayAddresses& at,
    const TsparseOptions& options);
std::shared_ptr<const LaunchTrace> make_multiply_pairs_trace(
    std::shared_ptr<const ListedProduct> product, const ArrayAddresses& at,
    const TsparseOptions& options);

/// Registers of count_pairs() and multiply_pairs(), in machine code for sm_90a, CUDA 13.0.
constexpr int kCountPairsRegisters[] = {32, 46};     // [on tensor cores]
constexpr int kMultiplyPairsRegisters[] = {32, 54};  // [on tensor cores]

}  // namespace tessera::tsparse
