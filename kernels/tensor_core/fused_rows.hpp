// Fused steps on whole rows of C at once, in which every emulated kernel spends most of its time.
//
// They are bit-equal to fused_dot_add (kernels/tensor_core/tensor_core.hpp) but vectorised. The
// product of two operands has at most 22 significant bits, so FP32 holds it exactly, and scaled by
// 2^(F - largest exponent) its conversion to an integer truncates towards zero just as the
// alignment does. That holds while the largest exponent is in [-60, 120]; the scalar rule computes
// columns outside that range, and rows with NaN or infinities.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "formats/base/matrix.hpp"
#include "kernels/tensor_core/tensor_core.hpp"

namespace tessera {

/// The alignment exponent of a zero, so low that it is never the largest.
constexpr std::int16_t kZeroExponent = -4096;

/// The exponent by which an operand is aligned: that of its exponent field, at least the least
/// normal exponent of the type.
std::int16_t alignment_exponent(float value, NumberFormat format);

/// A dense operand in an MMA's type and its exponents, computed once: each row takes part in many
/// steps.
class MmaOperand {
 public:
  static constexpr std::int64_t kLanes = 16;

  MmaOperand(const DenseMatrix& dense, Conversion conversion);

  std::int64_t cols() const { return cols_; }
  bool row_is_finite(std::int64_t row) const { return finite_[row] != 0; }
  bool all_finite() const { return all_finite_; }
  /// The row's values, padded with zeros to a multiple of kLanes.
  const float* values(std::int64_t row) const { return values_.get() + row * stride_; }
  const std::int16_t* exponents(std::int64_t row) const { return exponents_.get() + row * stride_; }

 private:
  std::int64_t cols_;
  std::int64_t stride_;
  std::unique_ptr<float[]> values_;            // [rows * stride]
  std::unique_ptr<std::int16_t[]> exponents_;  // [rows * stride]
  std::vector<std::uint8_t> finite_;           // [rows]
  bool all_finite_;
};

/// One product of a step: a scalar of A (already converted) times a row of B.
struct StepTerm {
  float a;
  std::int64_t b_row;
};

/// One step for a whole row of C: c[j] <- c[j] + sum over terms a * B[b_row][j]; the remaining
/// products of the step are zeros. There are at most step.products terms. A step without terms
/// changes nothing, since no step leaves -0 in c[j].
void fused_step(const FusedStep& step, std::span<const StepTerm> terms, const MmaOperand& b,
                std::span<float> c);

/// One product of a step: a scalar of A times a row of B, padded as in MmaOperand.
struct ScaledRow {
  float a;
  int exponent;  // alignment exponent of a
  const float* b;
  const std::int16_t* b_exponents;
};

/// Computes the first `cols` columns of a step, a multiple of kLanes. All operands are finite and
/// the accumulator is FP32. A column whose exponents or accumulator the vector code cannot handle
/// keeps its value and gets a nonzero `slow` [cols]. Returns true when there was none.
using StepLanes = bool(int fraction_bits, const ScaledRow* rows, std::size_t count, float* c,
                       std::int64_t cols, std::int32_t* slow);

/// Sixteen rows of an MMA: D [16 x n] = A [16 x k] B [k x n] + C, in chains of steps.
struct MmaTile {
  std::size_t n, k;
  std::size_t products;             // products per step
  const float* a;                   // [k x kLanes] by columns
  const std::int16_t* a_exponents;  // [k x kLanes] alignment exponents
  const float* b;                   // [k x n]
  const std::int16_t* b_exponents;  // [k x n]
};

/// Computes all steps of a tile on C [n x kLanes] by columns, as StepLanes does one step: an
/// element that the vector code cannot handle in some step keeps the value it had before the first.
using ChainLanes = bool(int fraction_bits, const MmaTile& tile, float* c, std::int32_t* slow);

/// The vector code for the registers of one instruction set.
struct FusedStepVariant {
  const char* name;  // "avx512", "avx2", "portable"
  StepLanes* function;
  ChainLanes* chain;
};

/// The variants that this machine can run, the fastest first.
std::vector<FusedStepVariant> fused_step_variants();

/// The functions of the fastest variant.
extern StepLanes* const step_lanes;
extern ChainLanes* const chain_lanes;

}  // namespace tessera
