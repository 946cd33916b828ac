// The measures of a product's errors: against numbers worked by hand, against Eigen on random data,
// and that each of them moves when, and only when, what it measures does.
#include <doctest/doctest.h>

#include <Eigen/SparseCore>
#include <algorithm>
#include <cmath>

#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "oracle/log_histogram.hpp"
#include "oracle/spmm_oracle.hpp"
#include "tests/oracle_support.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

/// A row [1 1] times two rows of B: truth x + y with |A||B| = |x| + |y|.
ProductErrors sums_of_two(std::vector<float> x, const std::vector<float>& y,
                          std::vector<float> computed, bool against_fp32 = false) {
  const auto n = static_cast<std::int64_t>(x.size());
  x.insert(x.end(), y.begin(), y.end());
  return compare_spmm(csr(1, 2, {0, 2}, {0, 1}, {1, 1}), dense(2, n, std::move(x)),
                      dense(1, n, std::move(computed)), same_bound(1, 0.25, 1), against_fp32);
}

TEST_CASE("every measure gives the number worked out by hand") {
  // Truth 3, -1, 0, 0 with |A||B| = 3, 1, 4, 0; errors -2, 2, 2, 0.
  const ProductErrors errors = sums_of_two({3, -1, 2, 0}, {0, 0, -2, 0}, {1, 1, 2, 0}, true);
  const double two_thirds_up = 171.0 / 256;  // to eight significant bits
  const double infinity = kInf;

  CHECK(errors.compared == 4);
  CHECK(errors.smape_pct == 100.0 / 4 * (2.0 / 4 + 2.0 / 2 + 2.0 / 2 + 0));
  CHECK(errors.smape_common_pct == 200.0 / 4 * (2.0 / 4 + 2.0 / 2 + 2.0 / 2 + 0));
  CHECK(errors.smape_fp32_pct == errors.smape_pct);  // these sums are exact in FP32
  CHECK(errors.relative_frobenius == doctest::Approx(std::sqrt(12.0 / 10)).epsilon(1e-15));
  CHECK(errors.max_relative == 2);
  CHECK(errors.backward_error == Quantiles{two_thirds_up, 2, 2, 2});  // of 2/3, 2 and 1/2
  CHECK(errors.mean_backward_error == doctest::Approx((2.0 / 3 + 2 + 0.5) / 3).epsilon(1e-15));
  CHECK(errors.normwise_backward_error ==
        doctest::Approx(std::sqrt(12.0) / std::sqrt(2.0 * 18)).epsilon(1e-15));
  CHECK(errors.signed_bias == doctest::Approx(-(2.0 / 3 + 2) / 2).epsilon(1e-15));
  CHECK(errors.max_ulp == 0x1p150);  // 2 in units of the smallest subnormal, where the truth is 0
  CHECK(errors.ulp_histogram[0] == 1);
  CHECK(errors.ulp_histogram[25] == 1);  // 2^23 ulps of 3
  CHECK(errors.ulp_histogram[26] == 1);  // 2^24 ulps of 1
  CHECK(errors.ulp_histogram[33] == 1);
  CHECK(errors.condition == Quantiles{1, infinity, infinity, infinity});  // of 1, 1 and 4/0
  CHECK(errors.condition_geomean == 1);
  CHECK(errors.by_condition[0] == ConditionDecade{2, two_thirds_up, 2, two_thirds_up});
  CHECK(errors.by_condition[16] == ConditionDecade{1, infinity, infinity, 0.5});
  CHECK(errors.bound_ratio == 2 / 1.25);
  CHECK(errors.beyond_bound == 2);  // bounds 1.75, 1.25, 2, 1
  CHECK(errors.non_finite == 0);
  CHECK(errors.overflows == 0);
  CHECK(errors.underflows == 0);
  CHECK(errors.worst == ProductErrors::Worst{0, 1, -1, 1, 1.25});
  CHECK_FALSE(errors.ok());
}

TEST_CASE("an exact product has no error at any condition") {
  // Conditions 4/2 and 16/2, whose geometric mean is 4; nothing is said of 0 + 0.
  const ProductErrors errors = sums_of_two({3, 9, 0}, {-1, -7, 0}, {2, 2, 0}, true);

  CHECK(errors.smape_pct == 0);
  CHECK(errors.smape_common_pct == 0);
  CHECK(errors.smape_fp32_pct == 0);
  CHECK(errors.backward_error == Quantiles{});
  CHECK(errors.mean_backward_error == 0);
  CHECK(errors.normwise_backward_error == 0);
  CHECK(errors.signed_bias == 0);
  CHECK(errors.ulp_histogram[0] == 3);
  CHECK(errors.condition == Quantiles{2, 8, 8, 8});
  CHECK(errors.condition_geomean == 4);
  CHECK(errors.by_condition[0] == ConditionDecade{2, 0, 0, 0});
  CHECK(errors.bound_ratio == 0);
}

TEST_CASE("an error where there is nothing to add is an infinite backward error") {
  const ProductErrors errors = sums_of_two({0, 1}, {0, 1}, {0x1p-149f, 2});

  CHECK(errors.backward_error == Quantiles{0, kInf, kInf, kInf});
  CHECK(errors.mean_backward_error == kInf);
  CHECK(errors.signed_bias == 0);
  CHECK(errors.condition == Quantiles{1, 1, 1, 1});
  CHECK(errors.by_condition[0].count == 1);
}

TEST_CASE("an ulp is that of the truth rounded to FP32") {
  const auto ulps = [](float a_value, float b_value, float computed) {
    return compare_spmm(csr(1, 1, {0, 1}, {0}, {a_value}), dense(1, 1, {b_value}),
                        dense(1, 1, {computed}), same_bound(1, 1, 1))
        .max_ulp;
  };
  CHECK(ulps(1, 1, 1 + 0x1p-22f) == 2);
  CHECK(ulps(1, 2, 2 + 0x1p-22f) == 1);
  CHECK(ulps(-1, 2, -2) == 0);
  CHECK(ulps(1, 0x1p-140f, 0x1p-140f + 0x1p-149f) == 1);
  CHECK(ulps(1 + 0x1p-23f, 1 + 0x1p-23f, 1 + 0x1p-22f) == 0x1p-23);  // truth 1 + 2^-22 + 2^-46
  const float below = 1 - 0x1p-13f, above = 1 + 0x1p-13f;            // truth 1 - 2^-26, rounds to 1
  CHECK(ulps(below, above, 1) == 0x1p-3);
  CHECK(ulps(0x1p127f, 2, std::numeric_limits<float>::max()) == 1);  // truth beyond the range
}

TEST_CASE("the ulp histogram counts an error at the upper end of a bin in that bin") {
  const float ulp = 0x1p-23f;
  // Truth 1 + half an ulp, which C rounds down and misses upwards by 1.5 ulps; then 1.
  const ProductErrors errors = sums_of_two({1, 1, 1, 1, 1}, {ulp / 2, ulp / 2, 0, 0, 0},
                                           {1, 1 + 2 * ulp, 1 + ulp, 1 + 2 * ulp, 1 + 3 * ulp});

  CHECK(errors.ulp_histogram[0] == 0);
  CHECK(errors.ulp_histogram[1] == 1);  // 0.5
  CHECK(errors.ulp_histogram[2] == 1);  // 1
  CHECK(errors.ulp_histogram[3] == 2);  // 1.5 and 2
  CHECK(errors.ulp_histogram[4] == 1);  // 3
  CHECK(ulp_upper_end(0) == 0);
  CHECK(ulp_upper_end(1) == 0.5);
  CHECK(ulp_upper_end(4) == 4);
  CHECK(ulp_upper_end(32) == 0x1p30);
  CHECK(ulp_upper_end(33) == kInf);
}

TEST_CASE("condition numbers are tabulated by decade, each with its lower end") {
  // Conditions 20/2 = 10 and 19/2 and, with |A||B| = 2^61 + 1, 10^18.
  const CsrMatrix a = csr(1, 3, {0, 3}, {0, 1, 2}, {1, 1, 1});
  const DenseMatrix b = dense(3, 3, {11, 10.5f, 0x1p60f, -9, -8.5f, -0x1p60f, 0, 0, 1});

  const ProductErrors errors = compare_spmm(a, b, dense(1, 3, {2.5f, 2, 1}), same_bound(1, 1, 1));

  CHECK(errors.by_condition[0] == ConditionDecade{1, 0, 0, 0});
  CHECK(errors.by_condition[1].count == 1);
  CHECK(errors.by_condition[1].median_relative == 0.25);
  CHECK(errors.by_condition[1].max_relative == 0.25);
  CHECK(errors.by_condition[1].median_backward == doctest::Approx(0.025).epsilon(0.01));
  CHECK(errors.by_condition[16] == ConditionDecade{1, 0, 0, 0});
  CHECK(errors.condition.max == 0x1p61);
}

TEST_CASE("overflows and underflows are counted against what FP32 can hold") {
  const auto one = [](float a_value, float b_value, float computed) {
    return compare_spmm(csr(1, 1, {0, 1}, {0}, {a_value}), dense(1, 1, {b_value}),
                        dense(1, 1, {computed}), same_bound(1, 0.25, 0));
  };
  CHECK(one(1, 0x1p126f, kInf).overflows == 1);
  CHECK(one(1, 0x1p126f, kInf).non_finite == 1);
  CHECK(one(1, -0x1.cp127f, -kInf).overflows == 1);
  CHECK(one(1, -0x1.cp127f, -kInf).non_finite == 0);  // within the bound of FP32's range
  CHECK(one(2, 0x1p127f, kInf).overflows == 0);
  CHECK(one(1, kInf, kInf).overflows == 0);
  CHECK(one(1, 0x1p126f, kNan).overflows == 0);
  CHECK(one(1, 0x1p-126f, 0).underflows == 1);
  CHECK(one(1, -0x1p-126f, -0x1p-127f).underflows == 1);
  CHECK(one(1, 0x1p-126f, 0x1p-126f).underflows == 0);
  CHECK(one(1, 0x1p-127f, 0).underflows == 0);
  CHECK(one(0, 1, 0).underflows == 0);
}

TEST_CASE("SMAPE against FP32 does not charge a product with the errors of FP32") {
  // FP32 loses the half ulp that the truth has.
  const float half_ulp = 0x1p-24f;
  const ProductErrors like_fp32 = sums_of_two({1}, {half_ulp}, {1}, true);
  const ProductErrors unlike = sums_of_two({1}, {half_ulp}, {3}, true);

  CHECK(like_fp32.smape_pct > 0);
  CHECK(like_fp32.smape_fp32_pct == 0);
  CHECK(unlike.smape_fp32_pct == 50);
  CHECK_FALSE(sums_of_two({1}, {half_ulp}, {1}).smape_fp32_pct.has_value());
}

TEST_CASE("a truth that is known already gives the same measures, and another gives others") {
  const CsrMatrix a = random_sparse(100, 60, 0.2, 81);
  DenseMatrix b = random_dense(60, 45, 82);
  DenseMatrix c = spmm_fp32(a, b);
  c.at(40, 3) = kInf;
  b.at(7, 44) = kInf;
  const SpmmTruth truth = spmm_truth(a, b);
  CHECK(SpmmTruth::bytes(100, 45) == 2 * 8 * 100 * 45);

  const ProductErrors made = compare_spmm(a, b, c, fp32_bound(a), true);

  CHECK(compare_spmm(a, b, c, fp32_bound(a), true, &truth) == made);
  SpmmTruth other = truth;
  other.rows.product[17] += 1;
  CHECK_FALSE(compare_spmm(a, b, c, fp32_bound(a), true, &other) == made);
  const SpmmTruth smaller = spmm_truth(random_sparse(99, 60, 0.2, 81), b);
  CHECK_THROWS_AS(compare_spmm(a, b, c, fp32_bound(a), true, &smaller), Error);
}

TEST_CASE("the truth of an element is the same beside any number of other columns") {
  const CsrMatrix a = random_sparse(50, 60, 0.3, 83);
  DenseMatrix b = random_dense(60, 71, 84);
  b.at(3, 10) = kInf;
  b.at(4, 66) = -kInf;
  const TrueRows all = spmm_fp64(a, b, 0, 50);
  for (const std::int64_t n : {1, 7, 32, 40, 64}) {
    CAPTURE(n);
    DenseMatrix last(60, n);  // the last columns of B
    for (std::int64_t i = 0; i < 60; ++i)
      for (std::int64_t j = 0; j < n; ++j) last.at(i, j) = b.at(i, 71 - n + j);
    const TrueRows some = spmm_fp64(a, last, 0, 50);
    for (std::int64_t i = 0; i < 50; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        const auto at = static_cast<std::size_t>(i * n + j);
        const auto place = static_cast<std::size_t>(i * 71 + 71 - n + j);
        CAPTURE(i);
        CAPTURE(j);
        const bool both_nan = std::isnan(some.product[at]) && std::isnan(all.product[place]);
        CHECK((both_nan || some.product[at] == all.product[place]));
        CHECK(some.magnitude[at] == all.magnitude[place]);
      }
  }
}

TEST_CASE("truncated results are biased towards zero, rounded ones are not") {
  const CsrMatrix a = random_sparse(200, 60, 0.3, 71);
  const DenseMatrix b = random_dense(60, 50, 72);
  const TrueRows truth = spmm_fp64(a, b, 0, 200);
  DenseMatrix nearest(200, 50), truncated(200, 50), enlarged(200, 50);
  for (std::size_t i = 0; i < truth.product.size(); ++i) {
    const auto rounded = static_cast<float>(truth.product[i]);
    const bool too_large = std::abs(double{rounded}) > std::abs(truth.product[i]);
    nearest.values[i] = rounded;
    truncated.values[i] = too_large ? std::nextafter(rounded, 0.0f) : rounded;
    enlarged.values[i] =
        too_large ? rounded : std::nextafter(rounded, std::copysign(kInf, rounded));
  }

  const auto measure = [&](const DenseMatrix& c) { return compare_spmm(a, b, c, fp32_bound(a)); };
  const ProductErrors fair = measure(nearest), low = measure(truncated), high = measure(enlarged);

  CHECK(std::abs(fair.signed_bias) < 0.1 * fair.mean_backward_error);
  CHECK(low.signed_bias == doctest::Approx(-low.mean_backward_error).epsilon(0.01));
  CHECK(high.signed_bias > 0.9 * high.mean_backward_error);
}

Eigen::MatrixXd eigen(const DenseMatrix& matrix) {
  Eigen::MatrixXd other(matrix.rows, matrix.cols);
  for (int i = 0; i < matrix.rows; ++i)
    for (int j = 0; j < matrix.cols; ++j) other(i, j) = matrix.at(i, j);
  return other;
}

/// The p-th percentile of sorted numbers: the smallest that p % do not exceed.
double percentile(std::vector<double> numbers, int percent) {
  std::ranges::sort(numbers);
  return numbers[(numbers.size() * percent + 99) / 100 - 1];
}

TEST_CASE("the measures agree with those of Eigen's matrices on a random product") {
  const CsrMatrix a = random_sparse(45, 70, 0.3, 81);
  const DenseMatrix b = random_dense(70, 300, 82);  // more columns than are measured at once
  DenseMatrix c = fma_chain(a, b);
  for (std::size_t i = 0; i < c.values.size(); ++i) c.values[i] *= 1 + 1e-3f * random_signed(83, i);
  const Eigen::MatrixXd wide_a = eigen(to_dense(a)), wide_b = eigen(b), wide_c = eigen(c);
  const Eigen::MatrixXd product = wide_a * wide_b;
  const Eigen::MatrixXd sizes = wide_a.cwiseAbs() * wide_b.cwiseAbs();
  const Eigen::ArrayXXd truth = product, magnitude = sizes;
  const Eigen::ArrayXXd error = (wide_c.array() - truth).abs();
  const Eigen::ArrayXXd backward = error / magnitude, condition = magnitude / truth.abs();
  REQUIRE(magnitude.minCoeff() > 0);

  const ProductErrors errors = compare_spmm(a, b, c, fp32_bound(a));

  const auto near = [](double value) { return doctest::Approx(value).epsilon(1e-9); };
  CHECK(errors.smape_pct == near(100 * (error / (truth.abs() + wide_c.array().abs())).mean()));
  CHECK(errors.relative_frobenius == near(error.matrix().norm() / truth.matrix().norm()));
  CHECK(errors.normwise_backward_error ==
        near(error.matrix().norm() / (wide_a.norm() * wide_b.norm())));
  CHECK(errors.max_relative == near((error / truth.abs()).maxCoeff()));
  CHECK(errors.mean_backward_error == near(backward.mean()));
  CHECK(errors.signed_bias == near(((wide_c.array() - truth) * truth.sign() / magnitude).mean()));
  CHECK(errors.condition_geomean == near(std::exp(condition.log().mean())));
  CHECK(errors.condition.max == near(condition.maxCoeff()));
  const auto check_quantiles = [&](const Quantiles& found, const Eigen::ArrayXXd& of) {
    const std::vector<double> numbers(of.data(), of.data() + of.size());
    for (const auto& [percent, value] :
         {std::pair{50, found.p50}, {95, found.p95}, {99, found.p99}, {100, found.max}}) {
      const double exact = percentile(numbers, percent);
      CHECK(value >= exact * (1 - 1e-12));
      CHECK(value <= exact * (1 + 0x1p-7));
    }
  };
  check_quantiles(errors.backward_error, backward);
  check_quantiles(errors.condition, condition);
  for (int d = 0; d < 17; ++d) {
    const double from = std::pow(10, d), to = d < 16 ? 10 * from : HUGE_VAL;
    CHECK(errors.by_condition[d].count == (condition >= from && condition < to).count());
  }
}

TEST_CASE("a logarithmic histogram rounds up to eight bits and never further") {
  LogHistogram histogram;
  CHECK(histogram.quantile(50) == 0);
  for (const double number : {0.0, 0x1p-70, 3.0, 1 + 0x1p-20, 0x1p70})
    histogram.add_at(LogHistogram::place(number));

  CHECK(histogram.count() == 5);
  CHECK(histogram.quantile(20) == 0);
  CHECK(histogram.quantile(40) == 0);
  CHECK(histogram.quantile(41) == 1 + 0x1p-7);
  CHECK(histogram.quantile(60) == 1 + 0x1p-7);
  CHECK(histogram.quantile(80) == 3);
  CHECK(histogram.quantile(81) == kInf);
  LogHistogram twice = histogram;
  twice.add(histogram);
  twice.add(LogHistogram());
  CHECK(twice.count() == 10);
  CHECK(twice.quantile(80) == 3);
}

}  // namespace
}  // namespace tessera
