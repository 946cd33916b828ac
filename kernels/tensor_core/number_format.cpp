#include "kernels/tensor_core/number_format.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/tensor_core/conversions.hpp"

namespace tessera {
namespace {

constexpr int kFp16MaxExponent = 15;

float with_sign(float magnitude, bool negative) { return negative ? -magnitude : magnitude; }

/// The signed result; one that vanishes is +0 for either sign of the sum (observed on an H200).
float signed_result(float magnitude, bool negative) {
  return with_sign(magnitude, negative && magnitude != 0);
}

/// magnitude * 2^exponent to nearest even with `fraction_bits`, not below the format's subnormals.
float round_to_nearest_even(std::uint64_t magnitude, int exponent, NumberFormat format) {
  const int top = 63 - std::countl_zero(magnitude) + exponent;
  const int lowest = std::max(top, format.min_exponent) - format.fraction_bits;
  const int right = lowest - exponent;  // bits to drop
  if (right <= 0) return std::ldexp(static_cast<float>(magnitude << -right), lowest);
  if (right > 63) return 0;
  std::uint64_t kept = magnitude >> right;
  const std::uint64_t rest = magnitude & ((std::uint64_t{1} << right) - 1);
  const std::uint64_t half = std::uint64_t{1} << (right - 1);
  kept += rest > half || (rest == half && (kept & 1) != 0);
  return std::ldexp(static_cast<float>(kept), lowest);
}

}  // namespace

std::string_view name_of(MmaType type) {
  switch (type) {
    case MmaType::kTf32:
      return "tf32";
    case MmaType::kFp16:
      return "fp16";
    case MmaType::kBf16:
      return "bf16";
    case MmaType::kFp16Fp16:
      break;
  }
  return "fp16_fp16";
}

float convert(float value, Conversion conversion) {
  switch (conversion) {
    case Conversion::kTf32:
      break;
    case Conversion::kTf32Even:
      return converted<Conversion::kTf32Even>(value);
    case Conversion::kTf32Raw:
      return converted<Conversion::kTf32Raw>(value);
    case Conversion::kFp16:
      return converted<Conversion::kFp16>(value);
    case Conversion::kBf16:
      return converted<Conversion::kBf16>(value);
  }
  return converted<Conversion::kTf32>(value);
}

float round_to_fp16(std::int64_t sum, int exponent) {
  if (sum == 0) return 0;
  const auto magnitude = static_cast<std::uint64_t>(std::abs(sum));
  const float rounded = round_to_nearest_even(magnitude, exponent, kFp16Format);
  const bool overflows = rounded >= std::ldexp(1.0f, kFp16MaxExponent + 1);
  return signed_result(overflows ? std::numeric_limits<float>::infinity() : rounded, sum < 0);
}

float truncate_to_fp32(std::int64_t sum, int exponent) {
  if (sum == 0) return 0;
  const auto magnitude = static_cast<std::uint64_t>(std::abs(sum));
  const int top = 63 - std::countl_zero(magnitude) + exponent;
  if (top > 127) return with_sign(std::numeric_limits<float>::infinity(), sum < 0);
  const int lowest = std::max(top, kFp32Format.min_exponent) - kFp32Format.fraction_bits;
  const int right = lowest - exponent;
  const std::uint64_t kept =
      right <= 0 ? magnitude << -right : (right > 63 ? 0 : magnitude >> right);
  return signed_result(std::ldexp(static_cast<float>(kept), lowest), sum < 0);
}

}  // namespace tessera
