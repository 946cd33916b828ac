// The conversions of FP32 values to operands, inline and without branches, so that loops over many
// values vectorise: convert() of kernels/tensor_core/number_format.hpp, for a conversion that is
// known when the loop is compiled.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/tensor_core/number_format.hpp"

namespace tessera {

inline constexpr std::uint32_t kMagnitudeBits = 0x7fffffff;
inline constexpr std::uint32_t kInfiniteBits = 0x7f800000;

constexpr std::uint32_t float_bits(float value) { return std::bit_cast<std::uint32_t>(value); }

/// To nearest even; NaN and infinity stay as they are, and a value that vanishes keeps its sign.
constexpr float to_fp16(float value) {
  constexpr std::uint32_t kLeastNormal = (127 - 14) << 23, kBeyond = (127 + 16) << 23;
  const std::uint32_t bits = float_bits(value), magnitude = bits & kMagnitudeBits;
  // A carry moves the exponent up.
  const std::uint32_t normal = (magnitude + 0xfff + (magnitude >> 13 & 1)) & 0xffffe000;
  // The spacing of FP32 in [0.5, 1) is that of FP16's subnormals: the addition rounds to it.
  const float subnormal = std::bit_cast<float>(magnitude) + 0.5f - 0.5f;
  const std::uint32_t rounded = magnitude < kLeastNormal ? float_bits(subnormal)
                                : normal >= kBeyond      ? kInfiniteBits
                                                         : normal;
  const std::uint32_t kept = magnitude >= kInfiniteBits ? magnitude : rounded;
  return std::bit_cast<float>((bits & ~kMagnitudeBits) | kept);
}

/// To nearest even; every NaN becomes the one with all kept bits set.
constexpr float to_bf16(float value) {
  const std::uint32_t bits = float_bits(value);
  const bool is_nan = (bits & kMagnitudeBits) > kInfiniteBits;
  const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  return std::bit_cast<float>(is_nan ? 0x7fff0000u : rounded);
}

/// To nearest with ties away from zero, or truncated. The payload of a NaN is truncated in both
/// (observed on an H200).
template <bool kRounds>
constexpr float to_tf32(float value) {
  const std::uint32_t bits = float_bits(value);
  const bool is_finite = (bits & kMagnitudeBits) < kInfiniteBits;
  // Half a unit of the last kept bit; a carry moves the exponent up.
  return std::bit_cast<float>((bits + (kRounds && is_finite ? 0x1000u : 0u)) & 0xffffe000);
}

/// To nearest even; every NaN becomes the one with all kept bits set.
constexpr float to_tf32_even(float value) {
  const std::uint32_t bits = float_bits(value), magnitude = bits & kMagnitudeBits;
  const std::uint32_t half = magnitude < kInfiniteBits ? 0xfff + (bits >> 13 & 1) : 0;
  return std::bit_cast<float>(magnitude > kInfiniteBits ? 0x7fffe000u : (bits + half) & 0xffffe000);
}

template <Conversion kConversion>
constexpr float converted(float value) {
  if constexpr (kConversion == Conversion::kFp16)
    return to_fp16(value);
  else if constexpr (kConversion == Conversion::kBf16)
    return to_bf16(value);
  else if constexpr (kConversion == Conversion::kTf32Even)
    return to_tf32_even(value);
  else
    return to_tf32<kConversion == Conversion::kTf32>(value);
}

}  // namespace tessera
