// SpGEMM kernels that use tables or merge rows: emulations against the oracle, the choice of
// tables, and refused operands.
#include <doctest/doctest.h>

#include <bit>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spgemm/hash/hash_bins.hpp"
#include "kernels/spgemm/hash/hash_spgemm.hpp"
#include "kernels/spgemm/hash/speck_spgemm.hpp"
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

TEST_CASE("table kernels add products in the order of A's columns, unless sums are atomic") {
  const CsrMatrix a = random_sparse(90, 120, 0.1, 1), b = random_sparse(120, 70, 0.1, 2);
  for (const char* kernel : {"hash_spgemm", "speck_spgemm"}) {
    CAPTURE(kernel);
    CHECK(emulate(kernel, a, b) == spgemm_fp32(a, b));
    CHECK(emulate(kernel, a, b, {{"load", 0.9}, {"probing", "quadratic"}}) == spgemm_fp32(a, b));
    CHECK_THROWS_AS(emulate(kernel, a, b, {{"sums", "atomic"}}), Unsupported);
  }
}

TEST_CASE("a hash table has a slot for every nonzero and keeps to its load factor") {
  for (const double load : {0.05, 0.3, 0.5, 0.9, 1.0}) {
    const MethodChoice choice{.slots_per_nonzero = 1 / load};
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

TEST_CASE("the method of a row is the cheapest one that its table allows") {
  const MethodChoice hash{.slots_per_nonzero = 2};
  const MethodChoice speck{.slots_per_nonzero = 2, .copies = true, .dense_per_slot = 2};

  // a_nonzeros, products, nonzeros, range
  for (const MethodChoice& choice : {hash, speck}) {
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
  // Seven windows of nine nonzeros each take 63 searches.
  CHECK(speck.bin({9, 40'000, 30'000, 100'000}) == kDenseBins + kSizes - 1);
  CHECK(speck.bin({6000, 40'000, 30'000, 100'000}) == kGlobalBin);
  CHECK(speck.bin({9, 9000, 8192, 100'000}) == kHashBins + kSizes - 1);
}

/// Rows with none, some and all of 600 nonzeros, which a width of 8 merges in three levels.
struct LongRows {
  CsrMatrix a = [] {
    const CsrMatrix some = random_sparse(40, 600, 0.3, 3), few = random_sparse(40, 600, 0.01, 4);
    std::vector<std::int64_t> offsets{0};
    std::vector<std::int32_t> cols;
    std::vector<float> values;
    for (int row = 0; row < 40; ++row) {
      const CsrMatrix& from = row % 3 == 0 ? some : few;
      const auto row_cols = from.row_cols(row);
      const auto row_values = from.row_values(row);
      if (row % 7 != 0) {
        cols.insert(cols.end(), row_cols.begin(), row_cols.end());
        values.insert(values.end(), row_values.begin(), row_values.end());
      }
      if (row == 21)
        for (int col = 0; col < 600; ++col) {
          cols.push_back(col);
          values.push_back(0.25f * static_cast<float>(col % 9) - 1.1f);
        }
      offsets.push_back(std::ssize(cols));
    }
    return csr(40, 600, offsets, cols, values);
  }();
  CsrMatrix b = random_sparse(600, 330, 0.05, 5);
};

TEST_CASE("merge_spgemm is right at any width, for rows of many levels and for empty rows") {
  const LongRows x;
  for (const std::int64_t width : {2, 4, 8, 16, 32}) {
    CAPTURE(width);
    const CsrMatrix c = emulate("merge_spgemm", x.a, x.b, {{"width", width}});
    validate(c);
    const SpgemmErrors errors = compare_spgemm(x.a, x.b, c, fp32_bound(x.a));
    CHECK(errors.values.ok());
    CHECK(errors.same_pattern());
  }
}

TEST_CASE("merge_spgemm adds values in a tree over the lanes, and pieces first") {
  // Five products for one cell: 2^24 and four ones. 2^24 + 1 is 2^24 in FP32, 2^24 + 2 is not.
  const CsrMatrix b = csr(5, 1, {0, 1, 2, 3, 4, 5}, {0, 0, 0, 0, 0}, {0x1p22f, 0.5f, 2, -1, 0.25f});
  const CsrMatrix a = csr(1, 5, {0, 5}, {0, 1, 2, 3, 4}, {4, 2, 0.5f, -1, 4});
  const auto sum = [&](std::int64_t width) {
    return emulate("merge_spgemm", a, b, {{"width", width}}).values[0];
  };

  CHECK(sum(32) == 0x1p24f + 2);  // eight lanes: ((x0 + x4) + x2) + (x1 + x3)
  CHECK(sum(8) == 0x1p24f + 2);
  CHECK(sum(4) == 0x1p24f + 4);  // pieces of four and one: ((x0 + x2) + (x1 + x3)) + x4
  CHECK(sum(2) == 0x1p24f + 4);  // ((x0 + x1) + (x2 + x3)) + x4
  CHECK(spgemm_fp32(a, b).values[0] == 0x1p24f);
}

TEST_CASE("table and merge kernels take empty matrices and any shape") {
  for (const char* kernel : {"hash_spgemm", "speck_spgemm", "merge_spgemm"})
    for (const std::int32_t rows : {0, 1, 70})
      for (const std::int32_t inner : {0, 5})
        for (const std::int32_t cols : {0, 1, 70}) {
          const CsrMatrix a = random_sparse(rows, inner, 0.3, 6);
          const CsrMatrix b = random_sparse(inner, cols, 0.3, 7);
          const CsrMatrix c = emulate(kernel, a, b);
          const SpgemmErrors errors = compare_spgemm(a, b, c, fp32_bound(a));
          CHECK(errors.values.ok());
          CHECK(errors.same_pattern());
        }
  const CsrMatrix a = random_sparse(4, 3, 0.5, 8);
  for (const char* kernel : {"hash_spgemm", "speck_spgemm", "merge_spgemm"})
    CHECK_THROWS_WITH_AS(emulate(kernel, a, a), "A has 3 columns and B 4 rows", Error);
}

}  // namespace
}  // namespace tessera
