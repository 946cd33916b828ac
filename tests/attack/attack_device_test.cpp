// A fixed part of the attack on a GPU: every launch against its emulation, bit by bit.

#include <doctest/doctest.h>

#include <set>

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
             {std::pair{std::int64_t{5}, Scaling{}}, {64, {-1.7f, 0.3f}}, {130, {}}}) {
          if (n > choice.most_cols) continue;
          const AttackCase given{choice, "hopper", scaling, uneven_matrix(),
                                 random_dense(157, n, 3)};
          CAPTURE(describe(given));
          const Verdict verdict = attack(given, kernels);
          CHECK(verdict.reason == "");
        }
      }
    }
  }
}

TEST_CASE("two shares and beta C meet in one of two orders, and not as a sum of both shares does") {
  const Attacked kernels = registered_kernels();
  if (!kernels.launch) {
    MESSAGE("skipped: there is no GPU");
    return;
  }
  AttackCase given{{"shares_spmm", {{"thread_blocks", std::int64_t{2}}}},
                   kernels.generation,
                   {0.5f, -2.0f},
                   uneven_matrix(),
                   random_dense(157, 64, 3)};
  const DenseMatrix product = emulated(given), c = kernels.launch(given).c;
  const std::int64_t from_sum =
      compare_bits(c, emulate_scaling(given.scaling, product, given.old_c())).different;
  const std::vector<DenseMatrix> orders = scaled_products(given, product);
  REQUIRE(orders.size() == 2);
  const std::int64_t from_first = compare_bits(c, orders[0]).different,
                     from_later = compare_bits(c, orders[1]).different;
  MESSAGE("elements that differ from beta C and the sum of both shares: "
          << from_sum << ", from the first share added first: " << from_first
          << ", from the later one added first: " << from_later);
  CHECK(from_sum > 0);
  CHECK(attack(given, kernels).reason == "");
}

}  // namespace
}  // namespace tessera
