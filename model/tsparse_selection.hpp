// tSparse's selection criteria: which products A A are worth its tensor cores, and how right such a
// criterion is.
//
// Source: tSparse (Zachariadis et al., 2020), section 6.1 and Table 2, fitted by hand on a Titan
// RTX. Text and table differ in two places, and the table is what is here: against CUSP the table
// takes equality in, the text does not; against RMerge2 the text leaves out NNZ(A) > 100000. For a
// smaller GPU (RTX 2070) the paper relaxes the mean row from 42 to 21.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tessera::tsparse {

/// What a criterion looks at.
struct Figures {
  std::int64_t rows = 0;           // of A, square
  std::int64_t nnz = 0;            // of A
  std::int64_t products = 0;       // of elements: NNZ of the paper's C bar
  std::int64_t tile_products = 0;  // of pairs of 8 x 8 tiles

  double mean_row() const;
  /// Products of elements per product of tiles; 0 without any.
  double products_per_tile_product() const;
};

/// A threshold that is 0 is not part of the criterion. All are strict but at_least_products.
struct Criterion {
  std::string against;    // the approach tSparse is said to beat: "cusparse", ..., "all"
  std::string condition;  // in words
  std::int64_t above_nnz = 0;
  double above_mean_row = 0;
  double above_products = 0;     // per tile product
  double at_least_products = 0;  // per tile product

  // Table 2: how often it says yes, of how many matrices, and how right that is.
  int predictions = 0;
  int matrices = 0;
  double precision = 0;
  double recall = 0;

  /// Whether it asks for products, which take longer to count than rows and nonzeros.
  bool needs_products() const { return above_products > 0 || at_least_products > 0; }
  bool holds(const Figures& figures) const;
};

/// Table 2, in its order; the last one is the global criterion, against all at once.
const std::vector<Criterion>& criteria();

/// The global one with the mean row that section 6.1 gives for GPUs that are not high-end.
Criterion relaxed_criterion();

/// Section 6.1: matrices that the criteria were fitted on. A bitmap density is the mean number of
/// nonzeros of a nonempty 8 x 8 tile.
bool is_in_collection(const Figures& figures, double bitmap_density);

/// How right a prediction is, in the terms of classification.
struct Score {
  int matrices = 0;
  int predicted = 0;  // said to be faster
  int faster = 0;     // that are
  int both = 0;

  /// Of the predicted, the share that is faster; nothing where none is predicted.
  std::optional<double> precision() const;
  /// Of the faster, the share that is predicted; nothing where none is faster.
  std::optional<double> recall() const;
};

/// A matrix each: what was predicted, and what was measured.
struct Verdict {
  bool predicted = false;
  bool faster = false;
};
Score score(std::span<const Verdict> verdicts);

}  // namespace tessera::tsparse
