// The time to emulate one instruction, raw operand bits in, result bits out; and the time of the
// scalar rule that it is equal to.

#include <benchmark/benchmark.h>

#include "formats/base/random.hpp"
#include "kernels/tensor_core/instruction.hpp"

namespace tessera {
namespace {

std::vector<float> operand(std::uint64_t seed, int count, Conversion conversion) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = convert(random_signed(seed, i), conversion);
  return values;
}

struct Operands {
  Operands(const MmaInstruction& mma, Conversion conversion)
      : a(operand(1, mma.m * mma.k, conversion)),
        b(operand(2, mma.k * mma.n, conversion)),
        c(operand(3, mma.m * mma.n, Conversion::kTf32)) {}
  std::vector<float> a, b, c;
};

void instruction(benchmark::State& state, const char* name, const char* generation,
                 Conversion conversion) {
  const MmaInstruction& mma = find_instruction(name);
  const FusedStep& step = step_of(mma, find_generation(generation));
  const Operands x(mma, conversion);
  std::vector<float> d(x.c.size());
  for (auto _ : state) {
    emulate_mma(mma, step, x.a, x.b, x.c, d);
    benchmark::DoNotOptimize(d.data());
  }
  state.SetItemsProcessed(state.iterations() * mma.m * mma.n * mma.k);
}
BENCHMARK_CAPTURE(instruction, hopper_m16n8k8_tf32, "m16n8k8.tf32", "hopper", Conversion::kTf32);
BENCHMARK_CAPTURE(instruction, ampere_m16n8k8_tf32, "m16n8k8.tf32", "ampere", Conversion::kTf32);
BENCHMARK_CAPTURE(instruction, hopper_m16n8k16_fp16, "m16n8k16.fp16", "hopper", Conversion::kFp16);
BENCHMARK_CAPTURE(instruction, ampere_m16n8k16_bf16, "m16n8k16.bf16", "ampere", Conversion::kBf16);
BENCHMARK_CAPTURE(instruction, volta_m8n8k4_fp16, "m8n8k4.fp16", "volta", Conversion::kFp16);

void scalar_rule(benchmark::State& state) {
  const MmaInstruction& mma = find_instruction("m16n8k8.tf32");
  const FusedStep& step = step_of(mma, find_generation("hopper"));
  const Operands x(mma, Conversion::kTf32);
  for (auto _ : state)
    for (std::size_t e = 0; e < 128; ++e)
      benchmark::DoNotOptimize(fused_dot_add(step, std::span(x.a).subspan(e / 8 * 8, 8),
                                             std::span(x.b).subspan(e % 8 * 8, 8), x.c[e]));
}
BENCHMARK(scalar_rule);

}  // namespace
}  // namespace tessera
