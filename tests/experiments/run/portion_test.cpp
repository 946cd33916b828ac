// When a part of a worker's points is given to another one.
#include "experiments/run/portion.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace tessera {
namespace {

using std::chrono::milliseconds;

/// Twelve points, of which some were done, one every 100 ms. They work for 60 ms of it, the first
/// one 300 ms more, after it has waited for others. Two points of another matrix were given before,
/// the last of which ends when these have been given.
struct Begun {
  explicit Begun(int done) {
    std::deque<const PlanEntry*> all;
    for (const PlanEntry& entry : entries) all.push_back(&entry);
    const Portion::Clock::time_point start{};
    portion = Portion(all, 2);
    portion.done(1, start + milliseconds(100), 0.06);
    for (int i = 0; i < done; ++i) {
      taken.push_back(portion.take());
      portion.done(2 + i, start + milliseconds(900 + 100 * i), i == 0 ? 0.36 : 0.06);
    }
  }

  std::vector<PlanEntry> entries = std::vector<PlanEntry>(12);
  std::vector<const PlanEntry*> taken;
  Portion portion;
};

TEST_CASE("half of a lane's points saves their time without that of reading the matrix") {
  const auto elsewhere = [](int done) { return Begun(done).portion.saved_by_split_s(false); };
  CHECK(elsewhere(0) <= 0);
  CHECK(elsewhere(1) <= 0);
  CHECK(elsewhere(2) == doctest::Approx(0.5 - 0.3));
  CHECK(elsewhere(5) == doctest::Approx(0.4 - 0.3));
  CHECK(elsewhere(6) == doctest::Approx(0.3 - 0.3));
  CHECK(elsewhere(8) < 0);
  CHECK(elsewhere(12) < 0);

  for (const int done : {0, 1, 2, 4}) CHECK(Begun(done).portion.may_be_split(false));
  for (const int done : {8, 11, 12}) CHECK(!Begun(done).portion.may_be_split(false));
}

TEST_CASE("a lane of the same device saves no time that the points wait for it") {
  CHECK(Begun(1).portion.saved_by_split_s(true) <= 0);
  CHECK(Begun(2).portion.saved_by_split_s(true) == doctest::Approx(5 * 0.06 - 0.3));
  CHECK(Begun(4).portion.saved_by_split_s(true) == doctest::Approx(4 * 0.06 - 0.3));
  CHECK(Begun(1).portion.may_be_split(true));
  CHECK(!Begun(4).portion.may_be_split(true));
}

TEST_CASE("a portion and the half that was split from it have every point once, in order") {
  for (const int done : {0, 1, 6, 11, 12}) {
    CAPTURE(done);
    Begun begun(done);

    const std::deque<const PlanEntry*> half = begun.portion.split();

    CHECK(half.size() == (begun.entries.size() - done + 1) / 2);
    while (!begun.portion.empty()) begun.taken.push_back(begun.portion.take());
    begun.taken.insert(begun.taken.end(), half.begin(), half.end());
    REQUIRE(begun.taken.size() == begun.entries.size());
    for (std::size_t i = 0; i < begun.taken.size(); ++i) CHECK(begun.taken[i] == &begun.entries[i]);
  }
}

}  // namespace
}  // namespace tessera
