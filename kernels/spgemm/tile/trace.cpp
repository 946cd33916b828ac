// tile_spgemm's launches as they follow each other, but for what finds FP16's scales and what
// clears memory. Thread blocks that are launched and find no task are not told: how many there are
// depends on the device.

#include "kernels/spgemm/tile/trace.hpp"

#include <algorithm>
#include <bit>

#include "formats/base/check.hpp"
#include "kernels/spgemm/shared/scan_trace.hpp"
#include "kernels/spgemm/tile/tasks_trace.hpp"

namespace tessera::tile_spgemm {
namespace {

using namespace tracing;
using spgemm::Scan;

/// As compiled for sm_90a.
constexpr int kCuttingRegisters = 40, kCountingRegisters = 40, kSumsRegisters = 64;
constexpr std::int64_t kCountingBytes = 8256, kSumsBytes = 16;

MatrixAddresses add_matrix(const TiledMatrix& matrix, const std::string& name, int value_bytes,
                           Sides sides, AddressSpace& memory) {
  const CsrMatrix& csr = matrix.csr;
  MatrixAddresses at{};
  at.offsets = memory.add(name + "_offsets", 8 * (std::int64_t{csr.rows} + 1));
  at.cols = memory.add(name + "_cols", 4 * csr.nnz());
  at.values = memory.add(name + "_values", 4 * csr.nnz());
  at.tiles = memory.add(name + "_tiles", kTileBytes * csr.nnz());
  at.rows = memory.add(name + "_tile_rows", kTileRowBytes * matrix.tile_rows());
  if (sides.by_rows) at.by_rows = memory.add(name + "_by_rows", value_bytes * csr.nnz());
  if (sides.by_cols) at.by_cols = memory.add(name + "_by_cols", value_bytes * csr.nnz());
  return at;
}

Addresses add_arrays(const Product& product, AddressSpace& memory) {
  const bool is_square = !product.b;
  const int value_bytes = product.numbers == TileArithmetic::kFp16 ? 2 : 4;
  const std::int64_t tasks = std::ssize(product.tasks), rows = product.a.csr.rows;
  Addresses at{};
  at.a = add_matrix(product.a, "a", value_bytes, {true, is_square}, memory);
  at.b = is_square ? at.a : add_matrix(*product.b, "b", value_bytes, {false, true}, memory);
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
  Launches(std::shared_ptr<const Product> product, WorkDescription& work)
      : product_(std::move(product)), at_(add_arrays(*product_, work.memory)), work_(work) {}

  void fill(const TiledMatrix& matrix, const char* name, const MatrixAddresses& at, Sides sides) {
    const bool is_fp16 = product_->numbers == TileArithmetic::kFp16;
    const auto blocks = add({.name = name,
                             .thread_blocks = matrix.tile_rows(),
                             .threads_per_block = kThreads,
                             .registers_per_thread = is_fp16 ? 31 : 32,
                             .shared_bytes = bytes_of_filling(matrix),
                             .trace = trace_filling(product_, matrix, at, sides)});
    const int value_bytes = (is_fp16 ? 2 : 4) * (int{sides.by_rows} + int{sides.by_cols});
    for (std::int64_t row = 0; row < matrix.tile_rows(); ++row) {
      const std::int64_t begin = row * kSide,
                         end = std::min<std::int64_t>(begin + kSide, matrix.csr.rows);
      const std::int64_t nonzeros = matrix.csr.row_offsets[end] - matrix.csr.row_offsets[begin];
      ThreadBlockWork& work = blocks[static_cast<std::size_t>(row)];
      // Columns three times: to mark them, for bits, for values.
      work.a_bytes = 8 * (end - begin + 1) + (3 * 4 + 4 + value_bytes) * nonzeros +
                     kTileBytes * matrix.rows[static_cast<std::size_t>(row)].count + kTileRowBytes;
      work.barriers = kWarps * barriers_of_filling(matrix, row);
    }
  }

  void cut() {
    const TiledMatrix& a = product_->a;
    const auto blocks = add({.name = "make_tasks",
                             .thread_blocks = (a.tile_rows() + kWarps - 1) / kWarps,
                             .threads_per_block = kThreads,
                             .registers_per_thread = kCuttingRegisters,
                             .trace = trace_cutting(product_, at_)});
    for (const TaskWork& task : product_->tasks) {
      ThreadBlockWork& work = blocks[static_cast<std::size_t>(task.task.tile_row / kWarps)];
      work.a_bytes += kTaskBytes;
      if (task.task.slice > 0) continue;
      const std::int64_t tiles = a.rows[static_cast<std::size_t>(task.task.tile_row)].count;
      work.a_bytes += kTileRowBytes + 4 * tiles;
      work.b_bytes += (kTileRowBytes + 8) * tiles;
    }
  }

  void count() {
    const auto trace = trace_counting(product_, at_);
    const auto blocks = add({.name = "count_cells",
                             .thread_blocks = std::ssize(product_->tasks),
                             .threads_per_block = kThreads,
                             .registers_per_thread = kCountingRegisters,
                             .shared_bytes = kCountingBytes,
                             .trace = trace});
    for (std::int64_t i = 0; i < std::ssize(product_->tasks); ++i) {
      const TaskWork& task = product_->task_of(i);
      ThreadBlockWork& work = blocks[static_cast<std::size_t>(i)];
      work.a_bytes = kTaskBytes + (kTileBytes + kTileRowBytes) * factors_of(task) + 4 * kSide;
      work.b_bytes = 2 * kTileBytes * task.products;
      work.barriers = kWarps * trace->barriers(i);
    }
  }

  void scan() {
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
    for (std::size_t block = 0; block < blocks.size(); ++block) {
      const std::int64_t rows =
          std::min(of_block, scan.count - static_cast<std::int64_t>(block) * of_block);
      blocks[block].a_bytes = 4 * rows;
      blocks[block].c_bytes = 8 * rows;
      blocks[block].barriers = Scan::kBarriers * (scan.threads() / 32);
    }
  }

  void sum() {
    const auto trace = trace_sums(product_, at_);
    const std::int64_t lane_bytes = product_->numbers == TileArithmetic::kFp16 ? 4 : 8;
    const auto blocks = add({.name = "make_sums",
                             .thread_blocks = std::ssize(product_->tasks),
                             .threads_per_block = kThreads,
                             .registers_per_thread = kSumsRegisters,
                             .shared_bytes = kSumsBytes + memory_of_sums(product_->numbers) +
                                             32 * lane_bytes * product_->a.longest(),
                             .trace = trace});
    for (std::int64_t i = 0; i < std::ssize(product_->tasks); ++i) {
      const TaskWork& task = product_->task_of(i);
      ThreadBlockWork& work = blocks[static_cast<std::size_t>(i)];
      add_sums(task, work);
      work.barriers = kWarps * trace->barriers(i);
    }
  }

  const Addresses& at() const { return at_; }

 private:
  std::int64_t factors_of(const TaskWork& task) const {
    return product_->a.rows[static_cast<std::size_t>(task.task.tile_row)].count;
  }

  void add_sums(const TaskWork& task, ThreadBlockWork& work) const {
    const TiledMatrix& b = product_->tiles_of_b();
    const std::int64_t value_bytes = product_->numbers == TileArithmetic::kFp16 ? 2 : 4;
    const std::int64_t mmas_of_step = product_->numbers == TileArithmetic::kTf32x3 ? 2 : 1;
    const std::int64_t of_mma = pairs_of_mma(product_->numbers);
    for (std::int64_t t = task.first_tile; t < task.last_tile; ++t) {
      const std::int64_t pairs =
          std::popcount(product_->tiles_of_c[static_cast<std::size_t>(t)].meeting);
      work.mma += mmas_of_step * ((pairs + of_mma - 1) / of_mma);
    }
    const std::int64_t values_of_pair = mean_values(b);
    work.a_bytes = kTaskBytes + (2 * kTileBytes + kTileRowBytes) * factors_of(task);
    work.b_bytes =
        3 * kTileBytes * task.products + (kTileBytes + value_bytes * values_of_pair) * task.pairs;
    for (const std::int64_t cells : task.cells) work.c_bytes += 8 * cells;
  }

  /// Of a tile.
  static std::int64_t mean_values(const TiledMatrix& matrix) {
    std::int64_t tiles = 0;
    for (const TileRow& row : matrix.rows) tiles += row.count;
    return matrix.csr.nnz() / std::max<std::int64_t>(tiles, 1);
  }

  std::span<ThreadBlockWork> add(Launch launch) {
    const std::size_t first = work_.thread_blocks.size(),
                      count = static_cast<std::size_t>(launch.thread_blocks);
    work_.thread_blocks.resize(first + count);
    work_.launches.push_back(std::move(launch));
    return std::span(work_.thread_blocks).subspan(first, count);
  }

  std::shared_ptr<const Product> product_;
  Addresses at_;
  WorkDescription& work_;
};

}  // namespace

WorkDescription describe_work(const CsrMatrix& a, const CsrMatrix& b, TileArithmetic numbers) {
  require(a.cols == b.rows, "A has {} columns and B {} rows", a.cols, b.rows);
  const bool is_fp16 = numbers == TileArithmetic::kFp16;
  WorkDescription work{.kernel = "tile_spgemm",
                       .mma_type = is_fp16 ? "fp16" : "tf32",
                       .mma_shape = is_fp16 ? "m16n8k16" : "m16n8k8",
                       .flops_per_mma = 2 * 16 * 8 * kSide * pairs_of_mma(numbers)};
  for (const std::int32_t col : a.col_indices) work.useful_flops += 2 * b.row_length(col);
  if (a.nnz() == 0 || b.nnz() == 0) return work;
  const auto product = std::make_shared<const Product>(a, b, numbers);
  Launches launches(product, work);
  launches.fill(product->a, "fill_tiles", launches.at().a, {true, !product->b});
  if (product->b) launches.fill(*product->b, "fill_tiles of B", launches.at().b, {false, true});
  launches.cut();
  launches.count();
  launches.scan();
  launches.sum();
  work.footprint_bytes = 8 * (std::int64_t{a.rows} + 1) + 8 * a.nnz();
  work.b_rows_bytes = product->b ? 8 * (std::int64_t{b.rows} + 1) + 8 * b.nnz() : 0;
  work.c_bytes = 8 * (std::int64_t{a.rows} + 1) + 8 * product->nonzeros_of_c;
  return work;
}

}  // namespace tessera::tile_spgemm
