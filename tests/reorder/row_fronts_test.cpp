// Windows that grow at many places at once, and the sketches of rows that they begin with.
#include "reorder/row_fronts.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "formats/base/permutation.hpp"
#include "formats/base/random.hpp"
#include "reorder/row_sketches.hpp"
#include "reorder/window_columns.hpp"
#include "tests/reorder_support.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using Indices = std::vector<std::int32_t>;

Indices shuffled_rows(std::int32_t rows, std::uint64_t seed) {
  Indices order(rows);
  std::iota(order.begin(), order.end(), 0);
  RandomSequence(seed).shuffle(order);
  return order;
}

Indices grow(const CsrMatrix& matrix, const Indices& base, const ChainRule& rule) {
  Watch watch;
  return grow_windows(matrix, base, rule, watch);
}

/// Eight rows for each of `windows` sets of columns, of which each row has all but one;
/// neighbouring sets overlap.
CsrMatrix planted(std::int32_t windows) {
  std::vector<Indices> rows;
  for (std::int32_t window = 0; window < windows; ++window)
    for (std::int32_t row = 0; row < 8; ++row) {
      Indices cols;
      for (std::int32_t col = 0; col < 16; ++col)
        if (col != 2 * row) cols.push_back(12 * window + col);
      rows.push_back(cols);
    }
  return pattern_matrix(8 * windows, 12 * windows + 4, rows);
}

TEST_CASE("fronts find most of the planted windows, the same on any number of threads") {
  constexpr std::int64_t kWindows = 700;  // 5600 rows: ten fronts
  const CsrMatrix a = planted(kWindows);
  const Indices base = shuffled_rows(a.rows, 31);
  const ChainRule rule{.window_rows = 8, .candidates = 32, .common_weight = 6};

  const ThreadCount one(1);
  const Indices alone = grow(a, base, rule);

  CHECK(Permutation(Indices(alone)).size() == a.rows);
  // Planted windows have two TC blocks each; in the base order windows have 15.
  CHECK(count_tc_blocks(a, {alone, 8}) < 3 * kWindows);
  for (const int threads : {2, 3, 16}) {
    const ThreadCount count(threads);
    CHECK(grow(a, base, rule) == alone);
  }
}

TEST_CASE("every row is placed once, whatever rows share, in stretches of any length") {
  std::vector<Indices> hubs(3000);  // all rows share two columns, some have nothing else
  for (std::int32_t row = 0; row < 3000; ++row) {
    hubs[row] = {0, 1};
    if (row % 3 != 0) hubs[row].push_back(2 + static_cast<std::int32_t>(random_bits(5, row) % 400));
  }
  const CsrMatrix equal_rows = pattern_matrix(2500, 4, std::vector<Indices>(2500, Indices{0, 3}));
  const CsrMatrix empty_rows = pattern_matrix(2500, 4, std::vector<Indices>(2500));
  const CsrMatrix apart = pattern_matrix(3001, 3001, [] {
    std::vector<Indices> rows;
    for (std::int32_t row = 0; row < 3001; ++row) rows.push_back({row});
    return rows;
  }());
  const ThreadCount threads(4);
  for (const CsrMatrix& a : {pattern_matrix(3000, 402, hubs), equal_rows, empty_rows, apart}) {
    for (const std::int64_t stretch : {0, 1000, 7}) {
      for (const std::int32_t height : {2, 8, 32}) {
        const ChainRule rule{.window_rows = height, .common_weight = 6, .stretch_rows = stretch};
        const Indices order = grow(a, shuffled_rows(a.rows, 7), rule);
        CHECK(Permutation(Indices(order)).size() == a.rows);  // throws for one missing or repeated
      }
    }
  }
}

TEST_CASE("no stretch of several has more than half of the nonzeros and a window") {
  // 64 rows of 40 nonzeros before 192 rows of one: stretches of 128 rows, the first cut at 40.
  std::vector<Indices> rows;
  RandomSequence random(11);
  for (int row = 0; row < 256; ++row) {
    Indices cols;
    const auto first = static_cast<std::int32_t>(random.below(200));
    for (std::int32_t col = 0; col < (row < 64 ? 40 : 1); ++col) cols.push_back(first + col);
    rows.push_back(cols);
  }
  const CsrMatrix a = pattern_matrix(256, 256, rows);
  Indices base(256);
  std::iota(base.begin(), base.end(), 0);
  const auto first_rows = [&](std::int64_t stretch_rows) {
    Indices order = grow(a, base, {.window_rows = 8, .stretch_rows = stretch_rows});
    CHECK(Permutation(Indices(order)).size() == a.rows);
    order.resize(40);
    std::ranges::sort(order);
    return order;
  };
  const Indices until_cut(base.begin(), base.begin() + 40);
  CHECK(first_rows(128) == until_cut);
  CHECK(first_rows(256) != until_cut);
}

TEST_CASE("fronts that are stopped leave the other rows in base order") {
  const CsrMatrix a = planted(400);
  const Indices base = shuffled_rows(a.rows, 3);
  Watch watch([] { return true; });

  CHECK(grow_windows(a, base, {.window_rows = 8, .stretch_rows = 900}, watch) == base);
}

TEST_CASE("sketches bring equal rows together and rows that share most columns near each other") {
  // Rows of 24 columns in 300 groups of five; one column of each row differs.
  std::vector<Indices> rows;
  std::vector<std::int32_t> group_of;
  for (const std::int32_t row : shuffled_rows(1500, 13)) {
    const std::int32_t group = row / 5;
    Indices cols;
    for (std::int32_t i = 0; i < 23; ++i)
      cols.push_back(static_cast<std::int32_t>(random_bits(group, i) % 90000) / 23 * 23 + i);
    cols.push_back(90000 + row / 2);
    std::ranges::sort(cols);
    rows.push_back(cols);
    group_of.push_back(group);
  }
  const CsrMatrix a = pattern_matrix(1500, 91000, rows);

  const Indices order = order_by_sketches(a);

  CHECK(Permutation(Indices(order)).size() == a.rows);
  int together = 0;
  for (std::size_t i = 1; i < order.size(); ++i)
    together += group_of[order[i]] == group_of[order[i - 1]];
  CHECK(together > 1000);  // of 1200 neighbours in whole groups; in random order 4
  for (const int threads : {1, 2, 16}) {
    const ThreadCount count(threads);
    CHECK(order_by_sketches(a) == order);
  }
  const CsrMatrix equal = pattern_matrix(4, 40, {{7, 9}, {3}, {7, 9}, {3}});
  const Indices pairs = order_by_sketches(equal);
  CHECK((pairs == Indices{0, 2, 1, 3} || pairs == Indices{1, 3, 0, 2}));
}

}  // namespace
}  // namespace tessera
