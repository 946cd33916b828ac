// The MMA instructions of a GPU against their emulation, bit for bit, and against each other.
//
// A comparison draws tiles family by family, in batches so that memory stays small, computes them
// both ways and counts the elements that differ. It distinguishes three kinds of differences, and
// accepts none: other values, zeros of the other sign, NaNs with other bits.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/tensor_core/gpu_instruction.hpp"
#include "kernels/tensor_core/operand_families.hpp"

namespace tessera {

struct BitDifferences {
  std::int64_t compared = 0;
  std::int64_t values = 0;
  std::int64_t signed_zeros = 0;
  std::int64_t nan_bits = 0;

  std::int64_t total() const { return values + signed_zeros + nan_bits; }
  BitDifferences& operator+=(const BitDifferences& other);
};

/// Compares two arrays of one length.
BitDifferences bit_differences(std::span<const float> expected, std::span<const float> found);

/// D [count * m * n] of `count` tiles.
using TileProduct = std::function<std::vector<float>(std::int64_t count, const MmaOperands&)>;

/// Two ways to the same result.
struct Comparison {
  std::string name;     // "m16n8k8.tf32", "two m16n8k4.tf32"
  std::string against;  // "emulation", "m16n8k8.tf32"
  MmaInstruction mma;   // what tiles are drawn for
  TileProduct found, expected;
  bool must_agree = true;
};

/// The emulation of every tile, on all threads; refers to both.
TileProduct emulation(const MmaInstruction& mma, const FusedStep& step);

/// All that can be compared with the instructions given as those of a GPU: each with its emulation,
/// wgmma with mma.sync, and two m16n8k4 with one m16n8k8. The last is only reported: where a step
/// has eight products the two differ.
std::vector<Comparison> instruction_comparisons(const Generation& generation,
                                                const Registry<GpuInstruction>& instructions);

/// At least `outputs` elements of one family, in whole tiles.
BitDifferences compare(const Comparison& comparison, OperandFamily family, std::int64_t outputs,
                       std::uint64_t seed);

}  // namespace tessera
