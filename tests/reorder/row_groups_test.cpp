// The parts that orders of rows are built from: groups of equal rows, the sets that hold
// each column, sorting with all threads.
#include "reorder/row_groups.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "formats/base/parallel_sort.hpp"
#include "formats/base/random.hpp"
#include "reorder/inverted.hpp"
#include "tests/reorder_support.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using Indices = std::vector<std::int32_t>;

TEST_CASE("rows with the same columns are one group, numbered by its first row in base order") {
  const CsrMatrix a = pattern_matrix(6, 5, {{0, 1}, {2}, {0, 1}, {}, {2}, {0, 1, 2}});
  const Indices base{4, 2, 5, 0, 3, 1};

  const RowGroups groups = group_rows(a, base, true);

  CHECK(groups.offsets == Indices{0, 2, 4, 5, 6});
  CHECK(groups.rows == Indices{4, 1, 2, 0, 5, 3});
  const RowGroups apart = group_rows(a, base, false);
  CHECK(apart.offsets == Indices{0, 1, 2, 3, 4, 5, 6});
  CHECK(apart.rows == base);
  CHECK(group_rows(CsrMatrix{}, {}, true).size() == 0);
}

TEST_CASE(
    "the sets that hold a column are the transpose of the pattern, at any number of threads") {
  const CsrMatrix a = random_sparse(400, 30, 0.3, 7);
  const CsrMatrix transposed = transpose(a);
  for (const int threads : {1, 3}) {
    const ThreadCount count(threads);

    const Inverted holders =
        invert(a.rows, a.cols, [&](std::int32_t row) { return a.row_cols(row); });

    for (std::int32_t col = 0; col < a.cols; ++col)
      CHECK(std::ranges::equal(holders.of(col), transposed.row_cols(col)));
  }
}

TEST_CASE("the nearest entries of a list are those around a value, fewer at its ends") {
  const Indices list{1, 3, 5, 7, 9, 11};
  const auto around = [&](std::int32_t centre, std::int32_t most) {
    const auto found = nearest(list, centre, most);
    return Indices(found.begin(), found.end());
  };

  CHECK(around(7, 2) == Indices{3, 5, 7, 9});
  CHECK(around(0, 2) == Indices{1, 3});
  CHECK(around(12, 1) == Indices{11});
  CHECK(around(5, 3) == list);
}

TEST_CASE("sorting with many threads gives a sorted array") {
  std::vector<std::uint64_t> values(300'001);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = random_bits(11, i);
  std::vector<std::uint64_t> expected = values;
  std::ranges::sort(expected);
  for (const int threads : {1, 2, 3, 16}) {
    const ThreadCount count(threads);
    std::vector<std::uint64_t> sorted = values;

    parallel_sort(sorted);

    CHECK(sorted == expected);
  }
}

}  // namespace
}  // namespace tessera
