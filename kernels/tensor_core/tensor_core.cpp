#include "kernels/tensor_core/tensor_core.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>
#include <optional>

#include "formats/base/check.hpp"
#include "formats/base/suggest.hpp"

namespace tessera {
namespace {

/// value = significand * 2^(exponent - fraction bits); subnormals keep the least exponent.
struct Decoded {
  std::int64_t significand;
  int exponent;
};

/// Decodes a value that the format holds exactly.
Decoded decode(float value, NumberFormat format) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const int field = static_cast<int>((bits >> 23) & 255);
  const std::int64_t fraction = bits & 0x7fffff;
  const std::int64_t magnitude = field == 0 ? fraction : fraction | 0x800000;
  const int exponent = std::max(field, 1) - 127;
  const int below = std::max(format.min_exponent - exponent, 0);  // a subnormal of the format
  const std::int64_t kept =
      magnitude >> std::min(kFp32Format.fraction_bits - format.fraction_bits + below, 63);
  return {(bits >> 31) != 0 ? -kept : kept, exponent + below};
}

/// Shifts in sign-magnitude, so that a right shift truncates towards zero.
std::int64_t shift_truncating(std::int64_t value, int left) {
  const std::int64_t magnitude = std::abs(value);
  const std::int64_t shifted =
      left >= 0 ? magnitude << left : (left < -62 ? 0 : magnitude >> -left);
  return value < 0 ? -shifted : shifted;
}

float canonical_nan(MmaType type) {
  // 0x7fffffff; in FP16 0x7fff.
  return std::bit_cast<float>(type == MmaType::kFp16Fp16 ? 0x7fffe000u : 0x7fffffffu);
}

/// The result when an operand is NaN or infinite; empty otherwise.
std::optional<float> special_result(MmaType type, std::span<const float> a,
                                    std::span<const float> b, float c) {
  bool nan = std::isnan(c), plus = c > 0 && std::isinf(c), minus = c < 0 && std::isinf(c);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a[i]) && std::isfinite(b[i])) continue;
    const float product = a[i] * b[i];  // infinite or NaN at any rounding, where that matters
    nan |= std::isnan(product);
    (product > 0 ? plus : minus) |= std::isinf(product);
  }
  if (nan || (plus && minus)) return canonical_nan(type);
  if (plus) return std::numeric_limits<float>::infinity();
  if (minus) return -std::numeric_limits<float>::infinity();
  return std::nullopt;
}

Generation make_generation(const char* name, const std::vector<FusedStep>& steps) {
  Generation generation{name, {}};
  for (const FusedStep& step : steps) generation.steps[step.type] = step;
  return generation;
}

}  // namespace

const FusedStep& Generation::step(MmaType type) const {
  const auto found = steps.find(type);
  require<Unsupported>(found != steps.end(), "{} tensor cores have no {}", name, name_of(type));
  return found->second;
}

const std::vector<Generation>& generations() {
  // MMA-Sim (arXiv 2511.10909 v2), Tables 4 to 7. Recorded vectors confirm L and F of FP32 outputs
  // except Turing's, an H200 confirms Hopper's (tests). Turing's L is disputed: 8 here, 4
  // elsewhere. The exponent of zeros with an FP16 accumulator is 4 - F on an H200 and in Khattak
  // and Mikaitis; MMA-Sim's tables have one less.
  using enum MmaType;
  static const std::vector<FusedStep> ampere{
      {kTf32, 4, 24, -132}, {kFp16, 8, 24, -132}, {kBf16, 8, 24, -132}, {kFp16Fp16, 8, 24, -20}};
  static const std::vector<FusedStep> hopper{
      {kTf32, 8, 25, -133}, {kFp16, 16, 25, -133}, {kBf16, 16, 25, -133}, {kFp16Fp16, 16, 25, -21}};
  static const std::vector<Generation> all{
      make_generation("volta", {{kFp16, 4, 23, -131}, {kFp16Fp16, 4, 23, -19}}),
      make_generation("turing", {{kFp16, 8, 24, -132}, {kFp16Fp16, 8, 24, -20}}),
      make_generation("ampere", ampere),
      make_generation("ada", ampere),
      make_generation("hopper", hopper),
      make_generation("blackwell", hopper)};
  return all;
}

const Generation& find_generation(std::string_view name) {
  std::vector<std::string> names;
  for (const Generation& generation : generations()) {
    if (generation.name == name) return generation;
    names.push_back(generation.name);
  }
  throw Error(unknown_name_message("tensor-core generation", name, names));
}

float fused_dot_add(const FusedStep& step, std::span<const float> a, std::span<const float> b,
                    float c) {
  assert(a.size() == b.size() && a.size() <= static_cast<std::size_t>(step.products));
  if (const auto special = special_result(step.type, a, b, c)) return *special;
  const NumberFormat operand = operand_format(step.type), result = accumulator_format(step.type);
  std::array<Decoded, kMaxProducts> products{};
  const Decoded accumulator = decode(c, result);
  int largest = accumulator.significand == 0 ? step.zero_exponent : accumulator.exponent;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Decoded x = decode(a[i], operand), y = decode(b[i], operand);
    // Not normalised: the sum of the exponent fields aligns a product even when the product of the
    // significands reaches 2.
    products[i] = {x.significand * y.significand, x.exponent + y.exponent};
    largest =
        std::max(largest, products[i].significand == 0 ? step.zero_exponent : products[i].exponent);
  }
  const int f = step.fraction_bits;
  std::int64_t sum = 0;
  if (accumulator.significand != 0)
    sum = shift_truncating(accumulator.significand,
                           f - result.fraction_bits + accumulator.exponent - largest);
  for (const Decoded& product : products)
    if (product.significand != 0)
      sum += shift_truncating(product.significand,
                              f - 2 * operand.fraction_bits + product.exponent - largest);
  return step.type == MmaType::kFp16Fp16 ? round_to_fp16(sum, largest - f)
                                         : truncate_to_fp32(sum, largest - f);
}

}  // namespace tessera
