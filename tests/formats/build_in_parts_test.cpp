// A packed matrix that is built in parts of its windows equals the one that is built at once.
#include "formats/build_in_parts.hpp"

#include <doctest/doctest.h>

#include "formats/base/registry.hpp"
#include "formats/bit_tcf.hpp"
#include "formats/mosaic.hpp"
#include "formats/tall_tiles.hpp"
#include "formats/unpack_parts.hpp"
#include "tests/reorder_support.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

/// Rows in parts of whole windows, which are no longer than their nonzeros ask for.
void check_unpacked_parts(const PackedMatrix& packed, const CsrMatrix& matrix, int height,
                          std::int64_t nonzeros) {
  std::int32_t row = 0;
  unpack_parts(packed, nonzeros, [&](const CsrMatrix& rows) {
    const std::int32_t end = row + rows.rows;
    REQUIRE(end <= matrix.rows);
    CHECK(rows == rows_between(matrix, row, end));
    CHECK((end % height == 0 || end == matrix.rows));
    if (rows.rows > height)
      CHECK(matrix.row_offsets[row + (rows.rows - 1) / height * height] - matrix.row_offsets[row] <
            nonzeros);
    row = end;
  });
  CHECK(row == matrix.rows);
}

template <class Packed>
void check_parts(int height) {
  const auto format = Registry<Format>::instance().make(Packed::kFormat);
  std::vector<std::vector<std::int32_t>> ends_empty(50);
  ends_empty[1] = {0, 2};
  ends_empty[3] = {1, 2, 3};
  const CsrMatrix matrices[] = {
      random_sparse(203, 157, 0.07, 5),
      random_sparse(64, 9, 0.4, 6),
      pattern_matrix(50, 4, ends_empty),
  };
  for (const CsrMatrix& matrix : matrices) {
    CAPTURE(matrix.rows);
    const auto whole = format->pack(matrix);
    const auto& expected = packed_as<Packed>(*whole);
    for (const std::int64_t nonzeros : {1, 40, 100000}) {
      int parts = 0;
      const auto build = [&](const CsrMatrix& rows) {
        ++parts;
        validate(rows);
        std::unique_ptr<PackedMatrix> packed = format->pack(rows);
        return std::unique_ptr<Packed>(&dynamic_cast<Packed&>(*packed.release()));
      };
      const auto found = build_in_parts<Packed>(matrix, height, build, nonzeros);
      CHECK((parts == 1) == (matrix.nnz() <= nonzeros || matrix.rows <= height));
      const auto equal = [&](auto member) { CHECK((*found).*member == expected.*member); };
      std::apply([&](auto... member) { (equal(member), ...); }, Packed::kOffsets);
      std::apply([&](auto... member) { (equal(member), ...); }, Packed::kArrays);
      CHECK(found->unpack() == matrix);
      check_unpacked_parts(*found, matrix, height, nonzeros);
    }
  }
}

TEST_CASE("a matrix is built at once up to 2^24 nonzeros, and else in parts of a sixty-fourth") {
  CHECK(nonzeros_of_part(0) == 0);
  CHECK(nonzeros_of_part(1 << 24) == 1 << 24);
  CHECK(nonzeros_of_part((1 << 24) + 1) == 1 << 21);
  CHECK(nonzeros_of_part(640'000'000) == 10'000'000);
  CHECK(nonzeros_of_part(2'000'000'000) == 1 << 24);
}

TEST_CASE("formats that are built in parts of windows are those that are built at once") {
  check_parts<Mosaic>(Mosaic::kWindowRows);
  check_parts<BitTcf>(BitTcf::kTileRows);
  check_parts<TallTiles>(TallTiles::kWindowRows);
}

}  // namespace
}  // namespace tessera
