// The plan of row_spgemm under a mask M: which threads make a row of C. C has the cells of M, so
// that nothing is counted and nothing is cut into tasks. A row of few cells and few products has a
// few lanes or a warp, which add the products of a cell in the order of A's columns. A heavy row
// has a thread block, or one for each window of its cells. Warp w of the block takes the nonzeros
// w, w + kPartsOfRow, ... of the row of A and adds its products to sums of its own, so that no warp
// waits for another; the parts of a cell are added at the end. kernels/spgemm/row/mask_words.cuh
// finds the cell of a product, whose factor of B is read only then. Where rows of B are long and
// few of their words have cells, the words are looked up instead (masked_by_words.cuh). All ways
// add in the same order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "formats/base/matrix.hpp"
#include "kernels/host_device.hpp"
#include "kernels/spgemm/row/schedule.hpp"

namespace tessera {
class GpuSparseProduct;
}

namespace tessera::row_spgemm {

/// Warps of the thread block of a heavy row, which are the parts of its sums.
constexpr int kPartsOfRow = 8;
/// Cells of M for which a row has room, for each of its lanes.
constexpr int kCellsOfLane = 4;
constexpr int kCellsOfWarp = kCellsOfLane * kWarpLanes;
/// Cells of a heavy row that one thread block makes, and of a window of a row with more.
constexpr int kCellsOfBlock = 512, kCellsOfMaskWindow = 2048;

/// How a row of C is made.
enum class MaskedWay : std::int8_t {
  kLanes,  // by the lanes of the launch over all rows
  kWarp,   // by a warp of the second launch
  kHeavy,  // by thread blocks, its sums in parts
};

/// The plan of a product under a mask.
struct MaskedPlan {
  int lanes = 4;                   // of each row in the launch over all rows: 4, 8, 16 or 32
  std::int64_t most_products = 0;  // of a row that is not heavy
  /// The products of a row with more nonzeros of A than this are not counted: it is heavy.
  TESSERA_HOST_DEVICE constexpr std::int64_t most_nonzeros() const { return 8 * lanes; }

  /// The way in which a row is made, by its cells of M, its nonzeros of A and its products.
  TESSERA_HOST_DEVICE constexpr MaskedWay way(std::int64_t cells, std::int64_t nonzeros,
                                              std::int64_t products) const {
    constexpr std::int64_t kProductsOfLane = 64;
    if (cells > kCellsOfWarp || nonzeros > most_nonzeros() || products > most_products)
      return MaskedWay::kHeavy;
    if (lanes == kWarpLanes) return MaskedWay::kLanes;
    return cells <= kCellsOfLane * lanes &&
                   products <= std::min(kProductsOfLane * lanes, most_products / 4)
               ? MaskedWay::kLanes
               : MaskedWay::kWarp;
  }
};

/// The plan for operands of these sizes. A row has as many lanes as a row of B has nonzeros on
/// average, because its lanes take one row of B at a time.
constexpr MaskedPlan plan_masked(std::int64_t rows_of_a, std::int64_t nonzeros_of_a,
                                 std::int64_t rows_of_b, std::int64_t nonzeros_of_b) {
  const auto mean = [](std::int64_t nonzeros, std::int64_t rows) {
    return static_cast<double>(nonzeros) / static_cast<double>(std::max(rows, std::int64_t{1}));
  };
  constexpr double kWarpsOfDevice = 4096;
  const double of_b = mean(nonzeros_of_b, rows_of_b);
  const double length = std::max(of_b, mean(nonzeros_of_a, rows_of_a) / 4);
  MaskedPlan plan;
  while (plan.lanes < kWarpLanes && plan.lanes < length) plan.lanes *= 2;
  plan.most_products = static_cast<std::int64_t>(
      std::clamp(static_cast<double>(nonzeros_of_a) * of_b / kWarpsOfDevice, 256.0, 16384.0));
  return plan;
}

/// Counts over some products of some rows: products, words of rows of B, and those of them that
/// hold a column of the row's cells.
struct MaskedSample {
  std::int64_t products = 0, words = 0, words_with_cells = 0;
};
MaskedSample sample_masked(const CsrMatrix& a, const CsrMatrix& b, const CsrMatrix& mask);

/// True where a product can look up the words of B instead of its nonzeros (masked_by_words.cuh). A
/// row has a whole warp where rows of B are long; to describe B then costs little beside the
/// product.
constexpr bool can_go_by_words(const MaskedPlan& plan) { return plan.lanes == kWarpLanes; }
/// True where that is faster. A word takes about as long as a nonzero. One with cells takes several
/// times as long, because every cell of the row looks for its column there. The two numbers
/// separate eight matrices on an H200 (experiments/results/spgemm), of which bcsstk17 (0.77) and
/// bcsstk29 (0.75) lie nearest to them.
constexpr bool words_are_faster(const MaskedSample& sample) {
  constexpr std::int64_t kTimeOfCells = 8;  // of a word with cells over that of a word
  return 4 * (sample.words + kTimeOfCells * sample.words_with_cells) < 3 * sample.products;
}

/// C under the pattern of a mask, bit for bit as the device makes it.
CsrMatrix emulate_masked(const CsrMatrix& a, const CsrMatrix& b, const CsrMatrix& mask);

/// A and B on the device for products under a mask. With `reuse`, C stays for further products with
/// other values.
std::unique_ptr<GpuSparseProduct> upload_masked(const CsrMatrix& a, const CsrMatrix& b,
                                                const CsrMatrix& mask, bool reuse);

}  // namespace tessera::row_spgemm
