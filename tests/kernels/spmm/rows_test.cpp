// rows_spmm: its units take every nonzero once, in thread blocks of one class; its results are bit
// for bit those of its definition, rows of several thread blocks among them; its work is what the
// matrix asks for.

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "experiments/backends/check_result.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/spmm/rows/rows_spmm.hpp"
#include "kernels/spmm_kernel.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using rows_spmm::Plan;
using rows_spmm::Schedule;
using rows_spmm::Unit;

std::unique_ptr<SpmmKernel> kernel_with(std::int64_t piece, Params::Given more = {}) {
  more["piece"] = piece;
  return Registry<SpmmKernel>::instance().make("rows_spmm", more);
}

Schedule schedule_with(const CsrMatrix& a, std::int64_t n,
                       const rows_spmm::ScheduleChoice& choice) {
  return rows_spmm::make_schedule(a.rows, a.nnz(), 0, n, choice);
}

/// Rows of these lengths in columns chosen by chance; values in (-1, 1).
CsrMatrix rows_of(const std::vector<std::int64_t>& lengths, std::int32_t cols) {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> indices;
  std::vector<float> values;
  RandomSequence random(9);
  for (const std::int64_t length : lengths) {
    // A random stride that meets no column twice.
    std::vector<std::int32_t> row;
    const std::int64_t step = length == 0 ? 1 : cols / length;
    for (std::int64_t k = 0; k < length; ++k)
      row.push_back(static_cast<std::int32_t>(
          k * step + static_cast<std::int64_t>(random.unit() * static_cast<double>(step))));
    indices.insert(indices.end(), row.begin(), row.end());
    for (std::int64_t k = 0; k < length; ++k)
      values.push_back(static_cast<float>(2 * random.unit() - 1));
    offsets.push_back(static_cast<std::int64_t>(indices.size()));
  }
  return {static_cast<std::int32_t>(lengths.size()), cols, std::move(offsets), std::move(indices),
          std::move(values)};
}

/// Rows empty, short, of one thread block and of several, in no order.
CsrMatrix mixed() {
  std::vector<std::int64_t> lengths;
  for (int i = 0; i < 4; ++i)
    for (const std::int64_t length : {0, 3, 17, 1, 64, 900, 0, 33, 16, 8, 255, 257, 2, 4000, 129})
      lengths.push_back(length);
  return rows_of(lengths, 8000);
}

/// As mixed(), with so many short rows that units for few columns have two lanes.
CsrMatrix mostly_short() {
  std::vector<std::int64_t> lengths;
  for (int i = 0; i < 90; ++i)
    for (const std::int64_t length : {0, 3, 1, 7, 20}) lengths.push_back(length);
  for (const std::int64_t length : {300, 16, 65, 900, 33}) lengths.push_back(length);
  return rows_of(lengths, 2000);
}

float one_nan(float value) { return std::isnan(value) ? std::bit_cast<float>(0x7fffffff) : value; }

/// An element of C by the definition: the row is cut into pieces of equal length, as many as its
/// units; the parts of a unit take the nonzeros of its piece in turn, and sums of parts are added
/// to those half as far; sums of pieces, of thread blocks and of units of slots are added in their
/// order.
float element(const CsrMatrix& a, const DenseMatrix& b, std::int64_t i, std::int64_t j,
              std::int64_t piece, std::int64_t few_lanes = 0) {
  const bool two_lanes = b.cols <= 8 && a.nnz() <= 16 * a.rows;
  const std::int64_t lanes = b.cols <= 16 && few_lanes > 0 ? few_lanes
                             : two_lanes                   ? 2
                             : b.cols <= 32                ? 8
                             : b.cols <= 64                ? 16
                                                           : 32;
  const std::int64_t units = 256 / lanes;  // of a thread block
  const std::int64_t parts = b.cols == 1    ? lanes
                             : b.cols <= 8  ? lanes / 2
                             : b.cols <= 16 ? lanes / 4
                                            : 1;
  const std::int64_t length = a.row_length(i);
  std::int64_t team = 1, blocks = 1;
  while (team < units && team * piece < length) team *= 2;
  while (blocks * units * piece < length) ++blocks;
  const auto sum_of_block = [&](std::int64_t block) {
    float sum = 0;
    for (std::int64_t p = block * team; p < (block + 1) * team; ++p) {
      std::vector<float> of_part(static_cast<std::size_t>(parts), 0.0f);
      const std::int64_t first = length * p / (team * blocks);
      for (std::int64_t k = first; k < length * (p + 1) / (team * blocks); ++k) {
        const std::int64_t at = a.row_offsets[i] + k;
        float& part = of_part[(k - first) % parts];
        part = std::fma(a.values[at], b.at(a.col_indices[at], j), part);
      }
      while (of_part.size() > 1) {
        const std::size_t half = of_part.size() / 2;
        for (std::size_t q = 0; q < half; ++q)
          of_part[q] = one_nan(one_nan(of_part[q]) + one_nan(of_part[q + half]));
        of_part.resize(half);
      }
      const float part = of_part[0];
      sum = p == block * team ? one_nan(part) : one_nan(sum + one_nan(part));
    }
    return sum;
  };
  if (blocks == 1) return sum_of_block(0);
  float sum = 0;
  for (std::int64_t unit = 0; unit < units; ++unit) {
    float of_unit = 0;
    for (std::int64_t slot = blocks * unit / units; slot < blocks * (unit + 1) / units; ++slot)
      of_unit = one_nan(of_unit + sum_of_block(slot));
    sum = unit == 0 ? of_unit : one_nan(sum + of_unit);
  }
  return sum;
}

TEST_CASE("rows_spmm gives the bits of its definition for every width and length of pieces") {
  for (const CsrMatrix& a : {mixed(), mostly_short()})
    for (const std::int64_t n : {1, 2, 7, 8, 9, 16, 17, 32, 33, 128, 130}) {
      const CsrPacked packed(a);
      CAPTURE(a.rows);
      CAPTURE(n);
      DenseMatrix b = random_dense(a.cols, n, 41);
      b.at(3, 0) = std::numeric_limits<float>::quiet_NaN();
      b.at(77, n - 1) = std::numeric_limits<float>::infinity();
      b.at(1177, n - 1) = -std::numeric_limits<float>::infinity();
      for (std::int64_t k = 0; k < b.rows; ++k) b.at(k, n / 2) *= 0x1p-140f;
      for (const std::int64_t piece : {1, 5, 16, 40}) {
        CAPTURE(piece);
        const DenseMatrix c = kernel_with(piece)->emulate(packed, b, find_generation("hopper"));

        for (std::int64_t i = 0; i < a.rows; i += 1 + i % 3)
          for (std::int64_t j = 0; j < n; j += 1 + n / 5) {
            CAPTURE(i);
            CAPTURE(j);
            REQUIRE(std::bit_cast<std::uint32_t>(c.at(i, j)) ==
                    std::bit_cast<std::uint32_t>(element(a, b, i, j, piece)));
          }
      }
    }
}

TEST_CASE("rows_spmm gives the same bits with wide warps and with columns as offsets") {
  const CsrMatrix a = mixed();
  const CsrPacked packed(a);
  for (const std::int64_t n : {1, 8, 16, 130, 257, 515}) {
    CAPTURE(n);
    const DenseMatrix b = random_dense(a.cols, n, 42);
    const auto c_with = [&](const Params::Given& params) {
      return kernel_with(16, params)->emulate(packed, b, find_generation("hopper"));
    };
    const DenseMatrix c = c_with({});
    for (const Params::Given& params : {Params::Given{{"columns", std::int64_t{128}}},
                                        Params::Given{{"columns", std::int64_t{512}}},
                                        Params::Given{{"offsets", std::string("always")}},
                                        Params::Given{{"offsets", std::string("never")}}})
      CHECK(c_with(params).values == c.values);
  }
}

TEST_CASE("rows_spmm gives the bits of its definition for every number of lanes of few columns") {
  const CsrMatrix a = mixed();
  const CsrPacked packed(a);
  for (const std::int64_t n : {1, 2, 8, 9, 16}) {
    const DenseMatrix b = random_dense(a.cols, n, 44);
    for (const std::int64_t lanes : {8, 16, 32})
      for (const std::int64_t piece : {5, 40}) {
        const DenseMatrix c =
            kernel_with(piece, {{"lanes", lanes}})->emulate(packed, b, find_generation("hopper"));

        for (std::int64_t i = 0; i < a.rows; i += 1 + i % 3)
          for (std::int64_t j = 0; j < n; ++j)
            REQUIRE(std::bit_cast<std::uint32_t>(c.at(i, j)) ==
                    std::bit_cast<std::uint32_t>(element(a, b, i, j, piece, lanes)));
      }
  }
  CHECK_THROWS_WITH_AS(kernel_with(0, {{"lanes", std::int64_t{4}}})->work(packed, 8),
                       "a unit of rows_spmm has 2, 8, 16 or 32 lanes, not 4", Error);
}

TEST_CASE("rows_spmm adds many thousands of nonzeros of a row within its bound") {
  const CsrMatrix a = rows_of({2, 60'000, 0, 9}, 90'000);
  const CsrPacked packed(a);
  const Permutation rows = Permutation::identity(a.rows);
  for (const std::int64_t n : {1, 7, 12, 32, 33, 128, 130}) {
    CAPTURE(n);
    const DenseMatrix b = random_dense(a.cols, n, 43);
    for (const std::int64_t piece : {0, 1}) {
      CAPTURE(piece);
      const auto kernel = kernel_with(piece);
      const DenseMatrix c = kernel->emulate(packed, b, find_generation("hopper"));

      CHECK(check_result(a, b, c, {*kernel, packed, rows, "hopper"}).reason == "");
    }
  }
}

/// Counts how often the units take each nonzero.
std::vector<int> taken(const CsrMatrix& a, const Plan& plan) {
  std::vector<int> times(static_cast<std::size_t>(a.nnz()), 0);
  for (const Unit& unit : plan.units)
    for (std::uint32_t k = 0; k < unit.count; ++k) ++times[unit.first + k];
  return times;
}

TEST_CASE("units of rows_spmm take every nonzero once, and every row has a team") {
  for (const CsrMatrix& a :
       {mixed(), mostly_short(), random_sparse(203, 157, 0.07, 5), random_sparse(5, 9, 0, 6)}) {
    for (const std::int64_t n : {1, 8, 16, 32, 64, 128}) {
      CAPTURE(n);
      for (const std::int64_t piece : {1, 16, 100}) {
        CAPTURE(piece);
        const Schedule schedule = schedule_with(a, n, {.piece = piece});

        const Plan plan = rows_spmm::make_plan(a, {.pieces = schedule});

        for (const int times : taken(a, plan)) REQUIRE(times == 1);
        std::vector<std::int64_t> pieces(static_cast<std::size_t>(a.rows), 0);
        for (const Unit& unit : plan.units) {
          CHECK(unit.count <= piece);
          if (unit.row == rows_spmm::kNoRow) {
            CHECK(unit.count == 0);
          } else {
            ++pieces[unit.row];
            const bool in_row = unit.first >= a.row_offsets[unit.row] &&
                                unit.first + unit.count <= a.row_offsets[unit.row + 1];
            REQUIRE(in_row);
          }
        }
        for (std::int32_t row = 0; row < a.rows; ++row)
          CHECK(pieces[row] == schedule.cut(a.row_length(row)).pieces());
      }
    }
  }
}

TEST_CASE("a thread block of rows_spmm has teams of one size, and the longest rows come first") {
  for (const CsrMatrix& a : {mixed(), mostly_short()})
    for (const std::int64_t n : {1, 8, 16, 32, 64, 128}) {
      CAPTURE(n);
      const Schedule schedule = schedule_with(a, n, {.piece = 4});
      const Plan plan = rows_spmm::make_plan(a, {.pieces = schedule});
      const std::int64_t per_block = schedule.units_per_block();
      REQUIRE(std::ssize(plan.units) % per_block == 0);

      std::int64_t slots = 0, last_team = per_block;
      std::int64_t last_row = -1;
      for (std::int64_t first = 0; first < std::ssize(plan.units); first += per_block) {
        const Unit& leader = plan.units[first];
        for (std::int64_t i = 0; i < per_block; ++i) {
          const Unit& unit = plan.units[first + i];
          CHECK(unit.team == leader.team);
          CHECK(unit.split == leader.split);
          // The units of a team follow each other and share a row, and its first nonzero comes
          // first.
          const Unit& of_team = plan.units[first + i / unit.team * unit.team];
          CHECK(unit.row == of_team.row);
          if (&unit != &of_team && unit.row != rows_spmm::kNoRow)
            CHECK(unit.first == (&unit)[-1].first + (&unit)[-1].count);
        }
        if (leader.split != 0) {
          const rows_spmm::SplitRow& split = plan.split_rows[leader.split - 1];
          CHECK(leader.team == per_block);
          CHECK(slots >= split.first_slot);
          CHECK(slots < split.first_slot + split.num_slots);
          CHECK(slots == first / per_block);
          ++slots;
          continue;
        }
        CHECK(leader.team <= last_team);
        if (leader.team < last_team || first / per_block == slots) last_row = -1;
        last_team = leader.team;
        for (std::int64_t i = 0; i < per_block; i += leader.team) {
          const std::uint32_t row = plan.units[first + i].row;
          if (row == rows_spmm::kNoRow) continue;
          CHECK(row > last_row);
          last_row = row;
        }
      }
      CHECK(slots == plan.num_slots);
      CHECK(slots > 0);
    }
}

TEST_CASE("a row that is a unit of rows_spmm is a chain of fused multiply-adds") {
  const CsrMatrix a = random_sparse(200, 150, 0.08, 81);
  const DenseMatrix b = random_dense(a.cols, 40, 82);
  const auto& kernels = Registry<SpmmKernel>::instance();
  const auto direct = kernels.make("rows_spmm", {{"nonzeros", std::string("direct")}});
  const auto packed = Registry<Format>::instance().make(direct->format())->pack(a);
  const auto emulated = [&](const SpmmKernel& kernel) {
    return kernel.emulate(*packed, b, find_generation("hopper")).values;
  };
  CHECK(emulated(*direct) == emulated(*kernels.make("csr_spmm")));
  // Pieces of two nonzeros are added in another order.
  CHECK(emulated(*direct) != emulated(*kernels.make("rows_spmm", {{"piece", std::int64_t{2}}})));
}

TEST_CASE("short rows of rows_spmm have a launch of their own where their warps are many") {
  using rows_spmm::RowStatistics;
  const RowStatistics long_rows{.rows = 3, .nnz = 900, .longest = 400};
  const auto launches = [&](std::int64_t rows, std::int64_t n,
                            const rows_spmm::ScheduleChoice& choice = {}, int access_cols = 4) {
    return rows_spmm::make_launches({.rows = rows, .nnz = 10 * rows, .longest = 40}, long_rows, n,
                                    choice, access_cols);
  };
  // Warps of pieces have 4, 2 and 1 units of 32, 64 and 128 columns, or twice as many in 16 bits.
  for (const auto& [rows, n, access_cols] :
       {std::tuple{180'000, 32, 4}, {90'000, 64, 4}, {45'000, 128, 4}, {90'000, 128, 8}}) {
    CAPTURE(n);
    const rows_spmm::Launches mixed = launches(rows, n, {}, access_cols);
    CHECK(mixed.most_direct == 64);
    CHECK(mixed.direct.direct);
    CHECK_FALSE(mixed.pieces.direct);
    CHECK(mixed.of(64).direct);
    CHECK_FALSE(mixed.of(65).direct);
    CHECK(launches(rows - 4, n, {}, access_cols).most_direct < 0);
    CHECK(launches(rows, n, {.mixes = false}, access_cols).most_direct < 0);
    CHECK(launches(rows, n, {.piece = 16}, access_cols).most_direct < 0);
  }
  CHECK(launches(10, 128).most_direct < 0);
  CHECK(launches(10, 128, {.nonzeros = rows_spmm::Nonzeros::kDirect}).most_direct == 64);
  CHECK(launches(1'000'000, 16).most_direct < 0);
}

TEST_CASE("a product of rows_spmm by two launches has the bits of pieces and of rows as they are") {
  const CsrMatrix a = mixed();
  const CsrPacked packed(a);
  const DenseMatrix b = random_dense(a.cols, 40, 83);
  const auto emulated = [&](const Params::Given& given) {
    return Registry<SpmmKernel>::instance()
        .make("rows_spmm", given)
        ->emulate(packed, b, find_generation("hopper"));
  };
  const DenseMatrix two = emulated({{"nonzeros", std::string("direct")}});
  // Long rows are cut as in one launch of all rows with the same pieces, short ones not at all.
  const WorkDescription work = Registry<SpmmKernel>::instance()
                                   .make("rows_spmm", {{"nonzeros", std::string("direct")}})
                                   ->work(packed, 40);
  REQUIRE(work.launches.size() == 2);
  const DenseMatrix whole = Registry<SpmmKernel>::instance()
                                .make("csr_spmm")
                                ->emulate(*Registry<Format>::instance().make("csr")->pack(a), b,
                                          find_generation("hopper"));
  std::int64_t shorts = 0, longs = 0, different = 0;
  for (std::int32_t row = 0; row < a.rows; ++row) {
    const bool is_short = a.row_length(row) <= 64;
    ++(is_short ? shorts : longs);
    const bool same = std::ranges::equal(two.row(row), whole.row(row));
    if (is_short) CHECK(same);
    different += !same;
  }
  CHECK(shorts > 0);
  CHECK(longs > 0);
  CHECK(different > 0);
  CHECK(work.total().fma == a.nnz() * 40);
  CHECK(work.total().c_bytes == 4 * a.rows * 40);
}

TEST_CASE("columns of rows_spmm are offsets from the first one of their unit, where 16 bits do") {
  const CsrMatrix near = mixed();
  // A piece that reaches from column 0 to 65535, and one that reaches a column further.
  const auto reaching = [](std::int32_t last) {
    std::vector<std::int32_t> cols;
    for (std::int32_t k = 0; k < 19; ++k) cols.push_back(k);
    cols.push_back(last);
    return CsrMatrix(1, 70'000, std::vector<std::int64_t>{0, 20}, std::move(cols),
                     std::vector<float>(20, 0.5f));
  };
  constexpr auto kAlways = rows_spmm::Offsets::kWhereTheyFit;
  const rows_spmm::ScheduleChoice few{.piece = 20, .few_lanes = 8, .offsets = kAlways};
  for (const CsrMatrix& a : {near, reaching(65'535)})
    for (const std::int64_t n : {1, 8, 16}) {
      const Plan plan = rows_spmm::make_plan(a, {.pieces = schedule_with(a, n, few)});

      REQUIRE(plan.has_offsets());
      REQUIRE(plan.bases.size() == plan.units.size());
      for (std::size_t i = 0; i < plan.units.size(); ++i)
        for (std::uint32_t k = 0; k < plan.units[i].count; ++k) {
          const std::uint32_t at = plan.units[i].first + k;
          REQUIRE(plan.bases[i] + plan.col_offsets[at] ==
                  static_cast<std::uint32_t>(a.col_indices[at]));
        }
    }
  const CsrMatrix far = reaching(65'536);
  CHECK(!rows_spmm::make_plan(far, {.pieces = schedule_with(far, 1, few)}).has_offsets());
  CHECK(!rows_spmm::make_plan(near, {.pieces = schedule_with(near, 17, few)}).has_offsets());
  CHECK(!rows_spmm::make_plan(
             near, {.pieces = schedule_with(near, 1, {.few_lanes = 2, .offsets = kAlways})})
             .has_offsets());
}

TEST_CASE("the work of rows_spmm counts every nonzero and every row of C") {
  const CsrMatrix a = mixed();
  const CsrPacked packed(a);
  for (const std::int64_t n : {1, 8, 16, 33, 200, 515}) {
    CAPTURE(n);
    for (const std::int64_t piece : {0, 2}) {
      const WorkDescription work = kernel_with(piece)->work(packed, n);

      CHECK(work.total().fma == a.nnz() * n);
      CHECK(work.total().b_bytes <= 4 * a.nnz() * n);
      CHECK(work.total().c_bytes == 4 * a.rows * n);
      CHECK(work.total().a_bytes >= (n <= 16 ? 6 : 8) * a.nnz());
      CHECK(work.total().atomics == 0);
      CHECK(work.useful_flops == 2 * a.nnz() * n);
    }
  }
}

}  // namespace
}  // namespace tessera
