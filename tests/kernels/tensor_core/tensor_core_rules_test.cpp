// Every rule of the fused step, written down a second time in another way, and broken on purpose:
// each break must show, so that no rule is there by accident.

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <functional>

#include "formats/base/random.hpp"
#include "kernels/tensor_core/tensor_core.hpp"

namespace tessera {
namespace {

/// The departures from the model under test.
struct Broken {
  bool nearest_output = false;       // RNE instead of RZ
  bool nearest_alignment = false;    // RNE instead of truncation
  bool normalised_products = false;  // a product of significands in [2, 4) moves its exponent
  bool late_accumulator = false;     // C is added in a step of its own
  int extra_fraction = 0;            // F + 1, F - 1
  bool half_steps = false;           // half of L
};

/// One step in long double, whose 64 bits hold any aligned sum of this size: products and C are
/// exact multiples of their last place, alignment is rounding to a multiple of the quantum.
float second_opinion(const FusedStep& step, std::span<const float> a, std::span<const float> b,
                     float c, const Broken& broken) {
  if (broken.half_steps && a.size() > static_cast<std::size_t>(step.products) / 2) {
    const std::size_t half = static_cast<std::size_t>(step.products) / 2;
    const float first = second_opinion(step, a.first(half), b.first(half), c, broken);
    return second_opinion(step, a.subspan(half), b.subspan(half), first, broken);
  }
  int largest = INT32_MIN;
  std::vector<long double> terms;
  const auto add = [&](long double value, int exponent) {
    terms.push_back(value);
    largest = std::max(largest, exponent);
  };
  for (std::size_t k = 0; k < a.size(); ++k) {
    const long double product = static_cast<long double>(a[k]) * b[k];
    int exponent = std::ilogb(a[k]) + std::ilogb(b[k]);
    if (broken.normalised_products) exponent = std::ilogb(product);
    add(product, exponent);
  }
  if (!broken.late_accumulator) add(c, std::ilogb(c));
  const int last = largest - step.fraction_bits - broken.extra_fraction;
  long double sum = 0;
  for (const long double term : terms) {
    const long double places = std::ldexp(term, -last);
    sum += broken.nearest_alignment ? std::nearbyint(places) : std::trunc(places);
  }
  sum = std::ldexp(sum, last);
  if (broken.late_accumulator) sum += c;
  const float nearest = static_cast<float>(sum);
  if (broken.nearest_output || static_cast<long double>(std::abs(nearest)) <= std::abs(sum))
    return nearest;
  return std::nextafter(nearest, 0.0f);
}

/// Chains of two steps of the given type, operands of like exponents so that every rule bites.
int mismatches(const FusedStep& step, Conversion conversion, const Broken& broken) {
  int different = 0;
  for (std::uint64_t trial = 0; trial < 2000; ++trial) {
    float expected = random_signed(3 * trial, 1000), found = expected;
    for (int chained = 0; chained < 2; ++chained) {
      std::vector<float> a, b;
      for (std::uint64_t k = 0; k < static_cast<std::uint64_t>(step.products); ++k) {
        const std::uint64_t index = k + 100 * static_cast<std::uint64_t>(chained);
        const int spread = static_cast<int>(random_bits(7, 50 * trial + index) % 6);
        a.push_back(convert(std::ldexp(random_signed(3 * trial + 1, index), spread), conversion));
        b.push_back(convert(random_signed(3 * trial + 2, index), conversion));
      }
      expected = fused_dot_add(step, a, b, expected);
      found = second_opinion(step, a, b, found, broken);
    }
    different += std::bit_cast<std::uint32_t>(expected) != std::bit_cast<std::uint32_t>(found);
  }
  return different;
}

struct Case {
  const char* generation;
  MmaType type;
  Conversion conversion;
};
const Case kCases[] = {{"volta", MmaType::kFp16, Conversion::kFp16},
                       {"turing", MmaType::kFp16, Conversion::kFp16},
                       {"ampere", MmaType::kTf32, Conversion::kTf32},
                       {"ampere", MmaType::kBf16, Conversion::kBf16},
                       {"ada", MmaType::kFp16, Conversion::kFp16},
                       {"hopper", MmaType::kTf32, Conversion::kTf32},
                       {"hopper", MmaType::kFp16, Conversion::kFp16},
                       {"blackwell", MmaType::kTf32, Conversion::kTf32}};

TEST_CASE("a second implementation in long double agrees on every type and generation") {
  for (const Case& c : kCases) {
    CAPTURE(c.generation);
    CAPTURE(name_of(c.type));
    CHECK(mismatches(find_generation(c.generation).step(c.type), c.conversion, {}) == 0);
  }
}

TEST_CASE("no rule of the step can be broken without being noticed") {
  const std::pair<const char*, Broken> mutations[] = {
      {"nearest for truncated output", {.nearest_output = true}},
      {"nearest for truncated alignment", {.nearest_alignment = true}},
      {"normalised products", {.normalised_products = true}},
      {"the accumulator in a step of its own", {.late_accumulator = true}},
      {"one bit more", {.extra_fraction = 1}},
      {"one bit less", {.extra_fraction = -1}},
      {"half the step", {.half_steps = true}}};
  for (const Case& c : kCases) {
    for (const auto& [name, broken] : mutations) {
      CAPTURE(c.generation);
      CAPTURE(name_of(c.type));
      CAPTURE(name);
      CHECK(mismatches(find_generation(c.generation).step(c.type), c.conversion, broken) > 0);
    }
  }
}

TEST_CASE("the zero exponent decides when every exponent is below it") {
  // c = 2^-140 with a zero product: aligned to 2^-133, F = 25 bits below, all of it stays; with a
  // step of fewer bits the same value would be lost.
  const FusedStep& hopper = find_generation("hopper").step(MmaType::kTf32);
  const std::vector<float> zero{0.0f}, one{1.0f};

  CHECK(fused_dot_add(hopper, zero, one, 0x1p-140f) == 0x1p-140f);
  FusedStep high = hopper;
  high.zero_exponent = -100;  // 2^-140 is below 2^(-100 - 25)
  CHECK(fused_dot_add(high, zero, one, 0x1p-140f) == 0.0f);
}

TEST_CASE("an FP16 accumulator rounds to nearest even, keeps subnormals and overflows") {
  const FusedStep& step = find_generation("hopper").step(MmaType::kFp16Fp16);
  const auto dot = [&](std::vector<float> a, std::vector<float> b, float c) {
    return fused_dot_add(step, a, b, c);
  };

  CHECK(dot({1.0f}, {0x1p-11f}, 1.0f) == 1.0f);                       // a tie: to even
  CHECK(dot({1.0f}, {0x1p-11f}, 1.0f + 0x1p-10f) == 1.0f + 0x1p-9f);  // a tie: to even
  CHECK(dot({0x1p-12f}, {0x1p-12f}, 0.0f) == 0x1p-24f);               // the least subnormal
  CHECK(dot({0x1p-13f}, {0x1p-12f}, 0.0f) == 0.0f);                   // half of it: to even
  CHECK(std::isinf(dot({256.0f}, {256.0f}, 0.0f)));
  CHECK(dot({255.0f}, {256.0f}, 0.0f) == 65280.0f);
  CHECK(std::bit_cast<std::uint32_t>(dot({INFINITY}, {0.0f}, 0.0f)) == 0x7fffe000u);
}

TEST_CASE("a conversion to FP16 gives the bits of the exact rounding for every exponent") {
  for (std::uint64_t i = 0; i < 200000; ++i) {
    // From below the least subnormal to beyond the largest number; ties are one in eight.
    const std::uint64_t raw = random_bits(11, i);
    std::uint32_t bits = static_cast<std::uint32_t>(raw & 0x807fffff) |
                         static_cast<std::uint32_t>(127 - 28 + raw % 48) << 23;
    if (raw >> 61 == 0) bits = (bits & 0xffffe000) | 0x1000;
    const float value = std::bit_cast<float>(bits);
    CAPTURE(value);
    const auto significand = static_cast<std::int64_t>((bits & 0x7fffff) | 0x800000);
    const float magnitude =
        round_to_fp16(significand, static_cast<int>((bits >> 23) & 255) - 127 - 23);
    REQUIRE(std::bit_cast<std::uint32_t>(convert(value, Conversion::kFp16)) ==
            (std::bit_cast<std::uint32_t>(magnitude) | (bits & 0x80000000)));
  }
}

TEST_CASE("conversions round as their instructions do") {
  CHECK(convert(1.0f + 0x1p-11f, Conversion::kFp16) == 1.0f);  // ties to even
  CHECK(convert(1.0f + 0x3p-11f, Conversion::kFp16) == 1.0f + 0x1p-9f);
  CHECK(convert(65519.0f, Conversion::kFp16) == 65504.0f);
  CHECK(std::isinf(convert(65520.0f, Conversion::kFp16)));
  CHECK(convert(0x1p-25f, Conversion::kFp16) == 0.0f);
  CHECK(convert(0x1.8p-25f, Conversion::kFp16) == 0x1p-24f);
  CHECK(std::bit_cast<std::uint32_t>(convert(-0x1p-30f, Conversion::kFp16)) == 0x80000000u);
  CHECK(convert(1.0f + 0x1p-8f, Conversion::kBf16) == 1.0f);
  CHECK(convert(1.0f + 0x3p-8f, Conversion::kBf16) == 1.0f + 0x1p-6f);
  CHECK(std::isnan(convert(NAN, Conversion::kBf16)));
  CHECK(convert(1.0f + 0x1p-11f, Conversion::kTf32) == 1.0f + 0x1p-10f);  // ties away from zero
  CHECK(convert(1.0f + 0x1p-11f, Conversion::kTf32Even) == 1.0f);
  CHECK(convert(-1.0f - 0x3p-11f, Conversion::kTf32Even) == -1.0f - 0x1p-9f);
  CHECK(convert(1.0f + 0x1.1p-11f, Conversion::kTf32Even) == 1.0f + 0x1p-10f);
  CHECK(std::isinf(convert(3.4028235e38f, Conversion::kTf32Even)));
  CHECK(std::isinf(convert(-INFINITY, Conversion::kTf32Even)));
  // The NaN of the GPU's arithmetic, which a carry would make a zero.
  CHECK(std::isnan(convert(std::bit_cast<float>(0x7fffffffu), Conversion::kTf32Even)));
  CHECK(std::isinf(convert(3.4e38f, Conversion::kBf16)));
}

}  // namespace
}  // namespace tessera
