// Counts tile_spgemm's work without its traces: tile rows of C are cut into tasks as on the device,
// but the unevenness of a cut is found only for the tile rows with the most products.

#include "kernels/spgemm/tile/counts.hpp"

#include <algorithm>
#include <climits>
#include <functional>
#include <vector>

#include "kernels/spgemm/tile/tile_spgemm.hpp"

namespace tessera::tile_spgemm {
namespace {

using spgemm::TileGrid;

std::int64_t share(std::int64_t count, std::int64_t of) { return (count + of - 1) / of; }

/// The most nonzeros of a tile row that one thread visits when its thread block makes the tiles:
/// its share once to mark tiles, and twice for each group of tiles that is gathered.
std::int64_t longest_filling(const CsrMatrix& matrix, const TileGrid& tiles) {
  std::int64_t longest = 0;
  for (std::int64_t row = 0; row < tiles.rows(); ++row) {
    const std::int64_t begin = row * kSide,
                       end = std::min<std::int64_t>(begin + kSide, matrix.rows);
    const std::int64_t nonzeros = matrix.row_offsets[end] - matrix.row_offsets[begin];
    const std::int64_t gathered = share(tiles.row_length(row), kTilesGathered);
    longest = std::max(longest, share(nonzeros, kThreads) * (1 + 2 * gathered));
  }
  return longest;
}

/// The work in all tasks, and in the largest one. A task visits a range of its columns of C at a
/// time; each visit scans all tiles of its tile row of A.
class TaskCounts {
 public:
  explicit TaskCounts(const spgemm::ProductSketch& product)
      : a_(product.tiles_of_a()),
        b_(product.tiles_of_b()),
        most_pairs_(pairs_of_task(product.a().nnz(), product.b().nnz(), product.b().rows)),
        slices_left_(most_slices(a_.rows(), product.tile_cols_of_c())) {
    for (std::int64_t row = 0; row < a_.rows(); ++row) add_row(row);
    constexpr std::int64_t kMostProducts = 1'000'000;
    std::ranges::stable_sort(cut_, std::greater{}, &CutRow::products);
    std::int64_t counted = 0;
    for (const CutRow& row : cut_) {
      counted += row.products;
      if (counted > kMostProducts) break;
      largest_task = std::max(largest_task, largest_slice(row));
    }
  }

  std::int64_t long_tile_products = 0;  // in tile rows of A that are long
  std::int64_t scans = 0;               // visits to a range of columns
  std::int64_t tiles_scanned = 0;       // tiles of A, each counted once a visit
  std::int64_t largest_task = 0;        // tile products

 private:
  /// A tile row of C that is cut into slices.
  struct CutRow {
    std::int64_t row, products;
    std::int32_t first_col, cols_of_slice, slices;
  };

  void add_row(std::int64_t row) {
    std::int64_t products = 0;
    std::int32_t first_col = INT_MAX, end_col = 0;
    for (const std::int32_t row_of_b : a_.row_cols(row)) {
      const auto cols = b_.row_cols(row_of_b);
      if (cols.empty()) continue;
      products += std::ssize(cols);
      first_col = std::min(first_col, cols.front());
      end_col = std::max(end_col, cols.back() + 1);
    }
    if (products == 0) return;
    const auto tiles = static_cast<std::int32_t>(a_.row_length(row));
    first_col = first_col / kColsOfSlot * kColsOfSlot;
    const auto slots = static_cast<std::int32_t>(share(end_col - first_col, kColsOfSlot));
    std::int32_t width = slots_of_slice(slots, products, most_pairs_);
    if (width < slots) {
      slices_left_ -= share(slots, width) - 1;
      if (slices_left_ < 0) width = slots;
    }
    const std::int64_t slices = share(slots, width),
                       visits = slices * share(width, slots_at_once(slots, products, tiles));
    if (slices > 1)
      cut_.push_back(
          {row, products, first_col, width * kColsOfSlot, static_cast<std::int32_t>(slices)});
    if (tiles > kShortRow) long_tile_products += products;
    scans += visits;
    tiles_scanned += visits * tiles;
    largest_task = std::max(largest_task, share(products, slices));
  }

  std::int64_t largest_slice(const CutRow& cut) const {
    std::vector<std::int64_t> products(static_cast<std::size_t>(cut.slices), 0);
    for (const std::int32_t row_of_b : a_.row_cols(cut.row))
      for (const std::int32_t col : b_.row_cols(row_of_b))
        ++products[(col - cut.first_col) / cut.cols_of_slice];
    return std::ranges::max(products);
  }

  const TileGrid& a_;
  const TileGrid& b_;
  long long most_pairs_;
  std::int64_t slices_left_;
  std::vector<CutRow> cut_;
};

double real(std::int64_t count) { return static_cast<double>(count); }

}  // namespace

WorkCounts count_work(const spgemm::ProductSketch& product) {
  const CsrMatrix &a = product.a(), &b = product.b();
  const TileGrid &tiles_of_a = product.tiles_of_a(), &tiles_of_b = product.tiles_of_b();
  const bool b_is_a = product.b_is_a();
  const TaskCounts tasks(product);
  // The tiles of A, and those of B where it is another matrix, are made for each product.
  const auto made = [&](std::int64_t of_a, std::int64_t of_b) {
    return real(b_is_a ? of_a : of_a + of_b);
  };
  return {
      {"rows", real(a.rows)},
      {"tiled_matrices", made(1, 1)},
      {"tiled_nonzeros", made(a.nnz(), b.nnz())},
      {"tiled_rows", made(tiles_of_a.rows(), tiles_of_b.rows())},  // tile rows
      {"tiles", made(tiles_of_a.count(), tiles_of_b.count())},
      {"longest_filling", made(longest_filling(a, tiles_of_a), longest_filling(b, tiles_of_b))},
      {"operand_nonzeros", real(a.nnz() + b.nnz())},  // read from A's and B's tiles
      {"tile_products", real(product.tile_products)},
      {"long_tile_products", real(tasks.long_tile_products)},
      {"scans", real(tasks.scans)},
      {"tiles_scanned", real(tasks.tiles_scanned)},
      {"largest_task", real(tasks.largest_task)},
      {"pairs", product.pairs},
      {"tiles_of_c", product.tiles_of_c},
      {"nonzeros_of_c", product.nonzeros_of_c},
  };
}

}  // namespace tessera::tile_spgemm
