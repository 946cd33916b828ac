// A single MMA instruction on the GPU, against which the emulation is validated.
//
// *.cu files register it under the instruction's name (kernels/tensor_core/instruction.hpp), so a
// build without CUDA has none; MmaInstruction::generations lists the GPUs that have it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/base/registry.hpp"
#include "kernels/tensor_core/instruction.hpp"

namespace tessera {

class GpuInstruction {
 public:
  static constexpr const char* kKind = "GPU instruction";
  virtual ~GpuInstruction() = default;

  /// Returns D [count * m * n] = A B + C for `count` tiles, row-major and one after the other.
  /// Operands are FP32 that hold values of the instruction's type and reach the unit unchanged, NaN
  /// payloads and the low bits of TF32 included. Throws Unsupported where this GPU or this build
  /// lacks the instruction.
  virtual std::vector<float> run(std::int64_t count, std::span<const float> a,
                                 std::span<const float> b, std::span<const float> c) const = 0;
};

/// Runs `count` tiles in device memory; throws Unsupported as GpuInstruction::run does.
using LaunchTiles = void(int count, const float* a, const float* b, const float* c, float* d);

/// The registry entry of an instruction that `launch` runs.
Entry<GpuInstruction> gpu_instruction(const std::string& name, LaunchTiles* launch);

}  // namespace tessera
