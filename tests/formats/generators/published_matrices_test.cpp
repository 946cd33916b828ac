// Matrices published elsewhere and generated here by formula, against the sizes and tile counts of
// the originals; the tiles are counted twice, here the plain way and by formats/statistics.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "formats/base/registry.hpp"
#include "formats/generators/generator.hpp"
#include "formats/statistics/statistics.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

CsrMatrix generate(const std::string& name, const Params::Given& given) {
  return Registry<Generator>::instance().make(name, given)->generate();
}

ParamValue whole(std::int64_t value) { return value; }

/// Nonempty tiles of the uncondensed matrix, counted the plain way: tile columns seen per window.
std::int64_t plain_tile_count(const CsrMatrix& matrix, int height, int width) {
  std::vector<std::int32_t> seen_in(matrix.cols / width + 1, -1);
  std::int64_t tiles = 0;
  for (std::int32_t row = 0; row < matrix.rows; ++row) {
    for (const std::int32_t col : matrix.row_cols(row)) {
      if (std::exchange(seen_in[col / width], row / height) != row / height) ++tiles;
    }
  }
  return tiles;
}

struct Fingerprint {
  std::int64_t rows = 0, cols = 0, nnz = 0, tiles_8x8 = 0, tiles_16x8 = 0, tiles_16x16 = 0;
};

Fingerprint fingerprint(const CsrMatrix& m) {
  return {m.rows,
          m.cols,
          m.nnz(),
          plain_tile_count(m, 8, 8),
          plain_tile_count(m, 16, 8),
          plain_tile_count(m, 16, 16)};
}

/// The line of the published matrix `name`; all zero when there is none.
Fingerprint published(const std::string& path, const std::string& name) {
  std::istringstream lines(read_text(path));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name + ",")) continue;
    Fingerprint f;
    REQUIRE(std::sscanf(line.c_str() + name.size(), ",%ld,%ld,%ld,%ld,%ld,%ld", &f.rows, &f.cols,
                        &f.nnz, &f.tiles_8x8, &f.tiles_16x8, &f.tiles_16x16) == 6);
    return f;
  }
  return {};
}

TEST_CASE("published matrices have the sizes and tile counts of the originals") {
  const std::string path = shared_path("anchors/suitesparse_tile_fingerprints.csv");
  if (path.empty()) return;
  struct Case {
    const char* original;
    const char* generator;
    Params::Given given;
  };
  const std::vector<Case> cases{
      {"mycielskian11", "mycielskian", {{"k", whole(11)}}},
      {"mycielskian12", "mycielskian", {{"k", whole(12)}}},
      {"mycielskian14", "mycielskian", {{"k", whole(14)}}},
      {"mycielskian15", "mycielskian", {{"k", whole(15)}}},
      {"Trefethen_20000", "Trefethen", {{"n", whole(20000)}}},
      {"Trefethen_20000b", "Trefethen", {{"n", whole(19999)}, {"first", whole(2)}}},
      {"mc2depi", "mc2depi", {}},
      {"conf5_4-8x8-05", "conf5_4-8x8", {}},
      {"conf5_4-8x8-10", "conf5_4-8x8-10", {}},
      {"conf5_4-8x8-20", "conf5_4-8x8", {}},
      {"conf5_0-4x4-10", "conf5_0-4x4", {}},
      {"apache1", "apache1", {}},
      {"Baumann", "Baumann", {}},
  };

  for (const Case& c : cases) {
    CAPTURE(c.original);
    const CsrMatrix matrix = generate(c.generator, c.given);
    validate(matrix);
    const Fingerprint expected = published(path, c.original);
    const Fingerprint found = fingerprint(matrix);

    CHECK(expected.rows > 0);
    CHECK(found.rows == expected.rows);
    CHECK(found.cols == expected.cols);
    CHECK(found.nnz == expected.nnz);
    CHECK(found.tiles_8x8 == expected.tiles_8x8);
    CHECK(found.tiles_16x8 == expected.tiles_16x8);
    CHECK(found.tiles_16x16 == expected.tiles_16x16);
    const MatrixStatistics counted = statistics(matrix);
    CHECK(counted.tiles[0].tiles == expected.tiles_8x8);
    CHECK(counted.tiles[1].tiles == expected.tiles_16x8);
    CHECK(counted.tiles[2].tiles == expected.tiles_16x16);
  }
}

TEST_CASE("cage matrices have the published sizes, and the values of cage4") {
  const std::vector<std::array<std::int64_t, 3>> sizes{
      // n, rows, nonzeros
      {3, 5, 19},     {4, 9, 49},       {5, 37, 233},     {6, 93, 785},
      {7, 340, 3084}, {8, 1015, 11003}, {9, 3534, 41594}, {10, 11397, 150645}};
  for (const auto& [n, rows, nnz] : sizes) {
    CAPTURE(n);
    const CsrMatrix a = generate("cage", {{"n", n}});
    CHECK_NOTHROW(validate(a));
    CHECK(a.rows == rows);
    CHECK(a.nnz() == nnz);
    CHECK(has_symmetric_pattern(a));

    const CsrMatrix columns = transpose(a);
    for (std::int32_t col = 0; col < columns.rows; ++col) {
      double sum = 0;
      for (const float value : columns.row_values(col)) sum += value;
      REQUIRE(sum == doctest::Approx(1).epsilon(1e-6));
    }
  }

  // The numbering differs, so what is compared does not depend on it: the sorted values.
  const CsrMatrix cage4 = generate("cage", {{"n", whole(4)}});
  std::vector<float> diagonal;
  for (std::int32_t i = 0; i < cage4.rows; ++i) diagonal.push_back(to_dense(cage4).at(i, i));
  std::ranges::sort(diagonal);
  const std::vector<double> published{.166666666666667, .445874834005214, .470791832661453,
                                      .537513833557293, .54581949977604,  .666666666666667,
                                      .687569167786467, .729097498880199, .75};
  for (int i = 0; i < 9; ++i) CHECK(diagonal[i] == doctest::Approx(published[i]).epsilon(1e-6));
  const auto count = [&](double value) {
    return std::ranges::count_if(cage4.values, [&](float v) { return std::abs(v - value) < 1e-6; });
  };
  CHECK(count(.0375138335572935) == 4);
  CHECK(count(.0458194997760398) == 4);
  CHECK(count(.0833333333333333) == 2);
  CHECK(count(.25) == 2);
}

}  // namespace
}  // namespace tessera
