// hyb_spmm: the buckets of its format by a worked example, and its emulation, work and traces.
#include "kernels/spmm/hyb/hyb.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <limits>
#include <map>
#include <set>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/spmm_kernel.hpp"
#include "tests/oracle_support.hpp"
#include "tests/support.hpp"
#include "tests/trace_support.hpp"

namespace tessera {
namespace {

using namespace hyb;

std::unique_ptr<SpmmKernel> kernel_of(const Params::Given& given = {}) {
  return Registry<SpmmKernel>::instance().make("hyb_spmm", given);
}

Packing pack(const CsrMatrix& a, const Params::Given& given) {
  return {a, HybOptions(Registry<SpmmKernel>::instance().resolve("hyb_spmm", given))};
}

Params::Given choice(std::int64_t partitions, std::int64_t widest) {
  return {{"partitions", partitions}, {"widest", widest}};
}

/// Rows of 0, 1, 2, 3 and 6 nonzeros in eight columns, the first half of which ends at column 3.
CsrMatrix example() {
  return csr(5, 8, {0, 0, 1, 3, 6, 12}, {5, 0, 7, 1, 2, 3, 0, 1, 2, 3, 4, 6},
             {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
}

TEST_CASE("hyb_spmm puts rows into buckets by length and cuts those that are too long") {
  const Packing packing = pack(example(), choice(1, 2));

  // One row of one entry, one of two, then three of four: row 3 padded, row 4 in two parts.
  REQUIRE(packing.rows.size() == 5);
  CHECK(packing.rows[0].row == 1);
  CHECK(packing.rows[1].row == 2);
  CHECK(packing.rows[2].row == 3);
  CHECK(packing.rows[3].row == 4);
  CHECK(packing.col_indices ==
        std::vector<std::int32_t>{5, 0, 7, 1, 2, 3, ~3, 0, 1, 2, 3, 4, 6, ~6, ~6});
  CHECK(packing.rows[4].row == 4);
  CHECK(packing.rows[2].slot == 0);
  CHECK(packing.rows[3].slot == 1);
  CHECK(packing.rows[4].slot == 2);
  // Row 0 has nothing to multiply and row 4 two parts to add.
  REQUIRE(packing.finished_rows.size() == 2);
  CHECK(packing.finished_rows[0].row == 0);
  CHECK(packing.finished_rows[0].parts == 0);
  CHECK(packing.finished_rows[1].row == 4);
  CHECK(packing.finished_rows[1].parts == 2);
}

TEST_CASE("a partition of columns has buckets of its own") {
  const Packing packing = pack(example(), choice(2, 2));

  std::map<std::int32_t, int> parts;
  for (const EllRow& row : packing.rows) ++parts[row.row];
  CHECK(parts == std::map<std::int32_t, int>{{1, 1}, {2, 2}, {3, 1}, {4, 2}});
  // The first half has row 2's first nonzero, row 3 and four of row 4's, the second half the rest.
  CHECK(packing.col_indices == std::vector<std::int32_t>{0, 1, 2, 3, ~3, 0, 1, 2, 3, 5, 7, 4, 6});
  CHECK(packing.num_slots == 4);
}

TEST_CASE("every warp of hyb_spmm has at most 2^k entries, and the widest rows follow the mean") {
  const CsrMatrix a = random_sparse(300, 400, 0.03, 1);  // 12 nonzeros a row
  CHECK(pack(a, {}).widest == 4);
  CHECK(pack(random_sparse(100, 400, 0.002, 2), {}).widest == 0);
  for (const std::int64_t widest : {0, 2, 5}) {
    const Packing packing = pack(a, choice(3, widest));
    CHECK(packing.widest == widest);
    std::uint32_t row = 0, entry = 0;
    for (const Task& task : packing.tasks) {
      CHECK(task.first_row == row);
      CHECK(task.first_entry == entry);
      CHECK((task.rows << task.log_width) <= (1u << widest));
      row += task.rows;
      entry += task.rows << task.log_width;
    }
    CHECK(row == packing.rows.size());
    CHECK(entry == packing.entries());
    std::set<std::int64_t> nonzeros(packing.nonzeros.begin(), packing.nonzeros.end());
    nonzeros.erase(-1);
    CHECK(std::ssize(nonzeros) == a.nnz());
  }
}

TEST_CASE("whole rows of hyb_spmm have the bits of plain CSR, for every width of B") {
  const CsrMatrix a = random_sparse(70, 90, 0.1, 3);
  for (const std::int64_t n : {1, 31, 64, 200}) {
    CAPTURE(n);
    const DenseMatrix b = random_dense(90, n, 4);
    const auto plain = Registry<SpmmKernel>::instance().make("csr_spmm", Params::Given{});
    const Generation& hopper = find_generation("hopper");
    CHECK(kernel_of(choice(1, 7))->emulate(CsrPacked(a), b, hopper).values ==
          plain->emulate(CsrPacked(a), b, hopper).values);
  }
}

TEST_CASE("parts of a row are added in the order of its columns") {
  // 1 + 2^-24 twice rounds to 1, and the parts 2^-24 + 2^-24 first would not.
  const CsrMatrix a = csr(1, 3, {0, 3}, {0, 1, 2}, {1, 0x1p-24f, 0x1p-24f});
  DenseMatrix b(3, 1);
  std::ranges::fill(b.values, 1.0f);
  const Generation& hopper = find_generation("hopper");
  CHECK(kernel_of(choice(1, 0))->emulate(CsrPacked(a), b, hopper).values[0] == 1);
  CHECK(kernel_of(choice(2, 4))->emulate(CsrPacked(a), b, hopper).values[0] == 1);
  b.at(0, 0) = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::bit_cast<std::uint32_t>(
            kernel_of(choice(1, 0))->emulate(CsrPacked(a), b, hopper).values[0]) == 0x7fffffff);
}

TEST_CASE("an entry without a nonzero reads a row of B and multiplies nothing") {
  // Three nonzeros in four entries. Zero times the infinity of the last would be NaN.
  const CsrMatrix a = csr(1, 4, {0, 3}, {1, 2, 3}, {1, 1, 1});
  DenseMatrix b(4, 1);
  std::ranges::fill(b.values, 1.0f);
  b.at(3, 0) = std::numeric_limits<float>::infinity();
  const auto kernel = kernel_of(choice(1, 2));
  CHECK(kernel->emulate(CsrPacked(a), b, find_generation("hopper")).values[0] == b.at(3, 0));
  const WorkDescription work = kernel->work(CsrPacked(a), 1);
  CHECK(work.total().b_bytes == 4 * 4);
  CHECK(work.total().fma == 3);
}

TEST_CASE("hyb_spmm's warps store all of C and all slots, whatever its partitions") {
  const CsrMatrix a = random_sparse(150, 130, 0.06, 5);
  for (const auto& [partitions, widest] : {std::pair{1, -1}, {3, 1}, {1, 0}, {5, 6}})
    for (const std::int64_t n : {8, 64, 136}) {
      CAPTURE(partitions);
      CAPTURE(widest);
      CAPTURE(n);
      const WorkDescription work = kernel_of(choice(partitions, widest))->work(CsrPacked(a), n);
      std::map<std::string, std::set<std::uint64_t>> stored;
      for_warps(work, [&](std::int64_t, const WarpTrace& trace) {
        for (const WarpOp& op : trace.ops) {
          if (op.kind != WarpOp::Kind::kStore) continue;
          for (std::uint32_t i = op.first_line; i < op.last_line; ++i)
            for (int sector = 0; sector < kSectorsPerLine; ++sector) {
              if ((trace.lines[i].sectors >> sector & 1) == 0) continue;
              const std::uint64_t address = std::uint64_t{trace.lines[i].line} * kLineBytes +
                                            std::uint64_t{kSectorBytes} * sector;
              stored[array_of(work.memory, address).name].insert(address);
            }
        }
      });
      for (const AddressSpace::Array& array : work.memory.arrays()) {
        if (array.name != "c" && array.name != "slots") continue;
        CAPTURE(array.name);
        CHECK(std::ssize(stored[array.name]) == (array.bytes + kSectorBytes - 1) / kSectorBytes);
      }
      CHECK(work.total().fma == a.nnz() * n);
    }
}

}  // namespace
}  // namespace tessera
