// The schedule of rows_spmm: pieces, lanes and columns of its units, by the counts of A and the
// width of C.

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>

#include "kernels/spmm/rows/schedule.hpp"

namespace tessera {
namespace {

using rows_spmm::Schedule;

TEST_CASE("pieces of rows_spmm are longer for larger matrices, long rows and more columns of C") {
  const auto piece = [](std::int64_t nnz, std::int64_t n, std::int64_t longest = 100) {
    return rows_spmm::make_schedule(nnz / 100, nnz, longest, n, {}).piece;
  };

  CHECK(piece(100'000, 32) == 16);
  CHECK(piece(100'000, 128) == 32);
  CHECK(piece(100'000, 512) == 32);
  CHECK(piece(2'000'000, 32) == 32);
  CHECK(piece(1'000'000, 128) == 64);
  CHECK(piece(1'000'000'000, 32) == 64);
  CHECK(piece(0, 1) == 16);
  // A long row in a small matrix.
  CHECK(piece(100'000, 32, 256) == 16);
  CHECK(piece(100'000, 32, 300) == 32);
  CHECK(piece(400'000, 32, 300) == 16);
  CHECK(piece(100'000, 128, 300) == 32);
  CHECK(rows_spmm::make_schedule(10'000, 1'000'000, 9, 128, {.piece = 7}).piece == 7);
}

TEST_CASE("units of rows_spmm are in parts for few columns of C, and narrower for shorter rows") {
  const auto shape = [](std::int64_t rows, std::int64_t n) {
    const Schedule schedule = rows_spmm::make_schedule(rows, 4'800'000, 100, n, {});
    return std::pair(schedule.lanes, schedule.parts);
  };
  constexpr std::int64_t kShort = 300'000, kLong = 299'999;  // rows, of 16 nonzeros and more

  CHECK(shape(kShort, 1) == std::pair(2, 2));
  CHECK(shape(kLong, 1) == std::pair(8, 8));
  for (const std::int64_t n : {2, 8}) {
    CHECK(shape(kShort, n) == std::pair(2, 1));
    CHECK(shape(kLong, n) == std::pair(8, 4));
  }
  for (const std::int64_t rows : {kShort, kLong}) {
    CHECK(shape(rows, 9) == std::pair(8, 2));
    CHECK(shape(rows, 16) == std::pair(8, 2));
    CHECK(shape(rows, 17) == std::pair(8, 1));
    CHECK(shape(rows, 33) == std::pair(16, 1));
    CHECK(shape(rows, 65) == std::pair(32, 1));
  }
  // A unit has the nonzeros of a whole turn at least.
  CHECK(rows_spmm::make_schedule(1'000, 100'000, 100, 1, {}).piece == 32);
  CHECK(rows_spmm::make_schedule(100'000, 1'000'000, 100, 1, {}).piece == 16);
  CHECK(rows_spmm::make_schedule(100'000, 1'000'000'000, 100, 8, {}).piece == 64);
}

TEST_CASE("units of rows_spmm are rows where rows are short and none of them is long") {
  const auto direct = [](std::int64_t rows, std::int64_t longest, std::int64_t n,
                         const rows_spmm::ScheduleChoice& choice = {}, int access_cols = 4) {
    return rows_spmm::make_schedule(rows, 1'600'000, longest, n, choice, access_cols);
  };
  for (const int access_cols : {4, 8}) {
    for (const std::int64_t n : {17, 32, 40, 64, 100, 128, 256, 300, 512, 1000}) {
      const Schedule schedule =
          direct(200'000, 30, n, {.nonzeros = rows_spmm::Nonzeros::kDirect}, access_cols);
      REQUIRE(schedule.direct);
      // No more columns than C has, but for the narrowest unit and up to the next power of two.
      CHECK((schedule.columns() < 2 * n || schedule.lanes <= 8));
      CHECK(schedule.lane_cols == access_cols * schedule.wide);
      CHECK(schedule.cut(30).pieces() == 1);
    }
  }
  CHECK_FALSE(direct(200'000, 30, 16).direct);
  CHECK_FALSE(direct(200'000, 65, 128).direct);
  CHECK_FALSE(direct(99'999, 30, 128).direct);  // more than 16 nonzeros a row
  CHECK_FALSE(direct(200'000, 30, 128, {.piece = 16}).direct);
  CHECK_FALSE(direct(200'000, 30, 128, {.nonzeros = rows_spmm::Nonzeros::kShared}).direct);
  CHECK(direct(99'999, 30, 128, {.nonzeros = rows_spmm::Nonzeros::kDirect}).direct);
  // The longest row takes 32 steps of two nonzeros, 17.6 us; all rows of B 22.8 us, and 11.4 us.
  CHECK(direct(200'000, 64, 32).direct);
  CHECK_FALSE(direct(200'000, 64, 32, {}, 8).direct);
}

TEST_CASE("units that are rows have as many lanes as a kernel is compiled for, and all columns") {
  for (const int access_cols : {4, 8})
    for (const std::int64_t columns : {1, 2, 8, 16, 17, 32, 33, 95, 128, 512})
      for (const std::int64_t n : {17, 33, 95, 128, 600}) {
        CAPTURE(access_cols);
        CAPTURE(columns);
        CAPTURE(n);
        const rows_spmm::Schedule schedule = rows_spmm::make_schedule(
            1000, 4000, 30, n, {.columns = columns, .nonzeros = rows_spmm::Nonzeros::kDirect},
            access_cols);
        REQUIRE(schedule.direct);
        CHECK(schedule.lanes >= (access_cols == 4 ? 8 : 4));
        CHECK(schedule.chunks(n) * schedule.columns() >= n);
      }
}

TEST_CASE("units of rows_spmm take several rows where those are short and many") {
  const auto turns = [](std::int64_t rows, std::int64_t per_row, std::int64_t n,
                        const rows_spmm::ScheduleChoice& choice = {}, int access_cols = 4) {
    const Schedule schedule =
        rows_spmm::make_schedule(rows, rows * per_row, 2 * per_row, n, choice, access_cols);
    CHECK(schedule.direct);
    if (schedule.turns > 1) CHECK(schedule.threads == rows_spmm::turning_threads(schedule.wide));
    CHECK(schedule.blocks_of(rows) * schedule.units_per_block() * schedule.turns >= rows);
    return schedule.turns;
  };
  CHECK(turns(500'000, 4, 128) == 4);
  CHECK(turns(500'000, 6, 128) == 4);
  CHECK(turns(500'000, 7, 128) == 1);
  // Three waves of 660 thread blocks of 16 rows, each once, twice or four times.
  CHECK(turns(3 * 660 * 64, 4, 128) == 4);
  CHECK(turns(3 * 660 * 64 - 64, 4, 128) == 2);
  CHECK(turns(3 * 660 * 32, 4, 128) == 2);
  CHECK(turns(3 * 660 * 32 - 32, 4, 128) == 1);
  // One wave of wide rows.
  CHECK(turns(264 * 64, 4, 512) == 4);
  CHECK(turns(264 * 64 - 64, 4, 512) == 2);
  CHECK(turns(500'000, 4, 128, {}, 8) == 1);  // 16 bits
  CHECK(turns(500'000, 4, 32) == 1);          // few columns
  CHECK(turns(500'000, 4, 130) == 1);         // rows of B that are not aligned
  CHECK(turns(500'000, 4, 128, {.turns = 1}) == 1);
  CHECK(turns(500, 4, 128, {.nonzeros = rows_spmm::Nonzeros::kDirect, .turns = 2}) == 2);
}

TEST_CASE("rows_spmm reads offsets by itself where rows are long and pieces have 64 nonzeros") {
  const auto has_offsets = [](std::int64_t rows, const rows_spmm::ScheduleChoice& choice,
                              std::int64_t n = 1) {
    return rows_spmm::make_schedule(rows, 4'800'000, 50, n, choice).has_offsets;
  };
  constexpr auto kNever = rows_spmm::Offsets::kNever;
  constexpr std::int64_t kShort = 300'000, kLong = 299'999;  // rows, of 16 nonzeros and more

  for (const std::int64_t n : {1, 8, 16}) {
    CHECK(has_offsets(kLong, {.piece = 64}, n));
    CHECK(!has_offsets(kLong, {.piece = 63}, n));
    CHECK(!has_offsets(kLong, {.piece = 64, .offsets = kNever}, n));
    CHECK(!has_offsets(kShort, {.piece = 64, .few_lanes = 8}, n));
  }
  CHECK(!has_offsets(kLong, {.piece = 64}, 17));
}

TEST_CASE("a piece of rows_spmm is a row of 33 to 64 nonzeros for few columns of C") {
  const auto piece = [](std::int64_t rows, std::int64_t nnz, std::int64_t n = 1,
                        std::int64_t longest = 100) {
    return rows_spmm::make_schedule(rows, nnz, longest, n, {}).piece;
  };
  // Rows for two thread blocks of each of 132 SMs, with 32 units.
  constexpr std::int64_t kRows = 2 * 132 * 32;

  for (const std::int64_t n : {1, 8, 16}) {
    CHECK(piece(kRows, 64 * kRows, n) == 64);
    CHECK(piece(kRows, 32 * kRows + 1, n) == 64);
    CHECK(piece(kRows, 32 * kRows, n) == (n == 1 ? 32 : 16));
    CHECK(piece(kRows, 64 * kRows + 1, n) == (n == 1 ? 32 : 16));
    CHECK(piece(kRows - 1, 40 * kRows, n) == (n == 1 ? 32 : 16));
    CHECK(piece(kRows, 40 * kRows, n, 40 * kRows / 1000 + 1) == 32);  // a long row
  }
  CHECK(piece(kRows, 40 * kRows, 17) == 16);
}

TEST_CASE("warps of rows_spmm are wide for short rows and for rows of about one length") {
  const auto columns = [](std::int64_t rows, std::int64_t nnz, std::int64_t longest, std::int64_t n,
                          int access_cols = 4) {
    const rows_spmm::ScheduleChoice shared{.nonzeros = rows_spmm::Nonzeros::kShared};
    return rows_spmm::make_schedule(rows, nnz, longest, n, shared, access_cols).columns();
  };
  constexpr std::int64_t kHeld = 132 * 3 * 8;  // wide warps of an H200

  for (const std::int64_t n : {132, 200, 256}) CHECK(columns(10'000, 100'000, 2'000, n) == 256);
  for (const std::int64_t n : {260, 512, 1'000}) CHECK(columns(10'000, 100'000, 2'000, n) == 512);
  for (const std::int64_t n : {65, 128, 257, 515}) CHECK(columns(10'000, 100'000, 2'000, n) == 128);
  CHECK(columns(10'000, 140'000, 2'000, 512) == 512);
  CHECK(columns(10'000, 140'001, 2'000, 512) == 128);
  CHECK(columns(10'000, 400'000, 160, 512) == 512);
  CHECK(columns(10'000, 400'000, 161, 512) == 128);
  CHECK(columns(kHeld, 16 * kHeld, 20, 512) == 512);
  CHECK(columns(kHeld, 16 * kHeld - 1, 20, 512) == 128);
  CHECK(columns(kHeld - 1, 16 * kHeld, 20, 512) == 128);
  // Of 16 bits.
  for (const std::int64_t n : {136, 256}) CHECK(columns(10'000, 100'000, 2'000, n, 8) == 256);
  for (const std::int64_t n : {264, 512}) CHECK(columns(10'000, 100'000, 2'000, n, 8) == 512);
  CHECK(columns(10'000, 100'000, 2'000, 260, 8) == 256);
}

}  // namespace
}  // namespace tessera
