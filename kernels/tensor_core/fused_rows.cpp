#include "kernels/tensor_core/fused_rows.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

#include "formats/base/parallel.hpp"
#include "formats/base/vector_clones.hpp"
#include "kernels/tensor_core/conversions.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kLanes = MmaOperand::kLanes;
constexpr std::int64_t kChunk = 32 * kLanes;  // columns between two checks for unhandled ones

// With the largest exponent between these, every product that matters and the result are normal.
constexpr std::int32_t kLowest = -60, kHighest = 120;

// The same body for each width of registers.
#if TESSERA_VECTOR_LEVELS
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4")
namespace avx512 {
constexpr int kWidth = 16;
#include "kernels/tensor_core/fused_step_lanes.inl"
}  // namespace avx512
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
namespace avx2 {
constexpr int kWidth = 8;
#include "kernels/tensor_core/fused_step_lanes.inl"
}  // namespace avx2
#pragma GCC pop_options
#endif
namespace portable {
constexpr int kWidth = 4;
#include "kernels/tensor_core/fused_step_lanes.inl"
}  // namespace portable

/// Converts values and finds their alignment exponents; true when all are finite.
template <Conversion kConversion>
[[gnu::always_inline]] inline bool convert_values(const float* __restrict from, std::int64_t count,
                                                  float* __restrict values,
                                                  std::int16_t* __restrict exponents) {
  constexpr int kLeast = operand_format(type_of(kConversion)).min_exponent;
  int special = 0;
  for (std::int64_t j = 0; j < count; ++j) {
    const float value = converted<kConversion>(from[j]);
    const std::uint32_t magnitude = float_bits(value) & kMagnitudeBits;
    // The field of a subnormal number is zero, and its exponent that of the least normal one.
    const int exponent = std::max(static_cast<int>(magnitude >> 23) - 127, kLeast);
    values[j] = value;
    exponents[j] = static_cast<std::int16_t>(magnitude == 0 ? kZeroExponent : exponent);
    special |= magnitude >= kInfiniteBits;
  }
  return special == 0;
}

TESSERA_VECTOR_CLONES
bool convert_row(Conversion conversion, const float* from, std::int64_t count, float* values,
                 std::int16_t* exponents) {
  switch (conversion) {
    case Conversion::kTf32:
      break;
    case Conversion::kTf32Even:
      return convert_values<Conversion::kTf32Even>(from, count, values, exponents);
    case Conversion::kTf32Raw:
      return convert_values<Conversion::kTf32Raw>(from, count, values, exponents);
    case Conversion::kFp16:
      return convert_values<Conversion::kFp16>(from, count, values, exponents);
    case Conversion::kBf16:
      return convert_values<Conversion::kBf16>(from, count, values, exponents);
  }
  return convert_values<Conversion::kTf32>(from, count, values, exponents);
}

/// One element by the scalar rule, with all products of the step given.
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
      values_(
          std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(dense.rows * stride_))),
      exponents_(std::make_unique_for_overwrite<std::int16_t[]>(
          static_cast<std::size_t>(dense.rows * stride_))),
      finite_(static_cast<std::size_t>(dense.rows), 1) {
  parallel_for(dense.rows, 256, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      float* const to = values_.get() + i * stride_;
      std::int16_t* const exponents = exponents_.get() + i * stride_;
      finite_[i] = convert_row(conversion, dense.row(i).data(), cols_, to, exponents);
      std::fill(to + cols_, to + stride_, 0.0f);
      std::fill(exponents + cols_, exponents + stride_, kZeroExponent);
    }
  });
  all_finite_ = std::ranges::find(finite_, 0) == finite_.end();
}

std::vector<FusedStepVariant> fused_step_variants() {
  std::vector<FusedStepVariant> variants;
#if TESSERA_VECTOR_LEVELS
  if (__builtin_cpu_supports("x86-64-v4"))
    variants.push_back({"avx512", avx512::step_lanes, avx512::chain_lanes});
  if (__builtin_cpu_supports("x86-64-v3"))
    variants.push_back({"avx2", avx2::step_lanes, avx2::chain_lanes});
#endif
  variants.push_back({"portable", portable::step_lanes, portable::chain_lanes});
  return variants;
}

StepLanes* const step_lanes = fused_step_variants().front().function;
ChainLanes* const chain_lanes = fused_step_variants().front().chain;

void fused_step(const FusedStep& step, std::span<const StepTerm> terms, const MmaOperand& b,
                std::span<float> c) {
  assert(terms.size() <= static_cast<std::size_t>(step.products));
  // An FP16 accumulator rounds to nearest, which the vector code does not.
  bool is_fast = step.type != MmaType::kFp16Fp16;
  std::array<ScaledRow, kMaxProducts> rows;
  const NumberFormat format = operand_format(step.type);
  for (std::size_t k = 0; k < terms.size(); ++k) {
    const auto [a, b_row] = terms[k];
    is_fast = is_fast && std::isfinite(a) && b.row_is_finite(b_row);
    rows[k] = {a, alignment_exponent(a, format), b.values(b_row), b.exponents(b_row)};
  }

  const auto repair = [&](std::int64_t j) { c[j] = step_element(step, terms, b, j, c[j]); };
  const auto n = static_cast<std::int64_t>(c.size());
  if (!is_fast) {
    for (std::int64_t j = 0; j < n; ++j) repair(j);
    return;
  }
  std::array<std::int32_t, kChunk> slow;
  std::array<float, kLanes> tail{};
  for (std::int64_t j0 = 0; j0 < n;) {
    // Whole vectors are computed in place, the rest of the row in a copy.
    const std::int64_t whole = std::min(kChunk, (n - j0) / kLanes * kLanes);
    const std::int64_t width = whole > 0 ? whole : n - j0;
    if (whole == 0) std::copy_n(c.data() + j0, width, tail.data());
    float* at = whole > 0 ? c.data() + j0 : tail.data();
    const bool done = step_lanes(step.fraction_bits, rows.data(), terms.size(), at,
                                 std::max(whole, kLanes), slow.data());
    if (whole == 0) std::copy_n(tail.data(), width, c.data() + j0);
    for (std::int64_t j = 0; !done && j < width; ++j)
      if (slow[static_cast<std::size_t>(j)] != 0) repair(j0 + j);
    for (std::size_t k = 0; k < terms.size(); ++k) {
      rows[k].b += width;
      rows[k].b_exponents += width;
    }
    j0 += width;
  }
}

}  // namespace tessera
