// row_spgemm's work and its traces: every class of tasks, products and C told once, and warps that
// touch what the description says.

#include "kernels/row_spgemm_trace.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "kernels/row_spgemm.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "model/simulator/simulator.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

CsrMatrix from_rows(std::int32_t cols, const std::vector<std::vector<std::int32_t>>& rows) {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> col_indices;
  for (const auto& row : rows) {
    col_indices.insert(col_indices.end(), row.begin(), row.end());
    offsets.push_back(std::ssize(col_indices));
  }
  std::vector<float> values;
  for (std::size_t i = 0; i < col_indices.size(); ++i) values.push_back(random_signed(5, i));
  return {static_cast<std::int32_t>(rows.size()), cols, std::move(offsets), std::move(col_indices),
          std::move(values)};
}

/// That many different numbers in [first, last), ascending.
std::vector<std::int32_t> draw(std::int32_t count, std::int32_t first, std::int32_t last,
                               RandomSequence& random) {
  std::set<std::int32_t> drawn;
  while (std::ssize(drawn) < std::min(count, last - first))
    drawn.insert(first + static_cast<std::int32_t>(random.below(last - first)));
  return {drawn.begin(), drawn.end()};
}

struct Operands {
  CsrMatrix a, b;
};

/// Rows of C from few and from many rows of B, short and long, in narrow and in wide ranges.
Operands of_all_classes() {
  constexpr std::int32_t kRowsOfBand = 24;
  RandomSequence random(21);
  std::vector<std::vector<std::int32_t>> a, b;
  for (const std::int32_t length : {2, 8, 30, 100, 600, 1500})
    for (const std::int32_t range : {500, 1800, 5000, 7000, 12000, 16000, 40000, 60000}) {
      const auto first = static_cast<std::int32_t>(b.size());
      for (int i = 0; i < kRowsOfBand; ++i) b.push_back(draw(length, 0, range, random));
      for (const std::int32_t nonzeros : {0, 2, 3, 4, 6, 8, 10, 16, 20, 24})
        a.push_back(draw(nonzeros, first, first + kRowsOfBand, random));
    }
  const auto rows_of_b = static_cast<std::int32_t>(b.size());
  return {from_rows(rows_of_b, a), from_rows(60000, b)};
}

std::vector<Operands> cases() {
  return {of_all_classes(),
          {random_sparse(203, 157, 0.07, 2), random_sparse(157, 90, 0.2, 3)},
          {random_sparse(40, 50, 0.0, 5), random_sparse(50, 40, 0.1, 6)},
          // A hub in A, one in B.
          {random_sparse(2, 3000, 0.9, 7), random_sparse(3000, 300, 0.02, 8)},
          {random_sparse(300, 4, 0.5, 9), random_sparse(4, 70000, 0.3, 10)}};
}

/// All of a warp, in one piece.
WarpTrace whole_warp(const LaunchTrace& launch, std::int64_t thread_block, int warp) {
  WarpTrace trace;
  WarpCursor cursor;
  for (int pieces = 0; launch.next(thread_block, warp, cursor, trace); ++pieces)
    require(pieces < 1'000'000, "warp {} of thread block {} has no end", warp, thread_block);
  return trace;
}

/// Calls visit(thread block of all, trace) for every warp.
template <class Visit>
void for_warps(const WorkDescription& work, Visit visit) {
  std::int64_t at = 0;
  for (const Launch& launch : work.launches)
    for (std::int64_t block = 0; block < launch.thread_blocks; ++block, ++at)
      for (int warp = 0; warp < launch.threads_per_block / 32; ++warp)
        visit(at, whole_warp(*launch.trace, block, warp));
}

const AddressSpace::Array& array_of(const AddressSpace& memory, std::uint64_t address) {
  for (const AddressSpace::Array& array : memory.arrays())
    if (address >= array.begin &&
        address < array.begin + static_cast<std::uint64_t>(array.bytes + kSectorBytes - 1) /
                                    kSectorBytes * kSectorBytes)
      return array;
  throw Error(fmt::format("address {} lies in no array", address));
}

/// Calls visit(array, sector of the array) for what an operation touches.
template <class Visit>
void for_sectors(const WorkDescription& work, const WarpTrace& trace, const WarpOp& op,
                 Visit visit) {
  for (std::uint32_t i = op.first_line; i < op.last_line; ++i)
    for (int sector = 0; sector < kSectorsPerLine; ++sector) {
      if ((trace.lines[i].sectors >> sector & 1) == 0) continue;
      const std::uint64_t address =
          std::uint64_t{trace.lines[i].line} * kLineBytes + std::uint64_t{kSectorBytes} * sector;
      const AddressSpace::Array& array = array_of(work.memory, address);
      visit(array, static_cast<std::int64_t>(address - array.begin) / kSectorBytes);
    }
}

TEST_CASE("row_spgemm's work has every product and every element of C once") {
  for (const auto& [a, b] : cases()) {
    CAPTURE(a.rows);
    const WorkDescription work = row_spgemm::describe_work(a, b);
    const CsrMatrix c = multiply_rows(a, b);
    std::int64_t products = 0;
    for (const std::int32_t col : a.col_indices)
      products += b.row_offsets[col + 1] - b.row_offsets[col];
    CHECK(work.total().fma == products);
    CHECK(work.useful_flops == 2 * products);
    CHECK(work.total().c_bytes == 8 * c.nnz());
    CHECK(work.c_bytes == 8 * (c.rows + 1) + 8 * c.nnz());
    std::int64_t blocks = 0;
    for (const Launch& launch : work.launches) blocks += launch.thread_blocks;
    CHECK(blocks == std::ssize(work.thread_blocks));
  }
}

TEST_CASE("every class of row_spgemm's tasks is a launch") {
  const auto [a, b] = of_all_classes();
  std::set<std::string> names, expected;
  for (const Launch& launch : row_spgemm::describe_work(a, b).launches) names.insert(launch.name);
  for (int i = 0; i < row_spgemm::kMarkClasses; ++i) expected.insert(fmt::format("counting {}", i));
  for (int i = 0; i < row_spgemm::kSumClasses; ++i) expected.insert(fmt::format("sums {}", i));
  CHECK(names == expected);
}

TEST_CASE("row_spgemm's warps write all of C and nothing else that a product is read from") {
  for (const auto& [a, b] : cases()) {
    const WorkDescription work = row_spgemm::describe_work(a, b);
    std::map<std::string, std::set<std::int64_t>> written;
    for_warps(work, [&](std::int64_t, const WarpTrace& trace) {
      for (const WarpOp& op : trace.ops)
        for_sectors(work, trace, op, [&](const AddressSpace::Array& array, std::int64_t sector) {
          const bool writes = op.kind == WarpOp::Kind::kStore || op.kind == WarpOp::Kind::kAtomic;
          const bool is_written = array.name == "c_cols" || array.name == "c_values" ||
                                  array.name == "lengths" || array.name == "summary";
          REQUIRE(writes == is_written);
          if (writes) written[array.name].insert(sector);
        });
    });
    const std::int64_t all = (4 * multiply_rows(a, b).nnz() + kSectorBytes - 1) / kSectorBytes;
    for (const char* array : {"c_cols", "c_values"}) CHECK(std::ssize(written[array]) == all);
  }
}

TEST_CASE("row_spgemm's warps meet as often as their thread block is said to") {
  for (const auto& [a, b] : cases()) {
    const WorkDescription work = row_spgemm::describe_work(a, b);
    std::vector<std::int64_t> barriers(work.thread_blocks.size());
    for_warps(work, [&](std::int64_t block, const WarpTrace& trace) {
      barriers[block] += std::ranges::count(trace.ops, WarpOp::Kind::kBarrier, &WarpOp::kind);
    });
    for (std::size_t i = 0; i < barriers.size(); ++i)
      CHECK(barriers[i] == work.thread_blocks[i].barriers);
  }
}

TEST_CASE("where rows are whole sectors and met once, warps touch the bytes that are told") {
  RandomSequence random(22);
  std::vector<std::vector<std::int32_t>> a, b;
  constexpr std::int32_t kRows = 5, kLength = 32, kWords = 1500;
  for (std::int32_t first = 0; first < 40 * kRows; first += kRows) {
    // A word for each column of C.
    const std::vector<std::int32_t> words = draw(kRows * kLength, 0, kWords, random);
    std::vector<std::vector<std::int32_t>> rows(kRows);
    for (std::int32_t i = 0; i < kRows * kLength; ++i)
      rows[i % kRows].push_back(32 * words[i] + static_cast<std::int32_t>(random.below(32)));
    b.insert(b.end(), rows.begin(), rows.end());
    a.push_back({first, first + 1, first + 2, first + 3, first + 4});
  }
  const CsrMatrix left = from_rows(40 * kRows, a), right = from_rows(32 * kWords, b);
  const WorkDescription work = row_spgemm::describe_work(left, right);
  std::vector<std::int64_t> read(work.thread_blocks.size()), written(read);
  for_warps(work, [&](std::int64_t block, const WarpTrace& trace) {
    for (const WarpOp& op : trace.ops)
      for_sectors(work, trace, op, [&](const AddressSpace::Array& array, std::int64_t) {
        const std::string& name = array.name;
        if (name == "words_of_b" || name == "b_cols" || name == "b_values")
          read[block] += kSectorBytes;
        if (name == "c_cols" || name == "c_values") written[block] += kSectorBytes;
      });
  });
  for (std::size_t i = 0; i < read.size(); ++i) {
    CHECK(read[i] == work.thread_blocks[i].b_bytes);
    CHECK(written[i] == work.thread_blocks[i].c_bytes);
  }
  // Words twice, for columns and for ranks.
  CHECK(work.total().b_bytes == (8 + 8 + 8) * right.nnz());
}

TEST_CASE("row_spgemm's warps wait for what they load, and tell the same piece by piece") {
  for (const auto& [a, b] : cases()) {
    const WorkDescription work = row_spgemm::describe_work(a, b);
    for (const Launch& launch : work.launches) {
      const std::int64_t block = launch.thread_blocks / 2;
      for (int warp = 0; warp < launch.threads_per_block / 32; ++warp) {
        const WarpTrace once = whole_warp(*launch.trace, block, warp);
        std::set<int> raised;
        for (const WarpOp& op : once.ops) {
          if (op.kind == WarpOp::Kind::kLoad) raised.insert(op.scoreboard);
          if (op.kind == WarpOp::Kind::kWait) CHECK(raised.contains(op.scoreboard));
        }
        WarpTrace piece;
        WarpCursor cursor;
        std::size_t ops = 0, lines = 0;
        for (bool more = true; more;) {
          piece.clear();
          more = launch.trace->next(block, warp, cursor, piece);
          CHECK(!piece.ops.empty());
          CHECK(piece.ops.size() < 4000);
          ops += piece.ops.size();
          lines += piece.lines.size();
        }
        CHECK(ops == once.ops.size());
        CHECK(lines == once.lines.size());
      }
    }
  }
}

TEST_CASE("a launch of row_spgemm for each class runs through the simulator") {
  const auto [a, b] = of_all_classes();
  const simulator::Result result =
      simulator::simulate(row_spgemm::describe_work(a, b), find_device("h200"));
  CHECK(result.launches.size() == int{row_spgemm::kMarkClasses} + int{row_spgemm::kSumClasses});
  for (const simulator::LaunchResult& launch : result.launches) CHECK(launch.cycles > 0);
}

}  // namespace
}  // namespace tessera
