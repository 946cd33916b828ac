// The a priori error bounds: their values, and emulated tensor cores of every generation held
// against them, which a coarser unit or a coarser rounding of the inputs must break.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "formats/base/random.hpp"
#include "kernels/tensor_core.hpp"
#include "oracle/error_bounds.hpp"

namespace tessera {
namespace {

struct Operands {
  std::vector<float> a, b;
};

/// Products around 1, with both exponents spread over 2^-spread .. 2^spread.
Operands random_operands(int terms, double spread, std::uint64_t seed) {
  Operands operands;
  for (int k = 0; k < terms; ++k) {
    const auto scale = [&](std::uint64_t stream) {
      const double exponent = spread * (2 * random_unit(seed + stream, k) - 1);
      return std::ldexp(random_signed(seed + stream + 1, k), static_cast<int>(exponent));
    };
    operands.a.push_back(scale(0));
    operands.b.push_back(scale(2));
  }
  return operands;
}

float chain(const FusedStep& step, Operands x, Conversion rounding) {
  for (float& value : x.a) value = convert(value, rounding);
  for (float& value : x.b) value = convert(value, rounding);
  float sum = 0;
  for (std::size_t k = 0; k < x.a.size(); k += step.products) {
    const std::size_t n = std::min<std::size_t>(step.products, x.a.size() - k);
    sum = fused_dot_add(step, std::span(x.a).subspan(k, n), std::span(x.b).subspan(k, n), sum);
  }
  return sum;
}

/// |error| over the bound, for operands that are rounded with that relative error.
double ratio_to_bound(const FusedStep& step, const Operands& x, float result, double input_error,
                      bool with_underflow = true) {
  const auto terms = static_cast<std::int64_t>(x.a.size());
  const std::int64_t steps = (terms + step.products - 1) / step.products;
  double truth = 0, magnitude = 0, most_a = 0, most_b = 0;
  for (std::int64_t k = 0; k < terms; ++k) {
    const double term = double{x.a[k]} * x.b[k];
    truth += term;
    magnitude += std::abs(term);
    most_a = std::max<double>(most_a, std::abs(x.a[k]));
    most_b = std::max<double>(most_b, std::abs(x.b[k]));
  }
  const double relative = combine(input_rounding_bound(input_error),
                                  tensor_core_bound(steps, step.products, step.fraction_bits));
  const double absolute =
      with_underflow ? underflow_bound(steps) + tf32_underflow_bound(terms, most_a + most_b) : 0;
  return std::abs(result - truth) / (relative * magnitude + absolute);
}

TEST_CASE("the bounds have the values of their formulas, closed, and are infinite past them") {
  CHECK(fp32_sum_bound(0) == 0);
  CHECK(fp32_sum_bound(1) == 0x1p-24 / (1 - 0x1p-24));
  CHECK(fp32_sum_bound(1000) == doctest::Approx(1000 * 0x1p-24).epsilon(1e-4));
  CHECK(fp32_sum_bound(1000) > 1000 * 0x1p-24);
  CHECK(std::isinf(fp32_sum_bound(1 << 24)));
  CHECK(tensor_core_bound(0, 8, 25) == 0);
  CHECK(tensor_core_bound(3, 8, 25) == doctest::Approx(3 * (0x1p-22 + 0x1p-23)).epsilon(1e-6));
  CHECK(tensor_core_bound(3, 8, 25) > 3 * (0x1p-22 + 0x1p-23));
  CHECK(std::isinf(tensor_core_bound(1 << 22, 8, 25)));
  CHECK(input_rounding_bound(0x1p-11) == 0x1p-10 + 0x1p-22);
  CHECK(combine(0.5, 0.25) == 0.5 + 1.5 * 0.25);
  CHECK(combine(0, 0.25) == 0.25);
  CHECK(combine(0.5, 0) == 0.5);
  CHECK(underflow_bound(0) == 0);
  CHECK(tf32_underflow_bound(0, 1) == 0);
}

TEST_CASE("every emulated tensor core keeps within its bound and comes close to it") {
  for (const char* generation : {"ampere", "ada", "hopper"}) {
    CAPTURE(generation);
    const FusedStep& step = find_generation(generation).step(MmaType::kTf32);
    double nearest = 0, truncated = 0;
    for (std::uint64_t trial = 0; trial < 3000; ++trial) {
      const int terms = 1 + static_cast<int>(random_bits(71, trial) % 40);
      const Operands x = random_operands(terms, static_cast<double>(trial % 12), 1000 + 8 * trial);
      const auto ratio = [&](Conversion rounding, double input_error) {
        return ratio_to_bound(step, x, chain(step, x, rounding), input_error);
      };
      nearest = std::max(nearest, ratio(Conversion::kTf32, 0x1p-11));
      truncated = std::max(truncated, ratio(Conversion::kTf32Raw, 0x1p-10));
    }

    CHECK(nearest <= 1);
    CHECK(nearest > 0.5);
    CHECK(truncated <= 1);
    CHECK(truncated > 0.5);
  }
}

TEST_CASE("truncated inputs break the bound for rounded ones") {
  const FusedStep& step = find_generation("hopper").step(MmaType::kTf32);
  double worst = 0;
  for (std::uint64_t trial = 0; trial < 500; ++trial) {
    const Operands x = random_operands(2, 0, 5000 + 8 * trial);
    worst = std::max(worst, ratio_to_bound(step, x, chain(step, x, Conversion::kTf32Raw), 0x1p-11));
  }

  CHECK(worst > 1);
}

TEST_CASE("a unit with two fraction bits fewer breaks the bound") {
  // One term sets the exponent; the others of the step lie just below the quantum and are lost.
  const FusedStep& hopper = find_generation("hopper").step(MmaType::kTf32);
  const auto ratio = [&](int fraction_bits) {
    FusedStep unit = hopper;
    unit.fraction_bits = fraction_bits;
    Operands x;
    x.a.assign(8, std::ldexp(2 - 0x1p-10f, -fraction_bits - 1));
    x.b.assign(8, 1);
    x.a[0] = 1;
    return ratio_to_bound(hopper, x, chain(unit, x, Conversion::kTf32), 0);
  };

  CHECK(ratio(hopper.fraction_bits) <= 1);
  CHECK(ratio(hopper.fraction_bits) > 0.5);
  CHECK(ratio(hopper.fraction_bits - 2) > 1);
}

TEST_CASE("results in FP32's subnormal range need the absolute part of the bound and no more") {
  for (const char* generation : {"ampere", "hopper"}) {
    const FusedStep& step = find_generation(generation).step(MmaType::kTf32);
    double with = 0, without = 0;
    for (std::uint64_t trial = 0; trial < 2000; ++trial) {
      Operands x = random_operands(1 + static_cast<int>(trial % 20), 3, 9000 + 8 * trial);
      const bool tiny_operand = trial % 2 == 0;  // else only the products are tiny
      for (float& value : x.a) value = std::ldexp(value, tiny_operand ? -133 : -70);
      for (float& value : x.b) value = std::ldexp(value, tiny_operand ? 0 : -72);
      const float result = chain(step, x, Conversion::kTf32Raw);
      with = std::max(with, ratio_to_bound(step, x, result, 0x1p-10));
      without = std::max(without, ratio_to_bound(step, x, result, 0x1p-10, false));
    }

    CHECK(with <= 1);
    CHECK(with > 0.02);
    CHECK(without > 1);
  }
}

}  // namespace
}  // namespace tessera
