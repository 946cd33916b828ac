// HRPB: the stream of a small matrix byte by byte, and blocks decoded lane by lane as algorithm 1
// of cuTeSpMM does. What holds for every format is in formats_conformance_test.cpp.
#include "formats/hrpb.hpp"

#include <doctest/doctest.h>

#include <array>
#include <bit>

#include "formats/base/registry.hpp"
#include "formats/io/matrix_file.hpp"
#include "formats/statistics/statistics.hpp"
#include "tests/condensed_example.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

constexpr std::int32_t kNone = kNoColumn;

std::unique_ptr<PackedMatrix> pack_hrpb(const CsrMatrix& matrix, std::int64_t tile_rows = 16,
                                        std::int64_t tile_cols = 16,
                                        const PackLimits& limits = {}) {
  return Registry<Format>::instance()
      .make("hrpb", {{"tile_rows", tile_rows}, {"tile_cols", tile_cols}})
      ->pack(matrix, limits);
}

/// Bytes as the header lays them out.
class Bytes {
 public:
  template <class T>
  Bytes& add(const std::vector<T>& elements) {
    for (const T element : elements)
      for (const std::uint8_t byte : std::bit_cast<std::array<std::uint8_t, sizeof(T)>>(element))
        all.push_back(byte);
    return *this;
  }
  Bytes& zeros_to(std::size_t size) {
    all.resize(size, 0);
    return *this;
  }

  std::vector<std::uint8_t> all;
};

TEST_CASE("HRPB of a small matrix has the bytes worked out by hand") {
  const auto packed = pack_hrpb(condensed_example());
  const auto& hrpb = packed_as<Hrpb>(*packed);

  CHECK(hrpb.blocked_row_ptr == std::vector<std::uint32_t>{0, 1, 2});
  CHECK(hrpb.active_cols == std::vector<std::int32_t>{1,     2,     3,     4,      //
                                                      5,     6,     7,     8,      //
                                                      29,    kNone, kNone, kNone,  //
                                                      kNone, kNone, kNone, kNone,  //
                                                      0,     11,    kNone, kNone,  //
                                                      kNone, kNone, kNone, kNone,  //
                                                      kNone, kNone, kNone, kNone,  //
                                                      kNone, kNone, kNone, kNone});
  CHECK(hrpb.size_ptr == std::vector<std::uint32_t>{0, 112, 160});
  CHECK(hrpb.num_bricks == 4);
  Bytes expected;
  expected.add<std::uint32_t>({0, 1, 2, 3, 3})
      .zeros_to(24)
      // Row 0 has the second of columns 1 to 4, row 9 all; row 0 has the first of 5 to 8, row 9 the
      // other three.
      .add<std::uint64_t>({0b0010ull | 0b1111ull << 36, 0b0001ull | 0b1110ull << 36, 1})
      .add<std::uint32_t>({0, 0, 0})
      .add<float>({1, 4, 5, 6, 7, 2, 8, 9, 10, 3})
      .zeros_to(112)
      .add<std::uint32_t>({0, 1, 1, 1, 1})
      .zeros_to(112 + 24)
      .add<std::uint64_t>({0b0010ull | 0b0001ull << 4})
      .add<std::uint32_t>({0})
      .add<float>({11, 12})
      .zeros_to(160);
  CHECK(hrpb.packed_blocks == expected.all);
  CHECK(stats(hrpb).bytes == 160 + 4 * (3 + 32 + 3));
  CHECK(stats(hrpb).index_bytes == stats(hrpb).bytes - 4 * 12);
  CHECK(
      hrpb.locate(17) ==
      "row window 1 (row 1 of it), brick columns 4 to 8, first nonzero of the row in brick column "
      "4, MMA step 0 of the window; blocks 1 to 2, bytes 112 to 160");
  CHECK(hrpb.locate(3) ==
        "row window 0 (row 3 of it), brick columns 0 to 4, none with a nonzero of the row; blocks "
        "0 to 1, bytes 0 to 112");
}

TEST_CASE("HRPB of tall row panels stores the bricks of a column that are not empty") {
  // Columns 0 to 3, 4 to 7, and 8, 11 and 29: rows 16 and 17 are in the first and the last.
  const auto packed = pack_hrpb(condensed_example(), 32);
  const auto& hrpb = packed_as<Hrpb>(*packed);

  Bytes expected;
  expected.add<std::uint32_t>({0, 2, 3, 5, 5})
      .zeros_to(24)
      .add<std::uint64_t>({0b0100ull | 0b1110ull << 36, 0b0001ull << 4,  //
                           0b0010ull | 0b1101ull << 36,                  //
                           0b0100ull | 0b0001ull << 36, 0b0010ull})
      .add<std::uint32_t>({0, 1, 0, 0, 1})
      .add<float>({1, 4, 5, 6, 12, 2, 7, 8, 9, 3, 10, 11})
      .zeros_to(144);
  CHECK(hrpb.packed_blocks == expected.all);
  CHECK(hrpb.tiles().tiles == 5);
  CHECK(hrpb.unpack() == condensed_example());
}

TEST_CASE("HRPB in blocks of four columns has one brick column per block") {
  const auto packed = pack_hrpb(condensed_example(), 16, 4);
  const auto& hrpb = packed_as<Hrpb>(*packed);

  CHECK(hrpb.blocked_row_ptr == std::vector<std::uint32_t>{0, 3, 4});
  // 8 + 8 + 4 bytes and the values, rounded up to 16: of 5, 4, 1 and 2 values.
  CHECK(hrpb.size_ptr == std::vector<std::uint32_t>{0, 48, 96, 128, 160});
  CHECK(hrpb.block(1).pattern(0) == (0b0001ull | 0b1110ull << 36));
  CHECK(hrpb.block(1).value(3) == 10.0f);
}

/// The fragments of A that the lanes of a warp decode, as in lines 24 to 38 of algorithm 1, put
/// where m16n8k4 has them; counts the bricks met.
DenseMatrix decode_by_lanes(const Hrpb& hrpb, std::int64_t& bricks) {
  DenseMatrix a(hrpb.num_row_panels() * hrpb.tile_rows, hrpb.cols());
  const auto count_below = [](std::uint64_t pattern, int bit) {
    int ones = 0;
    for (int b = 0; b < bit; ++b) ones += static_cast<int>(pattern >> b & 1);
    return ones;
  };
  for (std::int64_t panel = 0; panel < hrpb.num_row_panels(); ++panel) {
    for (auto b = hrpb.blocked_row_ptr[panel]; b < hrpb.blocked_row_ptr[panel + 1]; ++b) {
      const Hrpb::Block block = hrpb.block(b);
      int nnz_offset = 0;
      for (int i = 0; i < hrpb.tile_cols / 4; ++i) {
        for (auto j = block.col_ptr(i); j < block.col_ptr(i + 1); ++j, ++bricks) {
          const std::uint64_t pattern = block.pattern(j);
          const std::int64_t first_row = panel * hrpb.tile_rows + 16 * block.row(j);
          for (int lane = 0; lane < 32; ++lane) {
            const std::int32_t col = hrpb.active_cols[b * hrpb.tile_cols + 4 * i + lane % 4];
            for (const int half : {0, 1}) {
              const int bit = lane + 32 * half;
              if ((pattern >> bit & 1) == 0) continue;
              a.at(first_row + lane / 4 + 8 * half, col) =
                  block.value(nnz_offset + count_below(pattern, bit));
            }
          }
          nnz_offset += std::popcount(pattern);
        }
      }
    }
  }
  return a;
}

TEST_CASE("the lanes of a warp decode every element of A from its brick's pattern") {
  for (const auto& [rows, cols, density] :
       {std::tuple{203, 157, 0.07}, {64, 900, 0.02}, {33, 40, 0.9}, {500, 20, 0.005}}) {
    CAPTURE(rows);
    const CsrMatrix matrix = random_sparse(rows, cols, density, 5);
    const DenseMatrix truth = to_dense(matrix);
    for (const std::int64_t tile_rows : {16, 32, 48}) {
      for (const std::int64_t tile_cols : {4, 12, 16, 32}) {
        CAPTURE(tile_rows);
        CAPTURE(tile_cols);

        const auto packed = pack_hrpb(matrix, tile_rows, tile_cols);
        const auto& hrpb = packed_as<Hrpb>(*packed);
        std::int64_t bricks = 0;
        DenseMatrix decoded = decode_by_lanes(hrpb, bricks);
        decoded.values.resize(truth.values.size());  // without the rows beyond A

        CHECK(decoded.values == truth.values);
        CHECK(hrpb.tiles().tiles == bricks);
      }
    }
  }
}

TEST_CASE("blocks begin at multiples of 16 bytes and take 12 bytes per brick and 4 per nonzero") {
  const CsrMatrix matrix = random_sparse(203, 1570, 0.02, 5);
  for (const std::int64_t tile_rows : {16, 32}) {
    const auto packed = pack_hrpb(matrix, tile_rows);
    const auto& hrpb = packed_as<Hrpb>(*packed);
    std::int64_t bytes = 0, nonzeros = 0;
    for (std::int64_t b = 0; b < hrpb.num_blocks(); ++b) {
      const Hrpb::Block block = hrpb.block(b);
      std::int64_t in_block = 0;
      for (std::int64_t j = 0; j < block.bricks(); ++j) in_block += std::popcount(block.pattern(j));
      CHECK(hrpb.size_ptr[b] == bytes);
      bytes += (24 + 12 * block.bricks() + 4 * in_block + 15) / 16 * 16;
      nonzeros += in_block;
    }
    CHECK(hrpb.size_ptr.back() == bytes);
    CHECK(nonzeros == matrix.nnz());
    CHECK(stats(hrpb).bytes ==
          bytes + 4 * (hrpb.num_row_panels() + 1 + 17 * hrpb.num_blocks() + 1));
  }
}

TEST_CASE("bricks of a real matrix have the number and density of its synergy") {
  for (const char* name : {"data/bcsstk17.npz", "data/cora.npz"}) {
    const std::string path = shared_path(name);
    if (path.empty()) return;
    CAPTURE(name);
    const CsrMatrix matrix = read_matrix(path);
    const Synergy synergy = statistics(matrix).synergy;

    const FormatStats found = stats(*pack_hrpb(matrix));

    CHECK(found.tile.tiles == synergy.bricks);
    CHECK(found.tile_density == doctest::Approx(synergy.alpha));
  }
}

TEST_CASE("HRPB refuses blocks that bricks do not fill, and more bytes than its offsets hold") {
  CHECK_THROWS_WITH_AS(pack_hrpb(condensed_example(), 24),
                       "hrpb: blocks of 24 x 16 do not consist of bricks of 16 x 4", Error);
  CHECK_THROWS_WITH_AS(pack_hrpb(condensed_example(), 16, 6),
                       "hrpb: blocks of 16 x 6 do not consist of bricks of 16 x 4", Error);
  CHECK_THROWS_AS(pack_hrpb(condensed_example(), 0), Error);

  CHECK_NOTHROW(pack_hrpb(condensed_example(), 16, 16, {.offset = 160}));
  CHECK_THROWS_WITH_AS(pack_hrpb(condensed_example(), 16, 16, {.offset = 159}),
                       "hrpb counts bytes of blocks in 32 bits: 160 of them do not fit",
                       Unsupported);
}

}  // namespace
}  // namespace tessera
