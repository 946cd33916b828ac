#include "kernels/tensor_core/number_format.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

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

float float_to_fp16(float value) {
  if (!std::isfinite(value) || value == 0) return value;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const int field = static_cast<int>((bits >> 23) & 255);
  const std::uint32_t fraction = bits & 0x7fffff;
  const auto significand = static_cast<std::int64_t>(field == 0 ? fraction : fraction | 0x800000);
  const float magnitude = round_to_fp16(significand, std::max(field, 1) - 127 - 23);
  return with_sign(magnitude, bits >> 31 != 0);
}

float float_to_bf16(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return std::bit_cast<float>(0x7fff0000u);
  bits += 0x7fff + (bits >> 16 & 1);  // to nearest even; a carry moves the exponent up
  return std::bit_cast<float>(bits & 0xffff0000u);
}

float float_to_tf32(float value, bool round) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  // Adds half a unit of the last kept bit to the magnitude; a carry moves the exponent up. The
  // payload of a NaN is truncated in both conversions (observed on an H200).
  if (round && std::isfinite(value)) bits += 0x1000;
  return std::bit_cast<float>(bits & 0xffffe000);
}

/// Every NaN becomes the one with all kept bits set.
float float_to_tf32_even(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return std::bit_cast<float>(0x7fffe000u);
  if (std::isfinite(value)) bits += 0xfff + (bits >> 13 & 1);  // a carry moves the exponent up
  return std::bit_cast<float>(bits & 0xffffe000);
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
    case Conversion::kTf32Raw:
      break;
    case Conversion::kTf32Even:
      return float_to_tf32_even(value);
    case Conversion::kFp16:
      return float_to_fp16(value);
    case Conversion::kBf16:
      return float_to_bf16(value);
  }
  return float_to_tf32(value, conversion == Conversion::kTf32);
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
