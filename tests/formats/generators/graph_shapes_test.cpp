// The generators behind the twins: molecules, communities and tiled, and their distinct draws.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "formats/base/registry.hpp"
#include "formats/generators/distinct_draws.hpp"
#include "formats/generators/generator.hpp"
#include "formats/statistics/statistics.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

CsrMatrix generate(const std::string& name, const Params::Given& given = {}) {
  return Registry<Generator>::instance().make(name, given)->generate();
}

ParamValue whole(std::int64_t value) { return value; }

/// The number of connected components, each of which must be of consecutive vertices.
std::int64_t consecutive_components(const CsrMatrix& graph) {
  std::int64_t components = 0;
  std::int32_t reached = 0;  // the last vertex that the current component is known to hold
  for (std::int32_t row = 0; row < graph.rows; ++row) {
    if (row == 0 || row > reached) {
      ++components;
      reached = row;
      for (const std::int32_t col : graph.row_cols(row)) CHECK(col >= row);
    }
    for (const std::int32_t col : graph.row_cols(row)) reached = std::max(reached, col);
  }
  return components;
}

TEST_CASE("molecules are connected blocks of four bonds an atom at most, with exact bonds") {
  const CsrMatrix batch = generate(
      "molecules", {{"molecules", whole(500)}, {"n", whole(10770)}, {"nnz", whole(22880)}});
  CHECK(batch.rows == 10770);
  CHECK(batch.nnz() == 22880);
  CHECK(transpose(batch) == batch);
  CHECK(consecutive_components(batch) == 500);
  CHECK(statistics(batch).row_length.max <= 4);
  CHECK(statistics(batch).row_length.min >= 1);
  CHECK(statistics(batch).bandwidth < 60);
  // Without rings a component of n atoms has n - 1 bonds.
  const CsrMatrix trees = generate(
      "molecules", {{"molecules", whole(500)}, {"n", whole(10770)}, {"nnz", whole(2 * 10270)}});
  CHECK(trees.nnz() == 2 * 10270);
  CHECK(consecutive_components(trees) == 500);
  CHECK_THROWS_WITH_AS(generate("molecules", {{"nnz", whole(100)}}),
                       "molecules: 100 nonzeros do not join 4308 atoms to 200 molecules", Error);
}

TEST_CASE("hydrogens are the last atoms of their molecule, with one bond each") {
  const CsrMatrix batch = generate(
      "molecules",
      {{"molecules", whole(1)}, {"n", whole(1000)}, {"nnz", whole(2100)}, {"hydrogens", 0.4}});
  CHECK(batch.nnz() == 2100);
  for (std::int32_t row = 600; row < 1000; ++row) {
    REQUIRE(batch.row_length(row) == 1);
    CHECK(batch.row_cols(row)[0] < 600);
  }
  CHECK(statistics(batch).row_length.max <= 4);
}

TEST_CASE("communities have exact nonzeros, the given share within and the given largest degree") {
  const Params::Given given{{"n", whole(8000)}, {"nnz", whole(160000)}, {"communities", whole(20)},
                            {"within", 0.7},    {"tail", 0.8},          {"max_degree", whole(400)},
                            {"loops", false}};
  const CsrMatrix graph = generate("communities", given);
  CHECK(graph.nnz() == 160000);
  CHECK(transpose(graph) == graph);
  double within = 0;
  for (std::int32_t row = 0; row < graph.rows; ++row) {
    REQUIRE_FALSE(std::ranges::binary_search(graph.row_cols(row), row));
    for (const std::int32_t col : graph.row_cols(row)) within += row / 400 == col / 400;
  }
  // A twentieth of the other edges stays inside by chance; multiple edges are fewer between.
  CHECK(within / 160000 == doctest::Approx(0.7 + 0.3 / 20).epsilon(0.1));
  const auto degrees = statistics(graph).row_length;
  CHECK(degrees.max > 240);
  CHECK(degrees.max < 480);

  Params::Given even = given;
  even["tail"] = 0.0;
  CHECK(statistics(generate("communities", even)).row_length.stddev ==
        doctest::Approx(std::sqrt(20.0)).epsilon(0.1));  // Poisson
  Params::Given looped = given;
  looped["loops"] = true;
  const CsrMatrix with_loops = generate("communities", looped);
  CHECK(with_loops.nnz() == 160000);
  for (std::int32_t row = 0; row < with_loops.rows; ++row)
    REQUIRE(std::ranges::binary_search(with_loops.row_cols(row), row));
  CHECK_THROWS_WITH_AS(generate("communities", {{"n", whole(100)}, {"nnz", whole(9902)}}),
                       "communities: 9902 nonzeros do not fit 100 vertices", Error);
  CHECK_THROWS_WITH_AS(generate("communities", {{"n", whole(31)}}),
                       "communities: 16 communities of 31 vertices leave one of a single vertex",
                       Error);
}

TEST_CASE("tiled meets its nonzeros and, but for a cut-off tile row, its three tile counts") {
  struct Case {
    std::int64_t n, nnz, tiles_8x8, tiles_16x8, tiles_16x16;
    bool diagonal;
  };
  for (const Case& c : {Case{4000, 200000, 12000, 7600, 4500, true},   // dense tiles
                        Case{4000, 20000, 6000, 5000, 4000, true},     // nearly empty ones
                        Case{4001, 40000, 9000, 7400, 5300, false},    // no diagonal, a rest
                        Case{4000, 90000, 9600, 5000, 2600, true}}) {  // nearly full 16x16 tiles
    CAPTURE(c.nnz);
    const CsrMatrix m = generate("tiled", {{"n", c.n},
                                           {"nnz", c.nnz},
                                           {"tiles_8x8", c.tiles_8x8},
                                           {"tiles_16x8", c.tiles_16x8},
                                           {"tiles_16x16", c.tiles_16x16},
                                           {"reach", whole(60)},
                                           {"diagonal", c.diagonal}});
    CHECK(m.nnz() == c.nnz);
    CHECK(transpose(m) == m);
    // A tile row and a tile column, of (n + 15) / 16 each, may be cut off.
    const auto cut = [&](std::int64_t tiles) {
      return c.n % 16 == 0 ? 0 : 2 * tiles / ((c.n + 15) / 16);
    };
    CHECK(std::abs(count_tiles(m, 8, 8).tiles - c.tiles_8x8) <= 8 + cut(c.tiles_8x8));
    CHECK(std::abs(count_tiles(m, 16, 8).tiles - c.tiles_16x8) <= 8 + cut(c.tiles_16x8));
    CHECK(std::abs(count_tiles(m, 16, 16).tiles - c.tiles_16x16) <= 2 + cut(c.tiles_16x16));
    CHECK(statistics(m).bandwidth < 16 * 61);
    CHECK(std::ranges::binary_search(m.row_cols(100), 100) == c.diagonal);
    CHECK(statistics(m).empty_rows == 0);
  }
  CHECK_THROWS_WITH_AS(
      generate("tiled", {{"tiles_16x8", whole(5000)}}),
      "tiled: 1643, 5000 and 650 tiles of 8x8, 16x8 and 16x16 contradict each other", Error);
  CHECK_THROWS_WITH_AS(generate("tiled", {{"nnz", whole(200000)}}),
                       "tiled: 200000 nonzeros do not fit 1643 tiles of 8x8", Error);
}

TEST_CASE("distinct draws are distinct, ascending and as many as asked for, or refused") {
  const auto below = [](std::uint64_t bound) {
    return [bound](RandomSequence& random) { return random.below(bound); };
  };
  const auto all = distinct_draws("test", 1000, 7, below(1000));
  for (std::uint64_t i = 0; i < 1000; ++i) REQUIRE(all[i] == i);
  const auto some = distinct_draws("test", 5000, 7, below(1000000));
  CHECK(some.size() == 5000);
  CHECK(std::ranges::adjacent_find(some, std::greater_equal<>()) == some.end());
  CHECK(distinct_draws("test", 0, 7, below(10)).empty());
  CHECK_THROWS_WITH_AS(distinct_draws("test", 11, 7, below(10)),
                       "test: 11 distinct entries do not fit; 10 were found", Error);
}

TEST_CASE("weighted choices follow their weights, and Pareto weights their tail") {
  const WeightedChoice choice({1, 2, 3, 4});
  std::array<int, 4> found{};
  RandomSequence random(5);
  for (int i = 0; i < 10000; ++i) ++found[choice.draw(random)];
  for (int place = 0; place < 4; ++place)
    CHECK(found[place] / 1000.0 == doctest::Approx(place + 1).epsilon(0.1));
  for (int i = 0; i < 100; ++i) {
    const std::int64_t place = choice.draw(random, 1, 3);
    CHECK((place == 1 || place == 2));
  }

  for (const double tail : {0.0, 0.5, 1.0}) {
    CAPTURE(tail);
    std::vector<double> weights = pareto_weights(10000, tail, 3);
    std::ranges::sort(weights);
    CHECK(weights.front() >= 1);
    CHECK(weights[5000] == doctest::Approx(std::pow(2.0, tail)).epsilon(0.03));
    CHECK(weights[9900] == doctest::Approx(std::pow(100.0, tail)).epsilon(0.35));
  }
}

}  // namespace
}  // namespace tessera
