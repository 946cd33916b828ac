// What a tensor core computes, bit for bit: the truncated fused dot-product-add of every NVIDIA
// generation since Volta (Khattak and Mikaitis, arXiv 2512.07004; Xie et al., arXiv 2511.10909).
//
// One fused step takes up to L products and the accumulator: exact products, all terms aligned to
// the largest exponent and truncated to F fraction bits, summed exactly, the sum truncated to FP32
// (rounded to nearest where the accumulator is FP16). An MMA of depth K is ceil(K / L) such steps
// in ascending k. L, F and the exponent a zero counts as are all that differs between generations.
// Subnormals are kept everywhere. What an instruction is (shape, types) stands in
// kernels/tensor_core/instruction.hpp; many steps at once in kernels/tensor_core/fused_rows.hpp.
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

/// Throws an Error with the nearest name for an unknown one.
const Generation& find_generation(std::string_view name);

constexpr int kMaxProducts = 16;  // largest L

/// One step on single values: c + sum a[i] b[i], the operands already in the step's type; products
/// left over count as zeros only when given. Every NaN that comes out is the hardware's one NaN,
/// every zero is +0.
float fused_dot_add(const FusedStep& step, std::span<const float> a, std::span<const float> b,
                    float c);

}  // namespace tessera
