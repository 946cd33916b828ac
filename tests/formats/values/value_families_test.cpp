// Value families: the moments they promise, the conditions they reach, and that both stay the same
// whatever the number of threads.

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include <doctest/doctest.h>

#include "experiments/run/run_point.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "formats/format.hpp"
#include "formats/io/source.hpp"
#include "formats/values/value_family.hpp"
#include "kernels/spmm_kernel.hpp"
#include "tests/support.hpp"

using namespace tessera;

namespace {

std::unique_ptr<ValueFamily> family(const std::string& text) {
  const Variant variant = parse_values(text);
  return Registry<ValueFamily>::instance().make(variant.name, variant.params);
}

/// Random cells; rows of every length from none to some dozens.
CsrMatrix matrix_of(const std::string& spec) { return load_matrix(spec, false).matrix; }

double mean(std::span<const float> values, const std::function<double(double)>& of) {
  double sum = 0;
  for (const float value : values) sum += of(value);
  return sum / static_cast<double>(values.size());
}

/// |A||B| / |AB| of every element of C whose row has at least two nonzeros.
std::vector<double> conditions(const CsrMatrix& a, std::span<const float> values,
                               const DenseMatrix& b) {
  std::vector<double> all;
  for (std::int32_t row = 0; row < a.rows; ++row) {
    if (a.row_length(row) < 2) continue;
    for (std::int64_t j = 0; j < b.cols; ++j) {
      double sum = 0, magnitudes = 0;
      for (std::int64_t k = a.row_offsets[row]; k < a.row_offsets[row + 1]; ++k) {
        const double product = double{values[k]} * b.at(a.col_indices[k], j);
        sum += product;
        magnitudes += std::abs(product);
      }
      all.push_back(magnitudes / std::abs(sum));
    }
  }
  return all;
}

}  // namespace

TEST_CASE("value families have the moments of their distributions, in A and in B") {
  struct Moments {
    std::string name;
    std::function<double(double)> of;  // what is averaged
    double mean, sd;                   // of it
  };
  const auto same = [](double x) { return x; };
  const auto square = [](double x) { return x * x; };
  const auto log = [](double x) { return std::log(x); };
  const auto log_square = [](double x) { return std::log(x) * std::log(x); };
  const std::vector<Moments> all{
      {"uniform01", same, 0.5, std::sqrt(1 / 12.0)},
      {"uniform01", square, 1 / 3.0, std::sqrt(4 / 45.0)},
      {"normal", same, 0, 1},
      {"normal", square, 1, std::sqrt(2.0)},
      {"normal", [](double x) { return x * x * x * x; }, 3, std::sqrt(96.0)},
      {"lognormal", log, 0, 3},
      {"lognormal", log_square, 9, 9 * std::sqrt(2.0)},
      {"lognormal(sigma=0.5)", log_square, 0.25, 0.25 * std::sqrt(2.0)},
      {"random", same, 0, std::sqrt(1 / 3.0)}};
  const CsrMatrix matrix = matrix_of("uniform(rows=4096, per_row=32)");

  for (const Moments& expected : all) {
    const auto values = family(expected.name)->a_values(matrix, 7);
    const DenseMatrix b = family(expected.name)->b(4096, 32, 8);

    INFO(expected.name);
    for (const std::span<const float> found :
         {std::span<const float>(values), std::span<const float>(b.values)}) {
      REQUIRE(found.size() == 131072);
      // Five standard errors: seeds that fail this are one in a million.
      const double tolerance = 5 * expected.sd / std::sqrt(131072.0);
      CHECK(std::abs(mean(found, expected.of) - expected.mean) < tolerance);
      CHECK(std::ranges::none_of(found, [](float v) { return v == 0 || !std::isfinite(v); }));
    }
    CHECK(!std::equal(b.values.begin(), b.values.end(), values.begin()));
  }
}

TEST_CASE("a B whose extents overflow is an error in every value family") {
  for (const std::string& name : Registry<ValueFamily>::instance().names()) {
    CAPTURE(name);
    for (const std::int64_t cols : {288230376151711744, 288230376151711745})  // wrap to 0 and 64
      CHECK_THROWS_AS(family(name)->b(64, cols, 1), Error);
  }
  CHECK_THROWS_AS(family("pattern(b=binary)")->b(64, 288230376151711744, 1), Error);
}

TEST_CASE("pattern is ones against random or binary values") {
  const CsrMatrix matrix = matrix_of("uniform(rows=64, per_row=8)");

  const auto ones = family("pattern")->a_values(matrix, 1);
  const DenseMatrix binary = family("pattern(b=binary)")->b(512, 64, 2);

  CHECK(std::ranges::all_of(ones, [](float v) { return v == 1; }));
  CHECK(std::ranges::all_of(binary.values, [](float v) { return v == 0 || v == 1; }));
  CHECK(std::abs(mean(binary.values, [](double x) { return x; }) - 0.5) < 0.015);
  CHECK(family("pattern")->b(9, 5, 2).values == random_dense(9, 5, 2).values);
}

TEST_CASE("auto selects random values for a pattern and stored values otherwise") {
  const CsrMatrix real = matrix_of("uniform(rows=64, per_row=8)");
  CsrMatrix pattern = real;
  pattern.values = std::vector<float>(real.values.size(), 1.0f);

  CHECK(family("auto")->chosen_for(real) == "stored");
  CHECK(std::ranges::equal(family("auto")->a_values(real, 3), real.values));
  CHECK(family("auto")->chosen_for(pattern) == "random");
  CHECK(std::ranges::equal(family("auto")->a_values(pattern, 3),
                           family("random")->a_values(real, 3)));
  CHECK(family("random")->chosen_for(real).empty());
}

TEST_CASE("cancelling sums have the requested condition at any length of the row") {
  for (const double length : {2.0, 3.0, 10.0, 300.0}) {
    // Dense rows: all of exactly that length.
    const CsrMatrix matrix =
        matrix_of(fmt::format("uniform(rows=200, cols={}, density=1)", length));
    for (const double condition : {2.0, 10.0, 1e2, 1e4, 1e6}) {
      const auto rows = family(fmt::format("cancelling(condition={})", condition));

      const auto values = rows->a_values(matrix, 5);
      const auto found = conditions(matrix, values, rows->b(matrix.cols, 8, 6));

      double log_sum = 0;
      for (const double one : found) log_sum += std::log(one / condition);
      INFO(length << " nonzeros, condition " << condition);
      REQUIRE(found.size() == 1600);
      CHECK(std::exp(log_sum / 1600) > 0.8);
      CHECK(std::exp(log_sum / 1600) < 1.7);
      CHECK(*std::ranges::min_element(found) > 0.49 * condition);
    }
  }
}

TEST_CASE("cancelling rows have both signs of sums, single values, and no zeros") {
  const CsrMatrix matrix = matrix_of("uniform(rows=2000, per_row=3)");

  const auto values = family("cancelling(condition=100)")->a_values(matrix, 5);

  std::int64_t positive = 0, negative = 0;
  for (std::int32_t row = 0; row < matrix.rows; ++row) {
    const auto begin = values.begin() + matrix.row_offsets[row];
    const double sum = std::accumulate(begin, begin + matrix.row_length(row), 0.0);
    positive += sum > 0;
    negative += sum < 0;
  }
  CHECK(std::ranges::none_of(values, [](float v) { return v == 0; }));
  CHECK(positive > 800);
  CHECK(negative > 800);
}

TEST_CASE("every value family is the same at any number of threads, and another by seed") {
  const CsrMatrix matrix = matrix_of("uniform(rows=5000, per_row=30)");
  for (const std::string& name : Registry<ValueFamily>::instance().names()) {
    const auto one = family(name);
    set_num_threads(1);
    const auto values = one->a_values(matrix, 9);
    const DenseMatrix b = one->b(5000, 30, 10);
    set_num_threads(3);
    const auto again = one->a_values(matrix, 9);
    const DenseMatrix b_again = one->b(5000, 30, 10);
    set_num_threads(0);

    INFO(name);
    CHECK(std::ranges::equal(values, again));
    CHECK(b.values == b_again.values);
    CHECK(one->b(5000, 30, 11).values != b.values);
    const bool draws_a = name != "stored" && name != "auto" && name != "pattern";
    CHECK(std::ranges::equal(values, one->a_values(matrix, 10)) == !draws_a);
  }
}

TEST_CASE("a value family is written as one word in a point, and read again") {
  CHECK(to_text(parse_values("normal")) == "normal");
  CHECK(to_text(parse_values("cancelling(condition=1e4)")) == "cancelling(condition=10000)");
  CHECK(to_text(parse_values("lognormal")) == "lognormal(sigma=3)");
  for (const char* text :
       {"pattern(b=binary)", "lognormal(sigma=0.1)", "cancelling(condition=31.6)"})
    CHECK(to_text(parse_values(text)) == text);
  CHECK_THROWS_AS(parse_values("cancelling(condition=1)"), Error);
  CHECK_THROWS_AS(parse_values("ones"), Error);
}

TEST_CASE("a binary B times a pattern gives counts, which every arithmetic computes exactly") {
  Point point;
  point.backend = "emulate";
  point.matrix = "uniform(rows=64, per_row=20)";
  point.reorder.name = "none";
  point.device = "h200";
  const auto smape = [&](const std::string& values, const std::string& kernel,
                         const std::string& format) {
    point.task = DenseProduct{{parse_values(values)},
                              24,
                              {format, Registry<Format>::instance().resolve(format, {})},
                              {kernel, Registry<SpmmKernel>::instance().resolve(kernel, {})}};
    point.check.against_fp32 = values == "uniform01";
    const Json record = PointRunner().run(point).record;
    CHECK(record["check"].contains("smape_fp32_pct") == point.check.against_fp32);
    REQUIRE(record.at("status") == "ok");
    CHECK(record["matrix"]["values"] == to_text(parse_values(values)));
    return record["check"]["smape_pct"].get<double>();
  };

  CHECK(smape("pattern(b=binary)", "acc_spmm", "bit_tcf") == 0);
  CHECK(smape("pattern(b=binary)", "csr_spmm", "csr") == 0);
  CHECK(smape("pattern", "acc_spmm", "bit_tcf") > 1e-3);
  CHECK(smape("uniform01", "acc_spmm", "bit_tcf") > 1e-4);
}
