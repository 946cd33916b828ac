// The fast fused step: every instruction set's code has the bits of the scalar rule, or says that
// it left a column alone.

#include "kernels/tensor_core/fused_rows.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "formats/base/random.hpp"

namespace tessera {
namespace {

TEST_CASE("a dense operand holds converted values and their alignment exponents") {
  constexpr std::int64_t kRows = 40, kCols = 37;
  for (const Conversion conversion : {Conversion::kTf32, Conversion::kTf32Even,
                                      Conversion::kTf32Raw, Conversion::kFp16, Conversion::kBf16}) {
    CAPTURE(static_cast<int>(conversion));
    DenseMatrix dense(kRows, kCols);
    // Any bits: among them are NaNs, infinities, subnormal numbers and those that vanish in FP16.
    for (std::size_t i = 0; i < dense.values.size(); ++i)
      dense.values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(random_bits(5, i) >> 32));
    for (std::int64_t j = 0; j < kCols; ++j) dense.at(1, j) = random_signed(6, j);
    dense.at(0, 3) = -0.0f;
    dense.at(0, 4) = std::bit_cast<float>(0xffffffffu);
    dense.at(0, 5) = -INFINITY;

    const MmaOperand operand(dense, conversion);

    const NumberFormat format = operand_format(type_of(conversion));
    for (std::int64_t i = 0; i < kRows; ++i) {
      bool is_finite = true;
      for (std::int64_t j = 0; j < 48; ++j) {
        CAPTURE(i);
        CAPTURE(j);
        const float expected = j < kCols ? convert(dense.at(i, j), conversion) : 0.0f;
        is_finite = is_finite && std::isfinite(expected);
        REQUIRE(std::bit_cast<std::uint32_t>(operand.values(i)[j]) ==
                std::bit_cast<std::uint32_t>(expected));
        REQUIRE(operand.exponents(i)[j] == alignment_exponent(expected, format));
      }
      REQUIRE(operand.row_is_finite(i) == is_finite);
    }
    CHECK_FALSE(operand.row_is_finite(0));
    CHECK(operand.row_is_finite(1));
    CHECK_FALSE(operand.all_finite());
  }
}

TEST_CASE("the code of every instruction set has the bits of the scalar rule") {
  constexpr std::int64_t kCols = 48;
  int compared = 0, left_alone = 0;
  for (const FusedStepVariant& variant : fused_step_variants()) {
    for (const char* name : {"volta", "ampere", "hopper"}) {
      for (const auto& [type, step] : find_generation(name).steps) {
        if (type == MmaType::kFp16Fp16) continue;
        const Conversion conversion = type == MmaType::kTf32   ? Conversion::kTf32
                                      : type == MmaType::kFp16 ? Conversion::kFp16
                                                               : Conversion::kBf16;
        for (std::uint64_t trial = 0; trial < 60; ++trial) {
          // Exponents from a few to many binades, some products zero.
          const int spread = 1 << trial % (type == MmaType::kFp16 ? 4 : 8);  // FP16 ends at 2^16
          DenseMatrix dense(step.products, kCols);
          for (std::size_t i = 0; i < dense.values.size(); ++i) {
            const std::uint64_t raw = random_bits(trial, i);
            const int shift = static_cast<int>(raw % static_cast<unsigned>(spread)) - spread / 2;
            dense.values[i] = raw % 5 == 0 ? 0.0f : std::ldexp(random_signed(trial + 1, i), shift);
          }
          const MmaOperand b(dense, conversion);
          std::vector<ScaledRow> rows;
          for (int k = 0; k < step.products; ++k) {
            const float a =
                convert(random_signed(trial + 2, static_cast<std::uint64_t>(k)), conversion);
            rows.push_back(
                {a, alignment_exponent(a, operand_format(type)), b.values(k), b.exponents(k)});
          }
          std::vector<float> c(kCols);
          for (std::size_t j = 0; j < c.size(); ++j) c[j] = random_signed(trial + 3, j);
          std::vector<float> d = c;
          std::vector<std::int32_t> slow(kCols, 7);

          const bool done = variant.function(step.fraction_bits, rows.data(), rows.size(), d.data(),
                                             kCols, slow.data());

          bool none_slow = true;
          for (std::size_t j = 0; j < c.size(); ++j) {
            std::vector<float> left, right;
            for (const ScaledRow& row : rows) {
              left.push_back(row.a);
              right.push_back(row.b[j]);
            }
            none_slow = none_slow && slow[j] == 0;
            left_alone += slow[j] != 0;
            const float expected = slow[j] != 0 ? c[j] : fused_dot_add(step, left, right, c[j]);
            CAPTURE(variant.name);
            CAPTURE(name);
            CAPTURE(j);
            REQUIRE(std::bit_cast<std::uint32_t>(d[j]) == std::bit_cast<std::uint32_t>(expected));
            ++compared;
          }
          CHECK(done == none_slow);
        }
      }
    }
  }
  CHECK(compared > 10'000);
  CHECK(left_alone < compared / 50);
}

TEST_CASE("the chains of every instruction set have the bits of the scalar rule, step by step") {
  constexpr std::size_t kRows = MmaOperand::kLanes, kCols = 8, kDepth = 16;
  int compared = 0, left_alone = 0;
  for (const FusedStepVariant& variant : fused_step_variants()) {
    for (const char* name : {"volta", "ampere", "hopper"}) {
      const FusedStep& step = find_generation(name).step(MmaType::kFp16);
      for (std::uint64_t trial = 0; trial < 60; ++trial) {
        // Some columns of B are for the fast way in their first steps, but not in the last.
        std::vector<float> a(kDepth * kRows), b(kDepth * kCols), c(kCols * kRows);
        std::vector<std::int16_t> a_exponents, b_exponents;
        for (std::size_t i = 0; i < a.size(); ++i)
          a[i] = convert(random_signed(trial, i), Conversion::kFp16);
        for (std::size_t i = 0; i < b.size(); ++i)
          b[i] = convert(random_signed(trial + 1, i), Conversion::kFp16);
        for (std::size_t i = 0; i < c.size(); ++i) c[i] = random_signed(trial + 2, i);
        b.back() = trial % 3 == 0 ? 0x1p126f : 1;
        for (const float x : a)
          a_exponents.push_back(alignment_exponent(x, operand_format(step.type)));
        for (const float x : b)
          b_exponents.push_back(alignment_exponent(x, operand_format(step.type)));
        std::vector<float> d = c;
        std::vector<std::int32_t> slow(c.size(), 7);

        const auto products = static_cast<std::size_t>(step.products);
        const MmaTile tile{
            kCols, kDepth, products, a.data(), a_exponents.data(), b.data(), b_exponents.data()};
        const bool done = variant.chain(step.fraction_bits, tile, d.data(), slow.data());

        CHECK(done == (std::ranges::count(slow, 0) == std::ssize(slow)));
        for (std::size_t e = 0; e < c.size(); ++e) {
          const std::size_t i = e % kRows, j = e / kRows;
          float expected = c[e];
          for (std::size_t k0 = 0; slow[e] == 0 && k0 < kDepth; k0 += products) {
            std::vector<float> left, right;
            for (std::size_t k = k0; k < std::min(k0 + products, kDepth); ++k) {
              left.push_back(a[k * kRows + i]);
              right.push_back(b[k * kCols + j]);
            }
            expected = fused_dot_add(step, left, right, expected);
          }
          CAPTURE(variant.name);
          CAPTURE(name);
          REQUIRE(std::bit_cast<std::uint32_t>(d[e]) == std::bit_cast<std::uint32_t>(expected));
          ++compared;
          left_alone += slow[e] != 0;
        }
      }
    }
  }
  CHECK(left_alone > 100);
  CHECK(left_alone < compared / 20);
}

TEST_CASE("columns that the vector code cannot handle keep their values and are marked") {
  DenseMatrix dense(1, 16);
  for (std::int64_t j = 0; j < 16; ++j)
    dense.at(0, j) = random_signed(1, static_cast<std::uint64_t>(j));
  dense.at(0, 3) = 0x1p-100f;  // nothing here is above the range where FP32 products are exact
  dense.at(0, 5) = 0x1.8p126f;
  const MmaOperand b(dense, Conversion::kTf32);
  const ScaledRow row{1.0f, 0, b.values(0), b.exponents(0)};
  for (const FusedStepVariant& variant : fused_step_variants()) {
    std::vector<float> c(16, 0.0f);
    c[7] = INFINITY;
    std::vector<std::int32_t> slow(16, 7);

    const bool done = variant.function(25, &row, 1, c.data(), 16, slow.data());

    CAPTURE(variant.name);
    CHECK_FALSE(done);
    for (std::size_t j = 0; j < 16; ++j) CHECK((slow[j] != 0) == (j == 3 || j == 5 || j == 7));
    CHECK(c[3] == 0.0f);
    CHECK(std::isinf(c[7]));
    CHECK(c[0] == b.values(0)[0]);
  }
}

}  // namespace
}  // namespace tessera
