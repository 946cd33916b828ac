// Random operands of an MMA: families of numbers that reach every corner case of its arithmetic,
// for the tests of the emulation and for its validation on GPUs.
//
// Random bits alone hardly ever cancel, uniform numbers never leave the normal range: each family
// covers the cases that the others miss. Draws are counter-based: tile t has the same operands
// however the tiles are divided among calls.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/tensor_core/instruction.hpp"

namespace tessera {

enum class OperandFamily {
  kUniform,     // (-1, 1), every significant bit in use
  kAnyBits,     // bit patterns of the type: NaN, infinities and subnormals among them
  kPowers,      // powers of two and, for a third, zeros of either sign
  kTiny,        // subnormals, zeros, and numbers whose products are subnormal
  kWide,        // exponents over most of the range: alignment drops whole terms
  kNarrow,      // small integers, few of them large ones: sums often vanish
  kCancelling,  // C is about -A B: the sum is the part that alignment dropped
  kSpmm,        // a brick with few nonzeros, a dense B, a partial sum
};

constexpr OperandFamily kOperandFamilies[] = {OperandFamily::kUniform,    OperandFamily::kAnyBits,
                                              OperandFamily::kPowers,     OperandFamily::kTiny,
                                              OperandFamily::kWide,       OperandFamily::kNarrow,
                                              OperandFamily::kCancelling, OperandFamily::kSpmm};

/// The name of the family: "uniform", "any_bits", "powers", "tiny", "wide", "narrow", "cancelling"
/// or "spmm".
std::string_view name_of(OperandFamily family);

/// The family of that name. Throws an Error with the nearest name for an unknown one.
OperandFamily find_operand_family(std::string_view name);

/// Row-major tiles one after the other, as FP32. A and B hold values of the instruction's type
/// (TF32 operands with random low bits), C values of its accumulator's type.
struct MmaOperands {
  std::vector<float> a;  // [count * m * k]
  std::vector<float> b;  // [count * k * n]
  std::vector<float> c;  // [count * m * n]
};

/// Draws tiles first to first + count - 1 of stream `seed`.
MmaOperands draw_operands(OperandFamily family, const MmaInstruction& mma, std::int64_t count,
                          std::uint64_t seed, std::int64_t first = 0);

}  // namespace tessera
