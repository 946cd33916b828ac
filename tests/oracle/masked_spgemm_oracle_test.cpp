// The comparison of a sparse product under a mask with the truth at the mask's cells.

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "formats/base/check.hpp"
#include "oracle/error_bounds.hpp"
#include "oracle/spgemm_oracle.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

ErrorBound bound_of(const CsrMatrix& a) {
  ErrorBound bound{std::vector<double>(a.rows), std::vector<double>(a.rows, underflow_bound(100))};
  for (std::int32_t row = 0; row < a.rows; ++row)
    bound.relative[row] = fp32_sum_bound(a.row_length(row));
  return bound;
}

CsrMatrix with_value(const CsrMatrix& c, std::int64_t at, float value) {
  std::vector<float> values(c.values.begin(), c.values.end());
  values[at] = value;
  return {c.rows, c.cols, c.row_offsets, c.col_indices, std::move(values)};
}

TEST_CASE("under a mask of all of C's cells the errors are those of the whole product") {
  const CsrMatrix a = random_sparse(130, 80, 0.06, 31), b = random_sparse(80, 90, 0.08, 32);
  const CsrMatrix c = spgemm_fp32(a, b);

  const ProductErrors masked = compare_masked_spgemm(a, b, c, bound_of(a), true);
  const ProductErrors whole = compare_spgemm(a, b, c, bound_of(a), true).values;

  CHECK(masked.ok());
  CHECK(masked.compared == c.nnz());
  CHECK(masked.smape_fp32_pct == 0);
  CHECK(masked.bound_ratio == doctest::Approx(whole.bound_ratio));
  CHECK(masked.worst.row == whole.worst.row);
  CHECK(masked.worst.col == whole.worst.col);
}

TEST_CASE("a wrong cell of a mask is found, also where no product is") {
  const CsrMatrix a = random_sparse(50, 40, 0.05, 33), b = random_sparse(40, 60, 0.05, 34);
  const TrueSparse truth = spgemm_fp64(a, b);
  const CsrMatrix mask = random_sparse(50, 60, 0.4, 35);
  std::vector<float> values(mask.nnz(), 0.0f);
  std::int64_t empty = -1, full = -1;
  for (std::int32_t row = 0; row < mask.rows; ++row)
    for (std::int64_t k = mask.row_offsets[row]; k < mask.row_offsets[row + 1]; ++k) {
      empty = empty < 0 ? k : empty;
      for (std::int64_t t = truth.row_offsets[row]; t < truth.row_offsets[row + 1]; ++t)
        if (truth.col_indices[t] == mask.col_indices[k]) {
          values[k] = static_cast<float>(truth.product[t]);
          full = k;
          if (empty == k) empty = -1;
        }
    }
  REQUIRE(empty >= 0);
  REQUIRE(full >= 0);
  const CsrMatrix c{mask.rows, mask.cols, mask.row_offsets, mask.col_indices, values};

  CHECK(compare_masked_spgemm(a, b, c, bound_of(a)).ok());
  for (const std::int64_t at : {empty, full}) {
    const ProductErrors errors =
        compare_masked_spgemm(a, b, with_value(c, at, c.values[at] + 0.01f), bound_of(a));
    CHECK(errors.beyond_bound == 1);
    CHECK(errors.worst.col == mask.col_indices[at]);
  }
  const ProductErrors lost = compare_masked_spgemm(a, b, with_value(c, full, 0), bound_of(a));
  CHECK(lost.beyond_bound == 1);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(compare_masked_spgemm(a, b, with_value(c, full, nan), bound_of(a)).non_finite == 1);
}

TEST_CASE("a product in FP64 keeps to its bound, and has other values than one in FP32") {
  const CsrMatrix a = random_sparse(40, 400, 0.5, 36), b = random_sparse(400, 40, 0.5, 37);
  ErrorBound bound = bound_of(a);
  for (std::int32_t row = 0; row < a.rows; ++row)
    bound.relative[row] = combine(0x1p-24, fp64_sum_bound(a.row_length(row)));
  const TrueSparse truth = spgemm_fp64(a, b);
  const std::vector<float> values(truth.product.begin(), truth.product.end());
  const CsrMatrix c{a.rows, b.cols, truth.row_offsets, truth.col_indices, values};
  CHECK(compare_spgemm(a, b, c, bound).values.ok());
  CHECK(compare_masked_spgemm(a, b, c, bound).ok());
  CHECK(fp64_sum_bound(1000) < 1e-12);
  CHECK_FALSE(fp64_sum_bound(1000) == 0);
  // Against |A||B| a chain in FP32 loses several roundings of its largest partial sum.
  const CsrMatrix single = spgemm_fp32(a, b);
  std::int64_t different = 0;
  for (std::int64_t k = 0; k < c.nnz(); ++k) different += single.values[k] != c.values[k];
  CHECK(different > c.nnz() / 2);
}

TEST_CASE("shapes that do not fit under a mask are refused") {
  const CsrMatrix a = random_sparse(4, 3, 0.5, 51), b = random_sparse(3, 2, 0.5, 52);
  CHECK_THROWS_WITH_AS(compare_masked_spgemm(a, b, a, bound_of(a)),
                       "shapes do not fit: A is 4 x 3, B 3 x 2, C 4 x 3", Error);
}

}  // namespace
}  // namespace tessera
