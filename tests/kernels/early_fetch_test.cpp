// What thread blocks fetch early: within the arrays, nearly all of them, and none of a large B.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/early_fetch.hpp"

namespace tessera {
namespace {

TEST_CASE("thread blocks fetch all of the arrays but their last bytes, each its own part") {
  constexpr std::int64_t kMostShare = 1 << 19;
  const std::vector<char> memory(3);
  for (const std::int64_t first : {0, 100, 4096, 1'000'000})
    for (const std::int64_t second : {0, 127, 300'000, 20'000'000})
      for (const std::int64_t of_b : {0, 640, 4 << 20})
        for (const std::int64_t blocks : {1, 7, 1056, 50'000}) {
          CAPTURE(first);
          CAPTURE(second);
          CAPTURE(of_b);
          CAPTURE(blocks);
          EarlyFetch fetch =
              EarlyFetch::of(memory.data(), first, memory.data() + 1, second, of_b, blocks);
          fetch.set_b(memory.data() + 2, true);
          REQUIRE(fetch.thread_blocks <= blocks);
          const std::int64_t sizes[] = {first, second, of_b};
          for (int i = 0; i < EarlyFetch::kArrays; ++i) {
            const EarlyFetch::Array& array = fetch.arrays[i];
            CHECK(array.at == memory.data() + i);
            CHECK(array.share % 128 == 0);
            std::int64_t fetched = 0;
            for (std::uint32_t block = 0; block < fetch.thread_blocks; ++block) {
              if (array.bytes_of(block) == 0) continue;
              CHECK(std::int64_t{block} * array.share == fetched);
              CHECK(array.bytes_of(block) <= kMostShare);
              CHECK(array.bytes_of(block) % 16 == 0);
              fetched += array.bytes_of(block);
            }
            CHECK(fetched <= sizes[i]);
            CHECK(std::min(sizes[i], kMostShare * fetch.thread_blocks) - fetched < 16);
          }
        }
}

TEST_CASE("nothing is fetched early for arrays that would fill the L2, nor without thread blocks") {
  const char array = 0;
  CHECK(EarlyFetch::of(&array, 1'000, &array, 1'000, 0, 0).thread_blocks == 0);
  CHECK(EarlyFetch::of(&array, 20 << 20, &array, 4 << 20, 0, 9).thread_blocks == 9);
  CHECK(EarlyFetch::of(&array, 20 << 20, &array, (4 << 20) + 1, 0, 9).thread_blocks == 0);
}

TEST_CASE("a B that is large, or not aligned, is not fetched early") {
  const char array = 0;
  const auto bytes_of_b = [&](std::int64_t bytes, bool aligned) {
    EarlyFetch fetch = EarlyFetch::of(&array, 1'000, &array, 1'000, bytes, 9);
    fetch.set_b(&array, aligned);
    return fetch.arrays[EarlyFetch::kOfA].bytes;
  };
  CHECK(bytes_of_b(4 << 20, true) == 4 << 20);
  CHECK(bytes_of_b((4 << 20) + 16, true) == 0);
  CHECK(bytes_of_b(1 << 20, false) == 0);
}

}  // namespace
}  // namespace tessera
