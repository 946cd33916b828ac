// The stated time of an advice, with a simulated clock.
#include "experiments/run/advice_progress.hpp"

#include <doctest/doctest.h>

namespace tessera {
namespace {

TEST_CASE("the time of an advice falls, and hopeless candidates take none of it") {
  const double bounds[] = {10, 20, 30, 500, 900};
  AdviceTime time(5);
  double now = 0;
  CHECK_FALSE(time.tell(now));
  for (int i = 0; i < 5; ++i) {
    now += 1;
    const advisor::Alternative one{std::string(1, "abcde"[i]), i == 0, {}};
    time.rated(one, {.origin = Origin::kBound, .time_us = bounds[i]}, now);
  }
  // Before a simulation has ended the time rests on what one usually takes.
  double before = time.tell(now).value();
  CHECK(before > 100);

  const auto simulated = [&](int i, double time_us, double seconds) {
    now += seconds;
    const advisor::Alternative one{std::string(1, "abcde"[i]), i == 0, {}};
    time.rated(
        one, {.origin = Origin::kSimulated, .time_us = time_us, .bound = {bounds[i], "DRAM"}}, now);
    const double told = time.tell(now).value();
    CHECK(told <= before);
    before = told;
  };
  simulated(0, 15, 2);  // rules out the last three, which cannot be among the fastest
  CHECK(before == 0);

  AdviceTime longer(2);
  for (int i = 0; i < 2; ++i)
    longer.rated({std::string(1, "ab"[i]), true, {}},
                 {.origin = Origin::kBound, .time_us = 10.0 + i}, 0.1 * (i + 1));
  longer.rated({"a", true, {}},
               {.origin = Origin::kSimulated, .time_us = 20, .bound = {10, "DRAM"}}, 2.2);
  CHECK(longer.tell(2.2).value() == doctest::Approx(2.2).epsilon(0.1));
}

}  // namespace
}  // namespace tessera
