// Instructions: what they are, and that a whole one is emulated as element by element.

#include "kernels/tensor_core/instruction.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <set>

#include "formats/base/check.hpp"
#include "kernels/tensor_core/operand_families.hpp"

namespace tessera {
namespace {

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

/// Element e of one tile, by its definition: a chain of steps.
float chain(const MmaInstruction& mma, const FusedStep& step, std::span<const float> a,
            std::span<const float> b, float c, int e) {
  const int i = e / mma.n, j = e % mma.n;
  for (int k0 = 0; k0 < mma.k; k0 += step.products) {
    std::vector<float> left, right;
    for (int k = k0; k < std::min(k0 + step.products, mma.k); ++k) {
      left.push_back(a[static_cast<std::size_t>(i * mma.k + k)]);
      right.push_back(b[static_cast<std::size_t>(k * mma.n + j)]);
    }
    if (mma.type == MmaType::kTf32)
      for (auto* side : {&left, &right})
        for (float& value : *side) value = convert(value, Conversion::kTf32Raw);
    c = fused_dot_add(step, left, right, c);
  }
  return c;
}

TEST_CASE("a whole instruction has the bits of its elements, in every generation that has it") {
  int compared = 0;
  for (const MmaInstruction& mma : mma_instructions()) {
    for (const std::string& name : mma.generations) {
      const FusedStep& step = step_of(mma, find_generation(name));
      for (const OperandFamily family : kOperandFamilies) {
        constexpr int kTiles = 16;
        const MmaOperands x = draw_operands(family, mma, kTiles, 1);
        for (std::size_t t = 0; t < kTiles; ++t) {
          const auto tile = [t](const std::vector<float>& values) {
            return std::span(values).subspan(t * (values.size() / kTiles), values.size() / kTiles);
          };
          const auto a = tile(x.a), b = tile(x.b), c = tile(x.c);
          std::vector<float> d(c.size(), -77.0f);

          emulate_mma(mma, step, a, b, c, d);

          for (std::size_t e = 0; e < d.size(); ++e) {
            CAPTURE(mma.name);
            CAPTURE(name);
            CAPTURE(name_of(family));
            REQUIRE(bits(d[e]) == bits(chain(mma, step, a, b, c[e], static_cast<int>(e))));
            ++compared;
          }
        }
      }
    }
  }
  CHECK(compared > 500'000);
}

TEST_CASE("an MMA of depth K is ceil(K / L) steps, by generation") {
  const auto steps = [](const char* instruction, const char* generation) {
    const MmaInstruction& mma = find_instruction(instruction);
    return steps_of(mma, step_of(mma, find_generation(generation)));
  };

  CHECK(steps("m16n8k4.tf32", "ampere") == 1);
  CHECK(steps("m16n8k8.tf32", "ampere") == 2);
  CHECK(steps("m16n8k8.tf32", "hopper") == 1);
  CHECK(steps("m16n8k8.fp16", "turing") == 1);
  CHECK(steps("m16n8k16.fp16", "ada") == 2);
  CHECK(steps("m16n8k16.fp16", "blackwell") == 1);
  CHECK(steps("wmma.m16n16k16.fp16", "volta") == 4);
}

TEST_CASE("a missing instruction is Unsupported, and a misspelt one gets a suggestion") {
  CHECK_THROWS_WITH_AS(step_of(find_instruction("m16n8k8.tf32"), find_generation("turing")),
                       "turing tensor cores have no m16n8k8.tf32", Unsupported);
  CHECK_THROWS_WITH_AS(find_instruction("m16n8k8.tf23"),
                       doctest::Contains("did you mean 'm16n8k8.tf32'"), Error);
  std::set<std::string> names;
  for (const MmaInstruction& mma : mma_instructions()) CHECK(names.insert(mma.name).second);
}

TEST_CASE("on Ampere two MMAs of half the depth are one, on Hopper they are not") {
  const auto different = [](const char* generation) {
    const MmaInstruction &whole = find_instruction("m16n8k8.tf32"),
                         &half = find_instruction("m16n8k4.tf32");
    const FusedStep& step = find_generation(generation).step(MmaType::kTf32);
    int count = 0;
    for (std::uint64_t trial = 0; trial < 50; ++trial) {
      const auto [a, b, drawn] = draw_operands(OperandFamily::kUniform, whole, 1, trial);
      std::vector<float> c = drawn, d(128), left(64);
      emulate_mma(whole, step, a, b, c, d);
      for (int part = 0; part < 2; ++part) {
        for (std::size_t i = 0; i < 64; ++i)
          left[i] = a[i / 4 * 8 + 4 * static_cast<std::size_t>(part) + i % 4];
        emulate_mma(half, step, left, std::span(b).subspan(32 * static_cast<std::size_t>(part), 32),
                    c, c);
      }
      for (std::size_t i = 0; i < c.size(); ++i) count += bits(c[i]) != bits(d[i]);
    }
    return count;
  };

  CHECK(different("ampere") == 0);
  CHECK(different("hopper") > 0);
}

}  // namespace
}  // namespace tessera
