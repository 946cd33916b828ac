// The papers' figures of a matrix: each is there for every matrix, device and N, and is what was
// counted another way; a config can ask for every one of them.
#include <doctest/doctest.h>

#include <limits>
#include <set>

#include "experiments/run/analysis.hpp"
#include "experiments/tables/rows.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/format.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

Json figures_of(const CsrMatrix& matrix, std::int64_t n, const char* device = "h200") {
  return to_json(applicable(analyse(count_for_models(matrix, true), n, find_device(device))));
}

TEST_CASE("the figures have distinct names, meanings and headings, whatever the matrix") {
  const auto counts = count_for_models(random_sparse(70, 70, 0.05, 1), true);
  const auto of_nothing = count_for_models(CsrMatrix{}, true);

  const auto some = analyse(counts, 24, find_device("h200"));
  const auto none = analyse(of_nothing, 1, Device{});

  std::set<std::string> names;
  REQUIRE(some.size() == none.size());
  for (std::size_t i = 0; i < some.size(); ++i) {
    CHECK(some[i].name == none[i].name);
    CHECK_FALSE(some[i].meaning.empty());
    CHECK_FALSE(some[i].group.empty());
    CHECK(names.insert(some[i].name).second);
  }
  CHECK(applicable(some).size() == some.size());
  CHECK(applicable(none).size() < some.size());
  CHECK_THROWS_AS(analyse(counts, 0, find_device("h200")), Error);
  constexpr std::int64_t kWide = std::numeric_limits<std::int64_t>::max();
  CHECK_THROWS_AS(analyse(counts, kWide, find_device("h200")), Error);
}

TEST_CASE("every described device can be asked") {
  const CsrMatrix matrix = random_sparse(90, 200, 0.02, 2);
  for (const std::string& device : device_names()) {
    CAPTURE(device);
    const Json found = figures_of(matrix, 128, device.c_str());
    CHECK(found["cutespmm_waves"].get<int>() == 1);
    CHECK(found.contains("floor_us") == find_device(device).has("tf32"));
    CHECK_FALSE(found.contains("tsparse_over_all"));  // not square
  }
}

TEST_CASE("bricks with columns to spare may be emptier than the paper's least") {
  // A nonzero in each window of 16 rows: a brick each, three columns of it empty.
  CsrMatrix diagonal = random_sparse(1, 9, 1, 7);
  diagonal.rows = 9 * 16;
  diagonal.row_offsets = [] {
    std::vector<std::int64_t> offsets{0};
    for (int row = 0; row < 9 * 16; ++row) offsets.push_back(row / 16 + 1);
    return offsets;
  }();

  const Json found = figures_of(diagonal, 32);

  CHECK(found["cutespmm_alpha"] == doctest::Approx(1.0 / 64));
  CHECK(found["cutespmm_oi"] == doctest::Approx(8));
}

TEST_CASE("n_e is the number of blocks that BCSR stores, and lies within its bounds") {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const CsrMatrix matrix = random_sparse(130, 250, 0.01 * static_cast<double>(seed), seed);
    const auto packed =
        Registry<Format>::instance()
            .make("bcsr", {{"block_rows", std::int64_t{16}}, {"block_cols", std::int64_t{16}}})
            ->pack(matrix);

    const Json found = figures_of(matrix, 8);

    const auto blocks = found["smat_blocks"].get<std::int64_t>();
    CHECK(blocks == stats(*packed).tile.tiles);
    CHECK(found["smat_blocks_least_refined"].get<std::int64_t>() <= blocks);
    CHECK(blocks <= found["smat_blocks_most_refined"].get<std::int64_t>());
    CHECK(found["smat_mma_columns"] == 1);
  }
}

TEST_CASE("the floor's rows of B are the columns that hold a nonzero") {
  CsrMatrix matrix = random_sparse(64, 400, 0.003, 5);
  std::set<std::int32_t> cols(matrix.col_indices.begin(), matrix.col_indices.end());
  REQUIRE(cols.size() < 400);

  CHECK(count_for_models(matrix, false).used_cols == static_cast<std::int64_t>(cols.size()));
  CHECK_FALSE(count_for_models(matrix, false).square.has_value());
}

TEST_CASE("every figure is a column that a table can ask for") {
  const auto& columns = row_columns();
  for (const NamedValue& figure : analyse(count_for_models(CsrMatrix{}, false), 1, Device{})) {
    REQUIRE(columns.contains(figure.name));
    CHECK(columns.at(figure.name) == figure.meaning);
  }
}

}  // namespace
}  // namespace tessera
