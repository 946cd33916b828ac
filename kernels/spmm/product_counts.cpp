#include "kernels/spmm/product_counts.hpp"

#include <algorithm>
#include <vector>

#include "formats/mosaic.hpp"
#include "formats/tall_tiles.hpp"

namespace tessera {
namespace {

/// Counts the different columns of a window; `seen` has the last window of each column.
class ColumnCounter {
 public:
  explicit ColumnCounter(const CsrMatrix& a) : a_(a), seen_(static_cast<std::size_t>(a.cols)) {}

  std::int64_t count(std::int64_t first_row, std::int64_t last_row) {
    ++window_;
    std::int64_t columns = 0;
    for (std::int64_t k = a_.row_offsets[first_row]; k < a_.row_offsets[last_row]; ++k) {
      std::uint32_t& last = seen_[static_cast<std::size_t>(a_.col_indices[k])];
      columns += last != window_;
      last = window_;
    }
    return columns;
  }

 private:
  const CsrMatrix& a_;
  std::vector<std::uint32_t> seen_;
  std::uint32_t window_ = 0;
};

/// Windows of so many rows, whose columns are condensed into blocks of so many.
struct Tiling {
  std::int64_t window_rows, block_cols;

  std::int64_t windows(const CsrMatrix& a) const {
    return (std::int64_t{a.rows} + window_rows - 1) / window_rows;
  }
  std::int64_t first_row(std::int64_t window) const { return window * window_rows; }
  /// The row behind the window.
  std::int64_t last_row(const CsrMatrix& a, std::int64_t window) const {
    return std::min<std::int64_t>((window + 1) * window_rows, a.rows);
  }
  std::int64_t blocks(std::int64_t columns) const {
    return (columns + block_cols - 1) / block_cols;
  }
};
constexpr Tiling kMosaic{Mosaic::kWindowRows, Mosaic::kTileCols};
constexpr Tiling kTall{TallTiles::kWindowRows, TallTiles::kTileCols};

/// The condensed columns and the blocks of all windows, from a sample of them.
struct SampledCounts {
  double columns = 0, blocks = 0;
};
SampledCounts sample(const CsrMatrix& a, const Tiling& tiling, ColumnCounter& counter) {
  const std::int64_t step =
      std::max<std::int64_t>(1, (a.nnz() + kSampledNonzeros - 1) / kSampledNonzeros);
  std::int64_t columns = 0, blocks = 0, nonzeros = 0;
  for (std::int64_t window = step / 2; window < tiling.windows(a); window += step) {
    const std::int64_t first = tiling.first_row(window), last = tiling.last_row(a, window);
    const std::int64_t found = counter.count(first, last);
    columns += found, blocks += tiling.blocks(found);
    nonzeros += a.row_offsets[last] - a.row_offsets[first];
  }
  if (nonzeros == 0) return {};
  const double scale = static_cast<double>(a.nnz()) / static_cast<double>(nonzeros);
  return {scale * static_cast<double>(columns), scale * static_cast<double>(blocks)};
}

/// The blocks of the window with the most nonzeros.
std::int64_t longest_window(const CsrMatrix& a, const Tiling& tiling, ColumnCounter& counter) {
  const auto nonzeros_of = [&](std::int64_t window) {
    return a.row_offsets[tiling.last_row(a, window)] - a.row_offsets[tiling.first_row(window)];
  };
  if (tiling.windows(a) == 0) return 0;
  std::int64_t longest = 0;
  for (std::int64_t window = 1; window < tiling.windows(a); ++window)
    if (nonzeros_of(window) > nonzeros_of(longest)) longest = window;
  return tiling.blocks(counter.count(tiling.first_row(longest), tiling.last_row(a, longest)));
}

}  // namespace

WorkCounts product_counts(const CsrMatrix& a, std::int64_t n) {
  ColumnCounter counter(a);
  const SampledCounts mosaic = sample(a, kMosaic, counter), tall = sample(a, kTall, counter);
  std::int64_t longest_row = 0;
  for (std::int32_t row = 0; row < a.rows; ++row)
    longest_row = std::max(longest_row, a.row_length(row));
  return {{"n", static_cast<double>(n)},
          {"rows", static_cast<double>(a.rows)},
          {"cols", static_cast<double>(a.cols)},
          {"nonzeros", static_cast<double>(a.nnz())},
          {"condensed_columns", mosaic.columns},
          {"tc_blocks", mosaic.blocks},
          {"tall_tiles", tall.blocks},
          {"longest_window", static_cast<double>(longest_window(a, kMosaic, counter))},
          {"longest_row", static_cast<double>(longest_row)}};
}

void for_each_counted_window(const CsrMatrix& a,
                             const std::function<void(const CountedWindow&)>& visit) {
  ColumnCounter counter(a);
  for (std::int64_t window = 0; window < kMosaic.windows(a); ++window) {
    const std::int64_t first = kMosaic.first_row(window), last = kMosaic.last_row(a, window);
    const std::int64_t columns = counter.count(first, last);
    visit({first, last, columns, kMosaic.blocks(columns)});
  }
}

}  // namespace tessera
