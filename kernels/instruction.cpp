#include "kernels/instruction.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>

#include "formats/base/check.hpp"
#include "formats/base/suggest.hpp"
#include "kernels/fused_rows.hpp"

namespace tessera {
namespace {

constexpr int kLanes = static_cast<int>(MmaOperand::kLanes);
constexpr int kMaxDepth = 16;

/// Sixteen rows of A, column by column.
struct Columns {
  alignas(64) float values[kMaxDepth][kLanes] = {};
  alignas(32) std::int16_t exponents[kMaxDepth][kLanes];
  bool finite[kMaxDepth];
};

float operand_of(float value, MmaType type) {
  return type == MmaType::kTf32 ? convert(value, Conversion::kTf32Raw) : value;
}

void load_columns(const MmaInstruction& mma, std::span<const float> a, int row0, int rows,
                  Columns& columns) {
  const NumberFormat format = operand_format(mma.type);
  for (int k = 0; k < mma.k; ++k) {
    columns.finite[k] = true;
    for (int i = 0; i < kLanes; ++i) {
      const float value =
          i < rows ? operand_of(a[static_cast<std::size_t>((row0 + i) * mma.k + k)], mma.type) : 0;
      columns.values[k][i] = value;
      columns.exponents[k][i] = alignment_exponent(value, format);
      columns.finite[k] = columns.finite[k] && std::isfinite(value);
    }
  }
}

/// One column of the result, sixteen rows of it: a chain of steps.
void multiply_column(const MmaInstruction& mma, const FusedStep& step, const Columns& columns,
                     const float* b, float* c) {
  const NumberFormat format = operand_format(mma.type);
  for (int k0 = 0; k0 < mma.k; k0 += step.products) {
    const int count = std::min(step.products, mma.k - k0);
    std::array<ScaledRow, kMaxProducts> rows;
    bool is_fast = mma.type != MmaType::kFp16Fp16;
    for (int k = 0; k < count; ++k) {
      rows[static_cast<std::size_t>(k)] = {b[k0 + k], alignment_exponent(b[k0 + k], format),
                                           columns.values[k0 + k], columns.exponents[k0 + k]};
      is_fast = is_fast && columns.finite[k0 + k] && std::isfinite(b[k0 + k]);
    }
    std::uint32_t slow = (1u << kLanes) - 1;
    if (is_fast) slow = fused_step_lanes(step, {rows.data(), static_cast<std::size_t>(count)}, c);
    for (; slow != 0; slow &= slow - 1) {
      const int i = std::countr_zero(slow);
      std::array<float, kMaxProducts> left{};
      for (int k = 0; k < count; ++k) left[static_cast<std::size_t>(k)] = columns.values[k0 + k][i];
      const auto size = static_cast<std::size_t>(count);
      c[i] = fused_dot_add(step, {left.data(), size}, {b + k0, size}, c[i]);
    }
  }
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
  assert(step.type == mma.type && mma.k <= kMaxDepth);
  assert(std::ssize(a) == mma.m * mma.k && std::ssize(b) == mma.k * mma.n);
  assert(std::ssize(c) == mma.m * mma.n && c.size() == d.size());
  for (int row0 = 0; row0 < mma.m; row0 += kLanes) {
    const int rows = std::min(kLanes, mma.m - row0);
    Columns columns;
    load_columns(mma, a, row0, rows, columns);
    for (int j = 0; j < mma.n; ++j) {
      float b_col[kMaxDepth];
      for (int k = 0; k < mma.k; ++k)
        b_col[k] = operand_of(b[static_cast<std::size_t>(k * mma.n + j)], mma.type);
      alignas(64) float c_col[kLanes] = {};
      for (int i = 0; i < rows; ++i) c_col[i] = c[static_cast<std::size_t>((row0 + i) * mma.n + j)];
      multiply_column(mma, step, columns, b_col, c_col);
      for (int i = 0; i < rows; ++i) d[static_cast<std::size_t>((row0 + i) * mma.n + j)] = c_col[i];
    }
  }
}

}  // namespace tessera
