// Which points go to which lane.
#include "experiments/run/handout.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace tessera {
namespace {

using Clock = Portion::Clock;

/// Points of some matrices, all of the same cost.
struct Points {
  explicit Points(const std::vector<int>& of_matrix) {
    int count = 0;
    for (const int points : of_matrix) count += points;
    entries = std::vector<PlanEntry>(count);
    auto next = entries.begin();
    for (std::size_t matrix = 0; matrix < of_matrix.size(); ++matrix) {
      Handout::Entries group;
      for (int i = 0; i < of_matrix[matrix]; ++i, ++next) {
        next->matrix = std::to_string(matrix);
        next->cost = 1;
        group.push_back(&*next);
      }
      handout.add(group);
    }
  }

  std::vector<PlanEntry> entries;
  Handout handout;
};

TEST_CASE("matrices are dealt to devices in turn, those that cost most first") {
  Points points({1, 5, 3, 4, 2});
  points.handout.sort_by_cost();
  points.handout.deal({2, 2});

  const auto first = [&](std::size_t place, std::size_t lane) {
    return points.handout.next({place, lane}, 0)->matrix;
  };
  CHECK(first(1, 0) == "3");
  CHECK(first(1, 1) == "4");
  CHECK(first(0, 0) == "1");
  CHECK(first(0, 1) == "2");
  CHECK(points.handout.has_for(7));  // the smallest waits
  CHECK(points.handout.take_matrix().front()->matrix == "0");
  CHECK_FALSE(points.handout.has_for(7));
  CHECK(points.handout.has_for(0));
  CHECK(points.handout.has_any());
}

TEST_CASE("the points of a matrix that cost most come first, those that cost the same in order") {
  Points points({6});
  const double costs[] = {1, 4, 2, 4, 1, 2};
  for (std::size_t i = 0; i < 6; ++i) points.entries[i].cost = costs[i];
  points.handout.sort_by_cost();
  points.handout.deal({1});

  std::vector<std::ptrdiff_t> order;
  for (std::size_t i = 0; i < 6; ++i)
    order.push_back(points.handout.next({0, 0}, i) - points.entries.data());
  CHECK(order == std::vector<std::ptrdiff_t>{1, 3, 2, 5, 0, 4});
}

TEST_CASE("an idle device gets the last point that waits for a busy one") {
  Points points({4});
  points.handout.deal({1});
  for (std::size_t i = 0; i < 3; ++i) {
    points.handout.next({0, 0}, i);
    points.handout.done({0, 0}, i, Clock::time_point(std::chrono::milliseconds(100 * i)), 0.01);
  }

  CHECK(points.handout.next({1, 0}, 0) == &points.entries[3]);
  CHECK(points.handout.next({0, 0}, 3) == nullptr);
}

TEST_CASE("an idle device gets half of what waits for a busy one, and a lane beside it none") {
  for (const bool same_device : {false, true}) {
    CAPTURE(same_device);
    Points points({12});
    points.handout.deal({1});
    // They work for 10 ms, and pass every 100 ms; the first one reads the matrix for 90 ms more.
    const LaneName busy{0, 0}, idle{same_device ? 0UL : 1UL, 1};
    const Clock::time_point start{};
    for (std::size_t i = 0; i < 2; ++i) {
      points.handout.next(busy, i);
      CHECK(points.handout.next(idle, 0) == nullptr);
      CHECK(points.handout.may_have_later(idle));
      points.handout.done(busy, i, start + std::chrono::milliseconds(100 * i), i == 0 ? 0.1 : 0.01);
    }

    const PlanEntry* taken = points.handout.next(idle, 0);

    CHECK((taken == nullptr) == same_device);
    if (!same_device) CHECK(taken == &points.entries[7]);
    CHECK(points.handout.may_have_later(idle) == !same_device);
  }
}

/// Lanes that work for random times, and workers that die with what they work on.
TEST_CASE("every point is handed out until it is done, whatever workers die, and done once") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto draw = [&](int below) { return static_cast<int>(random() % below); };
    std::vector<int> sizes(1 + draw(12));
    for (int& size : sizes) size = 1 + draw(14);
    Points points(sizes);
    const std::vector<std::size_t> lanes(1 + draw(3), 1 + draw(4));
    points.handout.sort_by_cost();
    points.handout.deal(lanes);

    struct At {
      const PlanEntry* entry;
      std::size_t number;
    };
    std::map<LaneName, At> works;
    std::vector<std::size_t> given(lanes.size());  // to every worker
    std::map<const PlanEntry*, int> done;
    Clock::time_point now{};
    int deaths = 0;
    for (int step = 0; done.size() < points.entries.size(); ++step) {
      REQUIRE(step < 100000);
      now += std::chrono::milliseconds(draw(40));
      const std::size_t place = draw(static_cast<int>(lanes.size()));
      if (deaths < 5 && draw(40) == 0) {
        ++deaths;
        std::map<std::size_t, Handout::Entries> unfinished;
        for (auto& [name, at] : works) {
          if (name.place != place) continue;
          if (draw(2) == 0)
            points.handout.suspect(at.entry);
          else
            unfinished[name.lane].push_back(at.entry);
        }
        std::erase_if(works, [&](const auto& one) { return one.first.place == place; });
        points.handout.take_back(place, unfinished);
        given[place] = 0;
        while (const PlanEntry* entry = points.handout.next_suspect()) ++done[entry];
        continue;
      }
      const LaneName name{place, static_cast<std::size_t>(draw(static_cast<int>(lanes[0])))};
      if (const auto at = works.find(name); at != works.end()) {
        ++done[at->second.entry];
        points.handout.done(name, at->second.number, now, 0.001 * draw(60));
        works.erase(at);
      } else if (const PlanEntry* entry = points.handout.next(name, given[place])) {
        works[name] = {entry, given[place]++};
      } else if (works.empty()) {
        // Nobody works: what is left was dealt to lanes that have not asked yet.
        CHECK((points.handout.has_for(place) || lanes.size() > 1 || lanes[0] > 1));
      }
    }
    CHECK(std::ranges::all_of(done, [](const auto& one) { return one.second == 1; }));
    CHECK_FALSE(points.handout.has_any());
  }
}

}  // namespace
}  // namespace tessera
