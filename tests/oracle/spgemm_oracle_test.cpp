// The oracle of products of two sparse matrices: its truth and pattern against a dense product and
// Eigen's, and that its comparison finds what is wrong, missing or too much.
#include <doctest/doctest.h>

#include <Eigen/SparseCore>
#include <algorithm>
#include <cmath>

#include "formats/base/check.hpp"
#include "oracle/spgemm_oracle.hpp"
#include "oracle/spmm_oracle.hpp"
#include "tests/oracle_support.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using EigenSparse = Eigen::SparseMatrix<double, Eigen::RowMajor>;

EigenSparse eigen(const CsrMatrix& matrix) {
  EigenSparse other(matrix.rows, matrix.cols);
  for (int i = 0; i < matrix.rows; ++i)
    for (std::int64_t k = matrix.row_offsets[i]; k < matrix.row_offsets[i + 1]; ++k)
      other.insert(i, matrix.col_indices[k]) = matrix.values[k];
  return other;
}

TEST_CASE("the sparse truth has Eigen's pattern and values") {
  const CsrMatrix a = random_sparse(150, 90, 0.05, 11);  // several pieces of columns
  const CsrMatrix b = random_sparse(90, 200, 0.04, 12);
  EigenSparse product = eigen(a) * eigen(b), magnitude = eigen(a).cwiseAbs() * eigen(b).cwiseAbs();
  product.makeCompressed();

  const TrueSparse truth = spgemm_fp64(a, b);

  REQUIRE(truth.rows == 150);
  REQUIRE(truth.cols == 200);
  REQUIRE(truth.row_offsets.size() == 151);
  REQUIRE(truth.row_offsets.back() == product.nonZeros());
  for (int i = 0; i < 150; ++i) {
    std::int64_t k = truth.row_offsets[i];
    EigenSparse::InnerIterator size(magnitude, i);
    for (EigenSparse::InnerIterator element(product, i); element; ++element, ++size, ++k) {
      REQUIRE(truth.col_indices[k] == element.col());
      REQUIRE(std::abs(truth.product[k] - element.value()) <= 1e-14 * size.value());
      REQUIRE(truth.magnitude[k] == doctest::Approx(size.value()).epsilon(1e-14));
    }
    REQUIRE(k == truth.row_offsets[i + 1]);
  }
}

TEST_CASE("the sparse truth is the dense one to the last bit, and so is its FP32 product") {
  const CsrMatrix a = random_sparse(70, 300, 0.2, 21), b = random_sparse(300, 130, 0.1, 22);
  const DenseMatrix dense_b = to_dense(b);

  const TrueSparse truth = spgemm_fp64(a, b);
  const CsrMatrix fp32 = spgemm_fp32(a, b);
  const TrueRows dense_truth = spmm_fp64(a, dense_b, 0, 70);
  const DenseMatrix dense_fp32 = fma_chain(a, dense_b);

  validate(fp32);
  REQUIRE(truth.product.size() == static_cast<std::size_t>(fp32.nnz()));
  std::vector<double> product(70 * 130, 0), magnitude(70 * 130, 0);
  DenseMatrix chain(70, 130);
  for (std::int64_t i = 0; i < 70; ++i)
    for (std::int64_t k = truth.row_offsets[i]; k < truth.row_offsets[i + 1]; ++k) {
      product[i * 130 + truth.col_indices[k]] = truth.product[k];
      magnitude[i * 130 + truth.col_indices[k]] = truth.magnitude[k];
      chain.at(i, fp32.col_indices[k]) = fp32.values[k];
    }
  CHECK(product == dense_truth.product);
  CHECK(magnitude == dense_truth.magnitude);
  CHECK(chain.values == dense_fp32.values);
}

/// Large enough for the oracle to cut C up, by rows and by columns.
struct LargeProduct {
  CsrMatrix a = random_sparse(4200, 300, 0.2, 61);
  CsrMatrix b = random_sparse(300, 1500, 0.04, 62);
};

TEST_CASE("a large sparse truth is the dense one on both sides of where it is cut") {
  const LargeProduct x;
  const std::int64_t begin = 4000, rows = 200;

  const TrueSparse truth = spgemm_fp64(x.a, x.b);
  const CsrMatrix fp32 = spgemm_fp32(x.a, x.b);
  const TrueRows dense_truth = spmm_fp64(x.a, to_dense(x.b), begin, begin + rows);

  validate(fp32);
  CHECK(std::ranges::equal(truth.row_offsets, fp32.row_offsets));
  CHECK(std::ranges::equal(truth.col_indices, fp32.col_indices));
  std::vector<double> product(rows * 1500, 0), magnitude(rows * 1500, 0);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t k = truth.row_offsets[begin + i]; k < truth.row_offsets[begin + i + 1]; ++k) {
      product[i * 1500 + truth.col_indices[k]] = truth.product[k];
      magnitude[i * 1500 + truth.col_indices[k]] = truth.magnitude[k];
    }
  CHECK(product == dense_truth.product);
  CHECK(magnitude == dense_truth.magnitude);
}

TEST_CASE("what cancels and what is stored as zero stays in the pattern") {
  // 1 * 2^60 + 1 * 1 - 1 * 2^60 survives; 1 - 1 and 0 * 5 are zeros, but stored.
  const CsrMatrix a = csr(2, 3, {0, 3, 4}, {0, 1, 2, 1}, {1, 1, 1, 0});
  const CsrMatrix b = csr(3, 3, {0, 2, 4, 6}, {0, 1, 0, 2, 0, 1}, {0x1p60f, 1, 1, 5, -0x1p60f, -1});

  const TrueSparse truth = spgemm_fp64(a, b);

  CHECK(truth.row_offsets == std::vector<std::int64_t>{0, 3, 5});
  CHECK(truth.col_indices == std::vector<std::int32_t>{0, 1, 2, 0, 2});
  CHECK(truth.product == std::vector<double>{1, 0, 5, 0, 0});
  CHECK(truth.magnitude == std::vector<double>{0x1p61, 2, 5, 0, 0});
  CHECK(spgemm_fp32(a, b).values[0] == 0);  // where FP32 loses the 1
}

TEST_CASE("infinities and NaNs among the terms are the truth") {
  const CsrMatrix a = csr(1, 2, {0, 2}, {0, 1}, {1, 1});
  const CsrMatrix b = csr(2, 2, {0, 2, 4}, {0, 1, 0, 1}, {kInf, kInf, 1, -kInf});

  const TrueSparse truth = spgemm_fp64(a, b);

  CHECK(truth.product[0] == kInf);
  CHECK(std::isnan(truth.product[1]));
}

struct SparseProduct {
  CsrMatrix a = random_sparse(130, 80, 0.06, 31);
  CsrMatrix b = random_sparse(80, 90, 0.08, 32);
  CsrMatrix c = spgemm_fp32(a, b);
  ErrorBound bound = fp32_bound(a);

  SpgemmErrors compare(const CsrMatrix& computed) const {
    return compare_spgemm(a, b, computed, bound, true);
  }
};

TEST_CASE("a right sparse product passes with the measures of the same dense one") {
  const SparseProduct x;

  const SpgemmErrors errors = x.compare(x.c);
  const ProductErrors dense_errors = compare_spmm(x.a, to_dense(x.b), to_dense(x.c), x.bound, true);

  CHECK(errors.values.ok());
  CHECK(errors.same_pattern());
  CHECK(errors.values.compared == x.c.nnz());
  CHECK(errors.values.bound_ratio > 0.1);
  CHECK(errors.values.smape_fp32_pct == 0);
  // Elements outside the pattern are right in both, and count in SMAPE's mean only.
  CHECK(errors.values.backward_error == dense_errors.backward_error);
  CHECK(errors.values.condition == dense_errors.condition);
  CHECK(errors.values.by_condition == dense_errors.by_condition);
  CHECK(errors.values.bound_ratio == dense_errors.bound_ratio);
  CHECK(errors.values.worst == dense_errors.worst);
  CHECK(errors.values.normwise_backward_error ==
        doctest::Approx(dense_errors.normwise_backward_error).epsilon(1e-12));
  CHECK(errors.values.smape_pct * static_cast<double>(x.c.nnz()) ==
        doctest::Approx(dense_errors.smape_pct * 130 * 90).epsilon(1e-12));
}

TEST_CASE("a wrong value of a sparse product is found at its place") {
  const SparseProduct x;
  CsrMatrix wrong = x.c;
  const std::int64_t place = x.c.row_offsets[97];
  REQUIRE(x.c.row_length(97) > 0);
  std::vector<float> values(x.c.values.begin(), x.c.values.end());
  values[place] += 0.01f;
  wrong.values = values;

  const SpgemmErrors errors = x.compare(wrong);

  CHECK(errors.values.beyond_bound == 1);
  CHECK(errors.values.worst.row == 97);
  CHECK(errors.values.worst.col == x.c.col_indices[place]);
  CHECK(errors.same_pattern());
  CHECK(*errors.values.smape_fp32_pct > 0);
}

TEST_CASE("elements that are missing or too many are counted, and wrong unless they are zero") {
  // Truth: 1 at (0, 0), a cancelled 0 at (0, 1), nothing at (0, 2).
  const CsrMatrix a = csr(1, 2, {0, 2}, {0, 1}, {1, 1});
  const CsrMatrix b = csr(2, 3, {0, 2, 3}, {0, 1, 1}, {1, 1, -1});
  const auto compare = [&](std::vector<std::int32_t> cols, std::vector<float> values) {
    const auto nnz = static_cast<std::int64_t>(cols.size());
    return compare_spgemm(a, b, csr(1, 3, {0, nnz}, std::move(cols), std::move(values)),
                          same_bound(1, 1e-6, 0));
  };

  const SpgemmErrors whole = compare({0, 1}, {1, 0});
  const SpgemmErrors pruned = compare({0}, {1});
  const SpgemmErrors lost = compare({1}, {0});
  const SpgemmErrors padded = compare({0, 1, 2}, {1, 0, 0});
  const SpgemmErrors invented = compare({0, 1, 2}, {1, 0, 0.5f});

  CHECK((whole.values.ok() && whole.same_pattern()));
  CHECK((pruned.values.ok() && pruned.missing == 1 && pruned.extra == 0));
  CHECK_FALSE(pruned.same_pattern());
  CHECK((lost.values.beyond_bound == 1 && lost.missing == 1 && lost.values.worst.col == 0));
  CHECK((padded.values.ok() && padded.extra == 1 && padded.missing == 0));
  CHECK_FALSE(padded.same_pattern());
  CHECK((invented.values.beyond_bound == 1 && invented.values.worst.col == 2));
  CHECK(invented.values.compared == 3);
}

TEST_CASE("what is missing or too many is found in every part of a large product") {
  const LargeProduct x;
  const CsrMatrix c = spgemm_fp32(x.a, x.b);
  // Every 1000th element is left out, and every 777th value moved to a place that is free.
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> cols;
  std::vector<float> values;
  std::int64_t missing = 0, extra = 0;
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t k = c.row_offsets[i]; k < c.row_offsets[i + 1]; ++k) {
      const std::int32_t col = c.col_indices[k];
      const bool last = k + 1 == c.row_offsets[i + 1];
      const bool is_free = col + 1 < (last ? c.cols : c.col_indices[k + 1]);
      const bool moved = k % 777 == 0 && is_free;
      missing += moved || k % 1000 == 0;
      extra += moved;
      if (!moved && k % 1000 == 0) continue;
      cols.push_back(moved ? col + 1 : col);
      values.push_back(c.values[k]);
    }
    offsets.push_back(std::ssize(cols));
  }
  const CsrMatrix wrong = csr(c.rows, c.cols, offsets, cols, values);
  REQUIRE(extra > 100);

  const SpgemmErrors right = compare_spgemm(x.a, x.b, c, fp32_bound(x.a), true);
  const SpgemmErrors errors = compare_spgemm(x.a, x.b, wrong, fp32_bound(x.a), true);

  CHECK(right.values.ok());
  CHECK(right.same_pattern());
  CHECK(right.values.smape_fp32_pct == 0);
  CHECK(right.values.compared == c.nnz());
  CHECK(errors.missing == missing);
  CHECK(errors.extra == extra);
  CHECK(errors.values.beyond_bound == missing + extra);
  CHECK(errors.values.compared == c.nnz() + extra);
}

TEST_CASE("what C has outside of the truth's rows and columns is too many") {
  // A has only row 3 and column 2, B only row 2 with columns 4 and 5.
  const CsrMatrix a = csr(6, 4, {0, 0, 0, 0, 1, 1, 1}, {2}, {2});
  const CsrMatrix b = csr(4, 9, {0, 0, 0, 2, 2}, {4, 5}, {3, 5});
  const CsrMatrix c =
      csr(6, 9, {0, 1, 1, 1, 6, 6, 7}, {4, 0, 3, 4, 5, 8, 6}, {1, 1, 1, 6, 10, 1, 1});

  const SpgemmErrors errors = compare_spgemm(a, b, c, same_bound(6, 0, 0));

  CHECK(errors.extra == 5);
  CHECK(errors.missing == 0);
  CHECK(errors.values.beyond_bound == 5);
  CHECK(errors.values.worst.row == 0);
}

TEST_CASE("of elements that are equally wrong the first by rows is the worst") {
  const SparseProduct x;
  const CsrMatrix none = csr(130, 90, std::vector<std::int64_t>(131, 0), {}, {});
  std::int64_t first = 0;
  while (x.c.row_length(first) == 0) ++first;

  const SpgemmErrors errors = compare_spgemm(x.a, x.b, none, same_bound(130, 0, 0));

  CHECK(errors.missing == x.c.nnz());
  CHECK(errors.values.worst.row == first);
  CHECK(errors.values.worst.col == x.c.col_indices[0]);
}

TEST_CASE("sparse products compare the same at any number of threads") {
  const SparseProduct x;
  std::vector<SpgemmErrors> all;
  for (const int threads : {1, 2, 5}) {
    const ThreadCount count(threads);
    all.push_back(x.compare(x.c));
    CHECK(spgemm_fp64(x.a, x.b).product == spgemm_fp64(x.a, x.b).product);
  }

  for (const SpgemmErrors& errors : all) CHECK(errors.values == all[0].values);

  const LargeProduct large;  // has several parts
  const CsrMatrix c = spgemm_fp32(large.a, large.b);
  const auto compare = [&](int threads) {
    const ThreadCount count(threads);
    CHECK(spgemm_fp32(large.a, large.b) == c);
    return compare_spgemm(large.a, large.b, c, fp32_bound(large.a)).values;
  };
  CHECK(compare(1) == compare(5));
}

TEST_CASE("sparse products without rows, columns or terms have a truth too") {
  for (const std::int32_t rows : {0, 1, 70})
    for (const std::int32_t inner : {0, 5})
      for (const std::int32_t cols : {0, 1, 70}) {
        const CsrMatrix a = random_sparse(rows, inner, 0.3, 41);
        const CsrMatrix b = random_sparse(inner, cols, 0.3, 42);

        const TrueSparse truth = spgemm_fp64(a, b);
        const SpgemmErrors errors = compare_spgemm(a, b, spgemm_fp32(a, b), fp32_bound(a));

        CHECK(truth.row_offsets.size() == static_cast<std::size_t>(rows) + 1);
        CHECK(errors.values.ok());
        CHECK(errors.same_pattern());
      }
}

TEST_CASE("sparse shapes that do not fit are refused with both sizes") {
  const CsrMatrix a = random_sparse(4, 3, 0.5, 51), b = random_sparse(3, 2, 0.5, 52);

  CHECK_THROWS_WITH_AS(spgemm_fp64(b, b), "A is 3 x 2, but B is 3 x 2", Error);
  CHECK_THROWS_WITH_AS(compare_spgemm(a, b, a, fp32_bound(a)),
                       "shapes do not fit: A is 4 x 3, B 3 x 2, C 4 x 3", Error);
  CHECK_THROWS_WITH_AS(compare_spgemm(a, b, spgemm_fp32(a, b), same_bound(3, 0, 0)),
                       "C has 4 rows, the error bound 3 relative and 3 absolute parts", Error);
  CsrMatrix unsorted = spgemm_fp32(a, b);
  unsorted.row_offsets = std::vector<std::int64_t>{0, 0, 0, 0};
  CHECK_THROWS_AS(compare_spgemm(a, b, unsorted, fp32_bound(a)), Error);
}

}  // namespace
}  // namespace tessera
