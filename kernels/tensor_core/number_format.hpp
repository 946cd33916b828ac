// The number types tensor cores read, and how an FP32 value becomes one of them.
//
// Values of every type are carried as the FP32 of the same value: FP16, BF16 and TF32 are subsets
// of it. What rounds is named apart from what the MMA does: `cvt` instructions round, an MMA that
// is handed raw FP32 bits as TF32 ignores the low 13 bits.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace tessera {

/// Input type of an MMA and, for FP16, of its accumulator. kFp16Fp16 accumulates in FP16, the
/// others in FP32.
enum class MmaType { kTf32, kFp16, kBf16, kFp16Fp16 };

/// "tf32", "fp16", "bf16", "fp16_fp16".
std::string_view name_of(MmaType type);

/// A binary floating-point type: `fraction_bits` behind the point, normal exponents from
/// `min_exponent`; subnormals below.
struct NumberFormat {
  int fraction_bits = 0;
  int min_exponent = 0;
};
constexpr NumberFormat kFp32Format{23, -126};
constexpr NumberFormat kFp16Format{10, -14};

/// Of the operands of an MMA.
constexpr NumberFormat operand_format(MmaType type) {
  switch (type) {
    case MmaType::kTf32:
      return {10, -126};
    case MmaType::kBf16:
      return {7, -126};
    case MmaType::kFp16:
    case MmaType::kFp16Fp16:
      break;
  }
  return kFp16Format;
}

/// Of its accumulator and result.
constexpr NumberFormat accumulator_format(MmaType type) {
  return type == MmaType::kFp16Fp16 ? kFp16Format : kFp32Format;
}

/// How an FP32 value becomes an operand.
enum class Conversion {
  kTf32,     // cvt.rna.tf32.f32: to nearest, ties away from zero
  kTf32Raw,  // raw FP32 bits: the unit ignores the low 13
  kFp16,     // cvt.rn.f16.f32: to nearest even
  kBf16,     // cvt.rn.bf16.f32: to nearest even
};

/// Largest relative error of the conversion in the normal range of its type.
constexpr double relative_error(Conversion conversion) {
  switch (conversion) {
    case Conversion::kTf32:
    case Conversion::kFp16:
      return 0x1p-11;
    case Conversion::kTf32Raw:
      return 0x1p-10;
    case Conversion::kBf16:
      break;
  }
  return 0x1p-8;
}

/// Type of the operands that a conversion makes.
constexpr MmaType type_of(Conversion conversion) {
  switch (conversion) {
    case Conversion::kFp16:
      return MmaType::kFp16;
    case Conversion::kBf16:
      return MmaType::kBf16;
    case Conversion::kTf32:
    case Conversion::kTf32Raw:
      break;
  }
  return MmaType::kTf32;
}

/// The FP32 of the same value as these 16 bits; a NaN keeps its sign and payload.
constexpr float fp16_value(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16, field = bits >> 10 & 31;
  const std::uint32_t fraction = bits & 0x3ff;
  if (field == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  const std::uint32_t widened = field == 31 ? 255 : field + 127 - 15;
  return std::bit_cast<float>(sign | widened << 23 | fraction << 13);
}

/// The inverse, of a value that FP16 holds.
constexpr std::uint16_t fp16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000, field = bits >> 23 & 255;
  const std::uint32_t fraction = bits >> 13 & 0x3ff;
  if (field > 127 - 15) {
    const std::uint32_t narrowed = field == 255 ? 31 : field - (127 - 15);
    return static_cast<std::uint16_t>(sign | narrowed << 10 | fraction);
  }
  const float magnitude = std::bit_cast<float>(bits & 0x7fffffff);
  return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(magnitude * 0x1p24f));
}

/// The operand an MMA sees, as FP32. A value that rounds beyond the largest finite one becomes
/// infinite. On the way to TF32 so does a NaN whose payload is all in the low 13 bits, however it
/// is converted.
float convert(float value, Conversion conversion);

/// sum * 2^exponent to nearest even in FP16 with gradual underflow; beyond the range infinite,
/// and +0 for what vanishes.
float round_to_fp16(std::int64_t sum, int exponent);

/// sum * 2^exponent, truncated to FP32 with gradual underflow; beyond the range infinite,
/// and +0 for what vanishes.
float truncate_to_fp32(std::int64_t sum, int exponent);

}  // namespace tessera
