// SMaT's model: bounds on the number of blocks hold on random matrices, and the fit finds planted
// coefficients as often as its confidence says.
#include <doctest/doctest.h>

#include <cmath>

#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "formats/condense.hpp"
#include "formats/statistics/statistics.hpp"
#include "model/smat.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using namespace smat;

std::vector<std::int64_t> active_cols(const CsrMatrix& matrix, int height) {
  const Condensed condensed = condense(matrix, height);
  std::vector<std::int64_t> cols;
  for (std::int64_t w = 0; w < condensed.windows(); ++w) cols.push_back(condensed.active_cols(w));
  return cols;
}

TEST_CASE("bounds on the number of blocks, worked by hand") {
  // 5 x 7, blocks of 2 x 3: three block rows of three blocks.
  CHECK(printed_bounds(5, 7, 13, 2, 3).lower == 3);
  CHECK(printed_bounds(5, 7, 13, 2, 3).upper == 9);
  CHECK(printed_bounds(5, 7, 4, 2, 3).upper == 4);
  CHECK(printed_bounds(5, 7, 0, 2, 3).upper == 0);
  const std::vector<std::int64_t> cols{7, 0, 2};
  CHECK(refined_bounds(cols, 7, 3).lower == 3 + 0 + 1);
  CHECK(refined_bounds(cols, 7, 3).upper == 3 + 0 + 2);
  CHECK_THROWS_AS(printed_bounds(5, 7, 13, 0, 3), Error);
  CHECK_THROWS_AS(refined_bounds(cols, 7, 0), Error);
}

TEST_CASE("bounds hold, and the refined ones lie within the printed ones") {
  int tighter = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const auto rows = static_cast<std::int32_t>(1 + random_bits(seed, 0) % 150);
    const auto cols = static_cast<std::int32_t>(1 + random_bits(seed, 1) % 150);
    const double density = std::pow(10, -3 * random_unit(seed, 2));
    const CsrMatrix matrix = random_sparse(rows, cols, density, seed);
    for (const auto& [h, w] : {std::pair{16, 16}, {16, 8}, {8, 8}, {5, 3}}) {
      const std::int64_t blocks = count_tiles(matrix, h, w).tiles;
      const auto active = active_cols(matrix, h);

      const BlockBounds printed = printed_bounds(rows, cols, matrix.nnz(), h, w);
      const BlockBounds refined = refined_bounds(active, cols, w);

      CHECK(printed.lower <= refined.lower);
      CHECK(refined.lower <= blocks);
      CHECK(blocks <= refined.upper);
      CHECK(refined.upper <= printed.upper);
      tighter += refined.lower > printed.lower && refined.upper < printed.upper;

      std::int64_t nonempty = 0, widest = 0;
      for (const std::int64_t c : active) {
        nonempty += c > 0;
        widest = std::max(widest, (c + w - 1) / w);
      }
      CHECK(refined.lower >= std::max(nonempty, widest));
    }
  }
  CHECK(tighter > 20);
}

TEST_CASE("the time of a block is that of one MMA per eight columns of B") {
  CHECK(mma_columns(8) == 1);
  CHECK(mma_columns(9) == 2);
  CHECK(mma_columns(128) == 16);
  CHECK(total_time(0.002, 1e5, 5) == doctest::Approx(205));
  CHECK(total_time(0.002, 1e5, 5, 20) == doctest::Approx(605));
}

TEST_CASE("the fit of a worked example") {
  const std::vector<double> blocks{1, 2, 3, 4, 5}, times{2.1, 3.9, 6.2, 7.8, 10.1};

  const Fit line = fit(blocks, times);

  CHECK(line.time_per_block == doctest::Approx(1.99));
  CHECK(line.init == doctest::Approx(0.05));
  CHECK(line.residual_std == doctest::Approx(std::sqrt(0.107 / 3)));
  CHECK(line.r_squared == doctest::Approx(1 - 0.107 / 39.708));
  CHECK(line.t_quantile == doctest::Approx(3.182446).epsilon(1e-6));  // t(0.975, 3), from tables
  const double half = 3.182446 * std::sqrt(0.107 / 3 / 10);
  CHECK(line.time_per_block_interval.low == doctest::Approx(1.99 - half));
  CHECK(line.time_per_block_interval.high == doctest::Approx(1.99 + half));
  const double init_half = 3.182446 * std::sqrt(0.107 / 3 * (1.0 / 5 + 9.0 / 10));
  CHECK(line.init_interval.high == doctest::Approx(0.05 + init_half));
  const double one_more = 3.182446 * std::sqrt(0.107 / 3 * (1 + 1.0 / 5 + 9.0 / 10));
  CHECK(line.prediction_interval(6).high == doctest::Approx(line.at(6) + one_more));
}

TEST_CASE("a line without scatter is found exactly") {
  const std::vector<double> blocks{1024, 3070, 9000, 130'000};
  std::vector<double> times;
  for (const double b : blocks) times.push_back(total_time(0.004, b, 3.5));

  const Fit line = fit(blocks, times, 0.99);

  CHECK(line.time_per_block == doctest::Approx(0.004));
  CHECK(line.init == doctest::Approx(3.5));
  CHECK(line.r_squared == doctest::Approx(1));
  CHECK(line.time_per_block_interval.high - line.time_per_block_interval.low < 1e-9);
}

/// Shares of trials in which an interval held what it is about.
struct Coverage {
  double time_per_block = 0, init = 0, one_more = 0, line = 0;
};

Coverage coverage(double confidence, int trials) {
  const double time_per_block = 0.01, init = 5, scatter = 0.8;
  Coverage held;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<double> blocks, times;
    for (std::uint64_t i = 0; i < 12; ++i) {
      blocks.push_back(100.0 * static_cast<double>(i * i));
      times.push_back(total_time(time_per_block, blocks[i], init) +
                      scatter * random_normal(1000 + static_cast<std::uint64_t>(trial), i));
    }
    const double next = 8'000, truth = total_time(time_per_block, next, init);
    const double measured =
        truth + scatter * random_normal(1000 + static_cast<std::uint64_t>(trial), 12);

    const Fit line = fit(blocks, times, confidence);

    held.time_per_block += line.time_per_block_interval.contains(time_per_block);
    held.init += line.init_interval.contains(init);
    held.one_more += line.prediction_interval(next).contains(measured);
    held.line += line.line_interval(next).contains(truth);
  }
  for (double* share : {&held.time_per_block, &held.init, &held.one_more, &held.line})
    *share /= trials;
  return held;
}

TEST_CASE("intervals hold the planted coefficients as often as their confidence says") {
  for (const double confidence : {0.5, 0.95}) {
    constexpr int kTrials = 4000;
    // Three standard deviations of a share that is right.
    const double off = 3 * std::sqrt(confidence * (1 - confidence) / kTrials);

    const Coverage held = coverage(confidence, kTrials);

    CHECK(std::abs(held.time_per_block - confidence) < off);
    CHECK(std::abs(held.init - confidence) < off);
    CHECK(std::abs(held.one_more - confidence) < off);
    CHECK(std::abs(held.line - confidence) < off);
  }
}

TEST_CASE("pairs that no line with intervals can be told from are errors") {
  const std::vector<double> three{1, 2, 3}, two{1, 2}, same{2, 2, 2};
  const std::vector<double> broken{1, std::nan(""), 3};

  CHECK_THROWS_AS(fit(two, two), Error);
  CHECK_THROWS_AS(fit(three, two), Error);
  CHECK_THROWS_AS(fit(same, three), Error);
  CHECK_THROWS_AS(fit(three, broken), Error);
  CHECK_THROWS_AS(fit(three, three, 1), Error);
  CHECK(fit(three, same).r_squared == 1);
}

}  // namespace
}  // namespace tessera
