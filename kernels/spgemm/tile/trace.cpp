// tile_spgemm's launches in their order, except for the search for FP16's scales and the clearing
// of memory. Thread blocks that find no task are left out: their number depends on the device.

#include "kernels/spgemm/tile/trace.hpp"

#include <algorithm>
#include <bit>

#include "formats/base/check.hpp"
#include "kernels/spgemm/shared/scan_trace.hpp"
#include "kernels/spgemm/tile/warps.hpp"

namespace tessera::tile_spgemm {
namespace {

using namespace tracing;
using spgemm::Scan;

MatrixAddresses add_matrix(const TiledMatrix& matrix, const std::string& name, int value_bytes,
                           ValueOrders orders, AddressSpace& memory) {
  const CsrMatrix& csr = matrix.csr;
  MatrixAddresses at{};
  at.offsets = memory.add(name + "_offsets", 8 * (std::int64_t{csr.rows} + 1));
  at.cols = memory.add(name + "_cols", 4 * csr.nnz());
  at.values = memory.add(name + "_values", 4 * csr.nnz());
  at.tiles = memory.add(name + "_tiles", kTileBytes * csr.nnz());
  at.rows = memory.add(name + "_tile_rows", kTileRowBytes * matrix.tile_rows());
  if (orders.by_rows) at.by_rows = memory.add(name + "_by_rows", value_bytes * csr.nnz());
  if (orders.by_cols) at.by_cols = memory.add(name + "_by_cols", value_bytes * csr.nnz());
  return at;
}

ArrayAddresses add_arrays(const ProductAnalysis& product, AddressSpace& memory) {
  const bool is_square = !product.b;
  const int bytes = value_bytes(product.arithmetic);
  const std::int64_t tasks = std::ssize(product.tasks), rows = product.a.csr.rows;
  ArrayAddresses at{};
  at.a = add_matrix(product.a, "a", bytes, {true, is_square}, memory);
  at.b = is_square ? at.a : add_matrix(*product.b, "b", bytes, {false, true}, memory);
  at.found = at.a.largest = memory.add("found", 32);
  at.b.largest = at.found + (is_square ? 0 : 4);
  at.row_lengths = memory.add("row_lengths", 4 * (kSide * product.a.tile_rows() + 1));
  at.row_offsets = memory.add("row_offsets", 8 * (rows + 1));
  at.tasks = memory.add("tasks", kTaskBytes * tasks);
  at.cells = memory.add("cells", 4 * kSide * tasks);
  at.c_cols = memory.add("c_cols", 4 * product.nonzeros_of_c);
  at.c_values = memory.add("c_values", 4 * product.nonzeros_of_c);
  return at;
}

class Launches {
 public:
  Launches(std::shared_ptr<const ProductAnalysis> product, WorkDescription& work)
      : product_(std::move(product)), at_(add_arrays(*product_, work.memory)), work_(work) {}

  void fill_tiles() {
    fill_tiles_of(product_->a, "fill_tiles", at_.a, {true, !product_->b});
    if (product_->b) fill_tiles_of(*product_->b, "fill_tiles of B", at_.b, {false, true});
  }

  void make_tasks() {
    const auto blocks = add({.name = "make_tasks",
                             .thread_blocks = MakeTasks::thread_blocks(product_->a.tile_rows()),
                             .threads_per_block = kThreads,
                             .registers_per_thread = CountedMakeTasks::kRegisters,
                             .trace = trace_make_tasks(product_, at_)});
    for (const TaskWork& task : product_->tasks) {
      ThreadBlockWork& work = blocks[task.task.tile_row / kWarps];
      work.a_bytes += kTaskBytes;
      if (task.task.slice > 0) continue;
      work.a_bytes += kTileRowBytes + 4 * factors_of(task);
      work.b_bytes += (kTileRowBytes + 8) * factors_of(task);
    }
  }

  void count_cells() {
    const auto trace = trace_count_cells(product_, at_);
    const auto blocks = add({.name = "count_cells",
                             .thread_blocks = std::ssize(product_->tasks),
                             .threads_per_block = kThreads,
                             .registers_per_thread = CountedCountCells::kRegisters,
                             .shared_bytes = CountCells::shared_bytes(),
                             .trace = trace});
    for (std::int64_t i = 0; i < std::ssize(product_->tasks); ++i) {
      const TaskWork& task = product_->task_of(i);
      ThreadBlockWork& work = blocks[i];
      work.a_bytes = kTaskBytes + (kTileBytes + kTileRowBytes) * factors_of(task) + 4 * kSide;
      work.b_bytes = 2 * kTileBytes * task.products;
      work.barriers = kWarps * trace->barriers(i);
    }
  }

  void scan_lengths() {
    const Scan scan{.count = std::int64_t{product_->a.csr.rows} + 1,
                    .is_wide = true,
                    .from = at_.row_lengths,
                    .to = at_.row_offsets};
    const auto blocks = add({.name = "scanning lengths",
                             .thread_blocks = scan.thread_blocks(),
                             .threads_per_block = scan.threads(),
                             .registers_per_thread = scan.registers(),
                             .shared_bytes = scan.shared_bytes(),
                             .trace = spgemm::trace_scan(scan)});
    const std::int64_t of_block = std::int64_t{scan.threads()} * scan.items();
    for (std::int64_t block = 0; block < std::ssize(blocks); ++block) {
      const std::int64_t rows = std::min(of_block, scan.count - block * of_block);
      blocks[block].a_bytes = 4 * rows;
      blocks[block].c_bytes = 8 * rows;
      blocks[block].barriers = Scan::kBarriers * (scan.threads() / kWarpSize);
    }
  }

  void make_sums() {
    const auto trace = trace_make_sums(product_, at_);
    const auto blocks = add({.name = "make_sums",
                             .thread_blocks = std::ssize(product_->tasks),
                             .threads_per_block = kThreads,
                             .registers_per_thread = CountedMakeSums::kRegisters,
                             .shared_bytes = MakeSums::shared_bytes_of_short_rows(
                                 product_->arithmetic, product_->a.longest()),
                             .trace = trace});
    const TiledMatrix& b = product_->tiles_of_b();
    std::int64_t tiles = 0;
    for (const TileRow& row : b.rows) tiles += row.count;
    const std::int64_t values_of_tile = b.csr.nnz() / std::max<std::int64_t>(tiles, 1);
    for (std::int64_t i = 0; i < std::ssize(product_->tasks); ++i) {
      const TaskWork& task = product_->task_of(i);
      ThreadBlockWork& work = blocks[i];
      work.mma = mmas_of(task);
      work.a_bytes = kTaskBytes + (2 * kTileBytes + kTileRowBytes) * factors_of(task);
      work.b_bytes = 3 * kTileBytes * task.products +
                     (kTileBytes + value_bytes(product_->arithmetic) * values_of_tile) * task.pairs;
      for (const std::int64_t cells : task.cells) work.c_bytes += 8 * cells;
      work.barriers = kWarps * trace->barriers(i);
    }
  }

 private:
  std::int64_t factors_of(const TaskWork& task) const {
    return product_->row_of_a(task.task).count;
  }

  std::int64_t mmas_of(const TaskWork& task) const {
    const int of_group = pairs_of_mma(product_->arithmetic);
    std::int64_t groups = 0;
    for (std::int64_t t = task.first_tile; t < task.last_tile; ++t)
      groups += rounds(std::popcount(product_->tiles_of_c[t].matches), of_group);
    return mmas_of_group(product_->arithmetic) * groups;
  }

  void fill_tiles_of(const TiledMatrix& matrix, const char* name, const MatrixAddresses& at,
                     ValueOrders orders) {
    const auto blocks =
        add({.name = name,
             .thread_blocks = FillTiles::thread_blocks(matrix.tile_rows()),
             .threads_per_block = kThreads,
             .registers_per_thread = CountedFillTiles::registers(product_->arithmetic),
             .shared_bytes = FillTiles::shared_bytes(tiles_across(matrix.csr.cols)),
             .trace = trace_fill_tiles(product_, matrix, at, orders)});
    const int bytes =
        value_bytes(product_->arithmetic) * (int{orders.by_rows} + int{orders.by_cols});
    for (std::int64_t row = 0; row < matrix.tile_rows(); ++row) {
      const std::int64_t begin = row * kSide,
                         end = std::min<std::int64_t>(begin + kSide, matrix.csr.rows);
      const std::int64_t nonzeros = matrix.csr.row_offsets[end] - matrix.csr.row_offsets[begin];
      // Columns are read three times: to mark them, for bits, for values.
      blocks[row].a_bytes = 8 * (end - begin + 1) + (3 * 4 + 4 + bytes) * nonzeros +
                            kTileBytes * matrix.rows[row].count + kTileRowBytes;
      blocks[row].barriers = kWarps * barriers_of_filling(matrix, row);
    }
  }

  std::span<ThreadBlockWork> add(Launch launch) {
    const std::int64_t first = std::ssize(work_.thread_blocks), count = launch.thread_blocks;
    work_.thread_blocks.resize(first + count);
    work_.launches.push_back(std::move(launch));
    return std::span(work_.thread_blocks).subspan(first, count);
  }

  std::shared_ptr<const ProductAnalysis> product_;
  ArrayAddresses at_;
  WorkDescription& work_;
};

}  // namespace

WorkDescription describe_work(const CsrMatrix& a, const CsrMatrix& b, TileArithmetic arithmetic) {
  require(a.cols == b.rows, "A has {} columns and B {} rows", a.cols, b.rows);
  const bool is_fp16 = arithmetic == TileArithmetic::kFp16;
  WorkDescription work{.kernel = "tile_spgemm",
                       .mma_type = is_fp16 ? "fp16" : "tf32",
                       .mma_shape = is_fp16 ? "m16n8k16" : "m16n8k8",
                       .flops_per_mma = 2 * 16 * 8 * kSide * pairs_of_mma(arithmetic)};
  for (const std::int32_t col : a.col_indices) work.useful_flops += 2 * b.row_length(col);
  if (a.nnz() == 0 || b.nnz() == 0) return work;
  const auto product = std::make_shared<const ProductAnalysis>(a, b, arithmetic);
  Launches launches(product, work);
  launches.fill_tiles();
  launches.make_tasks();
  launches.count_cells();
  launches.scan_lengths();
  launches.make_sums();
  work.footprint_bytes = 8 * (std::int64_t{a.rows} + 1) + 8 * a.nnz();
  work.b_rows_bytes = product->b ? 8 * (std::int64_t{b.rows} + 1) + 8 * b.nnz() : 0;
  work.c_bytes = 8 * (std::int64_t{a.rows} + 1) + 8 * product->nonzeros_of_c;
  return work;
}

}  // namespace tessera::tile_spgemm
