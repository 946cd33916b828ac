// The numbers of a sparse matrix that the cost models of our own SpMM kernels read, found in time
// for one product: condensed columns are counted in a sample of the row windows.
#pragma once

#include <cstdint>
#include <functional>

#include "formats/base/choice.hpp"
#include "formats/base/matrix.hpp"

namespace tessera {

/// The most nonzeros whose columns product_counts() reads, unless one window has more.
constexpr std::int64_t kSampledNonzeros = std::int64_t{1} << 19;

/// For C = A B with n columns: "n", "rows", "cols", "nonzeros"; of windows of 16 rows
/// "condensed_columns" and "tc_blocks" (8 of them each), summed over the windows, and
/// "longest_window", the TC blocks of the window with the most nonzeros; of windows of 64 rows
/// "tall_tiles" (64 condensed columns each); and "longest_row", the nonzeros of the longest row.
/// Sums are exact where A has at most kSampledNonzeros, and else those of every k-th window, scaled
/// by the nonzeros. O(rows +
/// min(nonzeros, sample) + cols).
WorkCounts product_counts(const CsrMatrix& a, std::int64_t n);

/// One window of 16 rows (fewer at the end of A), with its condensed columns and its TC blocks.
struct CountedWindow {
  std::int64_t first_row = 0;
  std::int64_t last_row = 0;  // the one behind it
  std::int64_t columns = 0;
  std::int64_t blocks = 0;
};

/// Calls visit(window) for every window of A, from the first to the last. O(nonzeros + cols).
void for_each_counted_window(const CsrMatrix& a,
                             const std::function<void(const CountedWindow&)>& visit);

}  // namespace tessera
