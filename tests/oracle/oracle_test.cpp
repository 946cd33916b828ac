// The oracle: its truth against two other ones, and that it lets honest arithmetic through and
// stops every kind of planted fault at its place.
#include <doctest/doctest.h>

#include <Eigen/SparseCore>
#include <cmath>
#include <limits>

#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "oracle/error_bounds.hpp"
#include "oracle/spmm_oracle.hpp"
#include "tests/oracle_support.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

TEST_CASE("the truth agrees with Eigen's product in double") {
  const CsrMatrix a = random_sparse(41, 67, 0.3, 11);
  const DenseMatrix b = random_dense(67, 19, 12);
  Eigen::SparseMatrix<double, Eigen::RowMajor> other_a(a.rows, a.cols);
  for (int i = 0; i < a.rows; ++i)
    for (std::int64_t k = a.row_offsets[i]; k < a.row_offsets[i + 1]; ++k)
      other_a.insert(i, a.col_indices[k]) = a.values[k];
  Eigen::MatrixXd other_b(b.rows, b.cols);
  for (int i = 0; i < b.rows; ++i)
    for (int j = 0; j < b.cols; ++j) other_b(i, j) = b.at(i, j);

  const Eigen::MatrixXd product = other_a * other_b;
  const Eigen::MatrixXd magnitude = other_a.cwiseAbs() * other_b.cwiseAbs();
  const TrueRows truth = spmm_fp64(a, b, 3, 41);

  REQUIRE(truth.product.size() == 38 * 19);
  REQUIRE(truth.magnitude.size() == 38 * 19);
  for (int i = 3; i < 41; ++i)
    for (int j = 0; j < 19; ++j) {
      const std::size_t place = (i - 3) * 19 + j;
      REQUIRE(std::abs(truth.product[place] - product(i, j)) <= 1e-14 * magnitude(i, j));
      REQUIRE(std::abs(truth.magnitude[place] - magnitude(i, j)) <= 1e-14 * magnitude(i, j));
    }
}

TEST_CASE("the truth survives cancellation that leaves plain double no digit") {
  // Pairs of opposite terms up to 2^40, apart in the row, and one small term: every product is a
  // multiple of 2^-64, so that 128-bit integers hold the exact sum.
  constexpr int kPairs = 150, kN = 33;
  std::vector<std::int32_t> indices;
  std::vector<float> values;
  for (int k = 0; k < 2 * kPairs + 1; ++k) {
    const int twin = k % kPairs;
    indices.push_back(k);
    const double exponent = k == 2 * kPairs ? -16 : 40 * random_unit(20, twin);
    values.push_back(std::ldexp(random_signed(21, twin), static_cast<int>(exponent)));
    if (k >= kPairs) values.back() = -values.back();
  }
  const CsrMatrix a = csr(1, 2 * kPairs + 1, {0, 2 * kPairs + 1}, indices, values);
  DenseMatrix b = random_dense(a.cols, kN, 22);
  for (int k = 0; k < kPairs; ++k)
    for (int j = 0; j < kN; ++j) b.at(kPairs + k, j) = b.at(k, j);

  const TrueRows truth = spmm_fp64(a, b, 0, 1);

  double worst_plain = 0;
  for (int j = 0; j < kN; ++j) {
    __extension__ typedef __int128 Wide;  // not ISO C++
    Wide exact = 0;
    double plain = 0;
    for (int k = 0; k < a.cols; ++k) {
      const double term = double{values[k]} * b.at(k, j);
      exact += static_cast<Wide>(std::ldexp(term, 64));
      plain += term;
    }
    const double expected = std::ldexp(static_cast<double>(exact), -64);
    REQUIRE(expected != 0);
    const double error = std::abs(truth.product[j] - expected);
    // The bound that Ogita, Rump and Oishi prove of Sum2 (proposition 4.5), and its value.
    REQUIRE(error <=
            0x1p-53 * std::abs(expected) + std::pow(a.cols * 0x1p-53, 2) * truth.magnitude[j]);
    REQUIRE(error < 1e-8 * std::abs(expected));
    worst_plain = std::max(worst_plain, std::abs(plain - expected) / std::abs(expected));
  }
  CHECK(worst_plain > 1);
}

TEST_CASE("FP32 sums in any order stay within their bound and come close to it") {
  const CsrMatrix a = random_sparse(300, 2000, 0.02, 31);
  const CsrMatrix short_rows = random_sparse(300, 2000, 0.001, 32);
  const DenseMatrix b = random_dense(2000, 24, 33);
  DenseMatrix tree(a.rows, b.cols);  // products rounded, then added pairwise
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < b.cols; ++j) {
      std::vector<float> terms;
      for (std::int64_t k = a.row_offsets[i]; k < a.row_offsets[i + 1]; ++k)
        terms.push_back(a.values[k] * b.at(a.col_indices[k], j));
      for (; terms.size() > 1; terms.resize((terms.size() + 1) / 2))
        for (std::size_t t = 0; t < (terms.size() + 1) / 2; ++t)
          terms[t] = 2 * t + 1 < terms.size() ? terms[2 * t] + terms[2 * t + 1] : terms[2 * t];
      if (!terms.empty()) tree.at(i, j) = terms[0];
    }

  const ProductErrors chain = compare_spmm(a, b, fma_chain(a, b), fp32_bound(a));
  const ProductErrors pairwise = compare_spmm(a, b, tree, fp32_bound(a));
  const ProductErrors few_terms =
      compare_spmm(short_rows, b, fma_chain(short_rows, b), fp32_bound(short_rows));

  CHECK(chain.ok());
  CHECK(pairwise.ok());
  CHECK(few_terms.ok());
  CHECK(chain.bound_ratio > 0.05);
  CHECK(few_terms.bound_ratio > 0.8);
  CHECK(chain.smape_pct > 0);
  CHECK(chain.relative_frobenius < 1e-6);
}

TEST_CASE("sums that are truncated come much nearer to the bound than rounded ones") {
  // 2000 terms of one sign: losses that are never made good add up.
  const std::vector<float> values(2000, 1);
  std::vector<std::int32_t> indices(2000);
  for (int k = 0; k < 2000; ++k) indices[k] = k;
  const CsrMatrix a = csr(1, 2000, {0, 2000}, indices, values);
  DenseMatrix b = random_dense(2000, 8, 35), truncated(1, 8);
  for (float& value : b.values) value = 0x1p-13f + std::abs(value) * 0x1p-13f;
  for (int j = 0; j < 8; ++j) b.at(0, j) = 1;
  for (int k = 0; k < 2000; ++k)
    for (int j = 0; j < 8; ++j) {
      const double sum = double{truncated.at(0, j)} + b.at(k, j);
      const float nearest = static_cast<float>(sum);
      truncated.at(0, j) = nearest > sum ? std::nextafter(nearest, 0.0f) : nearest;
    }

  const ProductErrors honest = compare_spmm(a, b, fma_chain(a, b), fp32_bound(a));
  const ProductErrors coarse = compare_spmm(a, b, truncated, fp32_bound(a));

  CHECK(honest.ok());
  CHECK(coarse.bound_ratio > 5 * honest.bound_ratio);
}

struct Planted {
  CsrMatrix a = random_sparse(120, 90, 0.15, 41);
  DenseMatrix b = random_dense(90, 40, 42);
  DenseMatrix c = fma_chain(a, b);
  ErrorBound bound = fp32_bound(a);
};

TEST_CASE("a wrong column index or a wrong value of A is found in its row") {
  const Planted honest;
  const std::int64_t place = honest.a.row_offsets[57];
  REQUIRE(honest.a.row_length(57) > 1);
  std::vector<std::int32_t> indices(honest.a.col_indices.begin(), honest.a.col_indices.end());
  std::vector<float> values(honest.a.values.begin(), honest.a.values.end());
  CsrMatrix moved = honest.a, changed = honest.a;
  indices[place] = indices[place] > 0 ? indices[place] - 1 : indices[place + 1] - 1;
  REQUIRE(indices[place] != honest.a.col_indices[place]);
  values[place] *= 1 + 0x1p-10f;
  moved.col_indices = indices;
  changed.values = values;

  const ProductErrors wrong_column =
      compare_spmm(honest.a, honest.b, fma_chain(moved, honest.b), honest.bound);
  const ProductErrors wrong_value =
      compare_spmm(honest.a, honest.b, fma_chain(changed, honest.b), honest.bound);

  CHECK(compare_spmm(honest.a, honest.b, honest.c, honest.bound).ok());
  for (const ProductErrors& errors : {wrong_column, wrong_value}) {
    CHECK_FALSE(errors.ok());
    CHECK(errors.worst.row == 57);
    CHECK(errors.beyond_bound > 30);  // nearly all of the row's 40 elements, and no other
    CHECK(errors.beyond_bound <= 40);
  }
}

TEST_CASE("an output that was never written is the worst element of all") {
  Planted planted;
  planted.c.at(3, 5) += 1;
  ErrorBound bound = planted.bound;
  bound.relative[3] = bound.absolute[3] = 0;  // the ratio of C[3][5] is infinite already
  planted.c.at(101, 39) = kNan;

  const ProductErrors errors = compare_spmm(planted.a, planted.b, planted.c, bound);

  CHECK(errors.non_finite == 1);
  CHECK(errors.worst.row == 101);
  CHECK(errors.worst.col == 39);
  CHECK(std::isnan(errors.worst.computed));
  CHECK(errors.bound_ratio == kInf);
  CHECK_FALSE(errors.ok());
}

TEST_CASE("a pair of swapped rows is found in both") {
  Planted planted;
  for (std::int64_t j = 0; j < 40; ++j) std::swap(planted.c.at(17, j), planted.c.at(90, j));

  const ProductErrors errors = compare_spmm(planted.a, planted.b, planted.c, planted.bound);

  CHECK(errors.beyond_bound > 70);
  CHECK(errors.beyond_bound <= 80);
  CHECK((errors.worst.row == 17 || errors.worst.row == 90));
}

TEST_CASE("the last FP32 number within the bound passes and the next one is found") {
  Planted planted;
  const TrueRows truth = spmm_fp64(planted.a, planted.b, 64, 65);
  const double limit = truth.product[7] + planted.bound.relative[64] * truth.magnitude[7] +
                       planted.bound.absolute[64];
  auto last = static_cast<float>(limit);
  if (last > limit) last = std::nextafter(last, -kInf);

  planted.c.at(64, 7) = last;
  const ProductErrors within = compare_spmm(planted.a, planted.b, planted.c, planted.bound);
  planted.c.at(64, 7) = std::nextafter(last, kInf);
  const ProductErrors beyond = compare_spmm(planted.a, planted.b, planted.c, planted.bound);

  CHECK(within.ok());
  CHECK(within.bound_ratio <= 1);
  CHECK(within.bound_ratio > 0.8);
  CHECK(beyond.beyond_bound == 1);
  CHECK(beyond.worst.row == 64);
  CHECK(beyond.worst.col == 7);
  CHECK(beyond.bound_ratio > 1);
}

TEST_CASE("what the inputs make infinite or NaN must be so, and nothing else may be") {
  const float huge = 0x1p100f;
  const CsrMatrix a =
      csr(6, 2, {0, 1, 2, 3, 5, 6, 7}, {0, 0, 0, 0, 1, 1, 0}, {1, -1, huge, 1, 1, 1, 0});
  const DenseMatrix b = dense(2, 2, {kInf, huge, -kInf, 1});
  // FP32 rounds the 2^200 of C[2][1] to infinity; the 2^100 + 1 of C[3][1] loses its one.
  const auto truth =
      dense(6, 2, {kInf, huge, -kInf, -huge, kInf, kInf, kNan, huge, -kInf, 1, kNan, 0});
  const auto wrong = [&](std::int64_t i, std::int64_t j, float value) {
    DenseMatrix c = truth;
    c.at(i, j) = value;
    const ProductErrors errors = compare_spmm(a, b, c, same_bound(6, 1e-6, 0));
    CHECK(errors.worst.row == i);
    CHECK(errors.worst.col == j);
    return errors;
  };

  CHECK(compare_spmm(a, b, truth, same_bound(6, 1e-6, 0)).ok());
  CHECK(compare_spmm(a, b, truth, same_bound(6, 0, 0)).non_finite == 0);
  CHECK(wrong(0, 0, -kInf).non_finite == 1);
  CHECK(wrong(0, 0, kNan).non_finite == 1);
  CHECK(wrong(0, 0, kNan).bound_ratio == kInf);
  CHECK(wrong(0, 0, kNan).compared == 12);
  CHECK(wrong(1, 0, huge).non_finite == 1);
  CHECK(wrong(1, 1, -kInf).non_finite == 1);
  CHECK(wrong(2, 1, -kInf).non_finite == 1);
  CHECK(wrong(2, 1, std::numeric_limits<float>::max()).beyond_bound == 1);
  CHECK(wrong(3, 0, kInf).non_finite == 1);
  CHECK(wrong(3, 0, 0).non_finite == 1);
  CHECK(wrong(5, 1, kNan).non_finite == 1);
}

TEST_CASE("an infinity of the other sign is right only where the bound reaches beyond FP32 there") {
  const CsrMatrix a = csr(1, 1, {0, 1}, {0}, {0x1p10f});
  const DenseMatrix b = dense(1, 1, {0x1p118f});  // the truth is 2^128
  const auto faults = [&](float c, double absolute) {
    return compare_spmm(a, b, dense(1, 1, {c}), same_bound(1, 0, absolute)).non_finite;
  };
  CHECK(faults(kInf, 0x1p127) == 0);
  CHECK(faults(-kInf, 0x1p128) == 1);
  CHECK(faults(-kInf, 0x1p129) == 0);
  CHECK(faults(kNan, 0x1p129) == 1);
}

TEST_CASE("the comparison is the same at any number of threads") {
  Planted planted;
  planted.c.at(33, 3) = 2;
  std::vector<ProductErrors> all;
  for (const int threads : {1, 2, 3, 7}) {
    const ThreadCount count(threads);
    all.push_back(compare_spmm(planted.a, planted.b, planted.c, planted.bound, true));
  }

  for (const ProductErrors& errors : all) {
    CHECK(errors == all[0]);
    CHECK(errors.compared == 120 * 40);
    CHECK(errors.beyond_bound == 1);
    CHECK(errors.worst.row == 33);
    CHECK(errors.worst.col == 3);
  }
}

TEST_CASE("every single element is checked, and one fault leads to no other") {
  const CsrMatrix a = random_sparse(19, 23, 0.4, 43);  // more rows than one panel
  const DenseMatrix b = random_dense(23, 13, 44);
  const DenseMatrix c = fma_chain(a, b);
  for (std::int64_t i = 0; i < 19; ++i)
    for (std::int64_t j = 0; j < 13; ++j) {
      DenseMatrix wrong = c;
      wrong.at(i, j) += 0.001f;

      const ProductErrors errors = compare_spmm(a, b, wrong, fp32_bound(a));

      REQUIRE(errors.beyond_bound == 1);
      REQUIRE(errors.worst.row == i);
      REQUIRE(errors.worst.col == j);
    }
}

TEST_CASE("the plain FP32 product is a chain of fused multiply-adds, bit for bit") {
  const CsrMatrix a = random_sparse(50, 80, 0.3, 45);
  const DenseMatrix b = random_dense(80, 37, 46);

  CHECK(spmm_fp32(a, b).values == fma_chain(a, b).values);
  CHECK_THROWS_AS(spmm_fp32(a, random_dense(79, 3, 1)), Error);
}

TEST_CASE("products with no rows, columns or terms have a truth too") {
  for (const std::int32_t rows : {0, 1, 17})
    for (const std::int32_t cols : {0, 1, 5})
      for (const std::int64_t n : {0, 1, 9}) {
        const CsrMatrix a = random_sparse(rows, cols, 0.5, 51);  // some of its rows are empty
        const DenseMatrix b = random_dense(cols, n, 52);

        const ProductErrors errors = compare_spmm(a, b, fma_chain(a, b), fp32_bound(a));

        CHECK(errors.ok());
        CHECK(errors.compared == rows * n);
      }

  const CsrMatrix empty = csr(2, 3, {0, 0, 0}, {}, {});
  const DenseMatrix b = random_dense(3, 2, 53);
  DenseMatrix c(2, 2);
  c.at(1, 0) = 0x1p-149f;  // not a zero, in a row without terms
  const ProductErrors errors = compare_spmm(empty, b, c, fp32_bound(empty));
  CHECK(errors.beyond_bound == 1);
  CHECK(errors.bound_ratio == kInf);
  CHECK(errors.worst.row == 1);
  const double unbounded = std::numeric_limits<double>::infinity();
  CHECK_FALSE(compare_spmm(empty, b, c, same_bound(2, unbounded, 0)).ok());
}

TEST_CASE("shapes and bounds that do not fit are refused with both sizes") {
  const CsrMatrix a = random_sparse(4, 3, 0.5, 61);
  const DenseMatrix b = random_dense(3, 2, 62);

  CHECK_THROWS_WITH_AS(compare_spmm(a, random_dense(4, 2, 1), DenseMatrix(4, 2), fp32_bound(a)),
                       "shapes do not fit: A is 4 x 3, B 4 x 2, C 4 x 2", Error);
  CHECK_THROWS_WITH_AS(compare_spmm(a, b, DenseMatrix(4, 3), fp32_bound(a)),
                       "shapes do not fit: A is 4 x 3, B 3 x 2, C 4 x 3", Error);
  CHECK_THROWS_WITH_AS(compare_spmm(a, b, DenseMatrix(4, 2), same_bound(3, 0, 0)),
                       "C has 4 rows, the error bound 3 relative and 3 absolute parts", Error);
  ErrorBound broken = fp32_bound(a);
  broken.relative[2] = kNan;
  CHECK_THROWS_WITH_AS(compare_spmm(a, b, DenseMatrix(4, 2), broken),
                       doctest::Contains("row 2: an error bound cannot be nan"), Error);
  CHECK_THROWS_WITH_AS(spmm_fp64(a, b, 2, 5), "rows [2, 5) of a product with 4 rows", Error);
  CHECK_THROWS_AS(spmm_fp64(a, random_dense(4, 2, 1), 0, 4), Error);
}

}  // namespace
}  // namespace tessera
