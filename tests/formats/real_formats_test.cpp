// Formats on real matrices: tiles and densities counted independently of this program.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "formats/base/registry.hpp"
#include "formats/format.hpp"
#include "formats/io/matrix_file.hpp"
#include "formats/statistics/statistics.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

/// A line of the table of matrices, which gives the tiles of three uncondensed grids.
struct Published {
  std::string matrix;
  std::int64_t nnz;
  std::int64_t tiles_8x8, tiles_16x8, tiles_16x16;
};

std::vector<std::string> split(const std::string& line, char separator) {
  std::istringstream stream(line);
  std::vector<std::string> cells;
  for (std::string cell; std::getline(stream, cell, separator);) cells.push_back(cell);
  return cells;
}

std::vector<Published> published_tiles(const std::string& readme) {
  std::ifstream file(readme);
  std::vector<Published> all;
  std::size_t nnz_at = 0, tiles_at = 0;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> cells = split(line, '|');
    if (cells.size() < 12) continue;
    if (cells[1] == " name ") {
      nnz_at = std::ranges::find(cells, " nnz ") - cells.begin();
      tiles_at =
          std::ranges::find(cells, " 8x8 / 16x8 / 16x16 tiles (uncondensed) ") - cells.begin();
    } else if (!cells[1].starts_with("---")) {
      const std::vector<std::string> tiles = split(cells.at(tiles_at), '/');
      all.push_back({cells[1].substr(1, cells[1].size() - 2), std::stoll(cells.at(nnz_at)),
                     std::stoll(tiles.at(0)), std::stoll(tiles.at(1)), std::stoll(tiles.at(2))});
    }
  }
  return all;
}

std::int64_t bcsr_blocks(const CsrMatrix& matrix, std::int64_t rows, std::int64_t cols) {
  const auto format =
      Registry<Format>::instance().make("bcsr", {{"block_rows", rows}, {"block_cols", cols}});
  return format->pack(matrix)->tiles().tiles;
}

TEST_CASE("blocked formats store as many tiles of real matrices as were counted independently") {
  const std::string readme = shared_path("data/README.md");
  if (readme.empty()) return;
  const std::vector<Published> table = published_tiles(readme);
  REQUIRE(table.size() >= 24);
  int counted = 0, packed = 0;

  for (const Published& row : table) {
    const std::string path = shared_path("data/" + row.matrix + ".npz");
    if (path.empty()) continue;
    CAPTURE(row.matrix);
    const CsrMatrix matrix = read_matrix(path);

    CHECK(matrix.nnz() == row.nnz);
    CHECK(count_tiles(matrix, 8, 8).tiles == row.tiles_8x8);
    CHECK(count_tiles(matrix, 16, 8).tiles == row.tiles_16x8);
    CHECK(count_tiles(matrix, 16, 16).tiles == row.tiles_16x16);
    ++counted;
    if (row.tiles_16x16 > 60'000) continue;  // whole blocks of the rest take up to a gigabyte
    CHECK(bcsr_blocks(matrix, 8, 8) == row.tiles_8x8);
    CHECK(bcsr_blocks(matrix, 16, 8) == row.tiles_16x8);
    CHECK(bcsr_blocks(matrix, 16, 16) == row.tiles_16x16);
    CHECK(Registry<Format>::instance().make("bitmap_tile")->pack(matrix)->tiles().tiles ==
          row.tiles_8x8);
    ++packed;
  }
  CHECK(counted >= 24);
  CHECK(packed >= 12);
}

TEST_CASE("nonzeros per TC block of real matrices agree with an independent count") {
  const std::string floors = shared_path("anchors/floors_h200.csv");
  if (floors.empty()) return;
  std::ifstream file(floors);
  std::string line;
  std::getline(file, line);
  REQUIRE(line.starts_with("matrix,M,K,nnz,avg,N,elem,nnz_per_tc8x8"));
  int compared = 0;
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::vector<std::string> row;
    for (std::string cell; std::getline(cells, cell, ',');) row.push_back(cell);
    // Every matrix stands there once per N and element size; the large ones cost seconds.
    if (row[5] != "32" || row[6] != "4" || std::stoll(row[3]) > 1'000'000) continue;
    const std::string path = shared_path("data/" + row[0] + ".npz");
    if (path.empty()) continue;
    CAPTURE(row[0]);

    const auto packed = Registry<Format>::instance().make("bit_tcf")->pack(read_matrix(path));

    CHECK(stats(*packed).mean_nnz_per_tile == doctest::Approx(std::stod(row[7])).epsilon(1e-3));
    ++compared;
  }
  CHECK(compared >= 12);
}

}  // namespace
}  // namespace tessera
