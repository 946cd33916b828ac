// A fixed part of the attack on a GPU: every launch against its emulation, bit by bit.

#include <doctest/doctest.h>

#include <set>

#include "formats/base/random.hpp"
#include "tests/attack/attack.hpp"

namespace tessera {
namespace {

TEST_CASE("launches of the attack's first seeds give the bits of their emulation") {
  const Attacked kernels = registered_kernels();
  if (!kernels.launch) {
    MESSAGE("skipped: there is no GPU");
    return;
  }
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const AttackCase drawn = draw_case(seed);
    CAPTURE(seed);
    CAPTURE(describe(drawn));
    const Verdict verdict = attack(drawn, kernels);
    CHECK(verdict.reason == "");
    compared += verdict.compared;
  }
  CHECK(compared > 2500);
}

/// Rows of a few nonzeros, one that is full, one of every other column, and some that are empty.
CsrMatrix uneven() {
  constexpr std::int32_t kRows = 83, kCols = 157;
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> cols;
  std::vector<float> values;
  for (std::int32_t i = 0; i < kRows; ++i) {
    for (std::int32_t j = 0; j < kCols; ++j) {
      const std::uint64_t draw = random_bits(1, static_cast<std::uint64_t>(i) * kCols + j);
      const bool few = draw % 100 < 6 && (i < 33 || i > 50);
      if (i != 17 && !(i == 60 && j % 2 == 0) && !few) continue;
      cols.push_back(j);
      values.push_back(random_signed(2, draw));
    }
    offsets.push_back(std::ssize(cols));
  }
  return {kRows, kCols, std::move(offsets), std::move(cols), std::move(values)};
}

// A subcase for each kernel: tests/sanitize_gpu runs them one by one.
TEST_CASE("each choice of a kernel is right on a small matrix with full and empty rows") {
  const Attacked kernels = registered_kernels();
  std::set<std::string> names;
  for (const Choice& choice : kernel_choices()) names.insert(choice.kernel);
  for (const std::string& name : names) {
    SUBCASE(name.c_str()) {
      if (!kernels.launch) {
        MESSAGE("skipped: there is no GPU");
        return;
      }
      for (const Choice& choice : kernel_choices()) {
        if (choice.kernel != name) continue;
        for (const auto& [n, scaling] :
             {std::pair{std::int64_t{5}, Scaling{}}, {64, {0.5f, -2.0f}}, {130, {}}}) {
          if (n > choice.most_cols) continue;
          const AttackCase given{choice, "hopper", scaling, uneven(), random_dense(157, n, 3)};
          CAPTURE(describe(given));
          const Verdict verdict = attack(given, kernels);
          CHECK(verdict.reason == "");
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera
