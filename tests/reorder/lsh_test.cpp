// The orders by MinHash: pairs against all pairs, clusters by hand, lsh64, dtc_lsh and sgt.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "formats/base/registry.hpp"
#include "formats/io/source.hpp"
#include "reorder/minhash.hpp"
#include "reorder/similarity_clusters.hpp"
#include "tests/reorder_support.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

ColumnSets rows_of(const CsrMatrix& matrix) { return {matrix.row_offsets, matrix.col_indices}; }

Permutation order_by(const std::string& name, const CsrMatrix& matrix,
                     const Params::Given& given = {}) {
  const Order order = Registry<Reordering>::instance().make(name, given)->order(matrix);
  CHECK(!order.cols);
  return order.rows;
}

/// Clusters of the pairs between rows, as lists.
std::vector<std::vector<std::int32_t>> clusters_of(const CsrMatrix& matrix,
                                                   const std::vector<SimilarPair>& pairs,
                                                   std::int32_t full) {
  Watch watch;
  const Clusters clusters = cluster_pairs(rows_of(matrix), pairs, full, watch);
  std::vector<std::vector<std::int32_t>> lists;
  for (std::int32_t i = 0; i < clusters.size(); ++i)
    lists.emplace_back(clusters.of(i).begin(), clusters.of(i).end());
  return lists;
}

TEST_CASE("the Jaccard similarity is common columns over all columns at any lengths") {
  std::vector<std::int32_t> even, few{4, 5, 40, 4000};
  for (std::int32_t col = 0; col < 400; col += 2) even.push_back(col);

  CHECK(jaccard_similarity(even, even) == 1);
  CHECK(jaccard_similarity(few, even) == doctest::Approx(2.0 / 202));  // 4 and 40, by search
  CHECK(jaccard_similarity(even, few) == jaccard_similarity(few, even));
  CHECK(jaccard_similarity(std::span(even).first(3), few) == doctest::Approx(1.0 / 6));
  CHECK(jaccard_similarity({}, few) == 0);
  CHECK(jaccard_similarity({}, {}) == 0);
}

TEST_CASE("the bands for a threshold are those of datasketch") {
  // Its documentation's areas with equal weights, integrated apart from this code.
  const Banding low = banding(128, 0.2), high = banding(128, 0.3), one = banding(1, 0.2);

  CHECK(std::pair(low.bands, low.rows) == std::pair(28, 2));
  CHECK(std::pair(high.bands, high.rows) == std::pair(37, 3));
  CHECK(std::pair(one.bands, one.rows) == std::pair(1, 1));
}

TEST_CASE("similar pairs have their exact similarity, and few of them are missed") {
  const CsrMatrix a = shuffled_communities();
  const ColumnSets rows = rows_of(a);
  const LshChoices choices{.banding = banding(128, 0.2), .reach = 64, .partners = 32};
  Watch watch;

  const std::vector<SimilarPair> pairs = similar_pairs(rows, choices, watch);

  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto& [similarity, first, second] = pairs[i];
    const bool in_order =
        i == 0 || std::tuple(-pairs[i - 1].similarity, pairs[i - 1].first, pairs[i - 1].second) <
                      std::tuple(-similarity, first, second);
    if (first < second && in_order &&
        similarity == jaccard_similarity(rows.of(first), rows.of(second)))
      continue;
    FAIL("pair ", i);
  }
  std::int64_t alike = 0;
  for (std::int32_t i = 0; i < rows.size(); ++i)
    for (std::int32_t j = i + 1; j < rows.size(); ++j)
      alike += jaccard_similarity(rows.of(i), rows.of(j)) >= 0.4f;
  const auto found = std::ranges::count_if(pairs, [](auto& p) { return p.similarity >= 0.4f; });
  REQUIRE(alike > 1000);
  CHECK(found <= alike);
  CHECK(static_cast<double>(found) > 0.97 * static_cast<double>(alike));  // 1 - 0.84^28 = 0.992
}

TEST_CASE("a set keeps its most similar partners, and a stopped search finds none") {
  // Row 0 is like row 1 at 3/4, like rows 2 and 3 at 2/4 and 1/2.
  const CsrMatrix a = pattern_matrix(5, 8, {{0, 1, 2, 3}, {0, 1, 2}, {0, 1}, {2, 3, 7}, {}});
  const LshChoices one_partner{.banding = {64, 1}, .partners = 1};
  Watch open, stopped([] { return true; });

  const auto pairs = similar_pairs(rows_of(a), one_partner, open);
  const auto none = similar_pairs(rows_of(a), one_partner, stopped);

  // 0 and 1 choose each other, 2 chooses 1 (2/3), 3 chooses 0 (2/5).
  REQUIRE(pairs.size() == 3);
  CHECK(std::pair(pairs[0].first, pairs[0].second) == std::pair(0, 1));
  CHECK(std::pair(pairs[1].first, pairs[1].second) == std::pair(1, 2));
  CHECK(std::pair(pairs[2].first, pairs[2].second) == std::pair(0, 3));
  CHECK(none.empty());
}

TEST_CASE("clusters merge from the most similar pair on, and take part until they are full") {
  const CsrMatrix a = pattern_matrix(6, 9, {{0, 1}, {0, 1}, {0, 2}, {5, 6}, {5, 6}, {8}});
  const std::vector<SimilarPair> pairs{
      {1, 0, 1}, {1, 3, 4}, {0.5f, 2, 3}, {0.3f, 1, 2}, {0.1f, 4, 5}};

  // Full at 2: nothing joins 0-1 and 3-4.
  CHECK(clusters_of(a, pairs, 2) ==
        std::vector<std::vector<std::int32_t>>{{0, 1}, {2}, {3, 4}, {5}});
  // Full at 4: 2 joins 3-4 by its own pair; 1-2 then waits as 0-3, whose rows share nothing, and
  // 4-5 as 3-5 behind it: 0-3 overshoots to 5 rows, and 5 stays alone.
  CHECK(clusters_of(a, pairs, 4) == std::vector<std::vector<std::int32_t>>{{0, 1, 2, 3, 4}, {5}});
  CHECK(clusters_of(a, {}, 4).size() == 6);
}

TEST_CASE("a pair whose clusters grew waits with the similarity of their roots") {
  // 1 joins 0, so 1-2 (0.6 as given) waits as 0-2: 1/3, below 2-3.
  const CsrMatrix a = pattern_matrix(4, 9, {{0, 1}, {0, 1}, {1, 2}, {2, 7}});
  const std::vector<SimilarPair> pairs{{1, 0, 1}, {0.6f, 1, 2}, {0.4f, 2, 3}};

  CHECK(clusters_of(a, pairs, 2) == std::vector<std::vector<std::int32_t>>{{0, 1}, {2, 3}});
  CHECK(clusters_of(a, pairs, 3) == std::vector<std::vector<std::int32_t>>{{0, 1, 2, 3}});
  CHECK(clusters_of(a, {pairs[0], pairs[1]}, 3) ==
        std::vector<std::vector<std::int32_t>>{{0, 1, 2}, {3}});
}

TEST_CASE("lsh64 puts rows with the same columns together, clusters by their first row") {
  const CsrMatrix a =
      pattern_matrix(6, 30, {{0, 1, 2, 3}, {10, 11}, {0, 1, 2, 3}, {}, {20}, {10, 11}});

  CHECK(order_by("lsh64", a, {{"cluster_rows", std::int64_t{2}}}) ==
        Permutation({0, 2, 1, 5, 3, 4}));
}

TEST_CASE("dtc_lsh clusters rows, and on the second level the clusters") {
  const std::vector<std::int32_t> one{0, 1, 2, 3}, other{50, 51, 52, 53}, like_one{0, 1, 2, 3, 4};
  const CsrMatrix a = pattern_matrix(6, 60, {one, other, like_one, one, other, like_one});
  const auto levels = [](std::int64_t count) {
    return Params::Given{{"cluster_rows", std::int64_t{2}}, {"levels", count}};
  };

  CHECK(order_by("dtc_lsh", a, levels(1)) == Permutation({0, 3, 1, 4, 2, 5}));
  CHECK(order_by("dtc_lsh", a, levels(2)) == Permutation({0, 3, 2, 5, 1, 4}));
}

TEST_CASE("a cluster of dtc_lsh's second level is full at the given number of windows") {
  // Windows of two equal rows, 0 0, 1 1 and 2 2; 0 and 2 are alike, and 1 is like 2.
  const std::vector<std::int32_t> zero{0, 1, 2, 3}, one{3, 4, 5, 6, 7}, two{0, 1, 2, 3, 4};
  const CsrMatrix a = pattern_matrix(6, 60, {zero, one, two, zero, one, two});
  const auto full = [](std::int64_t windows) {
    return Params::Given{{"cluster_rows", std::int64_t{2}}, {"cluster_clusters", windows}};
  };

  CHECK(order_by("dtc_lsh", a, full(1)) == Permutation({0, 3, 1, 4, 2, 5}));
  CHECK(order_by("dtc_lsh", a, full(2)) == Permutation({0, 3, 2, 5, 1, 4}));
}

TEST_CASE("a higher threshold of MinHash leaves rows apart that are less alike") {
  // Rows 0 and 2 share a third of their columns, rows 1 and 3 all.
  std::vector<std::int32_t> all(40), low, high;
  for (std::int32_t col = 0; col < 40; ++col) {
    all[col] = 100 + col;
    if (col < 20) low.push_back(col);
    if (col >= 10 && col < 30) high.push_back(col);
  }
  const CsrMatrix a = pattern_matrix(4, 140, {low, all, high, all});
  const auto at = [&](double threshold) {
    return order_by("lsh64", a, {{"hashes", std::int64_t{128}}, {"threshold", threshold}});
  };

  CHECK(at(0.2) == Permutation({0, 2, 1, 3}));
  CHECK(at(0.9) == Permutation({0, 1, 3, 2}));
}

TEST_CASE("the second level of dtc_lsh brings windows together that read the same columns") {
  const CsrMatrix a =
      load_matrix("shuffle(of=sbm(n=4096,blocks=64,degree_in=16,degree_out=2))", false).matrix;
  const auto levels = [&](std::int64_t count) {
    return mean_nnz_tc(a, "dtc_lsh", {{"levels", count}}, 64);
  };

  CHECK(levels(2) > 1.08 * levels(1));
}

TEST_CASE("lsh64 and dtc_lsh find planted communities again") {
  const CsrMatrix a = shuffled_communities();
  const double before = mean_nnz_tc(a, "none");

  const double lsh = mean_nnz_tc(a, "lsh64"), dtc = mean_nnz_tc(a, "dtc_lsh");

  CHECK(lsh > 1.15 * before);
  CHECK(dtc > 1.35 * before);
  CHECK(dtc > 1.1 * lsh);
}

TEST_CASE("the MinHash orders handle awkward shapes and hubs") {
  for (const char* name : {"lsh64", "dtc_lsh"}) {
    CAPTURE(name);
    check_awkward_shapes(name);
    check_hub(name);
  }
}

TEST_CASE("the MinHash orders depend on their seed, not on threads, and end when stopped") {
  const CsrMatrix a = shuffled_communities();
  for (const char* name : {"lsh64", "dtc_lsh"}) {
    CAPTURE(name);
    const Params::Given two{{"seed", std::int64_t{2}}}, at_once{{"time_limit_s", 1e-9}};
    const auto on = [&](int threads) {
      const ThreadCount count(threads);
      return order_by(name, a);
    };

    const Permutation one = on(1);

    CHECK(on(3) == one);
    CHECK(order_by(name, a, two) != one);
    CHECK(order_by(name, a, at_once).is_identity());
    CHECK(!one.is_identity());
  }
}

TEST_CASE("a stopped MinHash order uses the pairs found so far") {
  const CsrMatrix a = shuffled_communities();
  const ThreadCount one(1);
  for (const char* name : {"lsh64", "dtc_lsh"}) {
    CAPTURE(std::string(name));
    int asked = 0;
    Watch watch([&] { return ++asked > 900; });  // of some 2000 times when nothing stops it

    const Order order = Registry<Reordering>::instance().make(name)->order(a, watch);

    CHECK(watch.stopped());
    CHECK(order.rows != order_by(name, a));
    CHECK(statistics(apply(a, order)).windows[0].mean_nnz_tc > 1.05 * mean_nnz_tc(a, "none"));
  }
}

TEST_CASE("lsh64 takes a number of bands and refuses more bands than hashes") {
  const CsrMatrix a = shuffled_communities();
  const auto bands = [](std::int64_t count) {
    return Params::Given{{"hashes", std::int64_t{32}}, {"bands", count}};
  };

  CHECK(mean_nnz_tc(a, "lsh64", bands(16)) > 1.05 * mean_nnz_tc(a, "lsh64", bands(1)));
  CHECK_THROWS_AS(order_by("lsh64", a, bands(33)), Error);
}

TEST_CASE("sgt moves no row, so its MeanNNZTC is that of the file") {
  const CsrMatrix a = shuffled_communities();

  CHECK(order_by("sgt", a).is_identity());
  for (const int height : {8, 16})
    CHECK(mean_nnz_tc(a, "sgt", {}, height) == mean_nnz_tc(a, "none", {}, height));
  CHECK(mean_nnz_tc(a, "sgt") != mean_nnz_tc(a, "dtc_lsh"));
  check_awkward_shapes("sgt");
}

}  // namespace
}  // namespace tessera
