// One MMA instruction on the GPU, bare: what the emulation is validated against.
//
// Registered under the instruction's name (kernels/tensor_core/instruction.hpp) from *.cu files: a
// build without CUDA has none, and which of them a GPU has is told by the instruction's
// generations.
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

  /// D [count * m * n] = A B + C for `count` tiles, row-major and one after the other. Operands are
  /// FP32 that hold values of the instruction's type and reach the unit unchanged: NaN payloads,
  /// and the low bits of TF32, included. Throws Unsupported where this GPU or this build lacks it.
  virtual std::vector<float> run(std::int64_t count, std::span<const float> a,
                                 std::span<const float> b, std::span<const float> c) const = 0;
};

/// Runs tiles of device memory; throws Unsupported as above.
using LaunchTiles = void(int count, const float* a, const float* b, const float* c, float* d);

/// The entry of an instruction that a kernel runs.
Entry<GpuInstruction> gpu_instruction(const std::string& name, LaunchTiles* launch);

}  // namespace tessera
