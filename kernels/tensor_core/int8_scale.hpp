// Quantisation to INT8 with one scale per matrix, symmetric about zero, to nearest even: that of
// Magicube, section 4, which Wu et al., arXiv 2004.09602, call per-tensor.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

namespace tessera {

constexpr int kLargestInt8 = 127;

class Int8Scale {
 public:
  /// The scale largest |value| / 127; NaN when a value is NaN.
  explicit Int8Scale(std::span<const float> values) {
    std::uint32_t largest = 0;
    for (const float value : values)
      largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & 0x7fffffffu);
    scale_ = std::bit_cast<float>(largest) / kLargestInt8;
  }

  /// The FP32 value of the INT8 number 1.
  float value() const { return scale_; }

  /// The nearest INT8 number in [-127, 127]; 0 where the scale is zero or not finite, since the
  /// scale then carries the zero, the infinity or the NaN.
  std::int8_t quantize(float value) const {
    const float scaled = value / scale_;
    if (scale_ == 0 || std::isnan(scaled)) return 0;
    return static_cast<std::int8_t>(
        std::clamp(std::nearbyint(scaled), -1.0f * kLargestInt8, 1.0f * kLargestInt8));
  }

 private:
  float scale_;
};

/// The FP32 value of an exact sum of products, with the roundings of the device.
inline float int8_result(std::int32_t sum, const Int8Scale& a, const Int8Scale& b) {
  const float value = static_cast<float>(sum) * a.value() * b.value();
  return std::isnan(value) ? std::bit_cast<float>(0x7fffffffu) : value;
}

}  // namespace tessera
