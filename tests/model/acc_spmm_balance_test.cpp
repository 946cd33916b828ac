// Acc-SpMM's balancing: the imbalance of worked windows, the decision, and what is repaired in the
// time of a thread block.
#include <doctest/doctest.h>

#include <numeric>

#include "formats/condense.hpp"
#include "formats/statistics/statistics.hpp"
#include "model/acc_spmm_balance.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using namespace acc_balance;

TEST_CASE("the imbalance is the mean deviation, and above 8 a matrix is rebalanced") {
  const std::vector<std::int64_t> even{3, 3, 3}, sixteen{0, 16}, eighteen{0, 18};

  CHECK(ibd(even) == 0);
  CHECK(ibd(sixteen) == doctest::Approx(8));
  CHECK(ibd(eighteen) == doctest::Approx(9));
  CHECK(ibd({}) == 0);
  CHECK_FALSE(is_imbalanced(ibd(sixteen)));  // exceeds: strictly
  CHECK(is_imbalanced(ibd(eighteen)));
}

TEST_CASE("the imbalance of a matrix is that of its statistics") {
  const CsrMatrix matrix = random_sparse(203, 400, 0.03, 5);
  const Condensed condensed = condense(matrix, kTileRows);
  std::vector<std::int64_t> blocks;
  for (std::int64_t w = 0; w < condensed.windows(); ++w)
    blocks.push_back((condensed.active_cols(w) + kTileCols - 1) / kTileCols);

  CHECK(ibd(blocks) > 0);
  CHECK(ibd(blocks) == doctest::Approx(statistics(matrix).windows[0].ibd));
}

TEST_CASE("both forms of equation 4 have the values worked out by hand") {
  // Slow enough that the times are no tiny numbers, which Approx would not tell apart.
  const Rates rates{.bytes_per_s = 10, .flops = 100};
  const Share share{.tc_blocks = 10, .row_windows = 3};

  const ShareTime printed = printed_time(share, 128, rates);
  const ShareTime repaired = repaired_time(share, 128, rates);

  CHECK(printed.load_b_s == doctest::Approx(8 * 128 * 10 / 10.0));
  CHECK(printed.mma_s == doctest::Approx(8 * 15 * 128 / 100.0));
  CHECK(printed.write_c_s == doctest::Approx(printed.load_b_s));
  CHECK(repaired.load_b_s == doctest::Approx(4 * printed.load_b_s));
  CHECK(repaired.mma_s == doctest::Approx(10 * printed.mma_s));
  CHECK(repaired.write_c_s == doctest::Approx(4 * 8 * 128 * 3 / 10.0));
  CHECK(repaired.total() ==
        doctest::Approx(repaired.load_b_s + repaired.mma_s + repaired.write_c_s));
  // With a TC block per row window, only the bytes and the MMAs differ.
  const Share one_each{.tc_blocks = 10, .row_windows = 10};
  CHECK(repaired_time(one_each, 128, rates).write_c_s == doctest::Approx(4 * printed.write_c_s));
}

TEST_CASE("the kernel's weight of a written window is that of equation 4 on an H100, for any N") {
  const auto weight = [](double bytes_per_s, double flops, std::int64_t n) {
    const Rates rates{bytes_per_s, flops};
    return repaired_time({.tc_blocks = 0, .row_windows = 1}, n, rates).total() /
           repaired_time({.tc_blocks = 1, .row_windows = 0}, n, rates).total();
  };
  // Table 3: an H100, an A800 and an RTX 4090.
  for (const std::int64_t n : {32, 128, 512}) {
    CHECK(weight(3.35e12, 494.7e12, n) == doctest::Approx(kWindowWeight).epsilon(0.001));
    CHECK(weight(1.935e12, 156e12, n) == doctest::Approx(0.96).epsilon(0.01));
    CHECK(weight(1.008e12, 82.6e12, n) == doctest::Approx(0.96).epsilon(0.01));
  }
}

TEST_CASE("weights compare thread blocks and not devices") {
  const std::vector<std::int64_t> blocks{1, 4, 0, 32, 7};
  const auto shares = window_shares(blocks);

  const auto weights = relative_weights(shares, 64, {1e12, 1e14});
  const auto on_faster = relative_weights(shares, 64, {3e12, 3e14});

  REQUIRE(weights.size() == blocks.size());
  CHECK(std::accumulate(weights.begin(), weights.end(), 0.0) == doctest::Approx(5));
  for (std::size_t i = 0; i < weights.size(); ++i)
    CHECK(weights[i] == doctest::Approx(on_faster[i]));
  CHECK(weights[3] > weights[4]);
  CHECK(weights[2] > 0);  // an empty window still writes its zeros
  CHECK(weights[2] < weights[0]);
  CHECK(relative_weights({}, 64, {1e12, 1e14}).empty());
  // As printed, every TC block writes C back, so that the heavy ones weigh more.
  CHECK(relative_weights(shares, 64, {1e12, 1e14}, printed_time)[3] > weights[3]);
}

TEST_CASE("rates are the datasheet's, and a device without TF32 has none") {
  const Rates h200 = rates(find_device("h200"));

  CHECK(h200.bytes_per_s == doctest::Approx(4.8e12));
  CHECK(h200.flops == doctest::Approx(494.7e12));
  CHECK_THROWS_AS(rates(find_device("titan-rtx")), Unsupported);
}

}  // namespace
}  // namespace tessera
