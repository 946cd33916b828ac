// tSparse's selection criteria, which predict the products A A that are faster on its tensor cores,
// and the precision and recall of such predictions.
//
// Source: tSparse (Zachariadis et al., 2020), section 6.1 and Table 2, fitted by hand on a Titan
// RTX. Text and table differ in two places; this follows the table: against CUSP the table includes
// equality and the text does not; against RMerge2 the text omits NNZ(A) > 100000. For a smaller GPU
// (RTX 2070) the paper relaxes the mean row from 42 to 21.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tessera::tsparse {

/// The counts that a criterion depends on.
struct Figures {
  std::int64_t rows = 0;           // of A, square
  std::int64_t nnz = 0;            // of A
  std::int64_t products = 0;       // of elements: NNZ of the paper's C bar
  std::int64_t tile_products = 0;  // of pairs of 8 x 8 tiles

  double mean_row() const;
  /// Products of elements per product of tiles; 0 without products.
  double products_per_tile_product() const;
};

/// A criterion. A threshold of 0 is not part of it. All thresholds are strict except
/// at_least_products.
struct Criterion {
  std::string against;    // the approach that tSparse is predicted to beat: "cusparse", ..., "all"
  std::string condition;  // in words
  std::int64_t above_nnz = 0;
  double above_mean_row = 0;
  double above_products = 0;     // per tile product
  double at_least_products = 0;  // per tile product

  // Table 2: the number of positive predictions, the number of matrices, and their quality.
  int predictions = 0;
  int matrices = 0;
  double precision = 0;
  double recall = 0;

  /// True when it depends on products, which take longer to count than rows and nonzeros.
  bool needs_products() const { return above_products > 0 || at_least_products > 0; }
  bool holds(const Figures& figures) const;
};

/// The criteria of Table 2, in its order; the last one is the global criterion, against all.
const std::vector<Criterion>& criteria();

/// The global criterion with the mean row that section 6.1 gives for GPUs that are not high-end.
Criterion relaxed_criterion();

/// True for a matrix of the kind that the criteria were fitted on, section 6.1. The bitmap density
/// is the mean number of nonzeros of a nonempty 8 x 8 tile.
bool is_in_collection(const Figures& figures, double bitmap_density);

/// The quality of predictions, in the terms of classification.
struct Score {
  int matrices = 0;
  int predicted = 0;  // predicted to be faster
  int faster = 0;     // measured to be faster
  int both = 0;

  /// The share of the predicted matrices that is faster; empty where none is predicted.
  std::optional<double> precision() const;
  /// The share of the faster matrices that is predicted; empty where none is faster.
  std::optional<double> recall() const;
};

/// The prediction and the measurement of one matrix.
struct Verdict {
  bool predicted = false;
  bool faster = false;
};
Score score(std::span<const Verdict> verdicts);

}  // namespace tessera::tsparse
