// Mosaic: a matrix packed by hand, what bulk copies rely on, and how the height is chosen.

#include "formats/mosaic.hpp"

#include <doctest/doctest.h>

#include "formats/base/registry.hpp"
#include "formats/condense.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

std::unique_ptr<PackedMatrix> pack(const CsrMatrix& matrix, const char* height) {
  return Registry<Format>::instance()
      .make(Mosaic::kFormat, {{"height", std::string(height)}})
      ->pack(matrix);
}

TEST_CASE("mosaic packs a small matrix as worked out by hand") {
  // Window 0: row 0 has columns 2 and 9, row 9 has 1, 2, 3, 4, 5, 6, 7, 8: nine active columns, two
  // steps, of whose four bricks the upper right one has column 9 alone and the lower right none.
  // Window 1: row 17 has column 0.
  const CsrMatrix matrix{
      18, 30,
      std::vector<std::int64_t>{0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 10, 10, 10, 10, 10, 10, 10, 10, 11},
      std::vector<std::int32_t>{2, 9, 1, 2, 3, 4, 5, 6, 7, 8, 0},
      std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}};

  const auto packed = pack(matrix, "16");
  const auto& mosaic = packed_as<Mosaic>(*packed);

  constexpr std::int32_t kNone = kNoColumn;
  CHECK(mosaic.height == 16);
  CHECK(mosaic.window_offset == std::vector<std::uint32_t>{0, 2, 3});
  CHECK(mosaic.step_cols ==
        std::vector<std::int32_t>{1, 2,     3,     4,     5,     6,     7,     8,      //
                                  9, kNone, kNone, kNone, kNone, kNone, kNone, kNone,  //
                                  0, kNone, kNone, kNone, kNone, kNone, kNone, kNone});
  // Window 0 has three bricks, padded to four; ten values, padded to twelve.
  CHECK(mosaic.steps == std::vector<Mosaic::Step>{{0, 0, 0b11, 9}, {2, 9, 0b01, 1}, {4, 12, 1, 1}});
  CHECK(mosaic.bitmaps ==
        std::vector<std::uint64_t>{0b10ull, 0xffull << 8, 0b1ull, 0, 0b1ull << 8, 0});
  CHECK(mosaic.values == std::vector<float>{1, 3, 4, 5, 6, 7, 8, 9, 10, 2, 0, 0, 11, 0, 0, 0});
  CHECK(mosaic.tiles().tiles == 4);
  CHECK(mosaic.locate(9) ==
        "row window 0 of 16 rows (row 9 of it), steps 0 to 2, first brick of the row in step 0, "
        "brick row 1");
  CHECK(stats(mosaic).bytes == static_cast<std::int64_t>(mosaic_bytes(
                                   2, 3, std::ssize(mosaic.bitmaps), std::ssize(mosaic.values))));
}

TEST_CASE("mosaic becomes the ME-TCF of the same windows, which takes at most 16 rows") {
  const CsrMatrix matrix = random_sparse(203, 157, 0.07, 5);
  for (const char* height : {"8", "16"}) {
    const auto packed = pack(matrix, height);
    const auto expected = Registry<Format>::instance()
                              .make("me_tcf", {{"window_rows", std::int64_t{std::stoi(height)}}})
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
  CHECK_THROWS_WITH_AS(to_me_tcf(packed_as<Mosaic>(*pack(matrix, "32"))),
                       doctest::Contains("height = 16"), Error);
}

TEST_CASE("windows of mosaic begin at 16 bytes, and their steps follow each other") {
  const CsrMatrix matrix = random_sparse(1000, 700, 0.02, 3);
  for (const char* height : {"8", "16", "32", "64"}) {
    CAPTURE(height);
    const auto packed = pack(matrix, height);
    const auto& mosaic = packed_as<Mosaic>(*packed);

    for (std::int64_t w = 0; w < mosaic.num_windows(); ++w) {
      const std::uint32_t begin = mosaic.window_offset[w], end = mosaic.window_offset[w + 1];
      REQUIRE(begin < end);
      CHECK(mosaic.steps[begin].first_brick % Mosaic::kBrickAlign == 0);
      CHECK(mosaic.steps[begin].first_value % Mosaic::kValueAlign == 0);
      for (std::uint32_t s = begin; s + 1 < end; ++s) {
        const Mosaic::Step &step = mosaic.steps[s], &next = mosaic.steps[s + 1];
        CHECK(next.first_brick == step.first_brick + std::popcount(step.brick_mask));
        CHECK(next.first_value == step.first_value + step.nonzeros);
      }
    }
  }
}

TEST_CASE("the chosen height has the least estimated time of fetches and bricks") {
  // All rows alike: tall windows fetch least, and every brick is full anyway.
  CHECK(choose_height({64 * 8, {8 * 8, 4 * 8, 2 * 8, 8}}) == 64);
  // No two rows share a column: tall windows only have more bricks.
  CHECK(choose_height({1000, {1000, 1000, 1000, 1000}}) == 8);
  // Pairs of windows of eight share theirs, nothing beyond.
  CHECK(choose_height({2000, {200, 100, 100, 100}}) == 16);
  CHECK(choose_height({0, {0, 0, 0, 0}}) == 8);
}

TEST_CASE("the sample behind the height has its share of any matrix") {
  for (const std::int64_t rows : {1, 64, 4096, 4097, 100'000, 2'000'000'000}) {
    CAPTURE(rows);
    const std::int64_t groups = (rows + 63) / 64, stride = sample_stride(rows);
    const std::int64_t sampled = (groups + stride - 1) / stride;
    CHECK(sampled >= std::min<std::int64_t>(groups, 32));
    CHECK(sampled <= 64);
  }
}

TEST_CASE("auto selects the height that is best for the active columns of the whole matrix") {
  // Small enough that the sample is all of it.
  for (const double density : {0.002, 0.05, 0.6}) {
    CAPTURE(density);
    const CsrMatrix matrix = random_sparse(512, 300, density, 4);
    HeightSample all{matrix.nnz(), {}};
    for (int i = 0; i < 4; ++i) all.active_cols[i] = condense(matrix, 8 << i).offsets.back();

    CHECK(packed_as<Mosaic>(*pack(matrix, "auto")).height == choose_height(all));
  }
}

}  // namespace
}  // namespace tessera
