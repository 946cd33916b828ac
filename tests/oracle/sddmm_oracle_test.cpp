// The oracle of SDDMM: its truth against that of a product with a dense B, and that its comparison
// finds what is wrong.
#include "oracle/sddmm_oracle.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "formats/base/check.hpp"
#include "oracle/spmm_oracle.hpp"
#include "tests/oracle_support.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

DenseMatrix transposed(const DenseMatrix& y) {
  DenseMatrix b(y.cols, y.rows);
  for (std::int64_t i = 0; i < y.rows; ++i)
    for (std::int64_t k = 0; k < y.cols; ++k) b.at(k, i) = y.at(i, k);
  return b;
}

/// X as a sparse matrix, so that X Y^T is a product whose truth is known.
CsrMatrix sparse(const DenseMatrix& x) {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> columns;
  for (std::int64_t i = 0; i < x.rows; ++i) {
    for (std::int64_t k = 0; k < x.cols; ++k) columns.push_back(static_cast<std::int32_t>(k));
    offsets.push_back(std::ssize(columns));
  }
  return csr(static_cast<std::int32_t>(x.rows), static_cast<std::int32_t>(x.cols), offsets, columns,
             x.values);
}

CsrMatrix with_values(const CsrMatrix& a, const std::vector<double>& values) {
  return {a.rows, a.cols, a.row_offsets, a.col_indices,
          std::vector<float>(values.begin(), values.end())};
}

TEST_CASE("the truth of an SDDMM is that of the dense product at the nonzeros") {
  const CsrMatrix a = random_sparse(30, 40, 0.2, 1);
  for (const std::int64_t k : {1, 7, 8, 100}) {
    const DenseMatrix x = random_dense(30, k, 2), y = random_dense(40, k, 3);
    const TrueRows dense_truth = spmm_fp64(sparse(x), transposed(y), 0, 30);
    const TrueSamples truth = sddmm_fp64(a, {x, y}, 0, 30);
    const TrueSamples scaled = sddmm_fp64(a, {x, y, true}, 0, 30);
    REQUIRE(std::ssize(truth.product) == a.nnz());
    for (std::int32_t row = 0; row < 30; ++row)
      for (std::int64_t i = a.row_offsets[row]; i < a.row_offsets[row + 1]; ++i) {
        const std::size_t cell = row * 40 + a.col_indices[i];
        // The two differ by one rounding of a sum in twice the precision.
        CHECK(truth.product[i] == doctest::Approx(dense_truth.product[cell]).epsilon(1e-15));
        CHECK(truth.magnitude[i] == doctest::Approx(dense_truth.magnitude[cell]).epsilon(1e-14));
        CHECK(scaled.product[i] == truth.product[i] * double{a.values[i]});
        CHECK(scaled.magnitude[i] == truth.magnitude[i] * std::abs(double{a.values[i]}));
      }
  }
}

TEST_CASE("the truth of an SDDMM keeps what cancellation leaves") {
  const CsrMatrix a = csr(1, 1, {0, 1}, {0}, {2});
  const DenseMatrix x = dense(1, 4, {0x1p60f, 1, -0x1p60f, 0x1p-40f}),
                    y = dense(1, 4, {1, 1, 1, 1});
  CHECK(sddmm_fp64(a, {x, y}, 0, 1).product[0] == 1 + 0x1p-40);
  CHECK(sddmm_fp64(a, {x, y, true}, 0, 1).product[0] == 2 + 0x1p-39);
}

TEST_CASE("a comparison finds a wrong element of S, and passes a right one") {
  const CsrMatrix a = random_sparse(200, 60, 0.1, 11);
  const DenseMatrix x = random_dense(200, 33, 12), y = random_dense(60, 33, 13);
  for (const bool scales : {false, true}) {
    const SampledFactors factors{x, y, scales};
    const TrueSamples truth = sddmm_fp64(a, factors, 0, a.rows);
    std::vector<double> values = truth.product;
    const ErrorBound bound = same_bound(200, 0x1p-24, 0);
    CHECK(compare_sddmm(a, factors, with_values(a, values), bound).ok());
    CHECK(compare_sddmm(a, factors, with_values(a, values), bound).compared == a.nnz());

    const std::int64_t place = a.row_offsets[123];
    REQUIRE(a.row_length(123) > 0);
    values[place] += 0x1p-20 * truth.magnitude[place];
    const ProductErrors errors = compare_sddmm(a, factors, with_values(a, values), bound);
    CHECK(errors.beyond_bound == 1);
    CHECK(errors.worst.row == 123);
    CHECK(errors.worst.col == a.col_indices[place]);
    values[place] = kNan;
    CHECK(compare_sddmm(a, factors, with_values(a, values), bound).non_finite == 1);
  }
}

TEST_CASE("an S where the factors make it NaN or infinite has to be so") {
  const CsrMatrix a = csr(1, 3, {0, 3}, {0, 1, 2}, {1, 1, 1});
  const DenseMatrix x = dense(1, 2, {kInf, 1}), y = dense(3, 2, {1, 1, 0, 1, -1, 1});
  const ErrorBound bound = same_bound(1, 1e-6, 0);
  CHECK(compare_sddmm(a, {x, y}, csr(1, 3, {0, 3}, {0, 1, 2}, {kInf, kNan, -kInf}), bound).ok());
  CHECK_FALSE(compare_sddmm(a, {x, y}, csr(1, 3, {0, 3}, {0, 1, 2}, {kInf, 1, -kInf}), bound).ok());
  CHECK_FALSE(
      compare_sddmm(a, {x, y}, csr(1, 3, {0, 3}, {0, 1, 2}, {kInf, kNan, kInf}), bound).ok());
}

TEST_CASE("SMAPE against FP32 is that of chains of fused multiply-adds") {
  const CsrMatrix a = csr(1, 1, {0, 1}, {0}, {3});
  const DenseMatrix x = dense(1, 2, {1, 0x1p-30f}), y = dense(1, 2, {1, 1});
  const CsrMatrix one = csr(1, 1, {0, 1}, {0}, {3});  // FP32 drops the small product
  const ProductErrors errors = compare_sddmm(a, {x, y, true}, one, same_bound(1, 1, 1), true);
  REQUIRE(errors.smape_fp32_pct.has_value());
  CHECK(*errors.smape_fp32_pct == 0);
  CHECK(errors.smape_pct > 0);
}

TEST_CASE("factors and results of an SDDMM that do not fit are refused") {
  const CsrMatrix a = csr(2, 3, {0, 1, 2}, {0, 2}, {1, 1});
  const DenseMatrix x(2, 4, 1), y(3, 4, 1), narrow(3, 3, 1);
  CHECK_THROWS_AS(sddmm_fp64(a, {y, x}, 0, 2), Error);
  CHECK_THROWS_AS(sddmm_fp64(a, {x, narrow}, 0, 2), Error);
  CHECK_THROWS_AS(sddmm_fp64(a, {x, y}, 0, 3), Error);
  const CsrMatrix other = csr(2, 3, {0, 1, 2}, {0, 1}, {4, 4});
  CHECK_THROWS_AS(compare_sddmm(a, {x, y}, other, same_bound(2, 1, 1)), Error);
  CHECK_THROWS_AS(
      compare_sddmm(a, {x, y}, csr(2, 3, {0, 1, 2}, {0, 2}, {4, 4}), same_bound(1, 1, 1)), Error);
}

}  // namespace
}  // namespace tessera
