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
#include "kernels/spgemm/tsparse/tiles_trace.hpp"

namespace tessera::tsparse {
namespace {

constexpr int kHalfBytes = 2;

/// Instructions of count_cells(), counted in PTX, CUDA 13.0; registers in machine code for sm_90a.
struct CountedCountCells {
  static constexpr int kRegisters = 32;
  static constexpr int kBegin = 35, kBatch = 28, kStep = 16, kShufflesOfStep = 4, kFinish = 50;
};

/// Instructions of multiply_tiles(), counted in PTX, CUDA 13.0; registers in machine code for
/// sm_90a.
struct CountedMultiplyTiles {
  static constexpr int kRegisters = 32;
  static constexpr int kBegin = 45, kBatch = 35, kStep = 75;
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
      store_tile(tile, drops_zeros_, trace);
    return false;
  }

 private:
  using Counted = CountedMultiplyTiles;
  static constexpr int kBatch = MultiplyTiles::kBatch;
  static constexpr int kStagingWavefronts = 32;  // 32 bytes of each lane, in four stores
  static constexpr int kOperandWavefronts = 8;   // of the same operands for all lanes

  void multiply(std::int64_t first, std::int64_t last, std::int64_t number,
                WarpTrace& trace) const {
    trace.shared(kOperandWavefronts);
    trace.issue(Counted::kStep);
    for_tasks(first, last, number, 1, [&](const TileTask& task) {
      load_values(product_->a.tiles[task.a], at_.a_values, kHalfBytes, trace);
      load_values(product_->b.tiles[task.b], at_.b_values, kHalfBytes, trace);
    });
    trace.wait(kDataBoard);
    trace.mma(1);
  }

  bool drops_zeros_;
};

/// The bytes of a value of A or B in the device's memory.
int value_bytes(const TsparseOptions& options) {
  return options.on_tensor_cores && !options.multiplies_in_pairs ? kHalfBytes : 4;
}

ArrayAddresses add_arrays(const ListedProduct& product, const TsparseOptions& options,
                          AddressSpace& memory) {
  const std::int64_t tasks = std::ssize(product.tasks), tiles = product.tiles();
  const auto add = [&](const char* name, std::int64_t count, int bytes) {
    return memory.add(name, bytes * count);
  };
  ArrayAddresses at{};
  at.tasks = add("tasks", tasks, kTaskBytes);
  at.heads = add("heads", tiles, 4);
  at.keys = add("keys", tasks, 4);
  at.a_rows = add("a_rows", std::ssize(product.a.tiles), 4);
  at.a_tiles = add("a_tiles", std::ssize(product.a.tiles), kTileBytes);
  at.a_values = add("a_values", std::ssize(product.a.values), value_bytes(options));
  at.b_tiles = add("b_tiles", std::ssize(product.b.tiles), kTileBytes);
  at.b_values = add("b_values", std::ssize(product.b.values), value_bytes(options));
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
void add_multiplication(const ListedProduct& product, std::int64_t tile, int bytes,
                        ThreadBlockWork& work) {
  for (std::int64_t i = 0; i < product.tasks_of(tile); ++i) {
    const TileTask task = product.tasks[product.heads[tile] + i];
    work.a_bytes += kTaskBytes + kTileBytes + bytes * std::popcount(product.a.tiles[task.a].bitmap);
    work.b_bytes += kTileBytes + bytes * std::popcount(product.b.tiles[task.b].bitmap);
  }
  work.c_bytes += 4 * std::popcount(product.bitmap[tile]);
}

/// Adds the arithmetic of a pair of tiles of C, the first of which is `tile`.
void add_products(const ListedProduct& product, std::int64_t tile, bool on_tensor_cores,
                  ThreadBlockWork& work) {
  const std::int64_t longest = product.most_tasks(tile, Pairs::kTiles);
  if (on_tensor_cores) {
    work.mma += Pairs::kMmas * longest;
    return;
  }
  work.fma +=
      std::int64_t{Pairs::kCells} * kSide * (product.tasks_of(tile) + product.tasks_of(tile + 1));
  work.barriers += 2 * longest;
}

/// Returns two operations for each product of nonzeros.
std::int64_t useful_flops(const CsrMatrix& a, const CsrMatrix& b) {
  std::int64_t products = 0;
  for (const std::int32_t col : a.col_indices) products += b.row_length(col);
  return 2 * products;
}

std::int64_t bytes_of(const TileOperand& operand, int bytes) {
  return kTileBytes * std::ssize(operand.tiles) + bytes * std::ssize(operand.values) +
         4 * std::ssize(operand.row_begin);
}

Launch counting_launch(const std::shared_ptr<const ListedProduct>& product,
                       const ArrayAddresses& at, const TsparseOptions& options) {
  const std::int64_t items = product->tiles() + 1;
  const bool tensor = options.on_tensor_cores;
  if (!options.counts_by_products)
    return {.name = "counting",
            .thread_blocks = CountCells::thread_blocks(items),
            .threads_per_block = kThreads,
            .registers_per_thread = CountedCountCells::kRegisters,
            .trace = std::make_shared<CountTrace>(product, at)};
  return {.name = "counting",
          .thread_blocks = Pairs::thread_blocks(items),
          .threads_per_block = Pairs::threads(tensor),
          .registers_per_thread = kCountPairsRegisters[tensor ? 1 : 0],
          .shared_bytes = Pairs::shared_bytes(tensor),
          .trace = make_count_pairs_trace(product, at, options)};
}

Launch multiplication_launch(const std::shared_ptr<const ListedProduct>& product,
                             const ArrayAddresses& at, const TsparseOptions& options) {
  const std::int64_t tiles = product->tiles();
  const bool tensor = options.on_tensor_cores;
  if (!options.multiplies_in_pairs)
    return {.name = "multiplication",
            .thread_blocks = MultiplyTiles::thread_blocks(tiles),
            .threads_per_block = kThreads,
            .registers_per_thread = CountedMultiplyTiles::kRegisters,
            .shared_bytes = MultiplyTiles::shared_bytes(),
            .trace = std::make_shared<MultiplyTrace>(product, at, options.drops_zeros)};
  return {.name = "multiplication",
          .thread_blocks = Pairs::thread_blocks(tiles),
          .threads_per_block = Pairs::threads(tensor),
          .registers_per_thread = kMultiplyPairsRegisters[tensor ? 1 : 0],
          .shared_bytes = Pairs::shared_bytes(tensor),
          .trace = make_multiply_pairs_trace(product, at, options)};
}

/// Returns the work of the thread blocks of both launches, the first of which has `counting`.
std::vector<ThreadBlockWork> work_of_blocks(const ListedProduct& product,
                                            const TsparseOptions& options, std::int64_t counting,
                                            std::int64_t all) {
  std::vector<ThreadBlockWork> blocks(static_cast<std::size_t>(all));
  const int counted = options.counts_by_products ? Pairs::kTiles : CountCells::kTilesOfThreadBlock;
  const int made = options.multiplies_in_pairs ? Pairs::kTiles : MultiplyTiles::kTilesOfThreadBlock;
  for (std::int64_t tile = 0; tile < product.tiles(); ++tile) {
    ThreadBlockWork& counts = blocks[tile / counted];
    ThreadBlockWork& makes = blocks[counting + tile / made];
    add_counting(product, tile, counts);
    add_multiplication(product, tile, value_bytes(options), makes);
    if (options.counts_by_products && tile % Pairs::kTiles == 0)
      add_products(product, tile, options.on_tensor_cores, counts);
    if (options.multiplies_in_pairs) {
      if (tile % Pairs::kTiles == 0) add_products(product, tile, options.on_tensor_cores, makes);
    } else if (tile % MultiplyTiles::kTilesOfWarp == 0) {
      makes.mma += product.most_tasks(tile, MultiplyTiles::kTilesOfWarp);
    }
  }
  // Joining the bits of a tile's two warps takes two barriers.
  if (options.counts_by_products && !options.on_tensor_cores)
    for (std::int64_t i = 0; i < counting; ++i) blocks[i].barriers += 2 * Pairs::kTiles;
  if (options.multiplies_in_pairs && !options.on_tensor_cores && options.drops_zeros)
    for (std::int64_t i = counting; i < all; ++i) blocks[i].barriers += 2;
  return blocks;
}

}  // namespace

WorkDescription describe_work(const CsrMatrix& a, const CsrMatrix& b,
                              const TsparseOptions& options) {
  require(a.cols == b.rows, "A has {} columns and B {} rows", a.cols, b.rows);
  require<Unsupported>(options.multiplies_zeros(),
                       "the work of tsparse on scalar cores is described for multiplication = "
                       "pairs only");
  const auto product = std::make_shared<const ListedProduct>(list_tasks(a, b, options));
  const std::int64_t tiles = product->tiles();
  WorkDescription work{.kernel = "tsparse"};
  if (options.on_tensor_cores) {
    work.mma_type = "fp16";
    work.mma_shape = "m16n8k16";
    work.flops_per_mma = 2 * 16 * 8 * 16;
  }
  if (tiles == 0) return work;
  const ArrayAddresses at = add_arrays(*product, options, work.memory);
  work.launches = {counting_launch(product, at, options),
                   multiplication_launch(product, at, options)};
  const std::int64_t counting = work.launches[0].thread_blocks;
  work.thread_blocks =
      work_of_blocks(*product, options, counting, counting + work.launches[1].thread_blocks);
  work.footprint_bytes = bytes_of(product->a, value_bytes(options));
  work.b_rows_bytes = bytes_of(product->b, value_bytes(options));
  work.c_bytes = (4 + 4 + 8 + 8) * tiles + 4 * product->first_value.back();
  work.useful_flops = useful_flops(a, b);
  return work;
}

}  // namespace tessera::tsparse
