// Instructions: what they are, and that a whole one is emulated as element by element.

#include "kernels/instruction.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <set>

#include "formats/base/check.hpp"
#include "formats/base/random.hpp"

namespace tessera {
namespace {

Conversion conversion_of(MmaType type) {
  if (type == MmaType::kTf32) return Conversion::kTf32Raw;
  return type == MmaType::kBf16 ? Conversion::kBf16 : Conversion::kFp16;
}

/// Operands of many kinds, already in the instruction's type.
float draw(int family, MmaType type, std::uint64_t seed, std::uint64_t index) {
  const std::uint64_t raw = random_bits(seed, index);
  const float uniform = random_signed(seed, index);
  float value = uniform;
  if (family == 1) value = std::bit_cast<float>(static_cast<std::uint32_t>(raw));
  if (family == 2)
    value = raw % 3 == 0 ? 0.0f : std::ldexp(uniform, static_cast<int>(raw >> 8 & 31) - 16);
  if (family == 3) value = std::ldexp(uniform, -14 - static_cast<int>(raw >> 8 & 15));
  if (family == 4) value = std::ldexp(uniform, static_cast<int>(raw >> 8 & 127) - 70);
  if (family == 5) value = static_cast<float>(static_cast<int>(raw % 9) - 4);
  return convert(value, conversion_of(type));
}

std::vector<float> draw_all(int family, const MmaInstruction& mma, bool accumulator,
                            std::uint64_t seed, int count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    // An FP32 accumulator has all its bits.
    const bool fp32 = accumulator && mma.type != MmaType::kFp16Fp16;
    values[i] = fp32 && family != 1
                    ? random_signed(seed, i) * std::abs(draw(family, mma.type, seed + 1, i))
                    : draw(family, mma.type, seed, i);
  }
  return values;
}

TEST_CASE("a whole instruction has the bits of its elements, in every generation that has it") {
  int compared = 0;
  for (const MmaInstruction& mma : mma_instructions()) {
    for (const std::string& name : mma.generations) {
      const FusedStep& step = step_of(mma, find_generation(name));
      for (int family = 0; family < 6; ++family) {
        for (std::uint64_t trial = 0; trial < 20; ++trial) {
          const std::uint64_t seed = 1000 * trial + 10 * static_cast<std::uint64_t>(family);
          const auto a = draw_all(family, mma, false, seed, mma.m * mma.k);
          const auto b = draw_all(family, mma, false, seed + 2, mma.k * mma.n);
          const auto c = draw_all(family, mma, true, seed + 4, mma.m * mma.n);
          std::vector<float> d(c.size(), -77.0f);

          emulate_mma(mma, step, a, b, c, d);

          for (int e = 0; e < mma.m * mma.n; ++e) {
            const int i = e / mma.n, j = e % mma.n;
            float sum = c[static_cast<std::size_t>(e)];
            for (int k0 = 0; k0 < mma.k; k0 += step.products) {
              std::vector<float> left, right;
              for (int k = k0; k < std::min(k0 + step.products, mma.k); ++k) {
                left.push_back(a[static_cast<std::size_t>(i * mma.k + k)]);
                right.push_back(b[static_cast<std::size_t>(k * mma.n + j)]);
              }
              sum = fused_dot_add(step, left, right, sum);
            }
            CAPTURE(mma.name);
            CAPTURE(name);
            CAPTURE(family);
            REQUIRE(std::bit_cast<std::uint32_t>(d[static_cast<std::size_t>(e)]) ==
                    std::bit_cast<std::uint32_t>(sum));
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

TEST_CASE("a generation without an instruction says so, and a misspelt one is suggested") {
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
      const auto a = draw_all(0, whole, false, 10 * trial, 128);
      const auto b = draw_all(0, whole, false, 10 * trial + 2, 64);
      std::vector<float> c(128, 0.0f), d(128), left(64), right(64);
      emulate_mma(whole, step, a, b, c, d);
      for (int part = 0; part < 2; ++part) {
        for (std::size_t i = 0; i < 64; ++i)
          left[i] = a[i / 4 * 8 + 4 * static_cast<std::size_t>(part) + i % 4];
        emulate_mma(half, step, left, std::span(b).subspan(32 * static_cast<std::size_t>(part), 32),
                    c, c);
      }
      for (std::size_t i = 0; i < c.size(); ++i)
        count += std::bit_cast<std::uint32_t>(c[i]) != std::bit_cast<std::uint32_t>(d[i]);
    }
    return count;
  };

  CHECK(different("ampere") == 0);
  CHECK(different("hopper") > 0);
}

}  // namespace
}  // namespace tessera
