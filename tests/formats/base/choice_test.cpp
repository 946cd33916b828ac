// decide() with a planted policy: bounds, times, exclusions, ties and interruption; and the policy
// of cost models.
#include "formats/base/choice.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "formats/base/check.hpp"

namespace tessera {
namespace {

/// A candidate's lower bound and time. Without a bound, its time is known at once; without a time,
/// it cannot be used.
struct Planted {
  std::optional<double> bound;
  std::optional<double> time_us;
};

class PlantedPolicy final : public Policy {
 public:
  explicit PlantedPolicy(std::vector<Planted> planted, double tolerance = 0)
      : planted_(std::move(planted)), tolerance_(tolerance) {}

  std::string name() const override { return "planted"; }
  double tolerance() const override { return tolerance_; }
  Rating screen(std::size_t candidate) override {
    const Planted& one = planted_.at(candidate);
    require<Unsupported>(one.time_us.has_value(), "it has no time");
    if (one.bound) return {.origin = Origin::kBound, .time_us = *one.bound};
    return {.origin = Origin::kMeasured, .time_us = *one.time_us};
  }
  Rating refine(const Rating& bound, const std::function<void(double)>&) override {
    refined.push_back(bound.candidate);
    return {.origin = Origin::kSimulated, .time_us = *planted_.at(bound.candidate).time_us};
  }

  std::vector<std::size_t> refined;  // in order

 private:
  std::vector<Planted> planted_;
  double tolerance_;
};

std::vector<std::size_t> order_of(const Decision& decision) {
  std::vector<std::size_t> order;
  for (const Rating& one : decision.ranked) order.push_back(one.candidate);
  return order;
}

using Order = std::vector<std::size_t>;

TEST_CASE("the fastest candidate is chosen, and of equal ones the first") {
  PlantedPolicy policy({{{}, 3.0}, {{}, 2.0}, {{}, 5.0}, {{}, 2.0}});

  const Decision decision = decide({{"a"}, {"b"}, {"c"}, {"d"}}, policy);

  CHECK(order_of(decision) == Order{1, 3, 0, 2});
  CHECK(decision.chosen().candidate == 1);
  CHECK(decision.chosen().origin == Origin::kMeasured);
  CHECK(decision.ties_with_chosen(decision.ranked[1]));
  CHECK_FALSE(decision.ties_with_chosen(decision.ranked[2]));
  CHECK(decision.policy == "planted");
  CHECK(policy.refined.empty());
}

TEST_CASE("a candidate is refined only while its bound is below the best time") {
  PlantedPolicy policy({{{4.0}, 10.0}, {{1.0}, 5.0}, {{6.0}, 6.5}, {{2.0}, 3.0}});

  const Decision decision = decide({{"a"}, {"b"}, {"c"}, {"d"}}, policy);

  CHECK(policy.refined == Order{1, 3});
  CHECK(order_of(decision) == Order{3, 1, 0, 2});
  CHECK(decision.ranked[2].origin == Origin::kBound);
  CHECK(decision.ranked[2].time_us == 4.0);
  CHECK_FALSE(decision.ties_with_chosen(decision.ranked[2]));
}

TEST_CASE("a bound within the tolerance of the best time is refined") {
  PlantedPolicy exact({{{1.0}, 3.0}, {{3.2}, 3.2}}), tolerant({{{1.0}, 3.0}, {{3.2}, 3.2}}, 0.1);

  const Decision without = decide({{"a"}, {"b"}}, exact), with = decide({{"a"}, {"b"}}, tolerant);

  CHECK(exact.refined == Order{0});
  CHECK(tolerant.refined == Order{0, 1});
  CHECK(without.ranked[1].origin == Origin::kBound);
  CHECK(with.ties_with_chosen(with.ranked[1]));
}

TEST_CASE("the fastest baseline gets a time even when another candidate is far faster") {
  PlantedPolicy policy({{{1.0}, 1.5}, {{50.0}, 60.0}, {{70.0}, 80.0}});

  const Decision decision =
      decide({{"reordered", false}, {"baseline"}, {"slower baseline"}}, policy);

  CHECK(policy.refined == Order{0, 1});
  CHECK(decision.ranked[1].time_us == 60.0);
  CHECK(decision.ranked[2].origin == Origin::kBound);
}

TEST_CASE("candidates that cannot be used are excluded with their reasons") {
  const Planted unusable;
  PlantedPolicy some({unusable, {{}, 2.0}, unusable}), none(std::vector<Planted>{unusable});

  const Decision decision = decide({{"a"}, {"b"}, {"c"}}, some), empty = decide({{"a"}}, none);

  const auto name_of = [](std::size_t i) { return std::string(1, "abc"[i]); };
  CHECK(decision.chosen().candidate == 1);
  CHECK(decision.exclusions("; ", name_of) == "; a: it has no time; c: it has no time");
  CHECK(empty.excluded.size() == 1);
  CHECK_THROWS_AS(empty.chosen(), Unsupported);
}

TEST_CASE("an interrupted decision lacks what was not screened and keeps bounds") {
  const std::vector<Planted> planted{{{1.0}, 5.0}, {{2.0}, 3.0}};
  PlantedPolicy early(planted), late(planted);
  int polled = 0;

  const Decision at_once = decide({{"a"}, {"b"}}, early, {.interrupted = [&] { return true; }});
  const Decision later =
      decide({{"a"}, {"b"}}, late, {.interrupted = [&] { return ++polled > 3; }});

  CHECK(at_once.ranked.empty());
  CHECK(at_once.excluded.empty());
  CHECK(late.refined == Order{0});
  CHECK(order_of(later) == Order{0, 1});
  CHECK(later.ranked[1].origin == Origin::kBound);
}

TEST_CASE("the progress of a decision names each candidate") {
  PlantedPolicy policy({{{1.0}, 5.0}, {{2.0}, 3.0}});
  std::vector<std::string> seen;

  decide({{"a"}, {"b"}}, policy,
         {.progress = [&](const std::string& what, double) { seen.push_back(what); }});

  CHECK(seen == std::vector<std::string>{"screening a", "screening b", "a (1 of 2)", "b (2 of 2)"});
}

TEST_CASE("a count that a kernel does not publish is an error that lists those it does") {
  const WorkCounts counts{{"products", 12}, {"pairs", 3}};

  CHECK(counts.at("products") == 12);
  CHECK_THROWS_WITH_AS(counts.at("tiles"), doctest::Contains("'tiles'; the kernel publishes pairs"),
                       Error);
}

TEST_CASE("a kernel without a cost model is excluded by the policy of cost models") {
  const std::vector<CountedKernel> kernels{{"no such kernel", {}, {}}};
  CostModelPolicy policy(kernels, "h200");

  const Decision decision = decide({{"no such kernel"}}, policy);

  CHECK(decision.policy == "model");
  CHECK(decision.ranked.empty());
  CHECK(decision.excluded.at(0).reason == "no such kernel has no cost model");
}

}  // namespace
}  // namespace tessera
