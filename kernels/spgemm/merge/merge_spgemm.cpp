// SpGEMM by merging rows of B, after RMerge (Gremse, Hoefter, Schwen, Kiessling, Naumann:
// GPU-accelerated sparse matrix-matrix multiplication by iterative row merging, SIAM J. Sci.
// Comput. 37(1), 2015) and RMerge2 (Gremse, Kuepper, Naumann 2018: part of a warp per row).
//
// Each lane of a group of 2 to 32 walks through a row of B that a nonzero of A names. The group
// repeatedly finds the least column among its lanes, adds the values of this column in a tree over
// the lanes, and advances these lanes. A row of A with more nonzeros than a group has lanes is
// merged in pieces, and the results in pieces again: the paper's factors of A, but only for the
// rows that need them. Departures: rows and pieces are merged twice, to count and to multiply;
// registers prefetch nothing.

#include "kernels/spgemm/merge/merge_spgemm.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spgemm/shared/product_sketch.hpp"
#include "kernels/spgemm_kernel.hpp"

namespace tessera {
namespace {

using namespace merge_spgemm;

struct SparseRow {
  std::vector<std::int32_t> cols;
  std::vector<float> values;
};

/// The sum that lane 0 of a group has after a butterfly over the lanes.
float tree_sum(std::span<float> lanes) {
  for (std::size_t half = lanes.size() / 2; half > 0; half /= 2)
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

/// The sum of at most `width` rows.
SparseRow merge(std::span<const SparseRow> rows, int width) {
  constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::max();
  std::vector<std::size_t> at(rows.size(), 0);
  std::vector<float> lanes(width);
  SparseRow merged;
  for (;;) {
    std::int32_t least = kNone;
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (at[i] < rows[i].cols.size()) least = std::min(least, rows[i].cols[at[i]]);
    if (least == kNone) return merged;
    std::ranges::fill(lanes, 0.0f);
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (at[i] < rows[i].cols.size() && rows[i].cols[at[i]] == least)
        lanes[i] = rows[i].values[at[i]++];
    merged.cols.push_back(least);
    merged.values.push_back(tree_sum(lanes));
  }
}

SparseRow multiply_row(const CsrMatrix& a, const CsrMatrix& b, std::int64_t row, int most_rows) {
  std::vector<SparseRow> rows;
  for (std::int64_t k = a.row_offsets[row]; k < a.row_offsets[row + 1]; ++k) {
    const auto cols = b.row_cols(a.col_indices[k]);
    SparseRow scaled{{cols.begin(), cols.end()}, {}};
    for (const float value : b.row_values(a.col_indices[k]))
      scaled.values.push_back(a.values[k] * value);
    rows.push_back(std::move(scaled));
  }
  while (std::ssize(rows) > most_rows) {
    std::vector<SparseRow> merged;
    for (std::size_t i = 0; i < rows.size(); i += most_rows) {
      const std::size_t count = std::min<std::size_t>(most_rows, rows.size() - i);
      merged.push_back(merge(std::span(rows).subspan(i, count), most_rows));
    }
    rows = std::move(merged);
  }
  return merge(rows, width_of_class(width_class_for(std::ssize(rows))));
}

class MergeSpgemm final : public SpgemmKernel {
 public:
  explicit MergeSpgemm(int most_rows) : most_rows_(most_rows) {}

  int version() const override { return 2; }
  Arithmetic arithmetic() const override { return {}; }

  CsrMatrix emulate(const CsrMatrix& a, const CsrMatrix& b, const Generation&) const override {
    require(a.cols == b.rows, "A has {} columns and B {} rows", a.cols, b.rows);
    std::vector<SparseRow> rows(a.rows);
    parallel_for(a.rows, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        rows[row] = multiply_row(a, b, row, most_rows_);
    });
    std::vector<std::int64_t> offsets{0};
    std::vector<std::int32_t> cols;
    std::vector<float> values;
    for (SparseRow& row : rows) {
      cols.insert(cols.end(), row.cols.begin(), row.cols.end());
      values.insert(values.end(), row.values.begin(), row.values.end());
      offsets.push_back(std::ssize(cols));
      row = {};
    }
    return {a.rows, b.cols, std::move(offsets), std::move(cols), std::move(values)};
  }

  /// Only products whose rows of A are merged in one piece have counts: in pieces, merging took at
  /// least 1.5 times as long as row_spgemm on every matrix measured, and no cost model covers it.
  WorkCounts count_work(const spgemm::ProductSketch& product) const override {
    constexpr double kLanes = 32;  // of a warp
    require<Unsupported>(product.longest_row_of_a <= most_rows_,
                         "a row of A has {} nonzeros: beyond {} it is merged in pieces, whose time "
                         "is not modelled",
                         product.longest_row_of_a, most_rows_);
    double lanes = 0;  // over all products, the lanes that merge the product's row
    for (std::int32_t row = 0; row < product.a().rows; ++row)
      lanes += static_cast<double>(product.row_products[row]) *
               width_of_class(width_class_for(product.a().row_length(row)));
    const auto products = static_cast<double>(product.products);
    // Nonzeros of C, each weighted with the share of a warp that merges its row.
    const double merged = products > 0 ? product.nonzeros_of_c * lanes / products / kLanes : 0;
    return {{"products", products},
            {"nonzeros_of_a", static_cast<double>(product.a().nnz())},
            {"nonzeros_of_c", product.nonzeros_of_c},
            {"merged_columns", merged}};
  }

 private:
  int most_rows_;
};

const Register<SpgemmKernel> entry{{
    .name = "merge_spgemm",
    .summary = "merges rows of B by their least columns, one row per lane (after RMerge)",
    .params = {{"width",
                std::int64_t{32},
                "largest number of rows of B that are merged at once",
                {"2", "4", "8", "16", "32"}}},
    .make = [](const Params& params) { return std::make_unique<MergeSpgemm>(most_rows(params)); },
}};

}  // namespace
}  // namespace tessera
