// The types of B and C in memory: conversion to 16 bits and back, and what rounding costs.

#include "kernels/storage.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "formats/base/check.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

constexpr ElementType kHalves[] = {ElementType::kFp16, ElementType::kBf16};

TEST_CASE("every number of 16 bits comes back from FP32 as the same bits") {
  for (const ElementType type : kHalves) {
    for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
      const auto half = static_cast<std::uint16_t>(bits);
      const float value = from_16_bits(type, half);
      const std::uint16_t back = to_16_bits(type, {&value, 1})[0];
      if (std::isnan(value))
        CHECK(back == 0x7fff);
      else
        CHECK(back == half);
    }
  }
}

TEST_CASE("a value is rounded to the nearest number of 16 bits, within the stated error") {
  const DenseMatrix values = random_dense(200, 50, 61);
  for (const ElementType type : kHalves) {
    double worst = 0;
    for (const float value : values.values) {
      const double error = std::abs(double{rounded_to(type, value)} - value);
      if (std::abs(value) >= 0x1p-14f) worst = std::max(worst, error / std::abs(value));
      if (std::abs(value) < 0x1p-14f) CHECK(error <= rounding_error(type) * 0x1p-14);
    }
    CHECK(worst <= rounding_error(type));
    CHECK(worst > 0.9 * rounding_error(type));
  }
}

TEST_CASE("what lies below a type's normal range is off by half its spacing at most") {
  CHECK(rounded_to(ElementType::kFp16, 0x1.8p-24f) == 0x1p-23f);
  CHECK(rounded_to(ElementType::kFp16, 0x1p-25f) == 0.0f);
  CHECK(underflow_error(ElementType::kFp16) == 0x1p-25);
  CHECK(rounded_to(ElementType::kBf16, 0x1p-134f) == 0.0f);
  CHECK(underflow_error(ElementType::kBf16) == 0x1p-134);
  CHECK(underflow_error(ElementType::kFp32) == 0);
}

TEST_CASE("what lies beyond a type's range becomes infinite") {
  CHECK(rounded_to(ElementType::kFp16, 65519.0f) == largest_of(ElementType::kFp16));
  CHECK(std::isinf(rounded_to(ElementType::kFp16, 65520.0f)));
  const float largest = std::numeric_limits<float>::max();
  CHECK(std::isinf(rounded_to(ElementType::kBf16, largest)));
  CHECK(rounded_to(ElementType::kBf16, 0x1.fep127f) == largest_of(ElementType::kBf16));
  CHECK(rounded_to(ElementType::kFp32, largest) == largest_of(ElementType::kFp32));
}

TEST_CASE("types have names, and no others") {
  for (const ElementType type : {ElementType::kFp32, ElementType::kFp16, ElementType::kBf16})
    CHECK(element_type(name_of(type)) == type);
  CHECK_THROWS_WITH_AS(element_type("fp8"), doctest::Contains("fp32, fp16 and bf16"), Error);
}

}  // namespace
}  // namespace tessera
