// Shares of A that thread blocks fetch early: within the arrays, and nearly all of them.

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "kernels/early_fetch.hpp"

namespace tessera {
namespace {

TEST_CASE("shares that thread blocks fetch early lie within the arrays and leave little of them") {
  const std::vector<char> arrays(2);
  for (const std::int64_t first : {0, 100, 4096, 1'000'000})
    for (const std::int64_t second : {0, 127, 300'000, 20'000'000})
      for (const std::int64_t blocks : {1, 7, 1056, 50'000}) {
        CAPTURE(first);
        CAPTURE(second);
        CAPTURE(blocks);
        const EarlyFetch fetch =
            EarlyFetch::of(arrays.data(), first, arrays.data() + 1, second, blocks);
        REQUIRE(fetch.thread_blocks <= blocks);
        const std::int64_t sizes[] = {first, second};
        for (int i = 0; i < EarlyFetch::kArrays; ++i) {
          CHECK(fetch.shares[i] % 128 == 0);
          const std::int64_t fetched = std::int64_t{fetch.shares[i]} * fetch.thread_blocks;
          CHECK(fetched <= sizes[i]);
          CHECK(sizes[i] - fetched < 128 * std::int64_t{fetch.thread_blocks});
        }
        CHECK(fetch.arrays[0] == arrays.data());
        CHECK(fetch.arrays[1] == arrays.data() + 1);
      }
}

TEST_CASE("nothing is fetched early for arrays that would fill the L2, nor without thread blocks") {
  const char array = 0;
  CHECK(EarlyFetch::of(&array, 1'000, &array, 1'000, 0).thread_blocks == 0);
  CHECK(EarlyFetch::of(&array, 20 << 20, &array, 4 << 20, 9).thread_blocks == 9);
  CHECK(EarlyFetch::of(&array, 20 << 20, &array, (4 << 20) + 1, 9).thread_blocks == 0);
}

}  // namespace
}  // namespace tessera
