// The comparison of traces with counters finds each planted difference, and only that.

#include <doctest/doctest.h>

#include "tests/trace_counts.hpp"

namespace tessera {
namespace {

constexpr TraceCounts kCounted{1000, 64, 500, 200};
constexpr TraceTolerance kTolerance{0.10, 0.05, 0.20};

std::string beyond(const TraceCounts& predicted) {
  return counts_beyond(predicted, kCounted, kTolerance);
}

// Not at the limits themselves: 1100 / 1000 - 1 exceeds 0.10 by a rounding.
TEST_CASE("counts within the tolerance on either side are accepted") {
  CHECK(beyond(kCounted) == "");
  CHECK(beyond({1099, 64, 524, 239}) == "");
  CHECK(beyond({901, 64, 476, 161}) == "");
}

TEST_CASE("each count beyond its tolerance is named, above and below") {
  CHECK(beyond({1101, 64, 500, 200}) == "instructions ");
  CHECK(beyond({899, 64, 500, 200}) == "instructions ");
  CHECK(beyond({1000, 64, 526, 200}) == "l1_sectors ");
  CHECK(beyond({1000, 64, 474, 200}) == "l1_sectors ");
  CHECK(beyond({1000, 64, 500, 241}) == "l2_reads ");
  CHECK(beyond({1000, 64, 500, 159}) == "l2_reads ");
  CHECK(beyond({1000, 63, 500, 200}) == "mma ");
  CHECK(beyond({1000, 65, 500, 200}) == "more-mma mma ");
}

TEST_CASE("tolerated MMAs are those that the trace lacks, never those that it has too many") {
  const TraceTolerance tolerance{0.10, 0.05, 0.20, 0.5};
  CHECK(counts_beyond({1000, 40, 500, 200}, kCounted, tolerance) == "");
  CHECK(counts_beyond({1000, 65, 500, 200}, kCounted, tolerance) == "more-mma ");
}

TEST_CASE("a launch that executed nothing agrees with no trace") {
  CHECK(counts_beyond({0, 0, 0, 0}, {0, 0, 0, 0}, kTolerance) == "nothing-executed ");
  CHECK(counts_beyond({10, 0, 0, 0}, {0, 0, 0, 0}, kTolerance) == "nothing-executed instructions ");
}

}  // namespace
}  // namespace tessera
