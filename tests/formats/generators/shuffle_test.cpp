// Shuffling moves labels and nothing else.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "formats/base/check.hpp"
#include "formats/generators/shuffle.hpp"
#include "formats/io/source.hpp"
#include "formats/statistics/statistics.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

/// Row lengths in order, or sorted.
std::vector<std::int64_t> lengths(const CsrMatrix& a, bool sorted) {
  std::vector<std::int64_t> all;
  for (std::int32_t row = 0; row < a.rows; ++row) all.push_back(a.row_length(row));
  if (sorted) std::ranges::sort(all);
  return all;
}

std::vector<float> sorted_values(const CsrMatrix& a) {
  std::vector<float> values(a.values.begin(), a.values.end());
  std::ranges::sort(values);
  return values;
}

TEST_CASE("a shuffle keeps the values and the row and column lengths, and moves only its sides") {
  const CsrMatrix a = random_sparse(90, 90, 0.07, 1);
  const CsrMatrix at = transpose(a);

  for (const auto sides : {ShuffledSides::kRows, ShuffledSides::kCols, ShuffledSides::kBoth,
                           ShuffledSides::kSymmetric}) {
    const CsrMatrix b = shuffled(a, sides, 5);
    const CsrMatrix bt = transpose(b);
    CHECK_NOTHROW(validate(b));
    CHECK(sorted_values(a) == sorted_values(b));
    CHECK(lengths(a, true) == lengths(b, true));
    CHECK(lengths(at, true) == lengths(bt, true));
    CHECK((lengths(a, false) == lengths(b, false)) == (sides == ShuffledSides::kCols));
    CHECK((lengths(at, false) == lengths(bt, false)) == (sides == ShuffledSides::kRows));
    CHECK(shuffled(a, sides, 5) == b);
    CHECK_FALSE(shuffled(a, sides, 6) == b);
  }
}

TEST_CASE("only a symmetric shuffle keeps the diagonal and the symmetry") {
  std::vector<std::int64_t> offsets(41);
  std::vector<std::int32_t> cols(40);
  std::iota(offsets.begin(), offsets.end(), 0);
  std::iota(cols.begin(), cols.end(), 0);
  const CsrMatrix diagonal{40, 40, offsets, cols, std::vector<float>(40, 0.5f)};

  CHECK(shuffled(diagonal, ShuffledSides::kSymmetric, 1) == diagonal);
  CHECK(statistics(shuffled(diagonal, ShuffledSides::kBoth, 1)).bandwidth > 0);
  CHECK_THROWS_WITH_AS(shuffled(random_sparse(3, 4, 0.5, 1), ShuffledSides::kSymmetric, 1),
                       "a symmetric shuffle needs a square matrix, not 3 x 4", Unsupported);
  CHECK_NOTHROW(validate(shuffled(random_sparse(3, 4, 0.5, 1), ShuffledSides::kBoth, 1)));
}

TEST_CASE("the shuffle generator takes any matrix by name, even another shuffle") {
  const CsrMatrix a = load_matrix("poisson2d(nx=9, stencil=9)", false).matrix;

  CHECK(load_matrix("shuffle(of=poisson2d(nx=9, stencil=9), sides=rows, seed=4)", false).matrix ==
        shuffled(a, ShuffledSides::kRows, 4));
  CHECK(load_matrix("shuffle(of=shuffle(of=poisson2d(nx=9, stencil=9), seed=2), seed=3)", false)
            .matrix ==
        shuffled(shuffled(a, ShuffledSides::kSymmetric, 2), ShuffledSides::kSymmetric, 3));
}

}  // namespace
}  // namespace tessera
