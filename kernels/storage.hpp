// The types in which dense operands lie in memory. Sums are FP32 whatever they are: an element of B
// is widened where it is read, or is an operand of a tensor core as it is, and an element of C is
// rounded once, after alpha and beta.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "formats/base/matrix.hpp"
#include "kernels/tensor_core/number_format.hpp"

namespace tessera {

enum class ElementType { kFp32, kFp16, kBf16 };

/// The name of the type: "fp32", "fp16" or "bf16".
std::string_view name_of(ElementType type);

/// The type of that name. Throws an Error for an unknown one.
ElementType element_type(std::string_view name);

constexpr std::size_t bytes_of(ElementType type) { return type == ElementType::kFp32 ? 4 : 2; }

/// The largest relative error of rounding an FP32 value to the type in its normal range.
double rounding_error(ElementType type);

/// Half of the spacing of the type's subnormal numbers: the largest error of rounding an FP32 value
/// below its normal range.
double underflow_error(ElementType type);

/// The largest finite number of the type.
double largest_of(ElementType type);

/// The value to nearest even in the type, as FP32; every NaN becomes the device's only one, of the
/// type's bits 0x7fff.
float rounded_to(ElementType type, float value);

/// The types of the B and the C of a kernel.
struct Storage {
  ElementType b = ElementType::kFp32;
  ElementType c = ElementType::kFp32;

  friend bool operator==(const Storage&, const Storage&) = default;
};

/// C as a kernel leaves it: every element rounded to the type.
DenseMatrix stored_as(ElementType type, DenseMatrix c);

/// The bits of values in a type of 16 bits, rounded to nearest even.
std::vector<std::uint16_t> to_16_bits(ElementType type, std::span<const float> values);

/// The FP32 of the same value as 16 bits of the type.
float from_16_bits(ElementType type, std::uint16_t bits);

}  // namespace tessera
