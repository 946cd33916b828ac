#include "kernels/tensor_core.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/suggest.hpp"
#include "formats/base/vector_clones.hpp"

namespace tessera {
namespace {

constexpr std::uint32_t kNan = 0x7fffffff;
constexpr int kTf32Fraction = 10;  // fraction bits of a TF32 significand
constexpr int kFp32Fraction = 23;
constexpr int kMinExponent = -126;

// Tf32Operand's packing.
constexpr int kPackedBias = 256;
constexpr std::int32_t kPackedNonFinite = 0x7fff;

/// value = significand * 2^(exponent - fraction bits); subnormals keep the least exponent.
struct Decoded {
  std::int64_t significand;
  int exponent;
};

Decoded decode(float value, int fraction_bits) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const int field = static_cast<int>((bits >> 23) & 255);
  const std::int64_t fraction = (bits & 0x7fffff) >> (kFp32Fraction - fraction_bits);
  const std::int64_t magnitude =
      field == 0 ? fraction : fraction | (std::int64_t{1} << fraction_bits);
  return {(bits >> 31) != 0 ? -magnitude : magnitude, std::max(field, 1) - 127};
}

/// Sign-magnitude: truncates towards zero.
std::int64_t shift_truncating(std::int64_t value, int left) {
  const std::int64_t magnitude = std::abs(value);
  const std::int64_t shifted =
      left >= 0 ? magnitude << left : (left < -62 ? 0 : magnitude >> -left);
  return value < 0 ? -shifted : shifted;
}

/// sum * 2^exponent, truncated to FP32 with gradual underflow; beyond the range it is infinite.
float truncate_to_fp32(std::int64_t sum, int exponent) {
  if (sum == 0) return 0;
  const auto magnitude = static_cast<std::uint64_t>(std::abs(sum));
  const int top = 63 - std::countl_zero(magnitude) + exponent;
  float result;
  if (top > 127) {
    result = std::numeric_limits<float>::infinity();
  } else {
    const int lowest = std::max(top - kFp32Fraction, kMinExponent - kFp32Fraction);
    const int right = lowest - exponent;
    const std::uint64_t kept =
        right <= 0 ? magnitude << -right : (right > 63 ? 0 : magnitude >> right);
    result = std::ldexp(static_cast<float>(kept), lowest);
  }
  return sum < 0 ? -result : result;
}

/// The result when a NaN or an infinity takes part, else nothing.
std::optional<float> special_result(std::span<const float> a, std::span<const float> b, float c) {
  bool nan = std::isnan(c), plus = c > 0 && std::isinf(c), minus = c < 0 && std::isinf(c);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a[i]) && std::isfinite(b[i])) continue;
    const float product = a[i] * b[i];  // an infinity or a NaN, whatever the rounding
    nan |= std::isnan(product);
    (product > 0 ? plus : minus) |= std::isinf(product);
  }
  if (nan || (plus && minus)) return std::bit_cast<float>(kNan);
  if (plus) return std::numeric_limits<float>::infinity();
  if (minus) return -std::numeric_limits<float>::infinity();
  return std::nullopt;
}

constexpr int kMaxProducts = 8;  // largest L of the types here
constexpr int kLanes = 64;       // columns done side by side

/// A scalar of A, taken apart; finite.
struct Multiplier {
  std::int32_t significand;
  std::int32_t exponent;
};

/// One step on kLanes columns of finite operands, `width` of them in use. Returns a mask of columns
/// it could not do: the accumulator is not finite, or the result is subnormal or overflows.
TESSERA_VECTOR_CLONES
std::uint64_t step_lanes(const FusedStep& step, const Multiplier* a,
                         const std::int32_t* const* b_rows, int terms, int width, float* c) {
  alignas(64) std::int32_t product[kMaxProducts][kLanes];
  alignas(64) std::int32_t exponent[kMaxProducts][kLanes];
  alignas(64) std::int32_t largest[kLanes], sum[kLanes], failed[kLanes];
  const std::int32_t zero = step.zero_exponent;
  const int product_shift = step.fraction_bits - 2 * kTf32Fraction;
  const int c_shift = step.fraction_bits - kFp32Fraction;

  // The accumulator, and the zeros that fill the step up.
  const std::int32_t floor = terms < step.products ? zero : std::numeric_limits<int>::min();
  for (int j = 0; j < width; ++j) {
    const auto bits = std::bit_cast<std::uint32_t>(c[j]);
    const auto field = static_cast<std::int32_t>((bits >> 23) & 255);
    const bool is_zero = (bits & 0x7fffffff) == 0;
    const std::int32_t e = is_zero ? zero : std::max(field, 1) - 127;
    largest[j] = std::max(floor, e);
    failed[j] = field == 255;
  }
  for (int k = 0; k < terms; ++k) {
    const std::int32_t significand = a[k].significand;
    const std::int32_t offset = a[k].exponent - kPackedBias;
    const std::int32_t* row = b_rows[k];
    for (int j = 0; j < width; ++j) {
      const std::int32_t p = significand * (row[j] >> 16);
      const std::int32_t e = p == 0 ? zero : (row[j] & 0xffff) + offset;
      product[k][j] = p;
      exponent[k][j] = e;
      largest[j] = std::max(largest[j], e);
    }
  }

  for (int j = 0; j < width; ++j) {
    const auto bits = std::bit_cast<std::uint32_t>(c[j]);
    const auto field = static_cast<std::int32_t>((bits >> 23) & 255);
    const auto fraction = static_cast<std::int32_t>(bits & 0x7fffff);
    const std::int32_t magnitude = (field == 0 ? fraction : fraction | 0x800000) << c_shift;
    const std::int32_t e = std::max(field, 1) - 127;
    const std::int32_t t = magnitude >> std::min(std::max(largest[j] - e, 0), 31);
    sum[j] = (bits >> 31) != 0 ? -t : t;
  }
  for (int k = 0; k < terms; ++k) {
    for (int j = 0; j < width; ++j) {
      const std::int32_t p = product[k][j];
      const std::int32_t magnitude = (p < 0 ? -p : p) << product_shift;
      const std::int32_t t = magnitude >> std::min(largest[j] - exponent[k][j], 31);
      sum[j] += p < 0 ? -t : t;
    }
  }

  for (int j = 0; j < width; ++j) {
    const std::int32_t magnitude = sum[j] < 0 ? -sum[j] : sum[j];
    const float rounded = static_cast<float>(magnitude);  // to nearest: may be one step too high
    const auto truncated =
        std::bit_cast<std::int32_t>(rounded) -
        static_cast<std::int32_t>(static_cast<std::int32_t>(rounded) > magnitude);
    const std::int32_t field = (truncated >> 23) + largest[j] - step.fraction_bits;
    const std::int32_t sign = sum[j] & std::numeric_limits<std::int32_t>::min();
    const bool in_range = field >= 1 && field <= 254;
    const bool nonzero = sum[j] != 0;
    failed[j] |= nonzero && !in_range;
    const std::int32_t moved =
        static_cast<std::int32_t>(static_cast<std::uint32_t>(truncated & 0x7fffff) |
                                  (static_cast<std::uint32_t>(field) << 23)) |
        sign;
    const std::int32_t result = nonzero ? moved : 0;
    sum[j] = failed[j] != 0 ? std::bit_cast<std::int32_t>(c[j]) : result;
  }
  std::uint64_t mask = 0;
  for (int j = 0; j < width; ++j) {
    c[j] = std::bit_cast<float>(sum[j]);
    mask |= static_cast<std::uint64_t>(failed[j] != 0) << j;
  }
  return mask;
}

bool is_negative_zero(float value) { return std::bit_cast<std::uint32_t>(value) == 0x80000000u; }

/// One element the slow way.
float step_element(const FusedStep& step, std::span<const StepTerm> terms, const Tf32Operand& b,
                   std::int64_t col, float c) {
  std::array<float, kMaxProducts> left{}, right{};
  for (std::size_t k = 0; k < terms.size(); ++k) {
    left[k] = terms[k].a;
    right[k] = Tf32Operand::value(b.row(terms[k].b_row)[col]);
  }
  const auto products = static_cast<std::size_t>(step.products);
  return fused_dot_add(step, {left.data(), products}, {right.data(), products}, c);
}

}  // namespace

const FusedStep& Generation::step(MmaType) const {
  require<Unsupported>(tf32.has_value(), "{} tensor cores have no TF32", name);
  return *tf32;
}

const Generation& find_generation(std::string_view name) {
  static const std::vector<Generation> generations{
      {"turing", std::nullopt},
      {"ampere", FusedStep{4, 24, -132}},
      {"ada", FusedStep{4, 24, -132}},
      {"hopper", FusedStep{8, 25, -133}},
  };
  std::vector<std::string> names;
  for (const Generation& generation : generations) {
    if (generation.name == name) return generation;
    names.push_back(generation.name);
  }
  throw Error(unknown_name_message("tensor-core generation", name, names));
}

float to_tf32(float value, Tf32Rounding rounding) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  // Half a unit of the last kept place, added to the magnitude; a carry moves the exponent up. The
  // payload of a NaN is truncated either way (seen on an H200).
  if (rounding == Tf32Rounding::kNearestAway && std::isfinite(value)) bits += 0x1000;
  return std::bit_cast<float>(bits & 0xffffe000);
}

float fused_dot_add(const FusedStep& step, std::span<const float> a, std::span<const float> b,
                    float c) {
  assert(a.size() == b.size() && a.size() <= static_cast<std::size_t>(step.products));
  if (const auto special = special_result(a, b, c)) return *special;
  std::array<Decoded, kMaxProducts> products{};
  const Decoded accumulator = decode(c, kFp32Fraction);
  int largest = accumulator.significand == 0 ? step.zero_exponent : accumulator.exponent;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Decoded x = decode(a[i], kTf32Fraction), y = decode(b[i], kTf32Fraction);
    // Not normalised: the sum of the exponent fields is what aligns, even when the significand
    // product reaches 2.
    products[i] = {x.significand * y.significand, x.exponent + y.exponent};
    largest =
        std::max(largest, products[i].significand == 0 ? step.zero_exponent : products[i].exponent);
  }
  const int f = step.fraction_bits;
  std::int64_t sum = 0;
  if (accumulator.significand != 0)
    sum = shift_truncating(accumulator.significand,
                           f - kFp32Fraction + accumulator.exponent - largest);
  for (const Decoded& product : products)
    if (product.significand != 0)
      sum +=
          shift_truncating(product.significand, f - 2 * kTf32Fraction + product.exponent - largest);
  return truncate_to_fp32(sum, largest - f);
}

Tf32Operand::Tf32Operand(const DenseMatrix& dense, Tf32Rounding rounding)
    : cols_(dense.cols), packed_(dense.values.size()), finite_(dense.rows, 1) {
  parallel_for(dense.rows, 256, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t j = 0; j < cols_; ++j) {
        const float value = to_tf32(dense.at(i, j), rounding);
        std::int32_t& packed = packed_[i * cols_ + j];
        if (std::isfinite(value)) {
          const Decoded d = decode(value, kTf32Fraction);
          packed = static_cast<std::int32_t>(d.significand) * 0x10000 + (d.exponent + kPackedBias);
        } else {
          const int sign = std::isnan(value) ? 0 : (value > 0 ? 1 : -1);
          packed = sign * 0x10000 + kPackedNonFinite;
          finite_[i] = 0;
        }
      }
    }
  });
  all_finite_ = std::ranges::find(finite_, 0) == finite_.end();
}

float Tf32Operand::value(std::int32_t packed) {
  const std::int32_t significand = packed >> 16, exponent = packed & 0xffff;
  if (exponent == kPackedNonFinite) {
    if (significand == 0) return std::numeric_limits<float>::quiet_NaN();
    return static_cast<float>(significand) * std::numeric_limits<float>::infinity();
  }
  return std::ldexp(static_cast<float>(significand), exponent - kPackedBias - kTf32Fraction);
}

bool fused_step(const FusedStep& step, std::span<const StepTerm> terms, const Tf32Operand& b,
                std::span<float> c) {
  assert(terms.size() <= static_cast<std::size_t>(step.products) && step.products <= kMaxProducts);
  std::array<Multiplier, kMaxProducts> multipliers{};
  bool finite = true;
  for (std::size_t k = 0; k < terms.size(); ++k) {
    finite = finite && std::isfinite(terms[k].a) && b.row_is_finite(terms[k].b_row);
    const Decoded d = decode(terms[k].a, kTf32Fraction);
    multipliers[k] = {static_cast<std::int32_t>(d.significand), d.exponent};
  }

  bool negative_zero = false;
  const auto n = static_cast<std::int64_t>(c.size());
  for (std::int64_t j0 = 0; j0 < n; j0 += kLanes) {
    const int width = static_cast<int>(std::min<std::int64_t>(kLanes, n - j0));
    std::uint64_t slow = width == kLanes ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
    if (finite) {
      std::array<const std::int32_t*, kMaxProducts> rows{};
      for (std::size_t k = 0; k < terms.size(); ++k) rows[k] = b.row(terms[k].b_row) + j0;
      slow = step_lanes(step, multipliers.data(), rows.data(), static_cast<int>(terms.size()),
                        width, c.data() + j0);
    }
    for (; slow != 0; slow &= slow - 1) {
      const std::int64_t j = j0 + std::countr_zero(slow);
      c[j] = step_element(step, terms, b, j, c[j]);
      negative_zero |= is_negative_zero(c[j]);
    }
  }
  return negative_zero;
}

}  // namespace tessera
