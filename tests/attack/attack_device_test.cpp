// A fixed part of the attack on a GPU: every launch against its emulation, bit by bit.

#include <doctest/doctest.h>

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

}  // namespace
}  // namespace tessera
