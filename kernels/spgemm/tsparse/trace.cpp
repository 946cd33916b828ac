// tsparse's warps, in the order of the source. The traces assume that the values of a step are
// loaded together, before its MMA, and that no cell becomes zero.

#include "kernels/spgemm/tsparse/trace.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "kernels/spgemm/tsparse/schedule.hpp"

namespace tessera::tsparse {
namespace {

constexpr int kTileBytes = sizeof(Tile), kTaskBytes = sizeof(TileTask), kHalfBytes = 2;
constexpr int kHeadBoard = 0, kTaskBoard = 1, kDataBoard = 2;

struct ArrayAddresses {
  std::uint64_t tasks, heads, keys, a_tiles, a_values, b_tiles, b_values, tile_row, tile_col,
      bitmap, first_value, values, kept;
};

/// Instructions of count_cells(), counted in PTX, CUDA 13.0; registers in machine code for sm_90a.
struct CountedCountCells {
  static constexpr int kRegisters = 32;
  static constexpr int kBegin = 35, kBatch = 28, kStep = 16, kShufflesOfStep = 4, kFinish = 50;
};

/// Instructions of multiply_tiles(), counted in PTX, CUDA 13.0; registers in machine code for
/// sm_90a.
struct CountedMultiplyTiles {
  static constexpr int kRegisters = 32;
  static constexpr int kBegin = 45, kBatch = 35, kStep = 75, kStore = 32, kKeep = 20;
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

ListedProduct list_tasks(const CsrMatrix& a, const CsrMatrix& b, const TsparseOptions& options) {
  ListedProduct product{.a = make_operand(a, Side::kA, options),
                        .b = make_operand(b, Side::kB, options)};
  std::vector<std::vector<TileTask>> of_rows(static_cast<std::size_t>(product.a.tile_rows));
  parallel_for(product.a.tile_rows, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      of_rows[static_cast<std::size_t>(row)] =
          sorted_tasks(product.a, product.b, static_cast<std::int32_t>(row));
  });
  std::int64_t all = 0;
  for (const auto& tasks : of_rows) all += std::ssize(tasks);
  require<Unsupported>(
      all <= options.tasks_of_slice,
      "{} products of tiles take several slices of at most {}; the work of tsparse is "
      "described for one slice only",
      all, options.tasks_of_slice);
  product.first_value.push_back(0);
  for (auto& tasks : of_rows) {
    for (auto begin = tasks.begin(); begin != tasks.end();) {
      const std::int32_t col = product.b.tiles[begin->b].col;
      const auto end = std::find_if(begin, tasks.end(), [&](const TileTask& task) {
        return product.b.tiles[task.b].col != col;
      });
      product.heads.push_back(static_cast<std::uint32_t>(std::ssize(product.tasks)));
      product.bitmap.push_back(pattern_of(product.a, product.b, {begin, end}));
      product.first_value.push_back(product.first_value.back() +
                                    std::popcount(product.bitmap.back()));
      product.tasks.insert(product.tasks.end(), begin, end);
      begin = end;
    }
    tasks = {};
  }
  product.heads.push_back(static_cast<std::uint32_t>(all));
  return product;
}

/// Steps that both launches share: a warp goes through the tasks of some tiles of C side by side, a
/// batch of each tile at a time.
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

  std::shared_ptr<const ListedProduct> product_;
  ArrayAddresses at_;
};

/// The warps of count_cells(). After the last tile they store the end of first_value.
class CountTrace final : public TilesTrace {
 public:
  using TilesTrace::TilesTrace;

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::int64_t first = CountCells::item_of(thread_block, kWarpSize * warp);
    const std::int64_t last = std::min(first + CountCells::kTilesOfWarp, product_->tiles());
    if (cursor.step == 0) {
      trace.issue(Counted::kBegin);
      trace.pause(kSpecialRegisterCycles);
      if (first < last) load_heads(first, last, trace);
      trace.shared(1);  // the longest
    }
    const std::int64_t longest = product_->most_tasks(first, CountCells::kTilesOfWarp);
    const std::int64_t begin = cursor.step * CountCells::kBatch;
    ++cursor.step;
    if (begin < longest) {
      trace.issue(Counted::kBatch);
      load_batch(first, last, begin, CountCells::kBatch, kTileBytes / 2, trace);
      const std::int64_t steps = std::min<std::int64_t>(CountCells::kBatch, longest - begin);
      trace.issue(Counted::kStep * static_cast<int>(steps));
      trace.shared(Counted::kShufflesOfStep * static_cast<int>(steps));
    }
    if (begin + CountCells::kBatch < longest) return true;
    finish(first, last, trace);
    return false;
  }

 private:
  using Counted = CountedCountCells;

  void finish(std::int64_t first, std::int64_t last, WarpTrace& trace) const {
    trace.issue(Counted::kFinish);
    for (int other = 1; other < kSide; other *= 2) trace.shared(2);
    if (first < last) {
      trace.load(kHeadBoard);
      for (std::int64_t tile = first; tile < last; ++tile)
        touch_each(at_.keys, product_->heads[tile], 1, 4, trace);
      trace.wait(kHeadBoard);
      for (const std::uint64_t array : {at_.tile_row, at_.tile_col}) {
        trace.store();
        touch_each(array, first, last - first, 4, trace);
      }
      trace.store();
      touch_each(at_.bitmap, first, last - first, 8, trace);
    }
    const std::int64_t end = std::min(first + CountCells::kTilesOfWarp, product_->tiles() + 1);
    if (first >= end) return;
    trace.store();
    touch_each(at_.first_value, first, end - first, 8, trace);
  }
};

/// The warps of multiply_tiles().
class MultiplyTrace final : public TilesTrace {
 public:
  MultiplyTrace(std::shared_ptr<const ListedProduct> product, const ArrayAddresses& at,
                bool drops_zeros)
      : TilesTrace(std::move(product), at), drops_zeros_(drops_zeros) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::int64_t first = MultiplyTiles::item_of(thread_block, kWarpSize * warp);
    const std::int64_t last = std::min(first + MultiplyTiles::kTilesOfWarp, product_->tiles());
    if (cursor.step == 0) {
      trace.issue(Counted::kBegin);
      trace.pause(kSpecialRegisterCycles);
    }
    if (first >= last) return false;
    if (cursor.step == 0) {
      load_heads(first, last, trace);
      trace.shared(1);  // the longer one
    }
    const std::int64_t longest = product_->most_tasks(first, MultiplyTiles::kTilesOfWarp);
    const std::int64_t begin = cursor.step * kBatch;
    ++cursor.step;
    if (begin < longest) {
      trace.issue(Counted::kBatch);
      load_batch(first, last, begin, kBatch, kTileBytes, trace);
      trace.shared(kStagingWavefronts);
      for (std::int64_t i = begin; i < std::min(begin + kBatch, longest); ++i)
        multiply(first, last, i, trace);
    }
    if (begin + kBatch < longest) return true;
    trace.wait_mma();
    for (std::int64_t tile = first; tile < first + MultiplyTiles::kTilesOfWarp; ++tile)
      finish(tile, trace);
    return false;
  }

 private:
  using Counted = CountedMultiplyTiles;
  static constexpr int kBatch = MultiplyTiles::kBatch;
  static constexpr int kStagingWavefronts = 32;  // 32 bytes of each lane, in four stores
  static constexpr int kOperandWavefronts = 8;   // of the same operands for all lanes

  /// Loads the values of a tile, at most two for each lane: those in even cells, then in odd ones.
  void load_values(const Tile& tile, std::uint64_t array, WarpTrace& trace) const {
    constexpr std::uint64_t kEven = 0x5555555555555555u;
    for (const std::uint64_t cells : {tile.bitmap & kEven, tile.bitmap & ~kEven}) {
      if (cells == 0) continue;
      trace.load(kDataBoard);
      for (std::uint64_t rest = cells; rest != 0; rest &= rest - 1) {
        const int bit = std::countr_zero(rest);
        const int before = std::popcount(tile.bitmap & ((std::uint64_t{1} << bit) - 1));
        trace.touch(array + kHalfBytes * (std::uint64_t{tile.first_value} + before), kHalfBytes);
      }
    }
  }

  void multiply(std::int64_t first, std::int64_t last, std::int64_t number,
                WarpTrace& trace) const {
    trace.shared(kOperandWavefronts);
    trace.issue(Counted::kStep);
    for_tasks(first, last, number, 1, [&](const TileTask& task) {
      load_values(product_->a.tiles[task.a], at_.a_values, trace);
      load_values(product_->b.tiles[task.b], at_.b_values, trace);
    });
    trace.wait(kDataBoard);
    trace.mma(1);
  }

  void finish(std::int64_t tile, WarpTrace& trace) const {
    trace.issue(Counted::kStore);
    if (tile >= product_->tiles()) return;
    trace.load(kHeadBoard);
    touch_each(at_.bitmap, tile, 1, 8, trace);
    trace.load(kHeadBoard);
    touch_each(at_.first_value, tile, 1, 8, trace);
    trace.wait(kHeadBoard);
    // A lane has two cells: two instructions share the sectors.
    trace.store(2);
    const std::int64_t begin = product_->first_value[tile];
    touch_each(at_.values, begin, product_->first_value[tile + 1] - begin, 4, trace);
    if (!drops_zeros_) return;
    trace.issue(Counted::kKeep);
    trace.shared(2);
    trace.store();
    touch_each(at_.kept, tile, 1, 8, trace);
  }

  bool drops_zeros_;
};

ArrayAddresses add_arrays(const ListedProduct& product, AddressSpace& memory) {
  const std::int64_t tasks = std::ssize(product.tasks), tiles = product.tiles();
  const auto add = [&](const char* name, std::int64_t count, int bytes) {
    return memory.add(name, bytes * count);
  };
  ArrayAddresses at{};
  at.tasks = add("tasks", tasks, kTaskBytes);
  at.heads = add("heads", tiles, 4);
  at.keys = add("keys", tasks, 4);
  at.a_tiles = add("a_tiles", std::ssize(product.a.tiles), kTileBytes);
  at.a_values = add("a_values", std::ssize(product.a.values), kHalfBytes);
  at.b_tiles = add("b_tiles", std::ssize(product.b.tiles), kTileBytes);
  at.b_values = add("b_values", std::ssize(product.b.values), kHalfBytes);
  at.tile_row = add("tile_row", tiles, 4);
  at.tile_col = add("tile_col", tiles, 4);
  at.bitmap = add("bitmap", tiles, 8);
  at.first_value = add("first_value", tiles + 1, 8);
  at.values = add("values", product.first_value.back(), 4);
  at.kept = add("kept", tiles, 8);
  return at;
}

/// Adds what the tasks of a tile of C read: the tasks and the bitmaps of their tiles.
void add_counting(const ListedProduct& product, std::int64_t tile, ThreadBlockWork& work) {
  const std::int64_t tasks = product.tasks_of(tile);
  work.a_bytes += (kTaskBytes + kTileBytes / 2) * tasks;
  work.b_bytes += kTileBytes / 2 * tasks;
  work.c_bytes += 4 + 4 + 8 + 8;
}

/// Adds what the tasks of a tile of C read: the tasks, their tiles and the values.
void add_multiplication(const ListedProduct& product, std::int64_t tile, ThreadBlockWork& work) {
  for (std::int64_t i = 0; i < product.tasks_of(tile); ++i) {
    const TileTask task = product.tasks[product.heads[tile] + i];
    work.a_bytes +=
        kTaskBytes + kTileBytes + kHalfBytes * std::popcount(product.a.tiles[task.a].bitmap);
    work.b_bytes += kTileBytes + kHalfBytes * std::popcount(product.b.tiles[task.b].bitmap);
  }
  work.c_bytes += 4 * std::popcount(product.bitmap[tile]);
}

/// Returns two operations for each product of nonzeros.
std::int64_t useful_flops(const CsrMatrix& a, const CsrMatrix& b) {
  std::int64_t products = 0;
  for (const std::int32_t col : a.col_indices) products += b.row_length(col);
  return 2 * products;
}

std::int64_t bytes_of(const TileOperand& operand) {
  return kTileBytes * std::ssize(operand.tiles) + kHalfBytes * std::ssize(operand.values) +
         4 * std::ssize(operand.row_begin);
}

}  // namespace

WorkDescription describe_work(const CsrMatrix& a, const CsrMatrix& b,
                              const TsparseOptions& options) {
  require(a.cols == b.rows, "A has {} columns and B {} rows", a.cols, b.rows);
  require<Unsupported>(options.on_tensor_cores,
                       "the work of tsparse is described on tensor cores only");
  const auto product = std::make_shared<const ListedProduct>(list_tasks(a, b, options));
  const std::int64_t tiles = product->tiles();
  WorkDescription work{.kernel = "tsparse",
                       .mma_type = "fp16",
                       .mma_shape = "m16n8k16",
                       .flops_per_mma = 2 * 16 * 8 * 16};
  if (tiles == 0) return work;
  const ArrayAddresses at = add_arrays(*product, work.memory);
  const std::int64_t counting = CountCells::thread_blocks(tiles + 1),
                     making = MultiplyTiles::thread_blocks(tiles);
  work.thread_blocks.resize(static_cast<std::size_t>(counting + making));
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    add_counting(*product, tile, work.thread_blocks[tile / CountCells::kTilesOfThreadBlock]);
    ThreadBlockWork& of = work.thread_blocks[counting + tile / MultiplyTiles::kTilesOfThreadBlock];
    add_multiplication(*product, tile, of);
    if (tile % MultiplyTiles::kTilesOfWarp == 0)
      of.mma += product->most_tasks(tile, MultiplyTiles::kTilesOfWarp);
  }
  work.launches = {{.name = "counting",
                    .thread_blocks = counting,
                    .threads_per_block = kThreads,
                    .registers_per_thread = CountedCountCells::kRegisters,
                    .trace = std::make_shared<CountTrace>(product, at)},
                   {.name = "multiplication",
                    .thread_blocks = making,
                    .threads_per_block = kThreads,
                    .registers_per_thread = CountedMultiplyTiles::kRegisters,
                    .shared_bytes = MultiplyTiles::shared_bytes(),
                    .trace = std::make_shared<MultiplyTrace>(product, at, options.drops_zeros)}};
  work.footprint_bytes = bytes_of(product->a);
  work.b_rows_bytes = bytes_of(product->b);
  work.c_bytes = (4 + 4 + 8 + 8) * tiles + 4 * product->first_value.back();
  work.useful_flops = useful_flops(a, b);
  return work;
}

}  // namespace tessera::tsparse
