// The number types tensor cores read, and how an FP32 value becomes one of them.
//
// Values of every type are carried as the FP32 of the same value: FP16, BF16 and TF32 are subsets
// of it. What rounds is named apart from what the MMA does: `cvt` instructions round, an MMA that
// is handed raw FP32 bits as TF32 ignores the low 13 bits.
#pragma once

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

/// The operand an MMA sees, as FP32. A value that rounds beyond the largest finite one becomes
/// infinite. On the way to TF32 so does a NaN whose payload is all in the low 13 bits, however it
/// is converted.
float convert(float value, Conversion conversion);

/// sum * 2^exponent to nearest even in FP16 with gradual underflow; beyond the range infinite.
float round_to_fp16(std::int64_t sum, int exponent);

/// sum * 2^exponent, truncated to FP32 with gradual underflow; beyond the range infinite.
float truncate_to_fp32(std::int64_t sum, int exponent);

}  // namespace tessera
