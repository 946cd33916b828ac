// The stated remaining time, with a simulated clock.
#include "experiments/run/remaining_time.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace tessera {
namespace {

struct Planned {
  std::string kind;
  double cost;
  double seconds;
};

/// The largest rise of the told time, and how far it was off by once a tenth of the time was over:
/// both as factors.
struct Quality {
  double rise = 1;
  double too_much = 1;
  double too_little = 1;
};

Quality quality_of(const std::vector<Planned>& points) {
  RemainingTime remaining;
  double total = 0, now = 0, before = 0;
  for (const Planned& point : points) {
    remaining.expect(point.kind, point.cost);
    total += point.seconds;
  }
  Quality quality;
  for (const Planned& point : points) {
    now += point.seconds;
    remaining.learn(point.kind, point.cost, point.seconds);
    remaining.remove(point.kind, point.cost);
    const std::optional<double> known = remaining.tell(now);
    if (!known) continue;
    const double told = *known;
    if (before > 0) quality.rise = std::max(quality.rise, told / before);
    before = told;
    const double truth = total - now;
    if (now < 0.1 * total || truth < 0.05 * total) continue;
    quality.too_much = std::max(quality.too_much, told / truth);
    quality.too_little = std::max(quality.too_little, truth / told);
  }
  CHECK(before == doctest::Approx(0).epsilon(1e-6));
  return quality;
}

/// Matrices of these sizes at three widths, emulated and simulated: each 0.05 s, and one simulation
/// as long as thirty emulations.
std::vector<Planned> sweep(const std::vector<double>& sizes) {
  std::vector<Planned> points;
  for (const double size : sizes)
    for (const double n : {32, 128, 512}) {
      points.push_back({"emulate", size * n, 0.05 + 1e-6 * size * n});
      points.push_back({"simulate", size * n, 0.05 + 3e-5 * size * n});
    }
  return points;
}

TEST_CASE("the remaining time does not climb while larger and larger matrices come") {
  std::vector<double> sizes;
  for (int i = 0; i < 24; ++i) sizes.push_back(10 * std::pow(1.4, i));

  const Quality found = quality_of(sweep(sizes));

  CHECK(found.rise == 1);
  CHECK(found.too_much < 1.5);
  CHECK(found.too_little < 1.5);
}

TEST_CASE("the remaining time does not climb when the large matrices come first") {
  std::vector<double> sizes;
  for (int i = 24; i-- > 0;) sizes.push_back(10 * std::pow(1.4, i));

  const Quality found = quality_of(sweep(sizes));

  CHECK(found.rise == 1);
  CHECK(found.too_much < 2);
  CHECK(found.too_little < 1.5);
}

TEST_CASE("the first point of a matrix may take longer without a rise") {
  std::vector<Planned> points;
  for (int matrix = 0; matrix < 20; ++matrix)
    for (int i = 0; i < 8; ++i) points.push_back({"simulate", 100, i == 0 ? 3.0 : 1.0});

  const Quality found = quality_of(points);

  CHECK(found.rise == 1);
  CHECK(found.too_much < 1.5);
  CHECK(found.too_little < 1.5);
}

TEST_CASE("nothing is told before anything is known, and an earlier run is known") {
  RemainingTime remaining;
  remaining.expect("gpu", 10);
  CHECK_FALSE(remaining.tell(1));

  remaining.learn("gpu", 10, 4);
  CHECK(remaining.tell(1) == 4);
  CHECK(remaining.tell(3) == 2);   // the running point has used up two seconds
  CHECK(remaining.tell(90) == 0);  // and never more than there were
}

TEST_CASE("a backend that skips everything needs no time, and jobs share it") {
  RemainingTime remaining(2);
  for (int i = 0; i < 4; ++i) remaining.expect("simulate", 1), remaining.expect("gpu", 1);
  remaining.learn("simulate", 1, 3);
  remaining.remove("simulate", 1);
  CHECK_FALSE(remaining.estimate());  // nothing is known of gpu

  remaining.learn_skip("gpu");
  remaining.remove("gpu", 1);
  CHECK(remaining.estimate() == doctest::Approx(3 * 3 / 2.0));
}

TEST_CASE("a run that turns out to be far longer says so") {
  RemainingTime remaining;
  for (int i = 0; i < 10; ++i) remaining.expect("simulate", 1);
  remaining.learn("simulate", 1, 1);
  remaining.remove("simulate", 1);
  CHECK(remaining.tell(1) == doctest::Approx(9));
  remaining.learn("simulate", 1, 21);
  remaining.remove("simulate", 1);
  CHECK(remaining.tell(22) == doctest::Approx(8 * 11));
}

}  // namespace
}  // namespace tessera
