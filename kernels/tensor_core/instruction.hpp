// The MMA instructions: shapes, types, and the generations that have them.
//
// kernels/tensor_core/tensor_core.hpp defines their arithmetic: an instruction of depth K is one
// chain of ceil(K / L) fused steps per element of its result, at any m and n.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/tensor_core/tensor_core.hpp"

namespace tessera {

/// D [m x n] = A [m x k] B [k x n] + C [m x n].
struct MmaInstruction {
  std::string name;  // "m16n8k8.tf32"; others have the prefix "wgmma." or "wmma."
  int m = 0, n = 0, k = 0;
  MmaType type = MmaType::kTf32;
  std::vector<std::string> generations;  // the GPU generations that have it
};

/// All instructions modelled here.
const std::vector<MmaInstruction>& mma_instructions();

/// The instruction of that name. Throws an Error with the nearest name for an unknown one.
const MmaInstruction& find_instruction(std::string_view name);

/// The number of fused steps of one chain: ceil(k / L).
int steps_of(const MmaInstruction& instruction, const FusedStep& step);

/// The instruction's fused step on that generation. Throws Unsupported when the generation does not
/// have the instruction.
const FusedStep& step_of(const MmaInstruction& instruction, const Generation& generation);

/// Computes one instruction, bit for bit: D [m x n] = A [m x k] B [k x n] + C [m x n], all
/// row-major FP32. The low 13 bits of TF32 operands are ignored; operands of other types hold
/// values of their type. `d` may be `c`. It is much faster than fused_dot_add per element
/// (tests/bench).
void emulate_mma(const MmaInstruction& instruction, const FusedStep& step, std::span<const float> a,
                 std::span<const float> b, std::span<const float> c, std::span<float> d);

}  // namespace tessera
