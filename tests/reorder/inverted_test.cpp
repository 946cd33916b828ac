// Sets of columns, inverted by several threads.
#include "reorder/inverted.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "tests/support.hpp"

namespace tessera {
namespace {

TEST_CASE("an inversion lists the sets that hold each column, in order, on any number of threads") {
  std::mt19937 random(7);
  for (const int sets : {0, 1, 3, 40, 3000}) {
    for (const int cols : {1, 7, 5000}) {
      std::vector<std::vector<std::int32_t>> of_set(sets);
      std::vector<std::vector<std::int32_t>> expected(cols);
      for (int set = 0; set < sets; ++set) {
        std::set<std::int32_t> drawn;
        const int most = static_cast<int>(random() % 4);  // fewer entries than columns, or more
        for (int i = 0; i < most; ++i) drawn.insert(static_cast<int>(random() % cols));
        of_set[set].assign(drawn.begin(), drawn.end());
        for (const std::int32_t col : drawn) expected[col].push_back(set);
      }
      for (const int threads : {1, 2, 16}) {
        CAPTURE(sets);
        CAPTURE(cols);
        CAPTURE(threads);
        const ThreadCount count(threads);

        const Inverted found = invert(sets, cols, [&](std::int32_t set) {
          return std::span<const std::int32_t>(of_set[set]);
        });

        REQUIRE(std::ssize(found.offsets) == cols + 1);
        for (int col = 0; col < cols; ++col)
          CHECK(std::ranges::equal(found.of(col), expected[col]));
      }
    }
  }
}

TEST_CASE("every thread counts, unless the counts are 64 MB and four bytes an entry") {
  CHECK(counting_chunks(2'100'225, 526'000, 16) == 16);  // four entries a column
  CHECK(counting_chunks(100, 1000, 16) == 16);
  CHECK(counting_chunks(100, 1000, 1) == 1);
  CHECK(counting_chunks(0, 0, 4) == 4);
  for (const std::int64_t entries : {0LL, 1LL << 20, 100LL << 20, 1LL << 32})
    for (const std::int64_t cols : {1LL, 1000LL, 1LL << 20, 25LL << 20, 1LL << 30})
      for (const int threads : {1, 16, 256}) {
        CAPTURE(entries);
        CAPTURE(cols);
        CAPTURE(threads);
        const std::int64_t chunks = counting_chunks(entries, cols, threads);
        CHECK((chunks >= 1 && chunks <= threads));
        const std::int64_t bytes = 4 * chunks * cols,
                           most = std::max<std::int64_t>(4 * entries, 64 << 20);
        CHECK((chunks == 1 || bytes <= most));
        CHECK((chunks == threads || bytes + 4 * cols > most));
      }
}

}  // namespace
}  // namespace tessera
