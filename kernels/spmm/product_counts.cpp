#include "kernels/spmm/product_counts.hpp"

#include <algorithm>
#include <vector>

#include "formats/mosaic.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kWindowRows = Mosaic::kWindowRows, kBlockCols = Mosaic::kTileCols;

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

std::int64_t blocks_of(std::int64_t columns) { return (columns + kBlockCols - 1) / kBlockCols; }

std::int64_t windows_of(const CsrMatrix& a) {
  return (std::int64_t{a.rows} + kWindowRows - 1) / kWindowRows;
}

/// The row behind the window.
std::int64_t last_row_of(const CsrMatrix& a, std::int64_t window) {
  return std::min<std::int64_t>((window + 1) * kWindowRows, a.rows);
}

}  // namespace

WorkCounts product_counts(const CsrMatrix& a, std::int64_t n) {
  const std::int64_t windows = windows_of(a);
  const std::int64_t step =
      std::max<std::int64_t>(1, (a.nnz() + kSampledNonzeros - 1) / kSampledNonzeros);
  const auto last_row = [&](std::int64_t window) { return last_row_of(a, window); };
  const auto nonzeros_of = [&](std::int64_t window) {
    return a.row_offsets[last_row(window)] - a.row_offsets[window * kWindowRows];
  };
  ColumnCounter counter(a);
  std::int64_t columns = 0, blocks = 0, nonzeros = 0, longest = 0;
  for (std::int64_t window = 0; window < windows; ++window) {
    if (nonzeros_of(window) > nonzeros_of(longest)) longest = window;
    if (window % step != step / 2) continue;
    const std::int64_t found = counter.count(window * kWindowRows, last_row(window));
    columns += found, blocks += blocks_of(found), nonzeros += nonzeros_of(window);
  }
  const double scale =
      nonzeros > 0 ? static_cast<double>(a.nnz()) / static_cast<double>(nonzeros) : 0;
  std::int64_t longest_row = 0;
  for (std::int32_t row = 0; row < a.rows; ++row)
    longest_row = std::max(longest_row, a.row_length(row));
  const std::int64_t of_longest =
      windows > 0 ? blocks_of(counter.count(longest * kWindowRows, last_row(longest))) : 0;
  return {{"n", static_cast<double>(n)},
          {"rows", static_cast<double>(a.rows)},
          {"cols", static_cast<double>(a.cols)},
          {"nonzeros", static_cast<double>(a.nnz())},
          {"condensed_columns", scale * static_cast<double>(columns)},
          {"tc_blocks", scale * static_cast<double>(blocks)},
          {"longest_window", static_cast<double>(of_longest)},
          {"longest_row", static_cast<double>(longest_row)}};
}

void for_each_counted_window(const CsrMatrix& a,
                             const std::function<void(const CountedWindow&)>& visit) {
  ColumnCounter counter(a);
  for (std::int64_t window = 0; window < windows_of(a); ++window) {
    const std::int64_t first = window * kWindowRows, last = last_row_of(a, window);
    const std::int64_t columns = counter.count(first, last);
    visit({first, last, columns, blocks_of(columns)});
  }
}

}  // namespace tessera
