// TCA-SpMM's model: its worked rows and ratios, the compact formula against the cases, and that 8 x
// 8 condensed tiles never need more MMAs where N is a multiple of 16.
#include <doctest/doctest.h>

#include <numeric>

#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "formats/condense.hpp"
#include "model/tca_spmm.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using namespace tca;

struct Counts {
  std::vector<std::int64_t> row_lengths;  // [rows]
  std::vector<std::int64_t> active_cols;  // [8-row windows]
};

Counts counts(const CsrMatrix& matrix) {
  Counts found;
  for (std::int32_t row = 0; row < matrix.rows; ++row)
    found.row_lengths.push_back(matrix.row_length(row));
  const Condensed condensed = condense(matrix, 8);
  for (std::int64_t w = 0; w < condensed.windows(); ++w)
    found.active_cols.push_back(condensed.active_cols(w));
  return found;
}

/// A random window of up to eight rows, of any density.
CsrMatrix random_window(std::uint64_t seed) {
  const auto cols = static_cast<std::int32_t>(1 + random_bits(seed, 0) % 200);
  const auto rows = static_cast<std::int32_t>(1 + random_bits(seed, 2) % 8);
  return random_sparse(rows, cols, std::pow(10, -2 * random_unit(seed, 1)), seed);
}

/// Equation 2 as the paper states it, case by case.
std::int64_t row_mma_by_case(std::int64_t row_length, std::int64_t n) {
  const auto groups = [n](std::int64_t cols) { return (n + cols - 1) / cols; };
  if (row_length == 0) return 0;
  if (row_length <= 8) return groups(16);
  if (row_length <= 16) return groups(8);
  if (row_length <= 32) return groups(4);
  return (row_length + 63) / 64 * groups(2);
}

TEST_CASE("a row needs the MMAs of the paper's four cases") {
  CHECK(row_mma(0, 128) == 0);
  CHECK(row_mma(1, 128) == 8);
  CHECK(row_mma(8, 128) == 8);
  CHECK(row_mma(9, 128) == 16);
  CHECK(row_mma(17, 128) == 32);
  CHECK(row_mma(33, 128) == 64);
  CHECK(row_mma(64, 128) == 64);
  CHECK(row_mma(65, 128) == 128);
  CHECK(row_mma(8, 17) == 2);
  CHECK(row_mma(64, 3) == 2);
  CHECK_THROWS_AS(row_mma(8, 0), Error);
}

TEST_CASE("the one formula for the MMAs of a row agrees with the paper's cases") {
  for (std::int64_t length = 0; length < 600; ++length)
    for (std::int64_t n = 1; n < 300; ++n)
      if (row_mma(length, n) != row_mma_by_case(length, n)) FAIL(length << " nonzeros, N = " << n);
  CHECK(row_mma(5'000, 512) == row_mma_by_case(5'000, 512));
}

TEST_CASE("equation 1 counts whole fragments, and its approximation fits long rows") {
  const std::vector<std::int64_t> rows{64, 65, 0, 128};

  CHECK(whole_fragment_mma(rows, 128) == (1 + 2 + 0 + 2) * 64);
  CHECK(whole_fragment_mma(rows, 3) == 5 * 2);
  CHECK(whole_fragment_mma(rows, 12, {8, 4, 4}) == (4 + 5 + 0 + 8) * 6);
  CHECK_THROWS_AS(whole_fragment_mma(rows, 128, {8, 16, 4}), Error);
  // Rows of whole fragments are what the approximation is about.
  const std::vector<std::int64_t> full(10, 640);
  CHECK(static_cast<double>(whole_fragment_mma(full, 128)) ==
        doctest::Approx(approximate_mma(6'400, 128)));
  // Sparsity from 0.5 to 0.9: five times fewer, as the paper counts.
  CHECK(approximate_mma(0.5 * 4096 * 4096, 64) / approximate_mma(0.1 * 4096 * 4096, 64) ==
        doctest::Approx(5));
}

TEST_CASE("equation 2 never needs more than whole fragments") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Counts found = counts(random_window(seed));
    for (const std::int64_t n : {2, 16, 64, 128})
      CHECK(matrix_mma(found.row_lengths, n) <= whole_fragment_mma(found.row_lengths, n));
  }
}

TEST_CASE("at most an eighth of the multiplications is useful, and whole rows reach that") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const CsrMatrix window = random_window(seed);
    for (const std::int64_t n : {1, 24, 128}) {
      const std::int64_t mma = matrix_mma(counts(window).row_lengths, n);
      CHECK(useful_fraction(window.nnz(), n, mma) <= 0.125);
    }
  }
  const std::vector<std::int64_t> whole(4, 128);
  CHECK(useful_fraction(512, 64, matrix_mma(whole, 64)) == doctest::Approx(0.125));
  CHECK(useful_fraction(0, 64, 0) == 0);
}

TEST_CASE("8 x 8 condensed tiles need no more MMAs, for N a multiple of 16") {
  int fewer = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const Counts found = counts(random_window(seed));
    for (const std::int64_t n : {16, 32, 48, 64, 128, 512}) {
      const std::int64_t tiles = condensed_tile_mma(found.active_cols, n);
      const std::int64_t tca = matrix_mma(found.row_lengths, n);
      if (tiles > tca) FAIL("seed " << seed << ", N = " << n << ": " << tiles << " > " << tca);
      fewer += tiles < tca;
    }
  }
  CHECK(fewer > 10'000);
}

TEST_CASE("for another N there are windows where TCA-SpMM needs fewer") {
  for (const std::int64_t n : {8, 24, 130}) {
    int fewer = 0;
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
      const Counts found = counts(random_window(seed));
      fewer += matrix_mma(found.row_lengths, n) < condensed_tile_mma(found.active_cols, n);
    }
    CHECK_MESSAGE(fewer > 0, "N = ", n);
  }
}

TEST_CASE("tiles fetch no more rows of B than there are nonzeros") {
  const CsrMatrix matrix = random_sparse(300, 500, 0.02, 3);
  const Counts found = counts(matrix);

  CHECK(std::accumulate(found.active_cols.begin(), found.active_cols.end(), std::int64_t{0}) <=
        matrix.nnz());
  CHECK(condensed_tile_mma(found.active_cols, 128) <= matrix_mma(found.row_lengths, 128));
}

}  // namespace
}  // namespace tessera
