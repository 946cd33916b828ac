// Steps of the order `matched` against what they are to do, counted in the plainest way.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "reorder/matched_partners.hpp"
#include "reorder/matched_threads.hpp"
#include "reorder/matched_windows.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using matched::Key;

std::uint32_t columns_of(const CsrMatrix& a, const std::vector<std::int32_t>& order, int window) {
  std::set<std::int32_t> columns;
  for (int i = 8 * window; i < 8 * window + 8; ++i)
    for (std::int64_t k = a.row_offsets[order[i]]; k < a.row_offsets[order[i] + 1]; ++k)
      columns.insert(a.col_indices[k]);
  return static_cast<std::uint32_t>(columns.size());
}

TEST_CASE("two windows have changed rows when no other swap leaves them cheaper") {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    const CsrMatrix a = random_sparse(16, 60, 0.25, seed);
    std::vector<std::uint32_t> offsets(a.row_offsets.begin(), a.row_offsets.end());
    std::vector<std::uint32_t> col_offsets, places(a.col_indices.size());
    std::vector<std::int32_t> holders;
    for (std::int32_t col = 0; col <= a.cols; ++col) {
      col_offsets.push_back(static_cast<std::uint32_t>(holders.size()));
      for (std::int32_t row = 0; row < a.rows; ++row)
        for (std::int64_t k = a.row_offsets[row]; k < a.row_offsets[row + 1]; ++k)
          if (a.col_indices[k] == col) {
            places[k] = static_cast<std::uint32_t>(holders.size());
            holders.push_back(row);
          }
    }
    std::vector<std::int32_t> order(16), swapped(16, -7);
    std::iota(order.begin(), order.end(), 0);
    const std::vector<std::int32_t> mates = {1, 0};
    std::vector<std::uint16_t> masks(a.col_indices.size(), 0xabcd);
    std::vector<std::uint32_t> columns(2, 12345);
    const matched::BlockCost cost{{0, 300, 500, 650, 750, 850, 920, 980}};
    const matched::SwapRows step{{a.rows, offsets.data(), a.col_indices.data(), col_offsets.data(),
                                  holders.data(), places.data()},
                                 mates.data(),
                                 cost,
                                 order.data(),
                                 masks.data(),
                                 swapped.data(),
                                 columns.data()};
    matched::Scratch scratch;
    scratch.shared.assign(matched::SwapRows::kSharedBytes / sizeof(Key), 0x5a5a5a5a5a5a5a5a);

    for (const std::int64_t window : {0, 1}) step(matched::Alone(scratch), window);

    CHECK(std::set<std::int32_t>(swapped.begin(), swapped.end()).size() == 16);
    CHECK(columns[0] == columns_of(a, swapped, 0));
    CHECK(columns[1] == columns_of(a, swapped, 1));
    const auto cost_of = [&](const std::vector<std::int32_t>& rows) {
      return cost(columns_of(a, rows, 0)) + cost(columns_of(a, rows, 1));
    };
    CHECK(cost_of(swapped) < cost_of(order));
    for (int i = 0; i < 8; ++i)
      for (int j = 8; j < 16; ++j) {
        std::vector<std::int32_t> after = swapped;
        std::swap(after[i], after[j]);
        CHECK(cost_of(after) >= cost_of(swapped));
      }
  }
}

TEST_CASE("no candidate is worth as much with less in common than the least for a worth") {
  const std::vector<std::uint32_t> columns = {1, 2, 7, 40, 1000, 3000000, 0x7fffffff};
  for (std::int32_t own = 0; own < 7; ++own) {
    const matched::Judge judge{columns.data(), own};
    for (std::int32_t other = 0; other < 7; ++other)
      for (const std::uint32_t common : {1u, 2u, 5u, 39u, 1000u, 1048575u, 1048576u, 2999999u}) {
        const std::uint64_t a = columns[own], b = columns[other];
        const std::uint64_t counted = std::min({std::uint64_t{common}, a, b});
        const std::uint32_t worth = judge.worth(common, columns[other]);
        CHECK(worth == 4096 * counted / (a + b - counted));
        CHECK(judge.is_worth(common, columns[other], worth));
        CHECK_FALSE(judge.is_worth(common, columns[other], worth + 1));
        CHECK(judge.least_common(worth) <= common);
        if (worth > 0 && other == own && counted == a) CHECK(judge.least_common(worth) == a);
      }
  }
  const matched::Judge plain{nullptr, 3};
  CHECK(plain.worth(17, 5) == 17);
  CHECK(plain.is_worth(17, 5, 17));
  CHECK_FALSE(plain.is_worth(17, 5, 18));
  CHECK(plain.least_common(17) == 17);
  CHECK(plain.least_common(0) == 1);
}

TEST_CASE("the best keys are kept in descending order") {
  matched::BestKeys best;
  for (const Key key : {5, 9, 1, 7, 3, 8, 2, 6}) best.add(key);

  CHECK(std::equal(best.keys, best.keys + matched::kPartners,
                   std::vector<Key>{9, 8, 7, 6, 5, 3}.begin()));
  best.remove_first();
  CHECK(best.keys[0] == 8);
  CHECK(best.keys[matched::kPartners - 1] == 0);
}

}  // namespace
}  // namespace tessera
