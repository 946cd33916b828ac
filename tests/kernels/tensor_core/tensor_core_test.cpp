// The tensor-core model: against recorded hardware vectors, and the vector path against the scalar.

#include "kernels/tensor_core/tensor_core.hpp"
#include "kernels/tensor_core/fused_rows.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }
float from_bits(std::uint64_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value));
}

const FusedStep& tf32(const char* generation) {
  return find_generation(generation).step(MmaType::kTf32);
}

TEST_CASE("the generations differ exactly as published on the one-line test of MMA-Sim") {
  // c = 2^23 and products -2^23, -0.5, -0.25, -0.125 in one step; the exact sum is -0.875
  // (Xie et al., Eq. 10).
  const std::vector<float> a{-0x1p12f, -0.5f, -0.5f, -0.25f}, b{0x1p11f, 1, 0.5f, 0.5f};

  CHECK(fused_dot_add(tf32("ampere"), a, b, 0x1p23f) == -0.5f);
  CHECK(fused_dot_add(tf32("ada"), a, b, 0x1p23f) == -0.5f);
  CHECK(fused_dot_add(tf32("hopper"), a, b, 0x1p23f) == -0.75f);
}

TEST_CASE("one Hopper step takes eight products, where two of four would cancel first") {
  const std::vector<float> a{0x1p12f, 0, 0, 0, 0.5f, 0.5f, 0.5f, 0.5f};
  const std::vector<float> b{0x1p12f, 0, 0, 0, 0.5f, 0.5f, 0.5f, 0.5f};
  const FusedStep& step = tf32("hopper");

  const float one_step = fused_dot_add(step, a, b, -0x1p24f);
  const std::span<const float> left(a), right(b);
  const float half = fused_dot_add(step, left.first(4), right.first(4), -0x1p24f);
  const float two_steps = fused_dot_add(step, left.last(4), right.last(4), half);

  CHECK(one_step == 0.0f);
  CHECK(two_steps == 1.0f);
}

TEST_CASE("special values follow IEEE, with one NaN") {
  const FusedStep& step = tf32("hopper");
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto dot = [&](std::vector<float> a, std::vector<float> b, float c) {
    return bits(fused_dot_add(step, a, b, c));
  };

  CHECK(dot({inf, 1}, {0, 1}, 0) == 0x7fffffff);
  CHECK(dot({nan}, {1}, 0) == 0x7fffffff);
  CHECK(dot({inf}, {1}, -inf) == 0x7fffffff);
  CHECK(dot({inf, 1}, {-2, 1}, 0) == bits(-inf));
  CHECK(dot({0x1p100f}, {0x1p100f}, 0) == bits(inf));     // overflow is never the largest finite
  CHECK(dot({0x1p-80f}, {0x1p-80f}, 0) == 0);             // far below the subnormals
  CHECK(dot({-0x1p-70f}, {0x1p-79f}, 0) == 0x80000001u);  // subnormals are kept
  CHECK(dot({-0.0f}, {1}, -0.0f) == 0);                   // an all-zero sum is +0
  CHECK(dot({-0x1p-80f}, {0x1p-80f}, 0) == 0);            // and so is one that vanishes
}

TEST_CASE("TF32 rounds to nearest with ties away from zero, or truncates") {
  const float tie = from_bits(0x3f801000), above = from_bits(0x3f801001);
  const float below = from_bits(0x3f800fff);

  CHECK(bits(convert(tie, Conversion::kTf32)) == 0x3f802000);
  CHECK(bits(convert(-tie, Conversion::kTf32)) == 0xbf802000);
  CHECK(bits(convert(below, Conversion::kTf32)) == 0x3f800000);
  CHECK(bits(convert(above, Conversion::kTf32Raw)) == 0x3f800000);
  CHECK(std::isinf(convert(std::numeric_limits<float>::max(), Conversion::kTf32)));
}

TEST_CASE("a NaN whose payload is lost on the way to TF32 becomes infinite") {
  const float inf = std::numeric_limits<float>::infinity();

  for (const Conversion rounding : {Conversion::kTf32Raw, Conversion::kTf32}) {
    CHECK(convert(from_bits(0x7f801fff), rounding) == inf);
    CHECK(convert(from_bits(0xff800001), rounding) == -inf);
    CHECK(std::isnan(convert(from_bits(0x7f802000), rounding)));
    CHECK(std::isnan(convert(from_bits(0x7fffffff), rounding)));
    CHECK(convert(inf, rounding) == inf);
  }
}

/// Draws that reach every corner: whole random bit patterns, narrow ranges, zeros, subnormals.
float awkward(std::uint64_t seed, std::uint64_t index, int family) {
  const std::uint64_t raw = random_bits(seed, index);
  switch (family) {
    case 0:
      return random_signed(seed, index);
    case 1:
      return from_bits(raw);  // NaN, infinities, subnormals among them
    case 2:
      return raw % 3 == 0 ? 0.0f : std::ldexp(1.0f, static_cast<int>(raw >> 8 & 15) - 8);
    case 3:
      return from_bits(raw & 0x80ffffff);  // deep subnormals and the smallest normals
    case 4:
      return random_signed(seed, index) * std::ldexp(1.0f, static_cast<int>(raw & 127) - 64);
    default:
      return -0.0f;
  }
}

TEST_CASE("the vector path computes what the scalar path computes, bit for bit") {
  for (const char* generation : {"hopper", "ampere"}) {
    const FusedStep& step = tf32(generation);
    for (int family = 0; family < 6; ++family) {
      for (int terms = 1; terms <= step.products; ++terms) {
        CAPTURE(generation);
        CAPTURE(family);
        CAPTURE(terms);
        const std::uint64_t seed = static_cast<std::uint64_t>(100 * family + terms);
        const std::int64_t n = 131;
        DenseMatrix b(8, n);
        for (std::size_t i = 0; i < b.values.size(); ++i) b.values[i] = awkward(seed, i, family);
        std::vector<float> c(n);
        for (std::int64_t j = 0; j < n; ++j) c[j] = awkward(seed + 50, j, j % 7 == 0 ? 2 : family);
        std::vector<StepTerm> step_terms;
        for (int k = 0; k < terms; ++k)
          step_terms.push_back({convert(awkward(seed + 70, k, family), Conversion::kTf32Raw), k});

        std::vector<float> expected(n);
        for (std::int64_t j = 0; j < n; ++j) {
          std::vector<float> left(step.products), right(step.products);
          for (int k = 0; k < terms; ++k) {
            left[k] = step_terms[k].a;
            right[k] = convert(b.at(k, j), Conversion::kTf32);
          }
          expected[j] = fused_dot_add(step, left, right, c[j]);
        }
        fused_step(step, step_terms, MmaOperand(b, Conversion::kTf32), c);

        for (std::int64_t j = 0; j < n; ++j) REQUIRE(bits(c[j]) == bits(expected[j]));
      }
    }
  }
}

TEST_CASE("Turing has no TF32, and an unknown generation suggests a known one") {
  CHECK_THROWS_AS(find_generation("turing").step(MmaType::kTf32), Unsupported);
  CHECK_THROWS_WITH_AS(find_generation("hoper"), doctest::Contains("did you mean 'hopper'"), Error);
}

}  // namespace
}  // namespace tessera
