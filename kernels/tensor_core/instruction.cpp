#include "kernels/tensor_core/instruction.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>

#include "formats/base/check.hpp"
#include "formats/base/suggest.hpp"
#include "formats/base/vector_clones.hpp"
#include "kernels/tensor_core/fused_rows.hpp"

namespace tessera {
namespace {

constexpr int kLanes = static_cast<int>(MmaOperand::kLanes);
constexpr int kMaxDepth = 16;

constexpr int kMaxTile = 16 * kMaxDepth;  // elements of an operand decoded at once

/// The operands as the unit reads them and their alignment exponents, in any order.
struct Decoded {
  alignas(64) float values[kMaxTile];
  alignas(64) std::int16_t exponents[kMaxTile];
  bool finite;
};

TESSERA_VECTOR_CLONES
void decode(const float* raw, int count, MmaType type, Decoded& decoded) {
  const std::uint32_t kept = type == MmaType::kTf32 ? 0xffffe000u : 0xffffffffu;
  const int least = operand_format(type).min_exponent;
  std::int32_t highest = 0;
  for (int i = 0; i < count; ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(raw[i]) & kept;
    const auto field = static_cast<std::int32_t>((bits >> 23) & 255);
    highest = std::max(highest, field);
    const std::int32_t exponent = std::max(std::max(field, 1) - 127, least);
    const bool is_zero = (bits & 0x7fffffff) == 0;
    decoded.values[i] = std::bit_cast<float>(bits);
    decoded.exponents[i] = static_cast<std::int16_t>(is_zero ? kZeroExponent : exponent);
  }
  decoded.finite = highest < 255;
}

/// Transposes from [rows x cols] to [cols x stride].
void transpose(const float* from, int rows, int cols, float* to, int stride) {
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < cols; ++j) to[j * stride + i] = from[i * cols + j];
}

void transpose_back(const float* from, int stride, int rows, int cols, float* to) {
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < cols; ++j) to[i * cols + j] = from[j * stride + i];
}

/// Computes all steps of one element.
float multiply_element(const MmaInstruction& mma, const FusedStep& step, const Decoded& a,
                       const Decoded& b, int i, int j, float c) {
  for (int k0 = 0; k0 < mma.k; k0 += step.products) {
    const auto count = static_cast<std::size_t>(std::min(step.products, mma.k - k0));
    std::array<float, kMaxProducts> left{}, right{};
    for (std::size_t k = 0; k < count; ++k) {
      const int depth = k0 + static_cast<int>(k);
      left[k] = a.values[depth * kLanes + i];
      right[k] = b.values[depth * mma.n + j];
    }
    c = fused_dot_add(step, {left.data(), count}, {right.data(), count}, c);
  }
  return c;
}

/// Computes up to sixteen rows of the result; the result and A are column-major.
void multiply_tile(const MmaInstruction& mma, const FusedStep& step, const Decoded& a,
                   const Decoded& b, int rows, float* c) {
  std::array<std::int32_t, kMaxTile> slow;
  if (mma.type != MmaType::kFp16Fp16 && a.finite && b.finite) {
    const MmaTile tile{static_cast<std::size_t>(mma.n),
                       static_cast<std::size_t>(mma.k),
                       static_cast<std::size_t>(step.products),
                       a.values,
                       a.exponents,
                       b.values,
                       b.exponents};
    if (chain_lanes(step.fraction_bits, tile, c, slow.data())) return;
  } else {
    slow.fill(1);
  }
  for (int j = 0; j < mma.n; ++j)
    for (int i = 0; i < rows; ++i)
      if (slow[static_cast<std::size_t>(j * kLanes + i)] != 0)
        c[j * kLanes + i] = multiply_element(mma, step, a, b, i, j, c[j * kLanes + i]);
}

}  // namespace

const std::vector<MmaInstruction>& mma_instructions() {
  using enum MmaType;
  using Names = std::vector<std::string>;
  // PTX ISA, "Warp-level matrix instructions" and "Asynchronous warpgroup-level".
  static const Names tf32{"ampere", "ada", "hopper", "blackwell"};
  static const Names turing{"turing", "ampere", "ada", "hopper", "blackwell"};
  static const Names all{"volta", "turing", "ampere", "ada", "hopper", "blackwell"};
  static const std::vector<MmaInstruction> instructions{
      {"m16n8k4.tf32", 16, 8, 4, kTf32, tf32},
      {"m16n8k8.tf32", 16, 8, 8, kTf32, tf32},
      {"m8n8k4.fp16", 8, 8, 4, kFp16, {"volta"}},
      {"m8n8k4.fp16_fp16", 8, 8, 4, kFp16Fp16, {"volta"}},
      {"m16n8k8.fp16", 16, 8, 8, kFp16, turing},
      {"m16n8k8.fp16_fp16", 16, 8, 8, kFp16Fp16, turing},
      {"m16n8k16.fp16", 16, 8, 16, kFp16, tf32},
      {"m16n8k16.fp16_fp16", 16, 8, 16, kFp16Fp16, tf32},
      {"m16n8k8.bf16", 16, 8, 8, kBf16, tf32},
      {"m16n8k16.bf16", 16, 8, 16, kBf16, tf32},
      {"wmma.m16n16k16.fp16", 16, 16, 16, kFp16, all},
      {"wmma.m16n16k16.fp16_fp16", 16, 16, 16, kFp16Fp16, all},
      {"wgmma.m64n8k8.tf32", 64, 8, 8, kTf32, {"hopper"}},
      {"wgmma.m64n8k16.fp16", 64, 8, 16, kFp16, {"hopper"}},
      {"wgmma.m64n8k16.bf16", 64, 8, 16, kBf16, {"hopper"}},
  };
  return instructions;
}

const MmaInstruction& find_instruction(std::string_view name) {
  std::vector<std::string> names;
  for (const MmaInstruction& instruction : mma_instructions()) {
    if (instruction.name == name) return instruction;
    names.push_back(instruction.name);
  }
  throw Error(unknown_name_message("MMA instruction", name, names));
}

int steps_of(const MmaInstruction& instruction, const FusedStep& step) {
  return (instruction.k + step.products - 1) / step.products;
}

const FusedStep& step_of(const MmaInstruction& instruction, const Generation& generation) {
  require<Unsupported>(
      std::ranges::find(instruction.generations, generation.name) != instruction.generations.end(),
      "{} tensor cores have no {}", generation.name, instruction.name);
  return generation.step(instruction.type);
}

void emulate_mma(const MmaInstruction& mma, const FusedStep& step, std::span<const float> a,
                 std::span<const float> b, std::span<const float> c, std::span<float> d) {
  assert(step.type == mma.type && mma.k <= kMaxDepth && mma.n <= kLanes);
  assert(std::ssize(a) == mma.m * mma.k && std::ssize(b) == mma.k * mma.n);
  assert(std::ssize(c) == mma.m * mma.n && c.size() == d.size());
  Decoded right;
  decode(b.data(), mma.k * mma.n, mma.type, right);
  for (int row0 = 0; row0 < mma.m; row0 += kLanes) {
    const int rows = std::min(kLanes, mma.m - row0);
    // Missing rows compute 0 * b + 1, which the vector code handles.
    alignas(64) float columns[kMaxTile], sums[kMaxTile];
    if (rows < kLanes) {
      std::ranges::fill(columns, 0.0f);
      std::ranges::fill(sums, 1.0f);
    }
    transpose(a.data() + row0 * mma.k, rows, mma.k, columns, kLanes);
    transpose(c.data() + row0 * mma.n, rows, mma.n, sums, kLanes);
    Decoded left;
    decode(columns, kLanes * mma.k, mma.type, left);
    multiply_tile(mma, step, left, right, rows, sums);
    transpose_back(sums, kLanes, rows, mma.n, d.data() + row0 * mma.n);
  }
}

}  // namespace tessera
