// Tall tiles: a matrix packed by hand, and matrices packed cell by cell the plain way.

#include "formats/tall_tiles.hpp"

#include <doctest/doctest.h>

#include <map>

#include "formats/base/registry.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

/// A matrix packed as tall tiles, of which a test may change the arrays.
std::unique_ptr<TallTiles> pack(const CsrMatrix& matrix) {
  std::unique_ptr<PackedMatrix> packed =
      Registry<Format>::instance().make(TallTiles::kFormat)->pack(matrix);
  return std::unique_ptr<TallTiles>(&dynamic_cast<TallTiles&>(*packed.release()));
}

TEST_CASE("tall tiles of a small matrix are as worked out by hand") {
  // Window 0: row 0 has columns 2 and 9, row 63 has 0, 2 and the even columns from 10 to 140: 69
  // active columns, two tiles, the second with the last five. Window 1: row 65 has column 7.
  std::vector<std::int32_t> indices{2, 9, 0, 2};
  for (int col = 10; col <= 140; col += 2) indices.push_back(col);
  indices.push_back(7);
  std::vector<std::int64_t> offsets(67, 2);
  offsets[0] = 0, offsets[64] = offsets[65] = 70, offsets[66] = 71;
  std::vector<float> values(71);
  for (int k = 0; k < 71; ++k) values[k] = static_cast<float>(k + 1);

  const auto tall = pack({66, 150, offsets, indices, values});

  CHECK(tall->window_offset == std::vector<std::uint32_t>{0, 2, 3});
  CHECK(tall->tile_offset == std::vector<std::uint32_t>{0, 65, 70, 71});
  std::vector<std::int32_t> cols{0, 2, 9};
  for (int col = 10; col <= 140; col += 2) cols.push_back(col);
  cols.resize(128, kNoColumn);
  cols.push_back(7);
  cols.resize(192, kNoColumn);
  CHECK(tall->tile_cols == cols);
  // Row 0 is at the columns 1 and 2 of the tile; row 63 at all but 2, and at the five of the next.
  std::vector<std::uint16_t> places{1, 2, 4032, 4033};
  for (int col = 3; col < 64; ++col) places.push_back(static_cast<std::uint16_t>(4032 + col));
  for (int col = 0; col < 5; ++col) places.push_back(static_cast<std::uint16_t>(4032 + col));
  places.push_back(64);
  CHECK(tall->places == places);
  CHECK(tall->values == values);
  CHECK(tall->tiles().tiles == 3);
  CHECK(tall->tiles().slots == 71);
  CHECK(tall->locate(63) ==
        "row window 0 (row 63 of it), tiles 0 to 2, first nonzero of the row in tile 0, MMA step 0 "
        "of the window");
  CHECK(tall->locate(1) ==
        "row window 0 (row 1 of it), tiles 0 to 2, none with a nonzero of the row");
  CHECK(stats(*tall).bytes == 4 * (3 + 4 + 3 * 64) + 6 * 71);
}

TEST_CASE("a place of a tall tile stands for one cell, by rows") {
  int place = 0;
  for (int row = 0; row < TallTiles::kWindowRows; ++row) {
    for (int col = 0; col < TallTiles::kTileCols; ++col, ++place) {
      CHECK(TallTiles::place_of(row, col) == place);
      CHECK(TallTiles::row_of(place) == row);
      CHECK(TallTiles::col_of(place) == col);
    }
  }
}

/// What the tall tiles of the matrix have to be, without condense(); what is wrong, or nothing.
std::string fault(const TallTiles& tall, const CsrMatrix& a) {
  const std::int64_t windows = (std::int64_t{a.rows} + 63) / 64;
  if (tall.num_windows() != windows) return "windows";
  std::uint32_t tile = 0, slot = 0;
  for (std::int64_t window = 0; window < windows; ++window) {
    if (tall.window_offset[window] != tile) return fmt::format("first tile of window {}", window);
    std::map<std::int32_t, std::map<int, float>> by_col;  // column, row in the window, value
    for (int row = 0; row < 64 && window * 64 + row < a.rows; ++row) {
      const auto cols = a.row_cols(static_cast<std::int32_t>(window * 64 + row));
      const auto values = a.row_values(static_cast<std::int32_t>(window * 64 + row));
      for (std::size_t i = 0; i < cols.size(); ++i) by_col[cols[i]][row] = values[i];
    }
    for (auto next = by_col.begin(); next != by_col.end(); ++tile) {
      if (tile >= tall.num_tiles()) return "tiles";
      if (tall.tile_offset[tile] != slot) return fmt::format("first nonzero of tile {}", tile);
      std::map<int, float> cells;  // by place
      for (int col = 0; col < 64; ++col) {
        const bool used = next != by_col.end();
        if (tall.tile_cols[tile * 64 + col] != (used ? next->first : kNoColumn))
          return fmt::format("column {} of tile {}", col, tile);
        if (!used) continue;
        for (const auto& [row, value] : next->second) cells[64 * row + col] = value;
        ++next;
      }
      for (const auto& [place, value] : cells) {
        if (slot >= tall.places.size() || tall.places[slot] != place)
          return fmt::format("place of nonzero {}", slot);
        if (tall.values[slot] != value) return fmt::format("value of nonzero {}", slot);
        ++slot;
      }
    }
  }
  if (tall.window_offset.back() != tile || tall.num_tiles() != tile) return "tiles";
  if (tall.tile_offset.back() != slot || tall.places.size() != slot || tall.values.size() != slot)
    return "nonzeros";
  return tall.tile_cols.size() == std::size_t{64} * tile ? "" : "columns of tiles";
}

/// Windows 1 and 3 of 203 rows are empty, and window 2 is full.
CsrMatrix with_gaps() {
  const CsrMatrix sparse = random_sparse(203, 157, 0.05, 5), full = random_sparse(203, 157, 2, 6);
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> cols;
  std::vector<float> values;
  for (std::int32_t row = 0; row < sparse.rows; ++row) {
    if (row / 64 % 2 == 0) {
      const CsrMatrix& from = row / 64 == 2 ? full : sparse;
      cols.insert(cols.end(), from.row_cols(row).begin(), from.row_cols(row).end());
      values.insert(values.end(), from.row_values(row).begin(), from.row_values(row).end());
    }
    offsets.push_back(std::ssize(cols));
  }
  return {sparse.rows, sparse.cols, std::move(offsets), std::move(cols), std::move(values)};
}

TEST_CASE("tall tiles of any matrix are those that its cells make one by one") {
  const CsrMatrix matrices[] = {
      with_gaps(),                  // empty windows, a full one, 11 rows in the last
      random_sparse(64, 64, 2, 1),  // one full tile
      random_sparse(65, 65, 2, 2),  // one row and one column more
      random_sparse(128, 3000, 0.1, 3),
      random_sparse(1000, 40, 0.02, 4),
      random_sparse(1, 5000, 0.5, 5),
      random_sparse(5000, 1, 0.3, 6),
      random_sparse(40, 50, 0, 7),
  };
  for (const CsrMatrix& matrix : matrices) {
    CAPTURE(matrix.rows);
    CAPTURE(matrix.cols);
    const auto tall = pack(matrix);
    CHECK(fault(*tall, matrix) == "");
    CHECK(tall->unpack() == matrix);
  }
  CHECK(pack(matrices[0])->window_offset == std::vector<std::uint32_t>{0, 3, 3, 6, 6});
  CHECK(pack(matrices[1])->tile_offset == std::vector<std::uint32_t>{0, 4096});
  CHECK(pack(matrices[7])->num_tiles() == 0);
}

TEST_CASE("an array of tall tiles that is wrong in one element is found out") {
  const CsrMatrix matrix = with_gaps();
  const auto wrong = [&](auto change) {
    const auto tall = pack(matrix);
    change(*tall);
    CHECK_FALSE(tall->unpack() == matrix);
    return fault(*tall, matrix);
  };
  CHECK(wrong([](TallTiles& t) { t.places[17] ^= 1; }) == "place of nonzero 17");
  CHECK(wrong([](TallTiles& t) { t.values[900] *= 2; }) == "value of nonzero 900");
  CHECK(wrong([](TallTiles& t) { ++t.tile_cols[3 * 64 + 5]; }) == "column 5 of tile 3");
  CHECK(wrong([](TallTiles& t) { ++t.tile_offset[2]; }) == "first nonzero of tile 2");
  // The order of a tile's nonzeros does not show in the matrix.
  const auto tall = pack(matrix);
  const std::uint32_t first = tall->tile_offset[1];
  std::swap(tall->places[first], tall->places[first + 1]);
  std::swap(tall->values[first], tall->values[first + 1]);
  CHECK(fault(*tall, matrix) == fmt::format("place of nonzero {}", first));
}

TEST_CASE("tall tiles keep explicit zeros in places of their own") {
  std::vector<std::int64_t> offsets(71, 3);
  offsets[0] = 0;
  const CsrMatrix matrix{70, 80, std::move(offsets), std::vector<std::int32_t>{3, 40, 79},
                         std::vector<float>{0.0f, -0.0f, 5.0f}};
  const auto tall = pack(matrix);
  CHECK(tall->places == std::vector<std::uint16_t>{0, 1, 2});
  CHECK(tall->unpack() == matrix);
}

}  // namespace
}  // namespace tessera
