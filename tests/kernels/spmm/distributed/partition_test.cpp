// Parts of a product on several GPUs: balance, the rows of B that travel, the connectivity bound,
// and the renumbered pieces of A, against what brute force finds.
#include "kernels/spmm/distributed/partition.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/source.hpp"
#include "kernels/spmm/distributed/distributed_spmm.hpp"
#include "kernels/spmm_kernel.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

/// The least largest sum of contiguous parts, by trying every cut.
double least_largest(std::span<const double> costs, int parts) {
  double sum = 0;
  for (const double cost : costs) sum += cost;
  if (parts == 1 || costs.empty()) return sum;
  double best = sum, head = 0;
  for (std::size_t cut = 0; cut <= costs.size(); ++cut) {
    best = std::min(best, std::max(head, least_largest(costs.subspan(cut), parts - 1)));
    if (cut < costs.size()) head += costs[cut];
  }
  return best;
}

std::vector<std::int32_t> drawn_parts(std::int32_t rows, int parts, std::uint64_t seed) {
  std::vector<std::int32_t> of_row(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < of_row.size(); ++i)
    of_row[i] = static_cast<std::int32_t>(random_bits(seed, i) % static_cast<unsigned>(parts));
  return of_row;
}

/// The parts that have a nonzero in each column.
std::vector<std::set<std::int32_t>> parts_of_columns(const CsrMatrix& a,
                                                     const RowPartition& partition) {
  std::vector<std::set<std::int32_t>> found(static_cast<std::size_t>(a.cols));
  for (std::int32_t row = 0; row < a.rows; ++row)
    for (const std::int32_t col : a.row_cols(row))
      found[static_cast<std::size_t>(col)].insert(partition.of_row[static_cast<std::size_t>(row)]);
  return found;
}

/// The nonzeros of a part by the names that rows and columns have in A.
std::set<std::tuple<std::int32_t, std::int32_t, float>> nonzeros_of(const PartOfProduct& part,
                                                                    const ExchangeLists& lists) {
  std::set<std::tuple<std::int32_t, std::int32_t, float>> found;
  for (std::int32_t i = 0; i < part.local.rows; ++i)
    for (std::size_t k = 0; k < part.local.row_cols(i).size(); ++k)
      found.emplace(part.rows[static_cast<std::size_t>(i)],
                    part.b_rows[static_cast<std::size_t>(part.local.row_cols(i)[k])],
                    part.local.row_values(i)[k]);
  std::vector<std::int32_t> received;
  for (const PeerRows& block : part.receives) {
    const auto& rows = lists.rows(part.part, block.peer);
    CHECK(block.first == std::ssize(received));
    CHECK(block.count == std::ssize(rows));
    received.insert(received.end(), rows.begin(), rows.end());
  }
  for (std::int32_t i = 0; i < part.remote.rows; ++i) {
    CHECK(part.remote.row_length(i) > 0);
    const auto row = static_cast<std::size_t>(part.remote_rows[static_cast<std::size_t>(i)]);
    for (std::size_t k = 0; k < part.remote.row_cols(i).size(); ++k)
      found.emplace(part.rows[row], received[static_cast<std::size_t>(part.remote.row_cols(i)[k])],
                    part.remote.row_values(i)[k]);
  }
  return found;
}

}  // namespace

TEST_CASE("contiguous parts have the least largest sum of costs that contiguous parts can have") {
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    for (const int parts : {1, 2, 3, 5}) {
      std::vector<double> costs(1 + random_bits(seed, 99) % 9);
      for (std::size_t i = 0; i < costs.size(); ++i)
        costs[i] = std::abs(random_signed(seed, i)) * (i % 4 == 0 ? 8 : 1);
      const auto of_row = contiguous_parts(costs, parts);
      CHECK(std::ranges::is_sorted(of_row));
      std::vector<double> sums(static_cast<std::size_t>(parts));
      for (std::size_t i = 0; i < costs.size(); ++i)
        sums[static_cast<std::size_t>(of_row[i])] += costs[i];
      CHECK(std::ranges::max(sums) == doctest::Approx(least_largest(costs, parts)).epsilon(1e-8));
    }
  CHECK(contiguous_parts({}, 3).empty());
  CHECK(contiguous_parts(std::vector<double>(4, 0.0), 2).size() == 4);
  CHECK_THROWS_WITH_AS(contiguous_parts({}, 0), "A is cut into 0 parts; it needs at least one",
                       Error);
}

TEST_CASE("rows of B travel to the parts that need and do not own them, and no others do") {
  for (const auto& [rows, cols] : {std::pair{40, 40}, std::pair{40, 55}, std::pair{31, 9}})
    for (const int parts : {1, 2, 3, 7}) {
      const CsrMatrix a = random_sparse(rows, cols, 0.08, 5);
      const RowPartition partition = make_partition(a, drawn_parts(rows, parts, 3), parts);
      const ExchangeLists lists = needed_rows(a, partition);
      const auto needs = parts_of_columns(a, partition);
      std::int64_t volume = 0, bound = 0;
      for (std::int32_t col = 0; col < cols; ++col) {
        const auto& those = needs[static_cast<std::size_t>(col)];
        bound += those.empty() ? 0 : std::ssize(those) - 1;
        const std::int32_t owner = partition.of_col[static_cast<std::size_t>(col)];
        for (int part = 0; part < parts; ++part) {
          const bool travels = std::ranges::binary_search(lists.rows(part, owner), col);
          CHECK(travels == (part != owner && those.contains(part)));
          volume += travels;
        }
      }
      CHECK(lists.volume() == volume);
      CHECK(lists.connectivity_bound == bound);
      if (rows == cols)
        CHECK(partition.of_col == partition.of_row);
      else
        CHECK(volume == bound);
    }
}

TEST_CASE("with a full diagonal no more rows of B travel than the connectivity bound") {
  const CsrMatrix a = load_matrix("poisson3d(nx=9)").matrix;
  for (const int parts : {2, 3, 8}) {
    const auto of_row = contiguous_parts(nonzero_costs(a), parts);
    const ExchangeLists lists = needed_rows(a, make_partition(a, of_row, parts));
    CHECK(lists.volume() > 0);
    CHECK(lists.volume() == lists.connectivity_bound);
  }
}

TEST_CASE("the pieces of all parts are A, nonzero for nonzero") {
  for (const auto& [rows, cols] : {std::pair{37, 37}, std::pair{20, 64}}) {
    const CsrMatrix a = random_sparse(rows, cols, 0.15, 8);
    const RowPartition partition = make_partition(a, drawn_parts(rows, 3, 4), 3);
    const ExchangeLists needed = needed_rows(a, partition);
    for (const ExchangeLists& lists : {needed, all_rows(partition, needed)}) {
      std::set<std::tuple<std::int32_t, std::int32_t, float>> found;
      std::vector<std::int64_t> sent(3), received(3);
      for (int number = 0; number < 3; ++number) {
        const PartOfProduct part = split(a, partition, lists, number);
        validate(part.local), validate(part.remote);
        CHECK(part.remote.cols == lists.received(number));
        CHECK(std::ssize(part.sent_rows) == lists.sent(number));
        for (const PeerRows& block : part.sends)
          for (std::int64_t i = 0; i < block.count; ++i)
            CHECK(part.b_rows[static_cast<std::size_t>(
                      part.sent_rows[static_cast<std::size_t>(block.first + i)])] ==
                  lists.rows(block.peer, number)[static_cast<std::size_t>(i)]);
        found.merge(nonzeros_of(part, lists));
      }
      std::set<std::tuple<std::int32_t, std::int32_t, float>> expected;
      for (std::int32_t i = 0; i < a.rows; ++i)
        for (std::size_t k = 0; k < a.row_cols(i).size(); ++k)
          expected.emplace(i, a.row_cols(i)[k], a.row_values(i)[k]);
      CHECK(found == expected);
    }
  }
}

TEST_CASE("a part whose rows of B do not all arrive is refused") {
  const CsrMatrix a = random_sparse(30, 30, 0.2, 6);
  const RowPartition partition = make_partition(a, drawn_parts(30, 2, 1), 2);
  ExchangeLists lists = needed_rows(a, partition);
  split(a, partition, lists, 0);
  REQUIRE(!lists.rows(0, 1).empty());
  lists.rows(0, 1).pop_back();
  CHECK_THROWS_AS(split(a, partition, lists, 0), Error);
}

TEST_CASE("a partition of another size, or into parts that are not there, is refused") {
  const CsrMatrix a = random_sparse(8, 8, 0.5, 1);
  CHECK_THROWS_WITH_AS(make_partition(a, {0, 1}, 2), "the partition has 2 rows, but A has 8",
                       Error);
  CHECK_THROWS_WITH_AS(make_partition(a, {0, 1, 0, 2, 0, 1, 0, 1}, 2),
                       "row 3 is in part 2, outside [0, 2)", Error);
}

TEST_CASE("by time, rows that share columns cost less than rows that do not") {
  // 512 rows with the same 16 columns each, then 512 with 16 random ones.
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> indices;
  for (std::int32_t row = 0; row < 1024; ++row) {
    std::set<std::int32_t> cols;
    for (std::uint64_t k = 0; std::ssize(cols) < 16; ++k)
      cols.insert(row < 512 ? static_cast<std::int32_t>(k)
                            : static_cast<std::int32_t>(random_bits(7, 1000u * row + k) % 1024));
    indices.insert(indices.end(), cols.begin(), cols.end());
    offsets.push_back(std::ssize(indices));
  }
  const CsrMatrix a{1024, 1024, offsets, indices, random_dense(1, std::ssize(indices), 2).values};
  const auto& kernels = Registry<SpmmKernel>::instance();
  const auto costs = time_costs(a, 128, "tessera_spmm", kernels.resolve("tessera_spmm", {}));
  CHECK(costs[0] > 0);
  CHECK(costs[600] > 2 * costs[0]);
  CHECK(costs[0] == doctest::Approx(costs[511]));
  const auto of_row = contiguous_parts(costs, 2);
  CHECK(std::ranges::count(of_row, 0) > 600);
  CHECK(std::ranges::count(contiguous_parts(nonzero_costs(a), 2), 0) == 512);
  CHECK_THROWS_WITH_AS(time_costs(a, 128, "csr_spmm", kernels.resolve("csr_spmm", {})),
                       "there is no formula for the time of csr_spmm", Unsupported);
}

TEST_CASE("all of B travels where gathering most of its rows would take longer") {
  const CsrMatrix band = load_matrix("band(n=4000, bandwidth=3)").matrix;
  // A few rows of B are not needed, so that the others do not follow each other and are gathered.
  const CsrMatrix full = random_sparse(600, 600, 0.015, 2);
  const auto exchange_of = [](const CsrMatrix& a, std::optional<Exchange> given = {}) {
    return distribute(a, 128, {.parts = 2, .kernel = "csr_spmm", .exchange = given});
  };
  CHECK(exchange_of(band).exchange == Exchange::kNeeded);
  const Distribution chosen = exchange_of(full);
  CHECK(chosen.exchange == Exchange::kReplicated);
  CHECK(chosen.replicated_us < chosen.needed_us);
  CHECK(chosen.travelling.volume() == 600);
  CHECK(chosen.bytes_exchanged() == 600 * 512);
  CHECK(chosen.bound_bytes() == chosen.needed.connectivity_bound * 512);
  CHECK(exchange_of(full, Exchange::kNeeded).exchange == Exchange::kNeeded);
  CHECK(exchange_of(full, Exchange::kNeeded).reason.ends_with("; the choice was given"));
}

TEST_CASE("bytes between hosts are those of the network") {
  const CsrMatrix a = random_sparse(64, 64, 0.5, 3);
  const RowPartition partition = make_partition(a, contiguous_parts(nonzero_costs(a), 4), 4);
  const ExchangeLists lists = needed_rows(a, partition);
  const ExchangeBytes bytes = bytes_of_part(lists, 1, 100, true, 2);
  CHECK(bytes.link_sent == 100 * std::ssize(lists.rows(0, 1)));
  CHECK(bytes.network_sent ==
        100 * std::ssize(lists.rows(2, 1)) + 100 * std::ssize(lists.rows(3, 1)));
  CHECK(bytes.link_received == 100 * std::ssize(lists.rows(1, 0)));
  const ExchangeRates rates{
      .latency_us = 10, .link_gb_per_s = 100, .network_gb_per_s = 10, .copy_gb_per_s = 1000};
  CHECK(exchange_us(rates, {}) == 0);
  CHECK(exchange_us(rates, {.link_sent = 1e6, .link_received = 2e6}) == doctest::Approx(30));
  CHECK(exchange_us(rates, {.link_sent = 1e6, .network_received = 1e6, .gathered = 1e6}) ==
        doctest::Approx(10 + 2 + 100));
}

}  // namespace tessera
