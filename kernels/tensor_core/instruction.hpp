// What an MMA instruction is: its shape and types, and the generations that have it. What it
// computes is another matter (kernels/tensor_core/tensor_core.hpp): an instruction of depth K is
// one chain of ceil(K / L) fused steps per element of its result, whatever its other two extents.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/tensor_core/tensor_core.hpp"

namespace tessera {

/// D [m x n] = A [m x k] B [k x n] + C [m x n].
struct MmaInstruction {
  std::string name;  // "m16n8k8.tf32"; wgmma and wmma say so in front
  int m = 0, n = 0, k = 0;
  MmaType type = MmaType::kTf32;
  std::vector<std::string> generations;  // that have it
};

/// All instructions modelled here.
const std::vector<MmaInstruction>& mma_instructions();

/// Throws an Error with the nearest name for an unknown one.
const MmaInstruction& find_instruction(std::string_view name);

/// Fused steps of one chain: ceil(k / L).
int steps_of(const MmaInstruction& instruction, const FusedStep& step);

/// The step of that generation. Throws Unsupported when it does not have the instruction.
const FusedStep& step_of(const MmaInstruction& instruction, const Generation& generation);

/// One instruction, bit for bit: D = A B + C. All row-major FP32; of TF32 operands the low 13 bits
/// are ignored, operands of other types hold values of theirs. d may be c. Many
/// times as fast as element by element (tests/bench).
void emulate_mma(const MmaInstruction& instruction, const FusedStep& step, std::span<const float> a,
                 std::span<const float> b, std::span<const float> c, std::span<float> d);

}  // namespace tessera
