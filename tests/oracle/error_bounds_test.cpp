// The a priori error bounds: their values, emulated tensor cores of every generation held against
// them, which a coarser unit or a coarser rounding of the inputs must break, and for each bound a
// product that the oracle lets through and that half of the bound would not.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "formats/base/random.hpp"
#include "kernels/tensor_core/tensor_core.hpp"
#include "oracle/error_bounds.hpp"
#include "oracle/spmm_oracle.hpp"
#include "tests/oracle_support.hpp"

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
      with_underflow
          ? underflow_bound(steps) + operand_underflow_bound(terms, most_a + most_b, 0x1p-136)
          : 0;
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
  CHECK(operand_underflow_bound(0, 1, 0x1p-136) == 0);
  CHECK(flushed_addition_bound(0) == 0);
}

TEST_CASE("sums by additions that flush subnormals keep within their bound and come close to it") {
  const auto flushed = [](float value) {
    return std::abs(value) < 0x1p-126f ? std::copysign(0.0f, value) : value;
  };
  double nearest = 0;
  int beyond_the_others = 0;
  for (std::uint64_t trial = 0; trial < 20000; ++trial) {
    const int terms = 1 + static_cast<int>(random_bits(91, trial) % 4);
    float sum = 0;
    double truth = 0, magnitude = 0;
    for (int k = 0; k < terms; ++k) {
      const float term = random_signed(92 + trial, k) * 0x1p-125f;
      sum = flushed(flushed(sum) + flushed(term));
      truth += term;
      magnitude += std::abs(double{term});
    }
    const double error = std::abs(sum - truth);
    const double others = fp32_sum_bound(terms) * magnitude + underflow_bound(terms);
    CHECK(error <= others + flushed_addition_bound(terms));
    beyond_the_others += error > others;
    nearest = std::max(nearest, error / flushed_addition_bound(terms));
  }
  CHECK(beyond_the_others > 1000);
  CHECK(nearest > 0.15);
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

/// One row of A times one column of B.
struct DotProduct {
  Operands x;
  float result = 0;
  double relative = 0, absolute = 0;  // the bound

  bool passes(double share_of_bound = 1) const {
    const auto terms = static_cast<std::int32_t>(x.a.size());
    std::vector<std::int32_t> cols(x.a.size());
    std::iota(cols.begin(), cols.end(), 0);
    return compare_spmm(csr(1, terms, {0, terms}, cols, x.a), dense(terms, 1, x.b),
                        dense(1, 1, {result}),
                        same_bound(1, share_of_bound * relative, share_of_bound * absolute))
        .ok();
  }
};

DotProduct on_tensor_core(const FusedStep& step, Operands x, Conversion rounding,
                          double input_error) {
  const auto terms = static_cast<std::int64_t>(x.a.size());
  const std::int64_t steps = (terms + step.products - 1) / step.products;
  DotProduct dot{x, chain(step, x, rounding)};
  dot.relative = combine(input_rounding_bound(input_error),
                         tensor_core_bound(steps, step.products, step.fraction_bits));
  dot.absolute =
      underflow_bound(steps) +
      operand_underflow_bound(terms, std::abs(double{x.a[0]}) + std::abs(double{x.b[0]}), 0x1p-136);
  return dot;
}

TEST_CASE("half of the FP32 bound is broken by one product and by ties that are always lost") {
  const float factor = 1 + 0x1p-12f;  // its square is 2^-24 from the nearest FP32 number
  const DotProduct one{{{factor}, {factor}}, factor * factor, fp32_sum_bound(1), 0};
  Operands ties;
  ties.a.assign(1000, 0x1p-24f);
  ties.b.assign(1000, 1);
  ties.a[0] = 1;
  const DotProduct many{ties, 1, fp32_sum_bound(1000), 0};

  CHECK(one.passes());
  CHECK_FALSE(one.passes(0.5));
  CHECK(many.passes());
  CHECK_FALSE(many.passes(0.5));
}

TEST_CASE("half of the tensor-core bound is broken by terms just below the quantum") {
  for (const char* generation : {"ampere", "ada", "hopper"}) {
    CAPTURE(generation);
    const FusedStep& step = find_generation(generation).step(MmaType::kTf32);
    Operands x;
    x.a.assign(8 * step.products, std::ldexp(2 - 0x1p-10f, -step.fraction_bits - 1));
    x.b.assign(x.a.size(), 1);
    x.a[0] = 1;

    const DotProduct dot = on_tensor_core(step, x, Conversion::kTf32, 0);

    CHECK(dot.result == 1);
    CHECK(dot.passes());
    CHECK_FALSE(dot.passes(0.5));
  }
}

TEST_CASE(
    "half of the bound on rounded inputs is broken by a tie, or by 13 bits that are cut off") {
  const FusedStep& step = find_generation("hopper").step(MmaType::kTf32);
  const float tie = 1 + 0x1p-11f, cut = 1 + 0x1p-10f - 0x1p-23f;

  const DotProduct nearest = on_tensor_core(step, {{tie}, {tie}}, Conversion::kTf32, 0x1p-11);
  const DotProduct truncated = on_tensor_core(step, {{cut}, {cut}}, Conversion::kTf32Raw, 0x1p-10);

  CHECK(nearest.passes());
  CHECK_FALSE(nearest.passes(0.5));
  CHECK(truncated.passes());
  CHECK_FALSE(truncated.passes(0.5));
}

TEST_CASE("the bounds on underflow are twice what is lost, and flushing to zero breaks them") {
  // Either is doubled to pay for the rest of the sum, of which there is none here.
  const FusedStep& step = find_generation("hopper").step(MmaType::kTf32);
  const auto check = [&](float a, float b) {
    const DotProduct dot = on_tensor_core(step, {{a}, {b}}, Conversion::kTf32Raw, 0x1p-10);
    CHECK(dot.passes());
    CHECK_FALSE(dot.passes(0.49));
    CHECK(dot.absolute > 100 * dot.relative * std::abs(double{a} * b));
  };
  const auto flushed = [&](float a, float b) {
    DotProduct dot = on_tensor_core(step, {{a}, {b}}, Conversion::kTf32Raw, 0x1p-10);
    dot.result = 0;
    return dot;
  };

  check(0x1p-75f, (2 - 0x1p-10f) * 0x1p-74f);         // the product is nearly two units of FP32
  check(0x1p-136f - 0x1p-149f, 1);                    // the operand nearly one unit of TF32
  CHECK_FALSE(flushed(0x1p-64f, 0x1p-64f).passes());  // a product below 2^-126
  CHECK_FALSE(flushed(0x1p-127f, 1).passes());        // an operand below 2^-126
}

}  // namespace
}  // namespace tessera
