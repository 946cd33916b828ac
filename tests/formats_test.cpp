// Formats: what every one of them owes, what every kernel owes the oracle, and worked examples.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "experiments/check_result.hpp"
#include "formats/base/registry.hpp"
#include "formats/bit_tcf.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

/// Shapes that end within a tile, empty rows and columns, a full matrix, no matrix at all.
std::vector<CsrMatrix> odd_matrices() {
  return {random_sparse(1, 1, 1.0, 3),     random_sparse(7, 5, 0.4, 4),
          random_sparse(8, 8, 1.0, 5),     random_sparse(65, 40, 0.1, 6),
          random_sparse(20, 300, 0.05, 7), random_sparse(33, 17, 0.0, 8),
          random_sparse(130, 9, 0.6, 9),   CsrMatrix{}};
}

TEST_CASE("every format gives its matrix back") {
  REQUIRE(Registry<Format>::instance().names().size() >= 2);
  for (const std::string& name : Registry<Format>::instance().names()) {
    CAPTURE(name);
    for (const CsrMatrix& a : odd_matrices()) {
      CAPTURE(a.rows);
      const auto packed = Registry<Format>::instance().make(name)->pack(a);

      CHECK(packed->unpack() == a);
      CHECK(packed->rows() == a.rows);
      CHECK(packed->cols() == a.cols);
      CHECK(packed->nnz() == a.nnz());
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

TEST_CASE("every format accounts for its bytes and tiles, and finds every row") {
  const CsrMatrix a = random_sparse(100, 80, 0.1, 11);
  for (const std::string& name : Registry<Format>::instance().names()) {
    CAPTURE(name);
    const auto packed = Registry<Format>::instance().make(name)->pack(a);
    std::int64_t bytes = 0, values = 0;
    for (const ArrayInfo& array : packed->arrays()) {
      CAPTURE(array.name);
      CHECK(array.bytes >= array.elements);
      bytes += array.bytes;
      if (array.holds_values) values += array.elements;
    }
    const FormatStats found = stats(*packed);

    CHECK(found.bytes == bytes);
    CHECK(found.index_bytes < bytes);
    CHECK(values >= a.nnz());  // whatever is stored, the nonzeros are
    CHECK((found.tile.tiles == 0) == (found.tile.rows == 0));
    for (std::int32_t row = 0; row < a.rows; ++row) CHECK_FALSE(packed->locate(row).empty());
  }
}

TEST_CASE("every kernel that is emulated keeps within the bound of its own arithmetic") {
  int emulated = 0;
  for (const std::string& name : Registry<SpmmKernel>::instance().names()) {
    CAPTURE(name);
    const auto kernel = Registry<SpmmKernel>::instance().make(name);
    for (const CsrMatrix& a : odd_matrices()) {
      CAPTURE(a.rows);
      const auto packed = Registry<Format>::instance().make(kernel->format())->pack(a);
      const DenseMatrix b = random_dense(a.cols, 33, 12);
      const Permutation order = Permutation::identity(a.rows);
      const std::string generation = "hopper";
      DenseMatrix c;
      try {
        c = kernel->emulate(*packed, b, find_generation(generation));
      } catch (const Unsupported&) {
        continue;
      }
      ++emulated;

      CHECK(check_result(a, b, c, {*kernel, *packed, order, generation}).reason == "");
      if (a.nnz() == 0) continue;
      std::int32_t row = 0;
      while (a.row_length(row) == 0) ++row;
      c.at(row, 5) += 1;  // and the check would have seen it
      CHECK(check_result(a, b, c, {*kernel, *packed, order, generation}).reason != "");
    }
  }
  REQUIRE(emulated > 0);
}

TEST_CASE("BitTCF of a small matrix is what the paper's definition gives") {
  // Row 1 holds columns 2 and 9, row 4 columns 0, 2 and 5..11: nine active columns in the window.
  const CsrMatrix a{9, 12, std::vector<std::int64_t>{0, 0, 2, 2, 2, 11, 11, 11, 11, 12},
                    std::vector<std::int32_t>{2, 9, 0, 2, 5, 6, 7, 8, 9, 10, 11, 3},
                    std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}};

  const auto packed = Registry<Format>::instance().make("bit_tcf")->pack(a);

  const auto& tiles = packed_as<BitTcf>(*packed);
  const std::int32_t none = BitTcf::kNoColumn;
  CHECK(tiles.row_window_offset == std::vector<std::uint32_t>{0, 2, 3});
  CHECK(tiles.tc_offset == std::vector<std::uint32_t>{0, 10, 11, 12});
  CHECK(tiles.sparse_a_to_b ==
        std::vector<std::int32_t>{0,  2,    5,    6,    7,    8,    9,    10,    //
                                  11, none, none, none, none, none, none, none,  //
                                  3,  none, none, none, none, none, none, none});
  // Window row r, condensed column c: bit 8 r + c.
  CHECK(tiles.tc_local_bit ==
        std::vector<std::uint64_t>{0x000000ff'00004200, 0x00000001'00000000, 0x1});
  CHECK(tiles.values == std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  CHECK(packed->locate(4) == "row window 0 (row 4 of it), TC blocks 0 to 2");
}

}  // namespace
}  // namespace tessera
