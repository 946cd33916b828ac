// The arithmetic of tensor cores, bit for bit: the truncated fused dot-product-add of every NVIDIA
// generation since Volta (Khattak and Mikaitis, arXiv 2512.07004; Xie et al., arXiv 2511.10909).
//
// One fused step adds up to L products and the accumulator: products are exact, all terms are
// aligned to the largest exponent, truncated to F fraction bits and summed exactly, and the sum is
// truncated to FP32 (rounded to nearest where the accumulator is FP16). An MMA of depth K is
// ceil(K / L) such steps in ascending k. Generations differ only in L, F and the exponent that a
// zero counts as. Subnormals are kept everywhere. kernels/tensor_core/instruction.hpp has the
// instructions (shapes, types), kernels/tensor_core/fused_rows.hpp many steps at once.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/tensor_core/number_format.hpp"

namespace tessera {

/// Parameters of one fused step.
struct FusedStep {
  MmaType type = MmaType::kTf32;
  int products = 0;       // L: products per step
  int fraction_bits = 0;  // F: bits kept below the largest exponent
  int zero_exponent = 0;  // exponent that a zero product or a zero accumulator counts as
};

/// The tensor cores of one GPU generation.
struct Generation {
  std::string name;  // "hopper"
  std::map<MmaType, FusedStep> steps;

  /// Throws Unsupported when the generation has no MMA of that type.
  const FusedStep& step(MmaType type) const;
};

/// "volta", "turing", "ampere", "ada", "hopper", "blackwell", in order of appearance.
const std::vector<Generation>& generations();

/// The generation of that name. Throws an Error with the nearest name for an unknown one.
const Generation& find_generation(std::string_view name);

constexpr int kMaxProducts = 16;  // largest L

/// One step on single values: c + sum a[i] b[i], with at most L products and the operands already
/// in the step's type. Products beyond those given do not take part, not even as zeros. A NaN
/// result is the hardware's one NaN; a zero result is +0.
float fused_dot_add(const FusedStep& step, std::span<const float> a, std::span<const float> b,
                    float c);

}  // namespace tessera
