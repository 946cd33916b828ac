#include "kernels/fused_rows.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

#include "formats/base/parallel.hpp"
#include "formats/base/vector_clones.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kLanes = MmaOperand::kLanes;
constexpr std::int16_t kZeroExponent = -4096;

// Between these a product that matters is a normal FP32 number, and so is the result.
constexpr std::int32_t kLowest = -60, kHighest = 120;

using Floats = float __attribute__((vector_size(4 * kLanes)));
using Ints = std::int32_t __attribute__((vector_size(4 * kLanes)));
using Unsigned = std::uint32_t __attribute__((vector_size(4 * kLanes)));
using Shorts = std::int16_t __attribute__((vector_size(2 * kLanes)));

// Macro-free helpers would pass vectors by value, whose calling convention depends on the clone:
// the whole step is one function.
TESSERA_VECTOR_CLONES
std::uint32_t step_lanes(int fraction_bits, const ScaledRow* rows, std::size_t count, float* c) {
  Ints c_bits;
  std::memcpy(&c_bits, c, sizeof c_bits);
  const Ints c_field = (c_bits >> 23) & 255;
  Ints largest = (c_field > 1 ? c_field : 1) - 127;
  for (std::size_t k = 0; k < count; ++k) {
    Shorts narrow;
    std::memcpy(&narrow, rows[k].b_exponents, sizeof narrow);
    const Ints exponent = __builtin_convertvector(narrow, Ints) + rows[k].exponent;
    largest = exponent > largest ? exponent : largest;
  }
  Ints failed = (largest < kLowest) | (largest > kHighest) | (c_field == 255);
  largest = failed ? 0 : largest;

  // 2^(F - largest) turns a term into multiples of the last kept place.
  const Ints scale_bits = (127 + fraction_bits - largest) << 23;
  const Floats scale = (Floats)scale_bits;
  const Floats accumulator = failed ? (Floats)(Ints{}) : (Floats)c_bits;
  Ints sum = __builtin_convertvector(accumulator * scale, Ints);
  // Eight products and the accumulator cannot overflow; their sum with eight more could.
  Ints more{};
  for (std::size_t k = 0; k < count; ++k) {
    Floats b;
    std::memcpy(&b, rows[k].b, sizeof b);
    const Ints term = __builtin_convertvector(b * rows[k].a * scale, Ints);
    if (k < 8)
      sum += term;
    else
      more += term;
  }
  const Ints total = (Ints)((Unsigned)sum + (Unsigned)more);
  failed |= (((sum ^ total) & (more ^ total)) < 0) | (total == INT32_MIN);

  // To FP32, truncated: to nearest, and one step back where that was too far.
  const Ints magnitude = total < 0 ? -total : total;
  const Floats nearest = __builtin_convertvector(magnitude, Floats);
  const Ints too_far =
      (Ints)((Unsigned) __builtin_convertvector(nearest, Ints) > (Unsigned)magnitude);
  const Floats truncated = (Floats)((Ints)nearest + too_far);  // a true lane is -1
  const Ints unscale_bits = (127 - fraction_bits + largest) << 23;
  const Ints result = (Ints)(truncated * (Floats)unscale_bits) | (total & (Ints{} + INT32_MIN));
  const Ints next = failed ? c_bits : result;
  std::memcpy(c, &next, sizeof next);

  std::int32_t lanes[kLanes];
  std::memcpy(lanes, &failed, sizeof lanes);
  std::uint32_t mask = 0;
  for (int j = 0; j < kLanes; ++j) mask |= static_cast<std::uint32_t>(lanes[j] & 1) << j;
  return mask;
}

bool is_negative_zero(float value) { return std::bit_cast<std::uint32_t>(value) == 0x80000000u; }

/// One element the slow way, all products of the step given.
float step_element(const FusedStep& step, std::span<const StepTerm> terms, const MmaOperand& b,
                   std::int64_t col, float c) {
  std::array<float, kMaxProducts> left{}, right{};
  for (std::size_t k = 0; k < terms.size(); ++k) {
    left[k] = terms[k].a;
    right[k] = b.values(terms[k].b_row)[col];
  }
  const auto products = static_cast<std::size_t>(step.products);
  return fused_dot_add(step, {left.data(), products}, {right.data(), products}, c);
}

}  // namespace

std::int16_t alignment_exponent(float value, NumberFormat format) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffff) == 0) return kZeroExponent;
  const int exponent = std::max(static_cast<int>((bits >> 23) & 255), 1) - 127;
  return static_cast<std::int16_t>(std::max(exponent, format.min_exponent));
}

MmaOperand::MmaOperand(const DenseMatrix& dense, Conversion conversion)
    : cols_(dense.cols),
      stride_((dense.cols + kLanes - 1) / kLanes * kLanes),
      values_(static_cast<std::size_t>(dense.rows * stride_), 0.0f),
      exponents_(values_.size(), kZeroExponent),
      finite_(static_cast<std::size_t>(dense.rows), 1) {
  const NumberFormat format = operand_format(type_of(conversion));
  parallel_for(dense.rows, 256, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t j = 0; j < cols_; ++j) {
        const float value = convert(dense.at(i, j), conversion);
        values_[i * stride_ + j] = value;
        exponents_[i * stride_ + j] = alignment_exponent(value, format);
        if (!std::isfinite(value)) finite_[i] = 0;
      }
    }
  });
  all_finite_ = std::ranges::find(finite_, 0) == finite_.end();
}

std::uint32_t fused_step_lanes(const FusedStep& step, std::span<const ScaledRow> rows, float* c) {
  assert(rows.size() <= kMaxProducts && step.type != MmaType::kFp16Fp16);
  return step_lanes(step.fraction_bits, rows.data(), rows.size(), c);
}

bool fused_step(const FusedStep& step, std::span<const StepTerm> terms, const MmaOperand& b,
                std::span<float> c) {
  assert(terms.size() <= static_cast<std::size_t>(step.products));
  // An accumulator in FP16 rounds in another way.
  bool is_fast = step.type != MmaType::kFp16Fp16;
  std::array<ScaledRow, kMaxProducts> rows;
  const NumberFormat format = operand_format(step.type);
  for (std::size_t k = 0; k < terms.size(); ++k) {
    const auto [a, b_row] = terms[k];
    is_fast = is_fast && std::isfinite(a) && b.row_is_finite(b_row);
    rows[k] = {a, alignment_exponent(a, format), b.values(b_row), b.exponents(b_row)};
  }

  bool negative_zero = false;
  const auto n = static_cast<std::int64_t>(c.size());
  for (std::int64_t j0 = 0; j0 < n; j0 += kLanes) {
    const std::int64_t width = std::min(kLanes, n - j0);
    std::uint32_t slow = (1u << width) - 1;
    if (is_fast) {
      std::array<float, kLanes> tail{};
      float* lanes = width == kLanes ? c.data() + j0 : tail.data();
      if (width < kLanes) std::copy_n(c.data() + j0, width, tail.data());
      slow &= step_lanes(step.fraction_bits, rows.data(), terms.size(), lanes);
      if (width < kLanes) std::copy_n(tail.data(), width, c.data() + j0);
      for (std::size_t k = 0; k < terms.size(); ++k) {
        rows[k].b += kLanes;
        rows[k].b_exponents += kLanes;
      }
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
