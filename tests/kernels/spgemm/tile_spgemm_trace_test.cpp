// tile_spgemm's work and its traces: tiles, tasks and pairs against ones counted one by one, and
// warps whose MMAs, stores and barriers agree with the work description.

#include "kernels/spgemm/tile/trace.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/bitmap_tile.hpp"
#include "kernels/device/shared_banks.hpp"
#include "kernels/spgemm/tile/analysis.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "model/simulator/simulator.hpp"
#include "tests/support.hpp"
#include "tests/trace_support.hpp"

namespace tessera {
namespace {

using namespace tile_spgemm;
using tracing::ProductAnalysis;
using tracing::TaskWork;
using tracing::TiledMatrix;
using tracing::TileOfC;

constexpr TileArithmetic kAllArithmetic[] = {TileArithmetic::kFp16, TileArithmetic::kTf32,
                                             TileArithmetic::kTf32x3};

struct Operands {
  CsrMatrix a, b;
};

std::vector<Operands> cases() {
  return {{random_sparse(203, 157, 0.07, 2), random_sparse(157, 90, 0.2, 3)},
          {random_sparse(1, 1, 1.0, 4), random_sparse(1, 1, 1.0, 5)},
          {random_sparse(300, 300, 0.003, 6), random_sparse(300, 300, 0.003, 7)},
          // Several passes over tiles of C.
          {random_sparse(30, 16, 0.5, 8), random_sparse(16, 3001, 0.1, 9)},
          // Slices, and several lists of their pairs.
          {random_sparse(40, 500, 0.2, 10), random_sparse(500, 6000, 0.02, 11)},
          // More columns than a thread block handles at once.
          {random_sparse(20, 16, 0.5, 12), random_sparse(16, 70000, 0.0005, 13)},
          // More tiles in a row of B than are gathered at once.
          {random_sparse(9, 8, 0.9, 14), random_sparse(8, 40000, 0.02, 15)}};
}

std::set<std::pair<std::int32_t, std::int32_t>> tiles_of(const CsrMatrix& matrix) {
  std::set<std::pair<std::int32_t, std::int32_t>> tiles;
  for (std::int32_t row = 0; row < matrix.rows; ++row)
    for (const std::int32_t col : matrix.row_cols(row)) tiles.insert({row / kSide, col / kSide});
  return tiles;
}

/// The pairs of each tile of C, counted nonzero by nonzero: tiles of A that have a product there.
std::map<std::pair<std::int32_t, std::int32_t>, std::set<std::int32_t>> pairs_of(
    const CsrMatrix& a, const CsrMatrix& b) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::set<std::int32_t>> pairs;
  for (std::int32_t row = 0; row < a.rows; ++row)
    for (const std::int32_t inner : a.row_cols(row))
      for (const std::int32_t col : b.row_cols(inner))
        pairs[{row / kSide, col / kSide}].insert(inner / kSide);
  return pairs;
}

TEST_CASE("the analysis of tile_spgemm finds the tiles of the format, with values in two orders") {
  for (const auto& [a, b] : cases())
    for (const CsrMatrix* matrix : {&a, &b}) {
      const TiledMatrix tiled(*matrix, 4);
      const auto packed = Registry<Format>::instance().make(BitmapTile::kFormat)->pack(*matrix);
      const auto& expected = packed_as<BitmapTile>(*packed);
      std::size_t number = 0;
      for (const TileRow& row : tiled.rows)
        for (std::uint32_t t = row.begin; t < row.begin + static_cast<std::uint32_t>(row.count);
             ++t, ++number) {
          REQUIRE(tiled.tiles[t].bitmap == expected.bitmap[number]);
          REQUIRE(tiled.tiles[t].col == expected.tile_col[number]);
          REQUIRE(tiled.tiles[t].first_value == expected.value_offset[number]);
        }
      CHECK(std::ssize(expected.bitmap) == static_cast<std::int64_t>(number));
      std::vector<std::pair<std::int32_t, std::int32_t>> by_cols(
          static_cast<std::size_t>(matrix->nnz()));  // column, row
      for (std::int32_t row = 0; row < matrix->rows; ++row)
        for (std::int64_t k = matrix->row_offsets[row]; k < matrix->row_offsets[row + 1]; ++k) {
          REQUIRE(expected.values[tiled.by_rows[k]] == matrix->values[k]);
          by_cols[tiled.by_cols[k]] = {matrix->col_indices[k], row};
        }
      for (std::int64_t k = 1; k < matrix->nnz(); ++k) {
        const auto [col, row] = by_cols[k];
        const auto [before_col, before_row] = by_cols[k - 1];
        if (row / kSide == before_row / kSide && col / kSide == before_col / kSide)
          REQUIRE(by_cols[k - 1] < by_cols[k]);
      }
    }
}

TEST_CASE("tile_spgemm's tasks contain every tile of C once, with its pairs and cells") {
  bool any_sliced = false, any_wide = false;
  for (const auto& [a, b] : cases()) {
    CAPTURE(b.cols);
    const ProductAnalysis product(a, b, TileArithmetic::kTf32);
    const CsrMatrix c = multiply_rows(a, b);
    const auto pairs = pairs_of(a, b);
    std::set<std::pair<std::int32_t, std::int32_t>> found;
    std::map<std::int32_t, std::int32_t> ends;  // of the slices of a tile row so far
    std::vector<std::int64_t> cells(static_cast<std::size_t>(product.a.tile_rows()) * kSide);
    std::int64_t all_pairs = 0;
    for (std::int64_t id = 0; id < std::ssize(product.tasks); ++id) {
      const TaskWork& work = product.tasks[id];
      const Task& task = work.task;
      if (id < product.a.tile_rows()) REQUIRE((task.tile_row == id && task.slice == 0));
      if (task.slice > 0) REQUIRE(ends[task.tile_row] == task.first_col);
      if (task.first_col < task.end_col) REQUIRE(task.first_col % kColsOfSlot == 0);
      ends[task.tile_row] = task.end_col;
      any_sliced |= task.is_sliced != 0;
      any_wide |= product.columns_of(work, kColsAtOnce).size() > 1;
      for (std::size_t row = 0; row < kSide; ++row) {
        const std::size_t at = static_cast<std::size_t>(task.tile_row) * kSide + row;
        if (static_cast<std::int64_t>(at) < c.rows)
          REQUIRE(work.row_begins[row] == c.row_offsets[at] + cells[at]);
        cells[at] += work.cells[row];
      }
      all_pairs += work.pairs;
      for (std::int64_t t = work.first_tile; t < work.last_tile; ++t) {
        const TileOfC& tile = product.tiles_of_c[t];
        REQUIRE((tile.col >= task.first_col && tile.col < task.end_col));
        REQUIRE(found.insert({task.tile_row, tile.col}).second);
        REQUIRE(std::popcount(tile.matches) == std::ssize(pairs.at({task.tile_row, tile.col})));
        for (int bit = 0; bit < kSide * kSide; ++bit) {
          const std::int32_t row = task.tile_row * kSide + bit / kSide;
          const bool is_cell = row < c.rows && std::ranges::binary_search(
                                                   c.row_cols(row), tile.col * kSide + bit % kSide);
          REQUIRE((tile.cells >> bit & 1) == (is_cell ? 1 : 0));
        }
      }
    }
    CHECK(found == tiles_of(c));
    CHECK(product.nonzeros_of_c == c.nnz());
    std::int64_t expected_pairs = 0;
    for (const auto& [tile, of_a] : pairs) expected_pairs += std::ssize(of_a);
    CHECK(all_pairs == expected_pairs);
  }
  CHECK(any_sliced);
  CHECK(any_wide);
}

TEST_CASE("tile_spgemm cuts a tile row as worked out by hand") {
  // 500 inner indices are 63 tiles; 6000 columns are 750 tiles, 24 slots. The estimate is about
  // 480'000 products, so that a task should have at most 1024 pairs.
  const auto [a, b] = cases()[4];
  const ProductAnalysis product(a, b, TileArithmetic::kTf32);
  CHECK(pairs_of_task(a.nnz(), b.nnz(), b.rows) == 1024);
  CHECK(product.a.longest() == 63);
  REQUIRE(product.a.tile_rows() == 5);
  CHECK(product.slices() == 5 * 23);
  CHECK(product.number_of(0) == 5);                 // slices first,
  CHECK(product.number_of(product.slices()) == 0);  // then the first ones of all rows
  const Task& last = product.tasks[5 + 22].task;
  CHECK(last.tile_row == 0);
  CHECK(last.slice == 23);
  CHECK(last.first_col == 23 * 32);
  CHECK(last.end_col == 750);
  CHECK(last.slots_at_once == 1);
}

TEST_CASE("tile_spgemm's work counts every product and every element of C once") {
  for (const auto& [a, b] : cases())
    for (const TileArithmetic arithmetic : kAllArithmetic) {
      const WorkDescription work = describe_work(a, b, arithmetic);
      std::int64_t products = 0, mmas = 0;
      for (const std::int32_t col : a.col_indices) products += b.row_length(col);
      for (const auto& [tile, of_a] : pairs_of(a, b))
        mmas += arithmetic == TileArithmetic::kFp16     ? (std::ssize(of_a) + 1) / 2
                : arithmetic == TileArithmetic::kTf32x3 ? 2 * std::ssize(of_a)
                                                        : std::ssize(of_a);
      CHECK(work.useful_flops == 2 * products);
      CHECK(work.total().mma == mmas);
      CHECK(work.c_bytes == 8 * (a.rows + 1) + 8 * multiply_rows(a, b).nnz());
      CHECK(work.total().c_bytes == work.c_bytes);
      std::int64_t blocks = 0;
      for (const Launch& launch : work.launches) blocks += launch.thread_blocks;
      CHECK(blocks == std::ssize(work.thread_blocks));
    }
}

TEST_CASE(
    "tile_spgemm's warps have the MMAs and barriers of the description and wait only for loads") {
  for (const auto& [a, b] : cases())
    for (const TileArithmetic arithmetic : kAllArithmetic) {
      CAPTURE(b.cols);
      const WorkDescription work = describe_work(a, b, arithmetic);
      std::vector<std::int64_t> mmas(work.thread_blocks.size()), barriers(mmas);
      int waits_in_vain = 0;
      for_warps(work, [&](std::int64_t block, const WarpTrace& trace) {
        std::set<int> raised;
        for (const WarpOp& op : trace.ops) {
          if (op.kind == WarpOp::Kind::kMma) mmas[block] += op.count;
          if (op.kind == WarpOp::Kind::kBarrier) ++barriers[block];
          if (op.kind == WarpOp::Kind::kLoad) raised.insert(op.scoreboard);
          if (op.kind == WarpOp::Kind::kWait && !raised.contains(op.scoreboard)) ++waits_in_vain;
        }
      });
      CHECK(waits_in_vain == 0);
      for (std::size_t i = 0; i < mmas.size(); ++i) {
        REQUIRE(mmas[i] == work.thread_blocks[i].mma);
        REQUIRE(barriers[i] == work.thread_blocks[i].barriers);
      }
    }
}

TEST_CASE("tile_spgemm's warps write all of C and all values of tiles, but no operand") {
  const std::set<std::string> whole{"a_by_rows",   "a_by_cols", "b_by_cols", "a_tile_rows",
                                    "b_tile_rows", "tasks",     "cells",     "row_offsets",
                                    "c_cols",      "c_values"};
  for (const auto& [a, b] : cases()) {
    CAPTURE(b.cols);
    const WorkDescription work = describe_work(a, b, TileArithmetic::kTf32);
    std::map<std::string, std::set<std::uint64_t>> written;
    int loads_of_c = 0;
    for_warps(work, [&](std::int64_t, const WarpTrace& trace) {
      for (const WarpOp& op : trace.ops)
        for (std::uint32_t i = op.first_line; i < op.last_line; ++i)
          for (unsigned sector = 0; sector < kSectorsPerLine; ++sector) {
            if ((trace.lines[i].sectors >> sector & 1) == 0) continue;
            const std::uint64_t address =
                std::uint64_t{trace.lines[i].line} * kLineBytes + kSectorBytes * sector;
            const std::string& name = array_of(work.memory, address).name;
            if (op.kind == WarpOp::Kind::kStore) written[name].insert(address);
            if (op.kind == WarpOp::Kind::kLoad && (name == "c_cols" || name == "c_values"))
              ++loads_of_c;
          }
    });
    CHECK(loads_of_c == 0);
    for (const AddressSpace::Array& array : work.memory.arrays()) {
      CAPTURE(array.name);
      const std::int64_t sectors = std::ssize(written[array.name]);
      if (whole.contains(array.name))
        CHECK(sectors == (array.bytes + kSectorBytes - 1) / kSectorBytes);
      else if (array.name.ends_with("_tiles"))
        CHECK(sectors > 0);
      else
        CHECK(sectors == 0);
    }
  }
}

TEST_CASE("tile_spgemm's description of A A makes the tiles of A once") {
  const CsrMatrix a = random_sparse(300, 300, 0.01, 16);
  std::vector<std::string> names;
  for (const Launch& launch : describe_work(a, a, TileArithmetic::kTf32).launches)
    names.push_back(launch.name);
  CHECK(names == std::vector<std::string>{"fill_tiles", "make_tasks", "count_cells",
                                          "scanning lengths", "make_sums"});
  CHECK(describe_work(a, CsrMatrix(a), TileArithmetic::kTf32).launches.size() == 6);
}

TEST_CASE(
    "tile_spgemm refuses to describe long tile rows of A and describes empty products as empty") {
  const CsrMatrix a = random_sparse(8, 1000, 0.9, 17), b = random_sparse(1000, 8, 0.1, 18);
  CHECK_THROWS_AS(describe_work(a, b, TileArithmetic::kTf32), Unsupported);
  CHECK_THROWS_AS(describe_work(a, a, TileArithmetic::kTf32), Error);
  // Columns far apart: in one tile row, and in two.
  constexpr std::int32_t kFar = kSide * kColsGathered;
  const auto two_nonzeros = [](std::int64_t in_first_row) {
    std::vector<std::int64_t> offsets(10, in_first_row);
    offsets.front() = 0, offsets.back() = 2;
    return CsrMatrix{9, kFar + 1, std::move(offsets), std::vector<std::int32_t>{0, kFar},
                     std::vector<float>{1, 1}};
  };
  const CsrMatrix wide = two_nonzeros(2), apart = two_nonzeros(1);
  const CsrMatrix left = random_sparse(9, 9, 1.0, 20);
  CHECK_THROWS_AS(describe_work(left, wide, TileArithmetic::kTf32), Unsupported);
  CHECK(describe_work(left, apart, TileArithmetic::kTf32).total().mma == 4);
  CHECK(describe_work(random_sparse(9, 8, 0, 11), random_sparse(8, 20, 0.5, 12),
                      TileArithmetic::kFp16)
            .launches.empty());
}

TEST_CASE("tile_spgemm's traces are the same in one piece and piece by piece") {
  for (const auto& [a, b] : cases()) {
    const WorkDescription work = describe_work(a, b, TileArithmetic::kFp16);
    for (const Launch& launch : work.launches) {
      const std::int64_t block = launch.thread_blocks / 2;
      for (int warp = 0; warp < launch.threads_per_block / 32; ++warp) {
        const WarpTrace once = whole_warp(*launch.trace, block, warp);
        const Pieces pieces = pieces_of(*launch.trace, block, warp);
        CHECK(pieces.fewest_ops > 0);
        CHECK(pieces.ops == once.ops.size());
        CHECK(pieces.lines == once.lines.size());
      }
    }
  }
}

TEST_CASE("the simulator executes every MMA of tile_spgemm") {
  const CsrMatrix a = random_sparse(400, 400, 0.02, 19);
  for (const char* precision : {"fp16", "tf32", "tf32x3"}) {
    const auto kernel = Registry<SpgemmKernel>::instance().make(
        "tile_spgemm", {{"precision", std::string(precision)}});
    const WorkDescription work = kernel->work(a, a);
    const simulator::Result result = simulator::simulate(work, find_device("h200"));
    CHECK(result.sm().mma == work.total().mma);
    for (const simulator::LaunchResult& launch : result.launches) CHECK(launch.cycles > 0);
  }
}

TEST_CASE("bank conflicts count words of a bank, lanes of a bank and words of eight bytes") {
  Banks same, apart, lines, wide(8);
  for (int lane = 0; lane < 32; ++lane) {
    same.add(5);
    apart.add(lane);
    lines.add(32 * lane);
    wide.add(lane);
  }
  CHECK(same.wavefronts() == 1);
  CHECK(same.turns() == 32);
  CHECK(apart.wavefronts() == 1);
  CHECK(apart.turns() == 1);
  CHECK(lines.wavefronts() == 32);
  CHECK(wide.wavefronts() == 2);
}

}  // namespace
}  // namespace tessera
