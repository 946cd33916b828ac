// SMaT's model: its bounds on the number of blocks, by hand and on random matrices.
#include <doctest/doctest.h>

#include <cmath>

#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "formats/condense.hpp"
#include "formats/statistics/statistics.hpp"
#include "model/smat.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using namespace smat;

std::vector<std::int64_t> active_cols(const CsrMatrix& matrix, int height) {
  const Condensed condensed = condense(matrix, height);
  std::vector<std::int64_t> cols;
  for (std::int64_t w = 0; w < condensed.windows(); ++w) cols.push_back(condensed.active_cols(w));
  return cols;
}

TEST_CASE("bounds on the number of blocks are those worked out by hand") {
  // 5 x 7, blocks of 2 x 3: three block rows of three blocks.
  CHECK(printed_bounds(5, 7, 13, 2, 3).lower == 3);
  CHECK(printed_bounds(5, 7, 13, 2, 3).upper == 9);
  CHECK(printed_bounds(5, 7, 4, 2, 3).upper == 4);
  CHECK(printed_bounds(5, 7, 0, 2, 3).upper == 0);
  const std::vector<std::int64_t> cols{7, 0, 2};
  CHECK(refined_bounds(cols, 7, 3).lower == 3 + 0 + 1);
  CHECK(refined_bounds(cols, 7, 3).upper == 3 + 0 + 2);
  CHECK_THROWS_AS(printed_bounds(5, 7, 13, 0, 3), Error);
  CHECK_THROWS_AS(refined_bounds(cols, 7, 0), Error);
}

TEST_CASE(
    "the number of blocks lies within the refined bounds, and these within the printed ones") {
  int tighter = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const auto rows = static_cast<std::int32_t>(1 + random_bits(seed, 0) % 150);
    const auto cols = static_cast<std::int32_t>(1 + random_bits(seed, 1) % 150);
    const double density = std::pow(10, -3 * random_unit(seed, 2));
    const CsrMatrix matrix = random_sparse(rows, cols, density, seed);
    for (const auto& [h, w] : {std::pair{16, 16}, {16, 8}, {8, 8}, {5, 3}}) {
      const std::int64_t blocks = count_tiles(matrix, h, w).tiles;
      const auto active = active_cols(matrix, h);

      const BlockBounds printed = printed_bounds(rows, cols, matrix.nnz(), h, w);
      const BlockBounds refined = refined_bounds(active, cols, w);

      CHECK(printed.lower <= refined.lower);
      CHECK(refined.lower <= blocks);
      CHECK(blocks <= refined.upper);
      CHECK(refined.upper <= printed.upper);
      tighter += refined.lower > printed.lower && refined.upper < printed.upper;

      std::int64_t nonempty = 0, widest = 0;
      for (const std::int64_t c : active) {
        nonempty += c > 0;
        widest = std::max(widest, (c + w - 1) / w);
      }
      CHECK(refined.lower >= std::max(nonempty, widest));
    }
  }
  CHECK(tighter > 20);
}

TEST_CASE("the time of a block is that of one MMA per eight columns of B") {
  CHECK(mma_columns(8) == 1);
  CHECK(mma_columns(9) == 2);
  CHECK(mma_columns(128) == 16);
}

}  // namespace
}  // namespace tessera
