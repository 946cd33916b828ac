// Formats of condensed row windows: a matrix small enough to pack by hand, their sizes by formula,
// and their tiles as statistics() counts them. What holds for every format is in
// formats_conformance_test.cpp; HRPB has a file of its own.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "formats/base/registry.hpp"
#include "formats/io/matrix_file.hpp"
#include "formats/me_bcrs.hpp"
#include "formats/me_tcf.hpp"
#include "formats/sr_bcrs.hpp"
#include "formats/statistics/statistics.hpp"
#include "formats/tcf.hpp"
#include "tests/condensed_example.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

constexpr std::int32_t kNone = kNoColumn;

std::unique_ptr<PackedMatrix> pack(const char* format, const CsrMatrix& matrix,
                                   const Params::Given& given = {}, const PackLimits& limits = {}) {
  return Registry<Format>::instance().make(format, given)->pack(matrix, limits);
}

Params::Given given(const char* first, std::int64_t a) { return {{first, a}}; }
Params::Given given(const char* first, std::int64_t a, const char* second, std::int64_t b) {
  return {{first, a}, {second, b}};
}

/// 0, -0 and nonzeros among padding:
// . -0 . 7
// 0  8 . .
CsrMatrix matrix_with_zeros() {
  return {2, 4, std::vector<std::int64_t>{0, 2, 4}, std::vector<std::int32_t>{1, 3, 0, 1},
          std::vector<float>{-0.0f, 7, 0.0f, 8}};
}

/// All zero but for values at places.
std::vector<float> scattered(std::size_t size,
                             const std::vector<std::pair<std::size_t, float>>& cells) {
  std::vector<float> all(size, 0.0f);
  for (const auto& [place, value] : cells) all[place] = value;
  return all;
}

/// Active columns of every window of that height, counted with a set.
std::vector<std::int64_t> active_columns(const CsrMatrix& matrix, int height) {
  std::vector<std::int64_t> counts;
  for (std::int32_t first = 0; first < matrix.rows; first += height) {
    std::set<std::int32_t> cols;
    for (std::int32_t row = first; row < std::min(first + height, matrix.rows); ++row)
      cols.insert(matrix.row_cols(row).begin(), matrix.row_cols(row).end());
    counts.push_back(std::ssize(cols));
  }
  return counts;
}

/// Columns of all windows together, each window's rounded up to a multiple of `width`.
std::int64_t rounded_up(const std::vector<std::int64_t>& active, std::int64_t width) {
  std::int64_t sum = 0;
  for (const std::int64_t count : active) sum += (count + width - 1) / width * width;
  return sum;
}

std::vector<std::string> array_names(const PackedMatrix& packed) {
  std::vector<std::string> names;
  for (const ArrayInfo& array : packed.arrays()) names.push_back(array.name);
  return names;
}

const std::string kLastRowInWindow1 =
    "row window 1 (row 1 of it), TC blocks 2 to 3, first nonzero of the row in TC block 2, MMA "
    "step 0 of the window";

TEST_CASE("TCF of a small matrix stores the position of every nonzero in its window") {
  const auto packed = pack("tcf", condensed_example());
  const auto& tcf = packed_as<Tcf>(*packed);

  CHECK(tcf.row_offsets == std::vector<std::int32_t>{0, 3, 3, 3, 3, 3, 3, 3, 3, 3, 10, 10, 10, 10,
                                                     10, 10, 10, 11, 12});
  CHECK(std::ranges::equal(tcf.col_indices,
                           std::vector<std::int32_t>{2, 5, 29, 1, 2, 3, 4, 6, 7, 8, 11, 0}));
  // The window has columns 1 to 8 and 29; the other 0 and 11.
  CHECK(tcf.edge_to_column == std::vector<std::int32_t>{1, 4, 8, 0, 1, 2, 3, 5, 6, 7, 1, 0});
  CHECK(tcf.edge_to_row == std::vector<std::int32_t>{0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 16, 17});
  CHECK(tcf.block_partition == std::vector<std::int32_t>{2, 1});
  CHECK(std::ranges::equal(tcf.values, condensed_example().values));
  CHECK(tcf.locate(17) == kLastRowInWindow1);
  CHECK(tcf.locate(8) ==
        "row window 0 (row 8 of it), TC blocks 0 to 2, none with a nonzero of the row");
}

TEST_CASE("TCF packs windows of 8 rows with TC blocks of 4 columns as worked out by hand") {
  const auto packed = pack("tcf", condensed_example(), given("window_rows", 8, "tile_cols", 4));
  const auto& tcf = packed_as<Tcf>(*packed);

  CHECK(tcf.edge_to_column == std::vector<std::int32_t>{0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 1, 0});
  CHECK(tcf.block_partition == std::vector<std::int32_t>{1, 2, 1});
  CHECK(tcf.tiles().tiles == 4);
  CHECK(tcf.unpack() == condensed_example());
}

TEST_CASE("ME-TCF of a small matrix stores one byte per nonzero") {
  const auto packed = pack("me_tcf", condensed_example());
  const auto& tcf = packed_as<MeTcf>(*packed);

  CHECK(tcf.row_window_offset == std::vector<std::uint32_t>{0, 2, 3});
  CHECK(tcf.tc_offset == std::vector<std::uint32_t>{0, 9, 10, 12});
  CHECK(tcf.sparse_a_to_b ==
        std::vector<std::int32_t>{1,  2,     3,     4,     5,     6,     7,     8,      //
                                  29, kNone, kNone, kNone, kNone, kNone, kNone, kNone,  //
                                  0,  11,    kNone, kNone, kNone, kNone, kNone, kNone});
  CHECK(tcf.tc_local_id == std::vector<std::uint8_t>{1, 4, 72, 73, 74, 75, 77, 78, 79,  //
                                                     0,                                 //
                                                     1, 8});
  CHECK(tcf.values == std::vector<float>{1, 2, 4, 5, 6, 7, 8, 9, 10, 3, 11, 12});
  CHECK(tcf.locate(17) == kLastRowInWindow1);
}

TEST_CASE("ME-TCF packs windows of 8 rows as worked out by hand") {
  const auto packed = pack("me_tcf", condensed_example(), given("window_rows", 8));
  const auto& tcf = packed_as<MeTcf>(*packed);

  CHECK(tcf.row_window_offset == std::vector<std::uint32_t>{0, 1, 2, 3});
  CHECK(tcf.sparse_a_to_b ==
        std::vector<std::int32_t>{2, 5,  29,    kNone, kNone, kNone, kNone, kNone,  //
                                  1, 2,  3,     4,     6,     7,     8,     kNone,  //
                                  0, 11, kNone, kNone, kNone, kNone, kNone, kNone});
  CHECK(tcf.tc_local_id == std::vector<std::uint8_t>{0, 1, 2, 8, 9, 10, 11, 12, 13, 14, 1, 8});
}

TEST_CASE("bitmaps of ME-TCF's TC blocks are those of BitTCF") {
  for (const double density : {0.0, 0.02, 0.4}) {
    const CsrMatrix a = random_sparse(101, 70, density, 21);
    const auto bytes = pack("me_tcf", a, given("window_rows", 8)), bits = pack("bit_tcf", a);
    const auto& expected = packed_as<BitTcf>(*bits);

    const auto tiles = to_bit_tcf(packed_as<MeTcf>(*bytes));

    CHECK(tiles->row_window_offset == expected.row_window_offset);
    CHECK(tiles->tc_offset == expected.tc_offset);
    CHECK(tiles->sparse_a_to_b == expected.sparse_a_to_b);
    CHECK(tiles->tc_local_bit == expected.tc_local_bit);
    CHECK(tiles->values == expected.values);
  }
  const auto tall = pack("me_tcf", condensed_example());
  CHECK_THROWS_WITH_AS(to_bit_tcf(packed_as<MeTcf>(*tall)),
                       doctest::Contains("set its window_rows = 8"), Error);
}

TEST_CASE("SR-BCRS of a small matrix pads every window's vectors to the stride") {
  const auto packed = pack("sr_bcrs", condensed_example());
  const auto& bcrs = packed_as<SrBcrs>(*packed);

  CHECK(bcrs.row_begin == std::vector<std::uint32_t>{0, 16, 32});
  CHECK(bcrs.row_end == std::vector<std::uint32_t>{3, 23, 34});
  std::vector<std::int32_t> cols(48, kNone);
  std::ranges::copy(std::vector{2, 5, 29}, cols.begin());
  std::ranges::copy(std::vector{1, 2, 3, 4, 6, 7, 8}, cols.begin() + 16);
  std::ranges::copy(std::vector{0, 11}, cols.begin() + 32);
  CHECK(bcrs.col_indices == cols);
  // 8 x 16 values a window; row 9 is row 1 of its window, from 128 + 16 on.
  CHECK(bcrs.values == scattered(384, {{0, 1.0f},
                                       {1, 2.0f},
                                       {2, 3.0f},
                                       {144, 4.0f},
                                       {145, 5.0f},
                                       {146, 6.0f},
                                       {147, 7.0f},
                                       {148, 8.0f},
                                       {149, 9.0f},
                                       {150, 10.0f},
                                       {257, 11.0f},
                                       {272, 12.0f}}));
  CHECK(bcrs.locate(17) ==
        "row window 2 (row 1 of it), TC blocks 2 to 3, first nonzero of the row in TC block 2, MMA "
        "step 0 of the window");
}

TEST_CASE("SR-BCRS keeps each stride of a long window together, and nothing of an empty one") {
  // Rows 0 to 3 are empty; row 4 has 20 columns.
  std::vector<std::int32_t> cols(20);
  std::vector<float> row(20);
  for (int c = 0; c < 20; ++c) cols[c] = 2 * c, row[c] = static_cast<float>(c + 1);
  const CsrMatrix matrix{5, 40, std::vector<std::int64_t>{0, 0, 0, 0, 0, 20}, cols, row};

  const auto packed = pack("sr_bcrs", matrix, given("vector_rows", 4));
  const auto& bcrs = packed_as<SrBcrs>(*packed);

  CHECK(bcrs.row_begin == std::vector<std::uint32_t>{0, 0});
  CHECK(bcrs.row_end == std::vector<std::uint32_t>{0, 20});
  CHECK(bcrs.col_indices.size() == 32);
  CHECK(bcrs.values.size() == 128);
  CHECK(bcrs.values[15] == 16.0f);  // row 0 of the first stride, then its three empty rows
  CHECK(bcrs.values[64] == 17.0f);
  CHECK(bcrs.values[67] == 20.0f);
  CHECK(std::ranges::count(bcrs.values, 0.0f) == 108);
  CHECK(bcrs.locate(4) ==
        "row window 1 (row 0 of it), TC blocks 0 to 2, first nonzero of the row in TC block 0, MMA "
        "step 0 of the window");
}

TEST_CASE("ME-BCRS of a small matrix has no padded columns") {
  const auto packed = pack("me_bcrs", condensed_example());
  const auto& bcrs = packed_as<MeBcrs>(*packed);

  CHECK(bcrs.row_window_offset == std::vector<std::uint32_t>{0, 3, 10, 12});
  CHECK(bcrs.col_indices == std::vector<std::int32_t>{2, 5, 29, 1, 2, 3, 4, 6, 7, 8, 0, 11});
  // TC blocks of 3, 7 and 2 vectors from 0, 24 and 80 on.
  CHECK(bcrs.values == scattered(96, {{0, 1.0f},
                                      {1, 2.0f},
                                      {2, 3.0f},
                                      {31, 4.0f},
                                      {32, 5.0f},
                                      {33, 6.0f},
                                      {34, 7.0f},
                                      {35, 8.0f},
                                      {36, 9.0f},
                                      {37, 10.0f},
                                      {81, 11.0f},
                                      {82, 12.0f}}));
  CHECK(bcrs.locate(17) ==
        "row window 2 (row 1 of it), TC blocks 2 to 3, first nonzero of the row in TC block 2, MMA "
        "step 0 of the window");
}

TEST_CASE("ME-BCRS has a narrower last TC block in a window") {
  const auto packed = pack("me_bcrs", condensed_example(), given("tile_cols", 4));
  const auto& bcrs = packed_as<MeBcrs>(*packed);

  // Row 9: vectors 3 to 6 with four values a row from 24 on, 7 to 9 with three from 56 on.
  CHECK(bcrs.values == scattered(96, {{0, 1.0f},
                                      {1, 2.0f},
                                      {2, 3.0f},
                                      {28, 4.0f},
                                      {29, 5.0f},
                                      {30, 6.0f},
                                      {31, 7.0f},
                                      {59, 8.0f},
                                      {60, 9.0f},
                                      {61, 10.0f},
                                      {81, 11.0f},
                                      {82, 12.0f}}));
  CHECK(bcrs.tiles().tiles == 4);
  CHECK(bcrs.tc_block(1, 1).first_vector == 7);
  CHECK(bcrs.tc_block(1, 1).width == 3);
}

TEST_CASE("formats of whole vectors list explicit zeros, and only then have an array more") {
  const auto sr = pack("sr_bcrs", matrix_with_zeros(), given("vector_rows", 2));
  const auto me = pack("me_bcrs", matrix_with_zeros());

  // Columns 0, 1 and 3: -0 is row 0 of the second, 0 is row 1 of the first.
  CHECK(packed_as<SrBcrs>(*sr).explicit_zeros == std::vector<std::int64_t>{1, 16});
  CHECK(packed_as<MeBcrs>(*me).explicit_zeros == std::vector<std::int64_t>{1, 3});
  CHECK(std::signbit(packed_as<MeBcrs>(*me).values[1]));
  CHECK(array_names(*sr).back() == "explicit_zeros");
  CHECK(array_names(*me).back() == "explicit_zeros");
  CHECK(stats(*sr).bytes == 4 * (2 + 16 * 3) + 2 * 8);
  CHECK(array_names(*pack("sr_bcrs", condensed_example())).back() == "values");
  CHECK(array_names(*pack("me_bcrs", condensed_example())).back() == "values");
}

TEST_CASE("footprints of condensed formats agree with their formulas") {
  for (const CsrMatrix& matrix : {random_sparse(203, 157, 0.07, 5), random_sparse(64, 900, 0.02, 6),
                                  random_sparse(1000, 30, 0.01, 7), random_sparse(40, 50, 0, 8)}) {
    CAPTURE(matrix.rows);
    const std::int64_t nnz = matrix.nnz();
    for (const std::int64_t height : {2, 4, 8, 16}) {
      CAPTURE(height);
      const auto active = active_columns(matrix, static_cast<int>(height));
      const std::int64_t windows = std::ssize(active), vectors = rounded_up(active, 1);
      const std::int64_t tc_blocks = rounded_up(active, 8) / 8;

      const FormatStats tcf = stats(*pack("tcf", matrix, given("window_rows", height)));
      CHECK(tcf.bytes == 4 * (matrix.rows + 1 + 4 * nnz + windows));
      CHECK(tcf.tile.tiles == tc_blocks);
      for (const std::int64_t stride : {16, 32}) {
        const FormatStats sr =
            stats(*pack("sr_bcrs", matrix, given("vector_rows", height, "stride", stride)));
        const std::int64_t padded = rounded_up(active, stride);
        CHECK(sr.bytes == 4 * (2 * windows + padded * (1 + height)));
        CHECK(sr.tile.slots == padded * height);
      }
      if (height < 8) continue;
      const FormatStats me_tcf = stats(*pack("me_tcf", matrix, given("window_rows", height)));
      CHECK(me_tcf.index_bytes == 4 * (windows + 2 + 9 * tc_blocks) + nnz);
      CHECK(me_tcf.bytes == me_tcf.index_bytes + 4 * nnz);
      for (const std::int64_t cols : {4, 8, 16}) {
        const FormatStats me =
            stats(*pack("me_bcrs", matrix, given("vector_rows", height, "tile_cols", cols)));
        CHECK(me.bytes == 4 * (windows + 1 + vectors * (1 + height)));
        CHECK(me.tile.tiles == rounded_up(active, cols) / cols);
      }
    }
  }
}

TEST_CASE("the condensed column of TCF is the rank of the column in its window") {
  const CsrMatrix matrix = random_sparse(203, 157, 0.07, 5);
  const auto packed = pack("tcf", matrix, given("window_rows", 24));
  const auto& tcf = packed_as<Tcf>(*packed);

  for (std::int32_t first = 0; first < matrix.rows; first += 24) {
    const std::int32_t last = std::min(first + 24, matrix.rows);
    std::set<std::int32_t> cols;
    for (std::int32_t row = first; row < last; ++row)
      cols.insert(matrix.row_cols(row).begin(), matrix.row_cols(row).end());
    for (std::int64_t k = matrix.row_offsets[first]; k < matrix.row_offsets[last]; ++k)
      CHECK(tcf.edge_to_column[k] == std::distance(cols.begin(), cols.find(matrix.col_indices[k])));
  }
}

TEST_CASE("the number of TC blocks of a real matrix is that of the statistics") {
  for (const char* name : {"data/bcsstk17.npz", "data/cora.npz"}) {
    const std::string path = shared_path(name);
    if (path.empty()) return;
    CAPTURE(name);
    const CsrMatrix matrix = read_matrix(path);
    const MatrixStatistics found = statistics(matrix);
    const auto tiles = [&](const char* format, std::int64_t height) {
      return pack(format, matrix, given("window_rows", height))->tiles().tiles;
    };

    for (const WindowCount& windows : found.windows) {
      CHECK(tiles("tcf", windows.height) == windows.tc_blocks);
      if (windows.height <= 16) CHECK(tiles("me_tcf", windows.height) == windows.tc_blocks);
    }
    const auto me = pack("me_bcrs", matrix);
    CHECK(packed_as<MeBcrs>(*me).num_vectors() == found.windows[0].active_cols);
  }
}

TEST_CASE("condensed formats refuse matrices that their offsets or the memory cannot hold") {
  const CsrMatrix matrix = condensed_example();
  const auto with = [&](const char* format, const PackLimits& limits) {
    return pack(format, matrix, {}, limits);
  };

  CHECK_NOTHROW(with("tcf", {.offset = 12}));
  CHECK_THROWS_WITH_AS(with("tcf", {.offset = 11}),
                       "tcf counts nonzeros, with a sign, in 32 bits: 12 of them do not fit",
                       Unsupported);
  CHECK_NOTHROW(with("me_tcf", {.offset = 12}));
  CHECK_THROWS_WITH_AS(with("me_tcf", {.offset = 11}),
                       "me_tcf counts nonzeros in 32 bits: 12 of them do not fit", Unsupported);
  CHECK_NOTHROW(with("sr_bcrs", {.offset = 48, .bytes = 1752}));
  CHECK_THROWS_WITH_AS(with("sr_bcrs", {.offset = 47}),
                       "sr_bcrs counts vectors in 32 bits: 48 of them do not fit", Unsupported);
  CHECK_THROWS_WITH_AS(with("sr_bcrs", {.bytes = 1751}),
                       "sr_bcrs would take 1.75e+03 bytes with its padding, more than 1.75e+03",
                       Unsupported);
  CHECK_NOTHROW(with("me_bcrs", {.offset = 12, .bytes = 448}));
  CHECK_THROWS_WITH_AS(with("me_bcrs", {.offset = 11}),
                       "me_bcrs counts vectors in 32 bits: 12 of them do not fit", Unsupported);
  CHECK_THROWS_WITH_AS(with("me_bcrs", {.bytes = 447}),
                       "me_bcrs would take 448 bytes with its padding, more than 447", Unsupported);
}

TEST_CASE("an unsupported window or vector height is refused with the supported ones") {
  const auto& registry = Registry<Format>::instance();

  CHECK_THROWS_WITH_AS(registry.make("me_tcf", given("window_rows", 32)),
                       "format me_tcf: unknown value for window_rows '32'; known: 8, 16", Error);
  CHECK_THROWS_AS(registry.make("sr_bcrs", given("vector_rows", 3)), Error);
  CHECK_THROWS_AS(registry.make("sr_bcrs", given("stride", 8)), Error);
  CHECK_THROWS_AS(registry.make("me_bcrs", given("vector_rows", 4)), Error);
  CHECK_THROWS_AS(registry.make("me_bcrs", given("tile_cols", 5)), Error);
  CHECK_THROWS_WITH_AS(registry.make("tcf", given("window_rows", 129)),
                       "format tcf: window_rows = 129 is outside [1, 128]", Error);
}

}  // namespace
}  // namespace tessera
