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

/// The kernels that have traces: ours, the published one, its twin, and one launch of each.
std::vector<Params::Given> variants() {
  const auto named = [](const char* counting, const char* multiplication, const char* cores) {
    return Params::Given{{"counting", std::string(counting)},
                         {"multiplication", std::string(multiplication)},
                         {"cores", std::string(cores)}};
  };
  return {named("logic", "batches", "tensor"), named("product", "pairs", "tensor"),
          named("product", "pairs", "scalar"), named("product", "batches", "tensor"),
          named("logic", "pairs", "scalar")};
}

/// Calls visit(a, b, options) for every variant and its operands.
template <class Visit>
void for_products(Visit visit) {
  for (const Params::Given& given : variants())
    for (const auto& [a, b] : cases()) {
      const std::string counting = to_text(given.at("counting"));
      const std::string multiplication = to_text(given.at("multiplication"));
      const std::string cores = to_text(given.at("cores"));
      CAPTURE(counting);
      CAPTURE(multiplication);
      CAPTURE(cores);
      CAPTURE(a.rows);
      visit(a, b, options(given));
    }
}

TEST_CASE("tsparse's work counts every cell of C and every product of nonzeros once") {
  for_products([](const CsrMatrix& a, const CsrMatrix& b, const TsparseOptions& chosen) {
    const WorkDescription work = describe_work(a, b, chosen);
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
  });
}

/// The warps of a thread block; thread blocks are numbered over both launches.
std::int64_t warps_of(const WorkDescription& work, std::size_t block) {
  const bool counts = static_cast<std::int64_t>(block) < work.launches[0].thread_blocks;
  return work.launches[counts ? 0 : 1].threads_per_block / kWarpSize;
}

TEST_CASE(
    "tsparse's warps have the MMAs of the description, write all of C and wait for their loads") {
  for_products([](const CsrMatrix& a, const CsrMatrix& b, const TsparseOptions& chosen) {
    const WorkDescription work = describe_work(a, b, chosen);
    std::vector<std::int64_t> mmas(work.thread_blocks.size()), barriers(mmas.size());
    std::map<std::string, std::set<std::uint64_t>> written;
    for_warps(work, [&](std::int64_t block, const WarpTrace& trace) {
      std::set<int> raised;
      for (const WarpOp& op : trace.ops) {
        if (op.kind == WarpOp::Kind::kMma) mmas[block] += op.count;
        if (op.kind == WarpOp::Kind::kBarrier) ++barriers[block];
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
    for (std::size_t i = 0; i < mmas.size(); ++i) {
      CHECK(mmas[i] == work.thread_blocks[i].mma);
      CHECK(barriers[i] == work.thread_blocks[i].barriers * warps_of(work, i));
    }
    for (const AddressSpace::Array& array : work.memory.arrays()) {
      const bool is_written = std::ranges::count(std::array{"tile_row", "tile_col", "bitmap",
                                                            "first_value", "values", "kept"},
                                                 array.name) > 0;
      CAPTURE(array.name);
      CHECK(std::ssize(written[array.name]) ==
            (is_written ? (array.bytes + kSectorBytes - 1) / kSectorBytes : 0));
    }
  });
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

TEST_CASE("the published kernel has 16 x 16 x 16 products in both launches, its twin 512 steps") {
  // Three tiles of C with 2, 1 and 1 tasks.
  const CsrMatrix a = random_sparse(8, 16, 1.0, 11);
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> cols;
  for (int row = 0; row < 16; ++row) {
    for (int col = 0; col < (row < 8 ? 24 : 8); ++col) cols.push_back(col);
    offsets.push_back(std::ssize(cols));
  }
  const CsrMatrix b{16, 24, offsets, cols, std::vector<float>(cols.size(), 0.5f)};
  const auto total = [&](const char* cores) {
    return describe_work(a, b,
                         options({{"counting", std::string("product")},
                                  {"multiplication", std::string("pairs")},
                                  {"cores", std::string(cores)}}))
        .total();
  };
  // Pairs of 2 and 1 tasks take two steps, the last tile alone one; a step is two MMAs.
  CHECK(total("tensor").mma == 2 * 2 * (2 + 1));
  CHECK(total("tensor").fma == 0);
  CHECK(total("scalar").mma == 0);
  CHECK(total("scalar").fma == 2 * 512 * 4);
}

TEST_CASE("tsparse refuses to describe several slices, and scalar cores that skip zeros") {
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
    const std::int64_t last_pair = Pairs::item_of(Pairs::thread_blocks(tiles) - 1);
    CHECK(last_pair < tiles);
    CHECK(last_pair + Pairs::kTiles >= tiles);
  }
  CHECK(CountCells::item_of(1, kWarpSize) ==
        CountCells::kTilesOfThreadBlock + CountCells::kTilesOfWarp);
  CHECK(MultiplyTiles::item_of(1, kWarpSize + 31) ==
        MultiplyTiles::kTilesOfThreadBlock + MultiplyTiles::kTilesOfWarp);
}

}  // namespace
}  // namespace tessera
