// Every registered format: exact both ways, honest about its size. BitTCF: a worked example, and
// the tile densities measured independently on real matrices.

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "formats/base/registry.hpp"
#include "formats/bit_tcf.hpp"
#include "formats/io/matrix_file.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

/// Matrices that are easy to get wrong: empty rows, empty matrices, edges that are no multiple of a
/// tile, explicit zeros of either sign, single rows and columns.
std::vector<CsrMatrix> awkward_matrices() {
  std::vector<CsrMatrix> all;
  for (const auto& [rows, cols, density] : {std::tuple{1, 1, 1.0},
                                            {8, 8, 1.0},
                                            {9, 17, 0.4},
                                            {1, 300, 0.5},
                                            {300, 1, 0.5},
                                            {40, 50, 0.0},
                                            {64, 64, 0.02},
                                            {203, 157, 0.07}})
    all.push_back(random_sparse(rows, cols, density, 5));
  const CsrMatrix full = random_sparse(30, 30, 0.3, 6);
  std::vector<float> values(full.values.begin(), full.values.end());
  for (std::size_t k = 0; k < values.size(); k += 3) values[k] = k % 2 != 0 ? 0.0f : -0.0f;
  all.push_back({full.rows, full.cols, full.row_offsets, full.col_indices, std::move(values)});
  return all;
}

TEST_CASE("every format gives back exactly the matrix it was packed from") {
  const auto& registry = Registry<Format>::instance();
  REQUIRE(registry.names().size() >= 2);

  for (const std::string& name : registry.names()) {
    for (const CsrMatrix& matrix : awkward_matrices()) {
      CAPTURE(name);
      CAPTURE(matrix.rows);
      CAPTURE(matrix.cols);

      const auto packed = registry.make(name)->pack(matrix);

      CHECK(packed->rows() == matrix.rows);
      CHECK(packed->cols() == matrix.cols);
      CHECK(packed->nnz() == matrix.nnz());
      CHECK(packed->unpack() == matrix);  // the bits of the values as well
    }
  }
}

TEST_CASE("every format keeps explicit zeros, negative zeros, NaN and infinity") {
  const float infinity = std::numeric_limits<float>::infinity();
  const CsrMatrix a{3, 4, std::vector<std::int64_t>{0, 3, 3, 5},
                    std::vector<std::int32_t>{0, 1, 3, 1, 2},
                    std::vector<float>{0.0f, -0.0f, -infinity, std::nanf(""), 1e-45f}};
  for (const std::string& name : Registry<Format>::instance().names()) {
    CAPTURE(name);
    CHECK(Registry<Format>::instance().make(name)->pack(a)->unpack() == a);
  }
}

TEST_CASE("a format's footprint is the sum of its arrays, and its tiles hold all nonzeros") {
  const auto& registry = Registry<Format>::instance();
  for (const std::string& name : registry.names()) {
    for (const CsrMatrix& matrix : awkward_matrices()) {
      CAPTURE(name);
      const auto packed = registry.make(name)->pack(matrix);

      const FormatStats found = stats(*packed);

      std::int64_t bytes = 0, values = 0;
      for (const ArrayInfo& array : packed->arrays()) {
        bytes += array.bytes;
        if (array.holds_values) values += array.bytes;
      }
      CHECK(found.bytes == bytes);
      CHECK(found.index_bytes == bytes - values);
      CHECK(values >= 4 * matrix.nnz());
      for (std::int32_t row = 0; row < matrix.rows; ++row) CHECK_FALSE(packed->locate(row).empty());
      if (found.tile.tiles > 0) {
        CHECK(found.tile.slots >= matrix.nnz());
        CHECK(found.mean_nnz_per_tile * static_cast<double>(found.tile.tiles) ==
              doctest::Approx(static_cast<double>(matrix.nnz())));
        CHECK(found.tile_density <= 1.0);
      }
    }
  }
}

TEST_CASE("every format packs to the same bytes at any number of threads") {
  const CsrMatrix matrix = random_sparse(2000, 1500, 0.01, 9);
  const auto& registry = Registry<Format>::instance();
  for (const std::string& name : registry.names()) {
    CAPTURE(name);
    const auto pack = [&](int threads) {
      const ThreadCount count(threads);
      return registry.make(name)->pack(matrix);
    };
    const auto one = pack(1), three = pack(3);
    CHECK(one->unpack() == three->unpack());
    CHECK(stats(*one).tile.tiles == stats(*three).tile.tiles);
    CHECK(one->locate(1234) == three->locate(1234));
  }
}

TEST_CASE("BitTCF of a small matrix is what section 3.3 of Acc-SpMM builds by hand") {
  // Window 0 has rows 0 to 7 with nine active columns, so two TC blocks; window 1 has none;
  // window 2 has rows 16 and 17.
  const CsrMatrix matrix{
      18, 30,
      std::vector<std::int64_t>{0, 3, 3, 3, 3, 3, 3, 3, 10, 10, 10, 10, 10, 10, 10, 10, 10, 11, 12},
      std::vector<std::int32_t>{2, 5, 29, 1, 2, 3, 4, 6, 7, 8, 11, 0},
      std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}};

  const auto packed = Registry<Format>::instance().make("bit_tcf")->pack(matrix);
  const auto& tcf = packed_as<BitTcf>(*packed);

  constexpr std::int32_t kNone = kNoColumn;
  CHECK(tcf.row_window_offset == std::vector<std::uint32_t>{0, 2, 2, 3});
  CHECK(tcf.sparse_a_to_b == std::vector<std::int32_t>{1,     2,     3,     4,     5,     6,
                                                       7,     8,                                  //
                                                       29,    kNone, kNone, kNone, kNone, kNone,  //
                                                       kNone, kNone,                              //
                                                       0,     11,    kNone, kNone, kNone, kNone,  //
                                                       kNone, kNone});
  // Row 0 has columns 2 and 5: condensed places 1 and 4. Row 7 has 1, 2, 3, 4, 6, 7, 8.
  CHECK(tcf.tc_local_bit[0] == (0b00010010ull | 0b11101111ull << 56));
  CHECK(tcf.tc_local_bit[1] == 1ull);
  CHECK(tcf.tc_local_bit[2] == (0b10ull | 0b01ull << 8));
  CHECK(tcf.tc_offset == std::vector<std::uint32_t>{0, 9, 10, 12});
  CHECK(tcf.values == std::vector<float>{1, 2, 4, 5, 6, 7, 8, 9, 10, 3, 11, 12});
  CHECK(BitTcf::value_rank(tcf.tc_local_bit[0], 7, 0) == 2);
  CHECK(tcf.locate(17) ==
        "row window 2 (row 1 of it), TC blocks 2 to 3, first nonzero of the row in TC block 2, MMA "
        "step 0 of the window");
  CHECK(tcf.locate(8) ==
        "row window 1 (row 0 of it), TC blocks 2 to 2, none with a nonzero of the row");
}

TEST_CASE("a kernel that asks for another format than it was given is told so") {
  const auto packed = Registry<Format>::instance().make("csr")->pack(random_sparse(4, 4, 0.5, 1));

  CHECK_THROWS_WITH_AS(packed_as<BitTcf>(*packed), "the matrix is not packed as bit_tcf", Error);
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
