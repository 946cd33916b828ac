// SpGEMM with rows of C in tables or merged: emulations against the oracle, choices of tables, and
// what is refused.
#include <doctest/doctest.h>

#include <bit>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "kernels/hash_bins.hpp"
#include "kernels/hash_spgemm.hpp"
#include "kernels/speck_spgemm.hpp"
#include "oracle/spgemm_oracle.hpp"
#include "tests/oracle_support.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using namespace hash_rows;

CsrMatrix emulate(const char* kernel, const CsrMatrix& a, const CsrMatrix& b,
                  const Params::Given& given = {}) {
  return Registry<SpgemmKernel>::instance()
      .make(kernel, given)
      ->emulate(a, b, find_generation("hopper"));
}

TEST_CASE("rows made in tables are chains in the order of A's columns, unless atomic") {
  const CsrMatrix a = random_sparse(90, 120, 0.1, 1), b = random_sparse(120, 70, 0.1, 2);
  for (const char* kernel : {"hash_spgemm", "speck_spgemm"}) {
    CAPTURE(kernel);
    CHECK(emulate(kernel, a, b) == spgemm_fp32(a, b));
    CHECK(emulate(kernel, a, b, {{"load", 0.9}, {"probing", "quadratic"}}) == spgemm_fp32(a, b));
    CHECK_THROWS_AS(emulate(kernel, a, b, {{"sums", "atomic"}}), Unsupported);
  }
}

TEST_CASE("a hash table has a slot for every nonzero and the share of free ones asked for") {
  for (const double load : {0.05, 0.3, 0.5, 0.9, 1.0}) {
    const Choice choice{.slots_per_nonzero = 1 / load};
    for (std::int64_t nonzeros = 1; nonzeros < std::int64_t{1} << 31;
         nonzeros += 1 + nonzeros / 7) {
      CAPTURE(load);
      CAPTURE(nonzeros);
      const std::int64_t slots = choice.hash_slots(nonzeros);
      REQUIRE(std::has_single_bit(static_cast<std::uint64_t>(slots)));
      REQUIRE(slots >= nonzeros);
      REQUIRE((slots >= static_cast<std::int64_t>(static_cast<double>(nonzeros) / load) ||
               slots == std::int64_t{1} << 31));
      REQUIRE((slots == slots_of_size(0) ||
               slots / 2 < static_cast<std::int64_t>(static_cast<double>(nonzeros) / load) + 1));
      const int bin = choice.bin({10, nonzeros, nonzeros, std::int64_t{1} << 31});
      REQUIRE(bin == (slots > kMostSlots ? kGlobalBin : kHashBins + size_for(slots)));
      REQUIRE((bin == kGlobalBin || slots_of_size(bin - kHashBins) == slots));
    }
  }
}

TEST_CASE("a row's method is the cheapest one that its table allows") {
  const Choice hash{.slots_per_nonzero = 2};
  const Choice speck{.slots_per_nonzero = 2, .copies = true, .dense_per_slot = 2};

  // a_nonzeros, products, nonzeros, range
  for (const Choice& choice : {hash, speck}) {
    CHECK(choice.bin({5, 0, 0, 0}) == kEmptyBin);
    CHECK(choice.bin({9, 100, 60, 100'000}) == kHashBins + 1);  // 128 slots
    CHECK(choice.bin({9, 9000, 8192, 40'000}) == kHashBins + kSizes - 1);
    CHECK(choice.bin({9, 9000, 8193, 400'000}) == kGlobalBin);
  }
  CHECK(hash.bin({1, 30, 30, 500}) == kHashBins);
  CHECK(speck.bin({1, 30, 30, 500}) == kCopyBin);
  CHECK(hash.bin({9, 100, 60, 256}) == kHashBins + 1);
  CHECK(speck.bin({9, 100, 60, 256}) == kDenseBins + 2);
  CHECK(speck.bin({9, 100, 60, 257}) == kHashBins + 1);
  CHECK(speck.bin({9, 9000, 8193, 16'384}) == kDenseBins + kSizes - 1);
  // Seven windows for nine nonzeros: 63 searches.
  CHECK(speck.bin({9, 40'000, 30'000, 100'000}) == kDenseBins + kSizes - 1);
  CHECK(speck.bin({6000, 40'000, 30'000, 100'000}) == kGlobalBin);
  CHECK(speck.bin({9, 9000, 8192, 100'000}) == kHashBins + kSizes - 1);
}

}  // namespace
}  // namespace tessera
