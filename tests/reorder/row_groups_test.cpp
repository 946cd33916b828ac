// The parts that orders of rows are built from: groups of equal rows, the sets that hold
// each column, sorting with all threads.
#include "reorder/row_groups.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "formats/base/parallel_sort.hpp"
#include "formats/base/random.hpp"
#include "reorder/inverted.hpp"
#include "reorder/row_pattern.hpp"
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

TEST_CASE("columns are numbered in the order in which rows meet them, on any number of threads") {
  const CsrMatrix a = random_sparse(9000, 5000, 0.001, 8);  // in several pieces
  Indices rows(a.rows);
  std::iota(rows.begin(), rows.end(), 0);
  for (std::size_t i = rows.size() - 1; i > 0; --i)
    std::swap(rows[i], rows[random_bits(9, i) % (i + 1)]);
  rows.resize(7000);  // without some of them
  std::map<std::int32_t, std::int32_t> numbers;
  Indices expected;
  for (const std::int32_t row : rows)
    for (const std::int32_t col : a.row_cols(row))
      expected.push_back(
          numbers.emplace(col, static_cast<std::int32_t>(numbers.size())).first->second);
  for (const int threads : {1, 2, 5}) {
    const ThreadCount count(threads);

    const RowPattern found = number_columns(a, rows);

    CHECK(found.rows == 7000);
    CHECK(found.cols == std::ssize(numbers));
    CHECK(std::ranges::equal(found.col_indices, expected));
    std::int32_t mistakes = 0;
    for (std::int32_t i = 0; i < found.rows; ++i)
      mistakes += found.row_length(i) != a.row_length(rows[i]);
    CHECK(mistakes == 0);
    CHECK(found.row_offsets.front() == 0);
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
