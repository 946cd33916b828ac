// Fused steps on whole rows of C at once: what every emulated kernel spends its time in.
//
// Bit-equal to fused_dot_add (kernels/tensor_core/tensor_core.hpp), in other means. The product of
// two operands has at most 22 significant bits, so FP32 holds it exactly, and scaled by 2^(F -
// largest exponent) its conversion to an integer truncates towards zero just as the alignment does.
// That holds while the largest exponent is in [-60, 120]; columns outside, and rows with NaN or
// infinities, go to the scalar rule.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/base/matrix.hpp"
#include "kernels/tensor_core/tensor_core.hpp"

namespace tessera {

/// What a zero has for an exponent: so low that it never is the largest.
constexpr std::int16_t kZeroExponent = -4096;

/// The exponent that aligns an operand: of its field, not below the type's normal range.
std::int16_t alignment_exponent(float value, NumberFormat format);

/// A dense operand in an MMA's type, with its exponents at hand: each row takes part in many steps.
class MmaOperand {
 public:
  static constexpr std::int64_t kLanes = 16;

  MmaOperand(const DenseMatrix& dense, Conversion conversion);

  std::int64_t cols() const { return cols_; }
  bool row_is_finite(std::int64_t row) const { return finite_[row] != 0; }
  bool all_finite() const { return all_finite_; }
  /// Padded with zeros to a multiple of kLanes.
  const float* values(std::int64_t row) const { return values_.data() + row * stride_; }
  const std::int16_t* exponents(std::int64_t row) const {
    return exponents_.data() + row * stride_;
  }

 private:
  std::int64_t cols_;
  std::int64_t stride_;
  std::vector<float> values_;            // [rows * stride]
  std::vector<std::int16_t> exponents_;  // [rows * stride]
  std::vector<std::uint8_t> finite_;     // [rows]
  bool all_finite_;
};

/// One product of a step: a scalar of A (already converted) times a row of B.
struct StepTerm {
  float a;
  std::int64_t b_row;
};

/// One step for a whole row of C: c[j] <- c[j] + sum over terms a * B[b_row][j], the remaining
/// products of the step being zeros. At most step.products terms. A step without any term changes
/// nothing: no c[j] a step has made is -0.
void fused_step(const FusedStep& step, std::span<const StepTerm> terms, const MmaOperand& b,
                std::span<float> c);

/// One product of a step on bare rows, padded as in MmaOperand.
struct ScaledRow {
  float a;
  int exponent;  // alignment exponent of a
  const float* b;
  const std::int16_t* b_exponents;
};

/// The first `cols` columns of a step, a multiple of kLanes; all operands finite, the accumulator
/// FP32. Columns whose exponents or accumulators are not for the fast way are left alone and get a
/// nonzero `slow` [cols]. Returns whether there was none.
using StepLanes = bool(int fraction_bits, const ScaledRow* rows, std::size_t count, float* c,
                       std::int64_t cols, std::int32_t* slow);

/// Sixteen rows of an MMA: D [16 x n] = A [16 x k] B [k x n] + C, in chains of steps.
struct MmaTile {
  std::size_t n, k;
  std::size_t products;             // of a step
  const float* a;                   // [k x kLanes] by columns
  const std::int16_t* a_exponents;  // [k x kLanes] alignment exponents
  const float* b;                   // [k x n]
  const std::int16_t* b_exponents;  // [k x n]
};

/// All steps of a tile, on C [n x kLanes] by columns; as StepLanes otherwise: elements that left
/// the fast way in any step are left as they were before the first.
using ChainLanes = bool(int fraction_bits, const MmaTile& tile, float* c, std::int32_t* slow);

/// The same code for the registers of an instruction set.
struct FusedStepVariant {
  const char* name;  // "avx512", "avx2", "portable"
  StepLanes* function;
  ChainLanes* chain;
};

/// Those this machine can run, the fastest first.
std::vector<FusedStepVariant> fused_step_variants();

/// The functions of the fastest.
extern StepLanes* const step_lanes;
extern ChainLanes* const chain_lanes;

}  // namespace tessera
