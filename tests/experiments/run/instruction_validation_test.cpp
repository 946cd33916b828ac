// Comparing instructions: with faulty ones in the GPU's place, so that every kind of difference is
// seen to be found.

#include "experiments/run/instruction_validation.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "formats/base/check.hpp"

namespace tessera {
namespace {

const Generation& hopper() { return find_generation("hopper"); }

/// Emulated instructions in the place of a GPU's, all elements `spoilt`.
class Emulated final : public GpuInstruction {
 public:
  using Spoil = float (*)(float);
  Emulated(const std::string& name, const Generation& generation, Spoil spoil)
      : mma_(find_instruction(name)), step_(step_of(mma_, generation)), spoil_(spoil) {}

  std::vector<float> run(std::int64_t count, std::span<const float> a, std::span<const float> b,
                         std::span<const float> c) const override {
    require(std::ssize(a) == count * mma_.m * mma_.k && std::ssize(b) == count * mma_.k * mma_.n &&
                std::ssize(c) == count * mma_.m * mma_.n,
            "{}: operands of another size", mma_.name);
    const MmaOperands x{{a.begin(), a.end()}, {b.begin(), b.end()}, {c.begin(), c.end()}};
    std::vector<float> d = emulation(mma_, step_)(count, x);
    for (float& value : d) value = spoil_(value);
    return d;
  }

 private:
  const MmaInstruction& mma_;
  const FusedStep& step_;
  Spoil spoil_;
};

float intact(float value) { return value; }

Registry<GpuInstruction> emulated(const Generation& generation, Emulated::Spoil spoil) {
  Registry<GpuInstruction> all;
  for (const MmaInstruction& mma : mma_instructions()) {
    if (mma.name.starts_with("m8n8")) continue;  // Volta's
    const std::string name = mma.name;
    all.add({.name = name, .summary = name, .make = [name, &generation, spoil](const Params&) {
               return std::make_unique<Emulated>(name, generation, spoil);
             }});
  }
  return all;
}

TEST_CASE("instructions that compute as their emulation agree with it and with each other") {
  const auto instructions = emulated(hopper(), intact);

  const auto comparisons = instruction_comparisons(hopper(), instructions);

  CHECK(comparisons.size() == 13 + 3 + 1);
  for (const Comparison& comparison : comparisons) {
    for (const OperandFamily family : kOperandFamilies) {
      CAPTURE(comparison.name);
      CAPTURE(comparison.against);
      CAPTURE(name_of(family));
      const BitDifferences found = compare(comparison, family, 3000, 1);
      CHECK(found.compared >= 3000);
      if (comparison.must_agree) CHECK(found.total() == 0);
    }
  }
}

TEST_CASE("a generation is compared in what it has") {
  const auto instructions = emulated(hopper(), intact);

  const auto ampere = instruction_comparisons(find_generation("ampere"), instructions);
  const auto turing = instruction_comparisons(find_generation("turing"), instructions);

  CHECK(ampere.size() == 10 + 1);
  CHECK(ampere.back().name == "two m16n8k4.tf32");
  CHECK(ampere.back().must_agree);
  CHECK(turing.size() == 4);
  CHECK(instruction_comparisons(hopper(), {}).empty());
}

TEST_CASE(
    "two MMAs of half the depth differ from one on Hopper, which is reported and is no fault") {
  const auto instructions = emulated(hopper(), intact);

  const Comparison halves = instruction_comparisons(hopper(), instructions).back();

  CHECK(halves.name == "two m16n8k4.tf32");
  CHECK(halves.against == "m16n8k8.tf32");
  CHECK_FALSE(halves.must_agree);
  CHECK(compare(halves, OperandFamily::kUniform, 10'000, 1).values > 100);
}

TEST_CASE("an instruction with other arithmetic is found out in every family") {
  const auto instructions = emulated(find_generation("ampere"), intact);
  const MmaInstruction& mma = find_instruction("m16n8k8.tf32");
  const Comparison comparison{mma.name, "emulation", mma,
                              [&](std::int64_t count, const MmaOperands& x) {
                                return instructions.make(mma.name)->run(count, x.a, x.b, x.c);
                              },
                              emulation(mma, hopper().step(MmaType::kTf32))};
  for (const OperandFamily family : kOperandFamilies) {
    CAPTURE(name_of(family));
    const BitDifferences found = compare(comparison, family, 100'000, 1);
    CHECK(found.values > 0);
    CHECK(found.compared >= 100'000);
  }
}

TEST_CASE("kinds of differing bits are distinguished") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> expected{1, 0.0f, -0.0f, nan, nan, 2, 3};
  const std::vector<float> found{1, -0.0f, -0.0f, -nan, 1, nan, 3.0000002f};

  const BitDifferences differences = bit_differences(expected, found);

  CHECK(differences.compared == 7);
  CHECK(differences.signed_zeros == 1);
  CHECK(differences.nan_bits == 1);
  CHECK(differences.values == 3);
  CHECK(differences.total() == 5);
}

TEST_CASE("a large comparison is worked out piece by piece, the last one short") {
  const MmaInstruction& mma = find_instruction("m16n8k4.tf32");
  std::vector<std::int64_t> pieces;
  const TileProduct same = [&](std::int64_t count, const MmaOperands& x) {
    pieces.push_back(count);
    return x.c;
  };
  const TileProduct other = [](std::int64_t, const MmaOperands& x) { return x.c; };

  const auto found = compare({"", "", mma, same, other}, OperandFamily::kUniform, 5'000'001, 1);

  CHECK(found.compared == 5'000'064);
  CHECK(found.total() == 0);
  CHECK(pieces == std::vector<std::int64_t>{32768, 6295});
}

}  // namespace
}  // namespace tessera
