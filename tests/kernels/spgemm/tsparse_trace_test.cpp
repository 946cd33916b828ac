// tsparse's work and its traces: each cell and MMA counts once, and warps touch the arrays of the
// description.

#include "kernels/spgemm/tsparse/trace.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spgemm/tsparse/schedule.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "tests/support.hpp"
#include "tests/trace_support.hpp"

namespace tessera {
namespace {

using namespace tsparse;

TsparseOptions options(const Params::Given& given = {}) {
  return TsparseOptions(Registry<SpgemmKernel>::instance().resolve("tsparse", given));
}

struct Operands {
  CsrMatrix a, b;
};

std::vector<Operands> cases() {
  return {{random_sparse(203, 157, 0.07, 2), random_sparse(157, 90, 0.2, 3)},
          {random_sparse(1, 1, 1.0, 4), random_sparse(1, 1, 1.0, 5)},
          // 32 tiles of C fill a thread block: the end of first_value takes another.
          {random_sparse(32, 8, 1.0, 6), random_sparse(8, 64, 1.0, 7)},
          {random_sparse(400, 3000, 0.01, 8), random_sparse(3000, 30, 0.1, 9)}};
}

TEST_CASE("tsparse's work counts every cell of C and every product of nonzeros once") {
  for (const auto& [a, b] : cases()) {
    const WorkDescription work = describe_work(a, b, options());
    const CsrMatrix c = multiply_rows(a, b);
    std::set<std::pair<std::int32_t, std::int32_t>> tiles;
    std::int64_t products = 0;
    for (std::int32_t row = 0; row < c.rows; ++row)
      for (const std::int32_t col : c.row_cols(row)) tiles.insert({row / kSide, col / kSide});
    for (const std::int32_t col : a.col_indices) products += b.row_length(col);
    CHECK(work.useful_flops == 2 * products);
    CHECK(work.c_bytes == 24 * std::ssize(tiles) + 4 * c.nnz());
    CHECK(work.total().c_bytes == work.c_bytes);
    REQUIRE(work.launches.size() == 2);
    CHECK(work.launches[0].thread_blocks + work.launches[1].thread_blocks ==
          std::ssize(work.thread_blocks));
  }
}

TEST_CASE(
    "tsparse's warps have the MMAs of the description, write all of C and wait for their loads") {
  for (const auto& [a, b] : cases()) {
    CAPTURE(a.rows);
    const WorkDescription work = describe_work(a, b, options());
    std::vector<std::int64_t> mmas(work.thread_blocks.size());
    std::map<std::string, std::set<std::uint64_t>> written;
    for_warps(work, [&](std::int64_t block, const WarpTrace& trace) {
      std::set<int> raised;
      for (const WarpOp& op : trace.ops) {
        if (op.kind == WarpOp::Kind::kMma) mmas[block] += op.count;
        if (op.kind == WarpOp::Kind::kLoad) raised.insert(op.scoreboard);
        if (op.kind == WarpOp::Kind::kWait) CHECK(raised.contains(op.scoreboard));
        for (std::uint32_t i = op.first_line; i < op.last_line; ++i)
          for (int sector = 0; sector < kSectorsPerLine; ++sector) {
            if ((trace.lines[i].sectors >> sector & 1) == 0) continue;
            const std::uint64_t address = std::uint64_t{trace.lines[i].line} * kLineBytes +
                                          std::uint64_t{kSectorBytes} * sector;
            const std::string& array = array_of(work.memory, address).name;
            if (op.kind == WarpOp::Kind::kStore) written[array].insert(address);
          }
      }
    });
    for (std::size_t i = 0; i < mmas.size(); ++i) CHECK(mmas[i] == work.thread_blocks[i].mma);
    for (const AddressSpace::Array& array : work.memory.arrays()) {
      const bool is_written = std::ranges::count(std::array{"tile_row", "tile_col", "bitmap",
                                                            "first_value", "values", "kept"},
                                                 array.name) > 0;
      CAPTURE(array.name);
      CHECK(std::ssize(written[array.name]) ==
            (is_written ? (array.bytes + kSectorBytes - 1) / kSectorBytes : 0));
    }
  }
}

TEST_CASE("two tiles of C with one product each share an MMA") {
  // Diagonal tiles: 40 tiles of C, one product each.
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> cols;
  for (std::int32_t row = 0; row < 320; ++row) {
    cols.push_back(row);
    offsets.push_back(row + 1);
  }
  const CsrMatrix identity{320, 320, offsets, cols, std::vector<float>(320, 0.5f)};
  const WorkDescription work = describe_work(identity, identity, options());
  CHECK(work.total().mma == 20);
  CHECK(work.useful_flops == 2 * 320);
}

TEST_CASE("tsparse refuses to describe several slices and scalar cores") {
  const auto [a, b] = cases().front();
  CHECK_THROWS_AS(describe_work(a, b, options({{"slice", std::int64_t{10}}})), Unsupported);
  CHECK_THROWS_AS(describe_work(a, b, options({{"cores", std::string("scalar")}})), Unsupported);
}

TEST_CASE("tsparse's launches have as many thread blocks as their tiles of C fill") {
  for (const std::int64_t tiles : {1, 15, 16, 17, 31, 32, 33, 1000}) {
    CAPTURE(tiles);
    const auto covers = [&](auto launch, int tiles_of_item, std::int64_t blocks) {
      const std::int64_t last = launch.item_of(blocks - 1, kThreads - 1) + tiles_of_item - 1;
      return launch.item_of(blocks - 1, 0) < tiles && last >= tiles - 1;
    };
    CHECK(covers(CountCells{}, 1, CountCells::thread_blocks(tiles)));
    CHECK(
        covers(MultiplyTiles{}, MultiplyTiles::kTilesOfWarp, MultiplyTiles::thread_blocks(tiles)));
    CHECK(covers(ListTasks{}, 1, ListTasks::thread_blocks(tiles)));
  }
  CHECK(CountCells::item_of(1, kWarpSize) ==
        CountCells::kTilesOfThreadBlock + CountCells::kTilesOfWarp);
  CHECK(MultiplyTiles::item_of(1, kWarpSize + 31) ==
        MultiplyTiles::kTilesOfThreadBlock + MultiplyTiles::kTilesOfWarp);
}

}  // namespace
}  // namespace tessera
