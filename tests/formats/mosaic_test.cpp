// Mosaic: a matrix packed by hand, the order of its bits, and its conversion to ME-TCF.

#include "formats/mosaic.hpp"

#include <doctest/doctest.h>

#include <set>

#include "formats/base/registry.hpp"
#include "formats/condense.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

std::unique_ptr<PackedMatrix> pack(const CsrMatrix& matrix) {
  return Registry<Format>::instance().make(Mosaic::kFormat)->pack(matrix);
}

TEST_CASE("mosaic packs a small matrix as worked out by hand") {
  // Window 0: row 0 has columns 2 and 9, row 9 has 1, 2, 3, 4, 5, 6, 7, 8: nine active columns, two
  // tiles, the second with column 9 alone. Window 1: row 17 has column 0.
  const CsrMatrix matrix{
      18, 30,
      std::vector<std::int64_t>{0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 10, 10, 10, 10, 10, 10, 10, 10, 11},
      std::vector<std::int32_t>{2, 9, 1, 2, 3, 4, 5, 6, 7, 8, 0},
      std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}};

  const auto packed = pack(matrix);
  const auto& mosaic = packed_as<Mosaic>(*packed);

  constexpr std::int32_t kNone = kNoColumn;
  CHECK(mosaic.window_offset == std::vector<std::uint32_t>{0, 2, 3});
  CHECK(mosaic.tile_offset == std::vector<std::uint32_t>{0, 9, 10, 11});
  CHECK(mosaic.tile_cols ==
        std::vector<std::int32_t>{1, 2,     3,     4,     5,     6,     7,     8,      //
                                  9, kNone, kNone, kNone, kNone, kNone, kNone, kNone,  //
                                  0, kNone, kNone, kNone, kNone, kNone, kNone, kNone});
  // (0, 1) is bit 1; (9, 0) to (9, 3) are word 1 from bit 4, (9, 4) to (9, 7) word 3 from bit 4.
  CHECK(mosaic.bitmaps == std::vector<Mosaic::Bitmap>{{{0b10ull | 0xf0ull << 32, 0xf0ull << 32}},
                                                      {{0b1ull, 0}},
                                                      {{0b1ull << 4, 0}}});
  CHECK(mosaic.values == std::vector<float>{1, 3, 4, 5, 6, 7, 8, 9, 10, 2, 11});
  CHECK(mosaic.tiles().tiles == 3);
  CHECK(mosaic.locate(9) ==
        "row window 0 (row 9 of it), tiles 0 to 2, first nonzero of the row in tile 0, MMA step 0 "
        "of the window");
  CHECK(mosaic.locate(1) ==
        "row window 0 (row 1 of it), tiles 0 to 2, none with a nonzero of the row");
  CHECK(stats(mosaic).bytes == 4 * 3 + 4 * 4 + 3 * (32 + 16) + 4 * 11);
}

TEST_CASE("a bit of mosaic stands for one cell, in the order of the lanes and of their elements") {
  std::set<int> bits;
  for (int row = 0; row < Mosaic::kWindowRows; ++row) {
    for (int col = 0; col < Mosaic::kTileCols; ++col) {
      const int bit = Mosaic::bit_of(row, col);
      bits.insert(bit);
      CHECK(Mosaic::row_of(bit) == row);
      CHECK(Mosaic::col_of(bit) == col);
    }
  }
  CHECK(bits.size() == 128);
  // m16n8k8: lane 4 g + t multiplies (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4).
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    CHECK(Mosaic::bit_of(g, t) == lane);
    CHECK(Mosaic::bit_of(g + 8, t) == 32 + lane);
    CHECK(Mosaic::bit_of(g, t + 4) == 64 + lane);
    CHECK(Mosaic::bit_of(g + 8, t + 4) == 96 + lane);
  }
}

TEST_CASE("the rank of a bit of mosaic is the number of bits below it") {
  Mosaic::Bitmap bitmap;
  std::vector<int> set;
  for (int bit = 0; bit < 128; bit += 1 + bit % 7) {
    bitmap.words[bit / 64] |= std::uint64_t{1} << bit % 64;
    CHECK(bitmap.rank(bit) == std::ssize(set));
    set.push_back(bit);
  }
  CHECK(bitmap.count() == std::ssize(set));
  for (int bit = 0; bit < 128; ++bit)
    CHECK(bitmap.has(bit) == (std::ranges::find(set, bit) != set.end()));
}

TEST_CASE("mosaic becomes the ME-TCF of the same windows") {
  const CsrMatrix matrix = random_sparse(203, 157, 0.07, 5);
  const auto packed = pack(matrix);
  const auto expected = Registry<Format>::instance()
                            .make("me_tcf", {{"window_rows", std::int64_t{16}}})
                            ->pack(matrix);
  const auto& tiles = packed_as<MeTcf>(*expected);
  const auto converted = to_me_tcf(packed_as<Mosaic>(*packed));
  CHECK(converted->window_rows == tiles.window_rows);
  CHECK(converted->row_window_offset == tiles.row_window_offset);
  CHECK(converted->tc_offset == tiles.tc_offset);
  CHECK(converted->sparse_a_to_b == tiles.sparse_a_to_b);
  CHECK(converted->tc_local_id == tiles.tc_local_id);
  CHECK(converted->values == tiles.values);
}

}  // namespace
}  // namespace tessera
