// Formats that store nonzeros or regular tiles, and BitTCF: matrices small enough to pack by hand.
// formats_conformance_test.cpp tests the properties of every format.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "formats/base/registry.hpp"
#include "formats/bcsr.hpp"
#include "formats/bit_tcf.hpp"
#include "formats/bitmap_tile.hpp"
#include "formats/blocked_ell.hpp"
#include "formats/coo.hpp"
#include "formats/csr32.hpp"
#include "formats/io/source.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

std::unique_ptr<PackedMatrix> pack(const char* format, const CsrMatrix& matrix,
                                   const Params::Given& given = {}) {
  return Registry<Format>::instance().make(format, given)->pack(matrix);
}

// 1 . . 2 . . .
// . . . . . . .
// . . . 3 . . 4
// . . 5 . . . .
// . . . . . . 6
CsrMatrix small_matrix() {
  return {5, 7, std::vector<std::int64_t>{0, 2, 2, 4, 5, 6},
          std::vector<std::int32_t>{0, 3, 3, 6, 2, 6}, std::vector<float>{1, 2, 3, 4, 5, 6}};
}

/// 0, -0 and a nonzero among padding:
// . -0 . 7
// 0  8 . .
CsrMatrix matrix_with_zeros() {
  return {2, 4, std::vector<std::int64_t>{0, 2, 4}, std::vector<std::int32_t>{1, 3, 0, 1},
          std::vector<float>{-0.0f, 7, 0.0f, 8}};
}

TEST_CASE("COO of a small matrix is its nonzeros in the order of CSR") {
  const auto packed = pack("coo", small_matrix());
  const auto& coo = packed_as<Coo>(*packed);

  CHECK(coo.row_indices == std::vector<std::int32_t>{0, 0, 2, 2, 3, 4});
  CHECK(std::ranges::equal(coo.col_indices, std::vector<std::int32_t>{0, 3, 3, 6, 2, 6}));
  CHECK(std::ranges::equal(coo.values, std::vector<float>{1, 2, 3, 4, 5, 6}));
  CHECK(stats(coo).bytes == 12 * 6);
  CHECK(coo.locate(2) == "row 2, entries 2 to 4");
  CHECK(coo.locate(1) == "row 1, entries 2 to 2");
}

TEST_CASE("CSR with 32-bit offsets takes rows + 1 + 2 nnz words") {
  const auto packed = pack("csr32", small_matrix());
  const auto& csr = packed_as<Csr32>(*packed);

  CHECK(csr.row_offsets == std::vector<std::uint32_t>{0, 2, 2, 4, 5, 6});
  CHECK(std::ranges::equal(csr.col_indices, std::vector<std::int32_t>{0, 3, 3, 6, 2, 6}));
  CHECK(std::ranges::equal(csr.values, std::vector<float>{1, 2, 3, 4, 5, 6}));
  CHECK(stats(csr).bytes == 4 * (5 + 1 + 2 * 6));
  CHECK(csr.locate(3) == "row 3, nonzeros 4 to 5");
}

TEST_CASE("BCSR packs a small matrix in blocks of 2 x 3 as worked out by hand") {
  const auto packed = pack("bcsr", small_matrix(),
                           {{"block_rows", std::int64_t{2}}, {"block_cols", std::int64_t{3}}});
  const auto& bcsr = packed_as<Bcsr>(*packed);

  CHECK(bcsr.block_row_offset == std::vector<std::uint32_t>{0, 2, 5, 6});
  CHECK(bcsr.block_col == std::vector<std::int32_t>{0, 1, 0, 1, 2, 2});
  CHECK(bcsr.values == std::vector<float>{1, 0, 0, 0, 0, 0,  //
                                          2, 0, 0, 0, 0, 0,  //
                                          0, 0, 0, 0, 0, 5,  //
                                          3, 0, 0, 0, 0, 0,  //
                                          4, 0, 0, 0, 0, 0,  //
                                          6, 0, 0, 0, 0, 0});
  CHECK(bcsr.arrays().size() == 3);
  CHECK(bcsr.tiles().tiles == 6);
  CHECK(stats(bcsr).bytes == 4 * (4 + 6 + 36));
  CHECK(stats(bcsr).padding_ratio == 5);
  CHECK(bcsr.locate(2) ==
        "row window 1 (row 0 of it), blocks 2 to 5, first nonzero of the row in block 3, MMA step "
        "1 of the window");
  CHECK(bcsr.locate(1) ==
        "row window 0 (row 1 of it), blocks 0 to 2, none with a nonzero of the row");
}

TEST_CASE("Blocked-ELL of a small matrix in blocks of 2 x 2 is what cuSPARSE takes") {
  const auto packed = pack("blocked_ell", small_matrix(), {{"block", std::int64_t{2}}});
  const auto& ell = packed_as<BlockedEll>(*packed);

  CHECK(ell.ell_cols() == 4);
  CHECK(ell.padded_rows() == 6);
  CHECK(ell.padded_cols() == 8);
  CHECK(ell.block_col == std::vector<std::int32_t>{0, 1,  //
                                                   1, 3,  //
                                                   3, kNoColumn});
  CHECK(ell.values == std::vector<float>{1, 0, 0, 2,  //
                                         0, 0, 0, 0,  //
                                         0, 3, 4, 0,  //
                                         5, 0, 0, 0,  //
                                         6, 0, 0, 0,  //
                                         0, 0, 0, 0});
  CHECK(ell.arrays().size() == 2);
  CHECK(stats(ell).bytes == 4 * (6 + 24));
  CHECK(ell.locate(4) ==
        "row window 2 (row 0 of it), blocks 4 to 6, first nonzero of the row in block 4, MMA step "
        "0 of the window");
}

TEST_CASE("whole blocks list the explicit zeros of A, and only those") {
  const auto blocks = pack("bcsr", matrix_with_zeros(),
                           {{"block_rows", std::int64_t{2}}, {"block_cols", std::int64_t{2}}});
  const auto ell = pack("blocked_ell", matrix_with_zeros(), {{"block", std::int64_t{2}}});
  const auto& bcsr = packed_as<Bcsr>(*blocks);
  const auto& blocked_ell = packed_as<BlockedEll>(*ell);

  CHECK(bcsr.values == std::vector<float>{0, -0.0f, 0, 8, 0, 7, 0, 0});
  CHECK(std::signbit(bcsr.values[1]));
  CHECK_FALSE(std::signbit(bcsr.values[0]));
  CHECK(bcsr.explicit_zeros == std::vector<std::int64_t>{1, 2});
  CHECK(blocked_ell.values == std::vector<float>{0, -0.0f, 0, 7, 0, 8, 0, 0});
  CHECK(blocked_ell.explicit_zeros == std::vector<std::int64_t>{1, 4});
  CHECK(bcsr.arrays().back().name == "explicit_zeros");
  CHECK(stats(bcsr).bytes == 4 * (2 + 2 + 8) + 8 * 2);
  CHECK(stats(blocked_ell).bytes == 4 * (2 + 8) + 8 * 2);
  CHECK(bcsr.unpack() == matrix_with_zeros());
}

TEST_CASE("bitmap tiles of a small matrix are the quadruples of tSparse") {
  const CsrMatrix matrix{10, 17, std::vector<std::int64_t>{0, 2, 2, 2, 2, 2, 2, 2, 4, 4, 5},
                         std::vector<std::int32_t>{1, 9, 0, 1, 16},
                         std::vector<float>{1, 2, 3, 4, 5}};

  const auto packed = pack("bitmap_tile", matrix);
  const auto& tiles = packed_as<BitmapTile>(*packed);

  CHECK(tiles.tile_row == std::vector<std::int32_t>{0, 0, 1});
  CHECK(tiles.tile_col == std::vector<std::int32_t>{0, 1, 2});
  CHECK(tiles.bitmap == std::vector<std::uint64_t>{0b10ull | 0b11ull << 56, 0b10ull, 0b1ull << 8});
  CHECK(tiles.value_offset == std::vector<std::uint32_t>{0, 3, 4, 5});
  CHECK(tiles.values == std::vector<float>{1, 3, 4, 2, 5});
  CHECK(stats(tiles).bytes == 3 * (4 + 4 + 8 + 4) + 4 + 4 * 5);
  CHECK(tiles.locate(7) ==
        "row window 0 (row 7 of it), tiles 0 to 2, first nonzero of the row in tile 0, MMA step 0 "
        "of the window");
  CHECK(tiles.locate(8) ==
        "row window 1 (row 0 of it), tiles 2 to 3, none with a nonzero of the row");
}

TEST_CASE("BitTCF of a small matrix is what section 3.3 of Acc-SpMM builds by hand") {
  // Window 0 has rows 0 to 7 with nine active columns, so two TC blocks; window 1 has none;
  // window 2 has rows 16 and 17.
  const CsrMatrix matrix{
      18, 30,
      std::vector<std::int64_t>{0, 3, 3, 3, 3, 3, 3, 3, 10, 10, 10, 10, 10, 10, 10, 10, 10, 11, 12},
      std::vector<std::int32_t>{2, 5, 29, 1, 2, 3, 4, 6, 7, 8, 11, 0},
      std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}};

  const auto packed = pack("bit_tcf", matrix);
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

TEST_CASE("the index of BitTCF has the bytes of Acc-SpMM's closed form") {
  for (const char* spec :
       {"poisson2d(nx=37)", "rmat(scale=9)", "band(n=777, bandwidth=20, density=0.1)"}) {
    CAPTURE(spec);
    const CsrMatrix matrix = load_matrix(spec, false).matrix;

    const FormatStats found = stats(*pack("bit_tcf", matrix));

    CHECK(found.index_bytes == ((matrix.rows + 7) / 8 + 11 * found.tile.tiles + 2) * 4);
    CHECK(found.bytes == found.index_bytes + 4 * matrix.nnz());
  }
}

TEST_CASE("reading a packed matrix as another format is an error that names the format") {
  const auto packed = pack("csr", random_sparse(4, 4, 0.5, 1));

  CHECK_THROWS_WITH_AS(packed_as<BitTcf>(*packed), "the matrix is not packed as bit_tcf", Error);
}

}  // namespace
}  // namespace tessera
