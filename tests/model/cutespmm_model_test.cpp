// cuTeSpMM's model: the paper's own numbers, the exact form against a count brick by brick, and the
// load balancing of its example.
#include <doctest/doctest.h>

#include <numeric>

#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "formats/statistics/statistics.hpp"
#include "model/cutespmm.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using namespace cutespmm;

double printed_intensity(const Product& product) {
  return operational_intensity(product, printed_transactions(product));
}
double exact_intensity(const Product& product) {
  return operational_intensity(product, exact_transactions(product));
}

TEST_CASE("the printed intensity is 512 alpha FLOP per transaction and 4 alpha per byte") {
  for (const double alpha : {0.0625, 0.125, 0.3, 1.0}) {
    const Product product{.nnz = 12'345, .alpha = alpha, .n = 96};

    const double intensity = printed_intensity(product);

    CHECK(intensity == doctest::Approx(512 * alpha));
    CHECK(per_byte(intensity) == doctest::Approx(4 * alpha));
  }
}

TEST_CASE("with 32 columns per warp A and B take equally many transactions, as in equation 3") {
  const Product product{.nnz = 64'000, .alpha = 0.25, .n = 128};

  const Transactions t = printed_transactions(product);

  CHECK(t.a == doctest::Approx(64'000.0 * 128 / (0.25 * 16 * 32)));
  CHECK(t.b == doctest::Approx(64'000.0 * 128 / (512 * 0.25)));
  CHECK(t.a == doctest::Approx(t.b));
  CHECK(t.total() == doctest::Approx(2 * t.b));
  const Transactions wide = printed_transactions({64'000, 0.25, 1, 128, 64});
  CHECK(wide.a == doctest::Approx(t.a / 2));
  CHECK(wide.b == doctest::Approx(t.b));
}

TEST_CASE("the exact intensity is 585 alpha while a brick's nonzeros fit one transaction") {
  CHECK(exact_intensity({.nnz = 7'000, .alpha = 0.5}) == doctest::Approx(4096.0 / 7 * 0.5));
  CHECK(exact_intensity({.nnz = 7'000, .alpha = 0.1}) == doctest::Approx(4096.0 / 7 * 0.1));
  CHECK(exact_intensity({.nnz = 7'000, .alpha = 0.6}) == doctest::Approx(512 * 0.6));

  // The closed form, with two bricks in a brick column.
  const double alpha = 0.2, warp_cols = 32, beta = 2;
  const double closed =
      2 / ((std::ceil(2 * alpha) + 2) / (64 * alpha * warp_cols) + 1 / (512 * alpha * beta));
  CHECK(exact_intensity({.nnz = 7'000, .alpha = alpha, .beta = beta}) == doctest::Approx(closed));
}

TEST_CASE("more bricks in a brick column spare transactions of B, equation 5") {
  const Transactions one = printed_transactions({.nnz = 5'000, .alpha = 0.4, .beta = 1});
  const Transactions two = printed_transactions({.nnz = 5'000, .alpha = 0.4, .beta = 2});

  CHECK(two.b == doctest::Approx(one.b / 2));
  CHECK(two.a == doctest::Approx(one.a));
}

TEST_CASE("exact transactions are those counted brick by brick where bricks are alike") {
  const std::int64_t bricks = 37, nnz_of_brick = 24, n = 80;  // 3 warps, the last half idle

  const Transactions t = exact_transactions(
      {.nnz = bricks * nnz_of_brick, .alpha = static_cast<double>(nnz_of_brick) / 64, .n = n});

  const std::int64_t lines_of_values = (nnz_of_brick + 31) / 32;
  double a = 0, b = 0;
  for (std::int64_t brick = 0; brick < bricks; ++brick) {
    for (std::int64_t col = 0; col < n; col += 32) a += static_cast<double>(lines_of_values + 2);
    for (int row = 0; row < 4; ++row) b += static_cast<double>(n) * 4 / 128;
  }
  CHECK(t.a == doctest::Approx(a));
  CHECK(t.b == doctest::Approx(b));
}

TEST_CASE("the synergy class depends on alpha alone, and states the paper's other intensities") {
  CHECK(synergy(0.0625).name == "low");
  CHECK(synergy(0.1249).name == "low");
  CHECK(synergy(0.125).name == "medium");
  CHECK(synergy(0.2499).name == "medium");
  CHECK(synergy(0.25).name == "high");
  CHECK(synergy(1).name == "high");
  CHECK(synergy(0).name == "low");

  for (const double alpha : {0.125, 0.25}) {
    const cutespmm::Synergy& s = synergy(alpha);
    CHECK(s.least_intensity == doctest::Approx(printed_intensity({.nnz = 100, .alpha = alpha})));
    CHECK(s.printed_intensity == doctest::Approx(256 * alpha));
  }
  for (const double density : {0.002, 0.02, 0.1, 0.3}) {
    const auto found = statistics(random_sparse(200, 300, density, 11)).synergy;
    CHECK(synergy(found.alpha).name == found.level);
  }
}

TEST_CASE("a density that no brick can have is an error") {
  CHECK_THROWS_AS(printed_transactions({.nnz = 10, .alpha = 0.015}), Error);
  CHECK_THROWS_AS(exact_transactions({.nnz = 10, .alpha = 1.01}), Error);
  CHECK_THROWS_AS(exact_transactions({.nnz = 10, .alpha = 0.5, .n = 0}), Error);
  CHECK_THROWS_AS(num_waves(10, 0), Error);
}

TEST_CASE("the paper's example: one panel of ten blocks among 991 needs no splitting") {
  std::vector<std::int64_t> blocks(991, 1);
  blocks[0] = 10;

  const std::int64_t waves = num_waves(991, 100);
  const auto split = partitions(blocks, waves);

  CHECK(waves == 10);
  CHECK(num_loads(blocks)[0] == doctest::Approx(10 * 991.0 / 1000));
  CHECK(split[0].ratio == doctest::Approx(0.991));
  for (const Partition& p : split) CHECK(p.parts == 1);
  CHECK(partitions(blocks, 1)[0].parts == 10);
  CHECK(partitions(blocks, 4)[0].parts == 3);  // 9.91 / 4
  CHECK(partitions(blocks, 4)[1].parts == 1);
}

TEST_CASE("a panel never has more parts than blocks, and loads add up to the panels") {
  std::vector<std::int64_t> blocks(500, 0);
  for (std::size_t i = 0; i < blocks.size(); i += 31)
    blocks[i] = static_cast<std::int64_t>(random_bits(3, i) % 20);

  const auto loads = num_loads(blocks);
  const auto split = partitions(blocks, 1);

  CHECK(std::accumulate(loads.begin(), loads.end(), 0.0) == doctest::Approx(500));
  int capped = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    CHECK(split[i].parts >= 1);
    CHECK(split[i].parts <= std::max<std::int64_t>(1, blocks[i]));
    capped += blocks[i] > 0 && static_cast<double>(blocks[i]) < split[i].ratio;
    if (split[i].parts < blocks[i])
      CHECK(static_cast<double>(split[i].parts) >= split[i].ratio - 1e-12);
  }
  CHECK(capped > 10);
  CHECK(num_loads(std::vector<std::int64_t>(4, 0)) == std::vector<double>(4, 0));
  CHECK(partitions({}, 0).empty());
}

TEST_CASE("resident thread blocks follow from the tightest limit") {
  Device device;
  device.datasheet = {{"sm_count", {10, "1", "test"}},
                      {"thread_blocks_per_sm", {32, "1", "test"}},
                      {"threads_per_sm", {2048, "1", "test"}},
                      {"shared_per_sm", {100'000, "bytes", "test"}}};

  CHECK(resident_thread_blocks(128, device) == 100);   // 9216 bytes each: 10
  CHECK(resident_thread_blocks(1024, device) == 100);  // in pieces of 128 columns
  device.datasheet["shared_per_sm"].value = 1e6;
  CHECK(resident_thread_blocks(128, device) == 160);  // 128 threads each: 16
  CHECK(resident_thread_blocks(8, device) == 320);    // one warp each: 32 is the limit
}

}  // namespace
}  // namespace tessera
