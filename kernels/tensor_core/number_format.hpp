// The number types of tensor cores, and the conversions of FP32 to them.
//
// Values of every type are stored as the FP32 of the same value: FP16, BF16 and TF32 are subsets of
// it. Rounding is separate from the MMA: `cvt` instructions round; an MMA with raw FP32 bits as
// TF32 operands ignores their low 13 bits.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace tessera {

/// The type of an MMA's operands. kFp16Fp16 accumulates in FP16, the others in FP32.
enum class MmaType { kTf32, kFp16, kBf16, kFp16Fp16 };

/// The name of the type: "tf32", "fp16", "bf16" or "fp16_fp16".
std::string_view name_of(MmaType type);

/// A binary floating-point type with `fraction_bits` bits behind the point, normal exponents from
/// `min_exponent` on, and subnormals below.
struct NumberFormat {
  int fraction_bits = 0;
  int min_exponent = 0;
};
constexpr NumberFormat kFp32Format{23, -126};
constexpr NumberFormat kFp16Format{10, -14};

/// The format of an MMA's operands.
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

/// The format of an MMA's accumulator and result.
constexpr NumberFormat accumulator_format(MmaType type) {
  return type == MmaType::kFp16Fp16 ? kFp16Format : kFp32Format;
}

/// The conversion of an FP32 value to an operand.
enum class Conversion {
  kTf32,      // cvt.rna.tf32.f32: to nearest, ties away from zero
  kTf32Even,  // cvt.rn.tf32.f32: to nearest even
  kTf32Raw,   // raw FP32 bits: the unit ignores the low 13
  kFp16,      // cvt.rn.f16.f32: to nearest even
  kBf16,      // cvt.rn.bf16.f32: to nearest even
};

/// The largest relative error of the conversion in the normal range of its type.
constexpr double relative_error(Conversion conversion) {
  switch (conversion) {
    case Conversion::kTf32:
    case Conversion::kTf32Even:
    case Conversion::kFp16:
      return 0x1p-11;
    case Conversion::kTf32Raw:
      return 0x1p-10;
    case Conversion::kBf16:
      break;
  }
  return 0x1p-8;
}

/// The type of the operands that a conversion makes.
constexpr MmaType type_of(Conversion conversion) {
  switch (conversion) {
    case Conversion::kFp16:
      return MmaType::kFp16;
    case Conversion::kBf16:
      return MmaType::kBf16;
    case Conversion::kTf32:
    case Conversion::kTf32Even:
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

/// The inverse of fp16_value, for a value that FP16 holds.
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

/// The operand that an MMA reads, as FP32. A value that rounds beyond the largest finite one
/// becomes infinite. So does, by kTf32 and kTf32Raw, a NaN whose payload is all in the low 13 bits.
float convert(float value, Conversion conversion);

/// sum * 2^exponent to nearest even in FP16 with gradual underflow: infinite beyond the range, +0
/// when the result vanishes.
float round_to_fp16(std::int64_t sum, int exponent);

/// sum * 2^exponent, truncated to FP32 with gradual underflow: infinite beyond the range, +0 when
/// the result vanishes.
float truncate_to_fp32(std::int64_t sum, int exponent);

}  // namespace tessera
