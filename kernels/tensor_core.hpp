// What a tensor core computes, bit for bit: the truncated fused dot-product-add of every NVIDIA
// generation since Volta (Khattak and Mikaitis, arXiv 2512.07004; Xie et al., arXiv 2511.10909).
//
// One fused step takes up to L products and the accumulator: exact products, all terms aligned to
// the largest exponent and truncated to F fraction bits, summed exactly, the sum truncated to FP32.
// An MMA of depth K is ceil(K / L) such steps in ascending k. L, F and the exponent a zero counts
// as are all that differs between generations. Subnormals are kept everywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/matrix.hpp"

namespace tessera {

/// Input type of an MMA; the accumulator is FP32.
enum class MmaType { kTf32 };

/// Products of one MMA per element of its result, of the instruction the kernels use (m16n8k8).
constexpr int mma_depth(MmaType) { return 8; }

/// Parameters of one fused step.
struct FusedStep {
  int products = 0;       // L: products per step
  int fraction_bits = 0;  // F: bits kept below the largest exponent
  int zero_exponent = 0;  // exponent that a zero product or a zero accumulator counts as
};

/// The tensor cores of one GPU generation.
struct Generation {
  std::string name;               // "hopper"
  std::optional<FusedStep> tf32;  // absent before Ampere

  /// Throws Unsupported when the generation has no MMA of that type.
  const FusedStep& step(MmaType type) const;
};

/// "turing", "ampere", "ada" or "hopper". Throws an Error with the nearest name for anything else.
const Generation& find_generation(std::string_view name);

/// How FP32 becomes TF32 on the way into an MMA.
enum class Tf32Rounding {
  kNearestAway,  // cvt.rna.tf32.f32: to nearest, ties away from zero
  kTruncate,     // raw FP32 bits: the unit ignores the low 13
};

/// The TF32 value (as FP32) an MMA sees. A value that rounds beyond the largest finite one becomes
/// infinite, and so does a NaN whose payload is all in the low 13 bits.
float to_tf32(float value, Tf32Rounding rounding);

/// One step on single values: c + sum a[i] b[i], the operands already in TF32. Every NaN that comes
/// out is 0x7fffffff; an all-zero sum is +0.
float fused_dot_add(const FusedStep& step, std::span<const float> a, std::span<const float> b,
                    float c);

/// A dense operand in TF32, taken apart once into significands and exponents: each row takes part
/// in many steps.
class Tf32Operand {
 public:
  Tf32Operand(const DenseMatrix& dense, Tf32Rounding rounding);

  std::int64_t cols() const { return cols_; }
  bool row_is_finite(std::int64_t row) const { return finite_[row] != 0; }
  bool all_finite() const { return all_finite_; }
  const std::int32_t* row(std::int64_t row) const { return packed_.data() + row * cols_; }
  /// The value of one element, as it went in.
  static float value(std::int32_t packed);

 private:
  std::int64_t cols_;
  std::vector<std::int32_t> packed_;  // [rows * cols] significand << 16 | biased exponent
  std::vector<std::uint8_t> finite_;  // [rows]
  bool all_finite_;
};

/// One product of a step: a scalar of A (in TF32) times a row of B.
struct StepTerm {
  float a;
  std::int64_t b_row;
};

/// One step for a whole row of C: c[j] <- c[j] + sum over terms a * B[b_row][j], the remaining
/// products of the step being zeros. At most step.products terms. Returns whether some c[j] is now
/// -0, which a step without any term would turn into +0.
bool fused_step(const FusedStep& step, std::span<const StepTerm> terms, const Tf32Operand& b,
                std::span<float> c);

}  // namespace tessera
