// Families of operands: each holds what it is there for, in values that its type has.

#include "kernels/tensor_core/operand_families.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "formats/base/check.hpp"

namespace tessera {
namespace {

constexpr int kTiles = 64;

double share(const std::vector<float>& values, bool (*holds)(float)) {
  return static_cast<double>(std::ranges::count_if(values, holds)) /
         static_cast<double>(values.size());
}

std::vector<std::uint32_t> bits(std::span<const float> values) {
  std::vector<std::uint32_t> all;
  for (const float value : values) all.push_back(std::bit_cast<std::uint32_t>(value));
  return all;
}

bool is_zero(float value) { return value == 0; }
bool is_special(float value) { return !std::isfinite(value); }

TEST_CASE("FP16 bits and values are each other's inverse, for all patterns") {
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const auto half = static_cast<std::uint16_t>(pattern);
    const float value = fp16_value(half);
    REQUIRE(fp16_bits(value) == half);
    REQUIRE(bits({{value}}) == bits({{convert(value, Conversion::kFp16)}}));
  }
  CHECK(fp16_value(0x3c00) == 1.0f);
  CHECK(fp16_value(0x7bff) == 65504.0f);
  CHECK(fp16_value(0x0001) == 0x1p-24f);
  CHECK(std::isinf(fp16_value(0xfc00)));
}

TEST_CASE("operands are values of their type, in every family") {
  for (const MmaInstruction& mma : mma_instructions()) {
    for (const OperandFamily family : kOperandFamilies) {
      CAPTURE(mma.name);
      CAPTURE(name_of(family));
      const MmaOperands x = draw_operands(family, mma, kTiles, 1);
      CHECK(std::ssize(x.a) == kTiles * mma.m * mma.k);
      CHECK(std::ssize(x.b) == kTiles * mma.k * mma.n);
      CHECK(std::ssize(x.c) == kTiles * mma.m * mma.n);
      const auto is_fp16 = [](float value) {
        return bits({{fp16_value(fp16_bits(value))}}) == bits({{value}});
      };
      const auto is_bf16 = [](float value) { return (bits({{value}})[0] & 0xffff) == 0; };
      for (const auto* operand : {&x.a, &x.b}) {
        if (mma.type == MmaType::kBf16) CHECK(std::ranges::all_of(*operand, is_bf16));
        if (operand_format(mma.type).min_exponent == -14)
          CHECK(std::ranges::all_of(*operand, is_fp16));
      }
      if (mma.type == MmaType::kFp16Fp16) CHECK(std::ranges::all_of(x.c, is_fp16));
    }
  }
}

TEST_CASE(
    "a tile has the same operands however tiles are divided among calls, and others by seed") {
  const MmaInstruction& mma = find_instruction("m16n8k8.tf32");
  for (const OperandFamily family : kOperandFamilies) {
    CAPTURE(name_of(family));
    const MmaOperands all = draw_operands(family, mma, 8, 5);

    const MmaOperands rest = draw_operands(family, mma, 5, 5, 3);

    CHECK(bits(rest.a) == bits(std::span(all.a).last(rest.a.size())));
    CHECK(bits(rest.b) == bits(std::span(all.b).last(rest.b.size())));
    CHECK(bits(rest.c) == bits(std::span(all.c).last(rest.c.size())));
    CHECK(bits(draw_operands(family, mma, 8, 6).b) != bits(all.b));
  }
}

TEST_CASE("each family reaches its corner case") {
  const MmaInstruction& mma = find_instruction("m16n8k16.fp16");
  const auto drawn = [&](OperandFamily family) { return draw_operands(family, mma, 1024, 1); };
  const auto subnormal = [](float value) { return value != 0 && std::abs(value) < 0x1p-14f; };

  CHECK(share(drawn(OperandFamily::kUniform).a, is_zero) < 0.01);
  const MmaOperands any = drawn(OperandFamily::kAnyBits);
  CHECK(share(any.a, is_special) == doctest::Approx(1.0 / 32).epsilon(0.05));
  CHECK(share(any.a, subnormal) == doctest::Approx(1.0 / 32).epsilon(0.05));
  CHECK(share(any.c, is_special) == doctest::Approx(1.0 / 256).epsilon(0.2));
  CHECK(share(drawn(OperandFamily::kPowers).a, is_zero) == doctest::Approx(1.0 / 3).epsilon(0.05));
  CHECK(share(drawn(OperandFamily::kTiny).a, subnormal) > 0.3);
  CHECK(share(drawn(OperandFamily::kTiny).a, is_zero) > 0.1);
  CHECK(share(drawn(OperandFamily::kWide).a, [](float x) { return std::abs(x) > 0x1p8f; }) > 0.1);
  const MmaOperands brick = drawn(OperandFamily::kSpmm);
  CHECK(share(brick.a, is_zero) == doctest::Approx(1 - 4.5 / 16).epsilon(0.05));
  CHECK(share(brick.b, is_zero) < 0.01);
  CHECK(share(brick.c, is_zero) == doctest::Approx(1.0 / 32).epsilon(0.2));
}

TEST_CASE("sums of the narrow family often vanish, those of the cancelling one lose leading bits") {
  const MmaInstruction& mma = find_instruction("m16n8k8.tf32");
  const FusedStep& step = find_generation("hopper").step(MmaType::kTf32);
  const auto sums = [&](OperandFamily family) {
    std::vector<float> all;
    for (int t = 0; t < 256; ++t) {
      const MmaOperands x = draw_operands(family, mma, 1, 1, t);
      std::vector<float> d(x.c.size());
      emulate_mma(mma, step, x.a, x.b, x.c, d);
      all.insert(all.end(), d.begin(), d.end());
    }
    return all;
  };

  CHECK(share(sums(OperandFamily::kUniform), is_zero) == 0);
  CHECK(share(sums(OperandFamily::kNarrow), is_zero) > 0.001);
  CHECK(share(sums(OperandFamily::kCancelling), [](float x) { return std::abs(x) < 0x1p-8f; }) >
        0.9);
}

TEST_CASE("families are found by their names") {
  std::set<std::string_view> names;
  for (const OperandFamily family : kOperandFamilies) {
    CHECK(names.insert(name_of(family)).second);
    CHECK(find_operand_family(name_of(family)) == family);
  }
  CHECK_THROWS_WITH_AS(find_operand_family("unifrom"), doctest::Contains("did you mean 'uniform'"),
                       Error);
}

}  // namespace
}  // namespace tessera
