// Statistics against counts made the plain way, closed forms and published figures.
#include <doctest/doctest.h>

#include <map>
#include <set>
#include <sstream>

#include "formats/base/permutation.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "formats/generators/generator.hpp"
#include "formats/statistics/named_statistics.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

CsrMatrix generate(const std::string& name, const Params::Given& given = {}) {
  return Registry<Generator>::instance().make(name, given)->generate();
}

/// Distinct col / width of every window of `height` rows.
std::vector<std::set<std::int32_t>> windows_of(const CsrMatrix& a, int height, int width = 1) {
  std::vector<std::set<std::int32_t>> windows((a.rows + height - 1) / height);
  for (std::int32_t row = 0; row < a.rows; ++row)
    for (const std::int32_t col : a.row_cols(row)) windows[row / height].insert(col / width);
  return windows;
}

void check_windows(const CsrMatrix& a, const WindowCount& found) {
  CAPTURE(found.height);
  std::int64_t active = 0, blocks = 0;
  const auto windows = windows_of(a, found.height);
  for (const auto& cols : windows) {
    active += static_cast<std::int64_t>(cols.size());
    blocks += static_cast<std::int64_t>(cols.size() + 7) / 8;
  }
  const double mean = static_cast<double>(blocks) / static_cast<double>(windows.size());
  double deviation = 0;
  for (const auto& cols : windows) {
    const std::size_t of_window = (cols.size() + 7) / 8;
    deviation += std::abs(static_cast<double>(of_window) - mean);
  }

  CHECK(found.windows == static_cast<std::int64_t>(windows.size()));
  CHECK(found.active_cols == active);
  CHECK(found.tc_blocks == blocks);
  CHECK(found.mean_nnz_tc ==
        doctest::Approx(static_cast<double>(a.nnz()) / static_cast<double>(blocks)));
  CHECK(found.ibd == doctest::Approx(deviation / static_cast<double>(windows.size())));
}

void check_tiles(const CsrMatrix& a, const TileCount& found) {
  CAPTURE(found.rows);
  CAPTURE(found.cols);
  const auto block_rows = windows_of(a, found.rows, found.cols);
  double sum = 0, squares = 0;
  std::size_t smallest = block_rows[0].size(), largest = 0;
  for (const auto& tiles : block_rows) {
    sum += static_cast<double>(tiles.size());
    squares += static_cast<double>(tiles.size() * tiles.size());
    smallest = std::min(smallest, tiles.size());
    largest = std::max(largest, tiles.size());
  }
  const double n = static_cast<double>(block_rows.size());

  CHECK(static_cast<double>(found.tiles) == sum);
  CHECK(found.per_block_row.mean == doctest::Approx(sum / n));
  CHECK(found.per_block_row.stddev == doctest::Approx(std::sqrt(squares / n - sum * sum / n / n)));
  CHECK(found.per_block_row.min == static_cast<std::int64_t>(smallest));
  CHECK(found.per_block_row.max == static_cast<std::int64_t>(largest));
}

TEST_CASE("statistics count windows, tiles, bricks and rows as a plain count does") {
  const std::vector<CsrMatrix> matrices{random_sparse(301, 187, 0.02, 1),
                                        random_sparse(1, 9, 0.5, 2), random_sparse(16, 16, 0.9, 3),
                                        random_sparse(129, 1000, 0.004, 4)};

  for (const CsrMatrix& a : matrices) {
    CAPTURE(a.rows);
    const MatrixStatistics s = statistics(a);
    std::int64_t bandwidth = 0, profile = 0, empty = 0, longest = 0, bricks = 0;
    const DenseMatrix dense = to_dense(a);
    for (std::int64_t i = 0; i < a.rows; ++i) {
      std::int64_t first = -1;
      for (std::int64_t j = 0; j < a.cols; ++j) {
        if (dense.at(i, j) == 0) continue;
        if (first < 0) first = j;
        bandwidth = std::max(bandwidth, std::abs(i - j));
      }
      profile += first >= 0 && first < i ? i - first : 0;
      empty += first < 0 ? 1 : 0;
      longest = std::max(longest, a.row_length(i));
    }
    for (const auto& cols : windows_of(a, 16))
      bricks += static_cast<std::int64_t>(cols.size() + 3) / 4;

    for (const WindowCount& w : s.windows) check_windows(a, w);
    for (const TileCount& t : s.tiles) check_tiles(a, t);
    check_tiles(a, count_tiles(a, 5, 3));
    CHECK(s.windows.size() == 5);
    CHECK(s.tiles.size() == 3);
    CHECK(s.bandwidth == bandwidth);
    CHECK(s.profile == profile);
    CHECK(s.empty_rows == empty);
    CHECK(s.row_length.max == longest);
    CHECK(s.row_length.mean ==
          doctest::Approx(static_cast<double>(a.nnz()) / static_cast<double>(a.rows)));
    CHECK(s.synergy.bricks == bricks);
    CHECK(s.synergy.alpha ==
          doctest::Approx(static_cast<double>(a.nnz()) / (64.0 * static_cast<double>(bricks))));
  }
  CHECK_THROWS_WITH_AS(count_tiles(matrices[0], 0, 8), "a tile cannot be 0 x 8", Error);
}

TEST_CASE("statistics of a full, an empty and a diagonal matrix are the closed forms") {
  const MatrixStatistics full = statistics(random_sparse(256, 64, 1.1, 5));
  CHECK(full.windows[0].mean_nnz_tc == 64);
  CHECK(full.windows[1].mean_nnz_tc == 128);
  CHECK(full.windows[4].active_cols == 128);
  CHECK(full.windows[0].ibd == 0);
  CHECK(full.row_length.cv() == 0);
  CHECK(full.synergy.alpha == 1);
  CHECK(full.synergy.level == "high");
  CHECK_FALSE(full.symmetric_pattern);

  const MatrixStatistics empty = statistics(random_sparse(20, 30, 0, 5));
  CHECK(empty.empty_rows == 20);
  CHECK(empty.tiles[0].tiles == 0);
  CHECK(empty.windows[0].mean_nnz_tc == 0);
  CHECK(empty.synergy.level == "low");
  CHECK(statistics(CsrMatrix{}).windows[0].windows == 0);

  const MatrixStatistics diagonal =
      statistics(generate("band", {{"n", std::int64_t{160}}, {"bandwidth", std::int64_t{0}}}));
  CHECK(diagonal.tiles[0].tiles == 20);
  CHECK(diagonal.tiles[2].tiles == 10);
  CHECK(diagonal.bandwidth == 0);
  CHECK(diagonal.symmetric_pattern);
  CHECK(diagonal.synergy.alpha == 0.0625);  // one of sixteen: the least there is
  CHECK(diagonal.synergy.level == "low");
}

TEST_CASE("synergy changes class at an eighth and at a quarter") {
  // Windows of 16 full-width rows, `filled` of them the same 8 columns, the rest empty.
  const auto with_rows = [](int filled) {
    std::vector<std::int64_t> offsets{0};
    std::vector<std::int32_t> cols;
    for (int row = 0; row < 16; ++row) {
      for (int col = 0; row < filled && col < 8; ++col) cols.push_back(col);
      offsets.push_back(static_cast<std::int64_t>(cols.size()));
    }
    std::vector<float> values(cols.size(), 0.5f);
    return CsrMatrix{16, 8, std::move(offsets), std::move(cols), std::move(values)};
  };

  CHECK(statistics(with_rows(1)).synergy.level == "low");
  CHECK(statistics(with_rows(2)).synergy.level == "medium");
  CHECK(statistics(with_rows(3)).synergy.level == "medium");
  CHECK(statistics(with_rows(4)).synergy.level == "high");
}

TEST_CASE("a pattern is symmetric until one entry loses its mirror image") {
  const CsrMatrix a = generate("poisson2d", {{"nx", std::int64_t{9}}});
  CHECK(has_symmetric_pattern(a));

  RandomSequence random(1);
  std::vector<std::int32_t> order(a.rows);
  for (std::int32_t i = 0; i < a.rows; ++i) order[i] = i;
  random.shuffle(order);

  CHECK(
      has_symmetric_pattern(permute_cols(permute_rows(a, Permutation(order)), Permutation(order))));
  CHECK_FALSE(has_symmetric_pattern(permute_rows(a, Permutation(order))));
  CHECK_FALSE(has_symmetric_pattern(random_sparse(40, 40, 0.1, 6)));
}

TEST_CASE("active columns and MeanNNZTC of generated matrices are the published figures") {
  const std::string path = shared_path("anchors/floors_h200.csv");
  if (path.empty()) return;
  const std::vector<std::pair<std::string, CsrMatrix>> cases{
      {"mycielskian14", generate("mycielskian", {{"k", std::int64_t{14}}})},
      {"recon-mc2depi", generate("mc2depi")},
      {"recon-conf5_4-8x8", generate("conf5_4-8x8")},
  };
  std::map<std::string, std::vector<double>> published;  // first line of each matrix
  std::istringstream lines(read_text(path));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line);
    std::string name, cell;
    std::getline(cells, name, ',');
    if (name == "matrix" || published.contains(name)) continue;
    while (std::getline(cells, cell, ',')) published[name].push_back(std::stod(cell));
  }

  for (const auto& [name, matrix] : cases) {
    CAPTURE(name);
    const MatrixStatistics s = statistics(matrix);
    const std::vector<double>& row = published.at(name);  // M, K, nnz, avg, N, elem, nnz_per_tc...

    CHECK(static_cast<double>(s.nnz) == row[2]);
    CHECK(std::abs(s.windows[0].mean_nnz_tc - row[6]) < 0.00501);
    CHECK(std::abs(s.windows[1].mean_nnz_tc - row[7]) < 0.00501);
    for (int i = 0; i < 5; ++i) CHECK(static_cast<double>(s.windows[i].active_cols) == row[8 + i]);
  }
}

TEST_CASE("statistics are the same at any number of threads and every figure has its own name") {
  const CsrMatrix a = random_sparse(5000, 400, 0.01, 7);
  const auto at = [&](int count) {
    const ThreadCount threads(count);
    return named_values(statistics(a));
  };

  const std::vector<NamedValue> once = at(1), again = at(4);
  REQUIRE(once.size() == again.size());
  std::set<std::string> names;
  for (std::size_t i = 0; i < once.size(); ++i) {
    CHECK(names.insert(once[i].name).second);
    CHECK(once[i].value == again[i].value);
    CHECK(once[i].meaning != "");
  }
  CHECK(names.contains("mean_nnz_tc_16x8"));
}

}  // namespace
}  // namespace tessera
