// Statistics that stand for packing or multiplying: histograms, tile fill, closed forms of
// footprints, and what squaring A would involve.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/format.hpp"
#include "formats/io/source.hpp"
#include "formats/statistics/named_statistics.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

TEST_CASE("a histogram has bins of doubling width and is read back from its text") {
  Histogram histogram;
  for (const std::int64_t count : {0, 1, 1, 2, 3, 8, 15, 15, 8}) histogram.add(count);

  CHECK(to_text(histogram) == "0:1 1:2 2-3:2 8-15:4");
  CHECK(histogram_from_text("0:1 1:2 2-3:2 8-15:4").bins == histogram.bins);
  CHECK(histogram.bins.size() == 5);
  CHECK(to_text(Histogram{}) == "");
  CHECK(histogram_from_text("").bins.empty());
  for (const char* text : {"1:2 0:1", "2:1", "4-6:1", "-1:2", "1", "1:x", "0:1 0:1", "1:2x"})
    CHECK_THROWS_AS(histogram_from_text(text), Error);
}

TEST_CASE("block rows are counted into the histogram of their tiles") {
  // Block rows of 16 with 3, 0 and 1 tiles of 16 x 16.
  std::vector<std::int64_t> offsets(41, 3);
  offsets[0] = 0;
  std::fill(offsets.begin() + 36, offsets.end(), 4);
  const CsrMatrix a{40, 64, std::move(offsets), std::vector<std::int32_t>{0, 17, 63, 5},
                    std::vector<float>{1, 2, 3, 4}};

  CHECK(to_text(statistics(a).tiles[2].per_block_row_histogram) == "0:1 1:1 2-3:1");
}

TEST_CASE("the fill of tiles agrees with a plain count") {
  for (const CsrMatrix& a :
       {random_sparse(301, 187, 0.07, 1), random_sparse(9, 9, 1.1, 2), random_sparse(7, 3, 0, 3)}) {
    std::map<std::pair<int, int>, int> tiles;
    for (std::int32_t row = 0; row < a.rows; ++row)
      for (const std::int32_t col : a.row_cols(row)) ++tiles[{row / 8, col / 8}];
    std::vector<double> fill;
    for (const auto& [tile, nnz] : tiles) fill.push_back(nnz);
    std::ranges::sort(fill);
    const auto n = static_cast<double>(fill.size());
    double sum = 0, squares = 0;
    for (const double nnz : fill) {
      sum += nnz;
      squares += nnz * nnz;
    }

    const TileFill found = statistics(a).tile_fill;

    if (fill.empty()) {
      CHECK(found.mean == 0);
      continue;
    }
    CHECK(found.median == (fill[(fill.size() - 1) / 2] + fill[fill.size() / 2]) / 2);
    CHECK(found.mean == doctest::Approx(sum / n));
    CHECK(found.stddev == doctest::Approx(std::sqrt(squares / n - sum * sum / n / n)));
  }
}

struct Shape {
  const char* format;
  std::string prediction;
  Params::Given params;
};

TEST_CASE("the footprint of a closed form is that of the packed matrix") {
  const std::vector<Shape> shapes{{"csr", "csr", {}},
                                  {"csr32", "csr32", {}},
                                  {"tcf", "tcf", {}},
                                  {"me_tcf", "me_tcf", {}},
                                  {"me_tcf", "me_tcf_8x8", {{"window_rows", std::int64_t{8}}}},
                                  {"bit_tcf", "bit_tcf", {}},
                                  {"mosaic", "mosaic", {}},
                                  {"me_bcrs", "me_bcrs", {}},
                                  {"sr_bcrs", "sr_bcrs", {}},
                                  {"tall_tiles", "tall_tiles", {}}};
  const std::vector<CsrMatrix> matrices{random_sparse(301, 187, 0.02, 1),
                                        random_sparse(1, 900, 0.5, 2),
                                        random_sparse(130, 40, 0.7, 3), random_sparse(20, 30, 0, 4),
                                        random_sparse(1000, 17, 0.05, 5)};

  for (const CsrMatrix& a : matrices) {
    const std::vector<PredictedFootprint> predictions = statistics(a).footprints;
    REQUIRE(predictions.size() == shapes.size());
    for (const auto& [format, prediction, params] : shapes) {
      CAPTURE(prediction);
      CAPTURE(a.rows);
      const FormatStats packed = stats(*Registry<Format>::instance().make(format, params)->pack(a));
      const auto predicted =
          std::ranges::find(predictions, prediction, &PredictedFootprint::format);

      REQUIRE(predicted != predictions.end());
      CHECK(predicted->bytes == packed.bytes);
      CHECK(predicted->index_bytes == packed.index_bytes);
    }
  }
}

/// The counts of A A, made the plain way.
SquareCount plain_square(const CsrMatrix& a) {
  SquareCount count;
  std::set<std::pair<int, int>> elements, tiles;
  std::set<std::vector<int>> tile_products;
  for (std::int32_t i = 0; i < a.rows; ++i)
    for (const std::int32_t k : a.row_cols(i))
      for (const std::int32_t j : a.row_cols(k)) {
        ++count.products;
        elements.insert({i, j});
        tiles.insert({i / 8, j / 8});
        tile_products.insert({i / 8, k / 8, j / 8});
      }
  count.nnz = static_cast<std::int64_t>(elements.size());
  count.tiles = static_cast<std::int64_t>(tiles.size());
  count.tile_products = static_cast<std::int64_t>(tile_products.size());
  return count;
}

TEST_CASE("the counts of A A agree with computing it, at any number of threads") {
  for (const CsrMatrix& a : {random_sparse(203, 203, 0.01, 1), random_sparse(70, 70, 0.2, 2),
                             random_sparse(9, 9, 0, 3), random_sparse(1, 1, 1.1, 4)}) {
    const SquareCount expected = plain_square(a);
    for (const int count : {1, 3}) {
      const ThreadCount threads(count);
      const SquareCount found = count_square(a);

      CHECK(found.products == expected.products);
      CHECK(found.nnz == expected.nnz);
      CHECK(found.tile_products == expected.tile_products);
      CHECK(found.tiles == expected.tiles);
    }
  }
  CHECK_THROWS_WITH_AS(count_square(random_sparse(4, 5, 0.5, 1)),
                       "only a square matrix has a square, not one of 4 x 5", Error);
}

TEST_CASE("wiki-Vote has the square of tSparse's Table 1") {
  const std::string path = shared_path("data/wiki-Vote.npz");
  if (path.empty()) return;

  const CsrMatrix a = load_matrix(path).matrix;
  const SquareCount square = count_square(a);

  CHECK(square.nnz == 1831112);
  CHECK(square.products == 4542805);
  CHECK(square.tiles == 526421);
  CHECK(square.tile_products == 3058660);
  CHECK(statistics(a).tile_fill.median == 1);
}

TEST_CASE("mc2depi has every count of tSparse's Table 1") {
  const CsrMatrix a = load_matrix("mc2depi").matrix;

  const SquareCount square = count_square(a);
  const TileFill fill = statistics(a).tile_fill;

  CHECK(a.nnz() == 2100225);
  CHECK(square.nnz == 5245952);
  CHECK(square.products == 8391680);
  CHECK(square.tiles == 718228);
  CHECK(square.tile_products == 1364149);
  CHECK(fill.median == 7);
  CHECK(std::abs(fill.mean - 6.4) < 0.05);
  CHECK(std::abs(fill.stddev - 4.9) < 0.05);
}

}  // namespace
}  // namespace tessera
