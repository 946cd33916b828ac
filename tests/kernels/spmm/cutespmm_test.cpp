// cutespmm's host half: its bits by definition, who computes what, and the work that it says it
// does, counted again from the matrix.

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "formats/base/registry.hpp"
#include "formats/base/wave_balance.hpp"
#include "kernels/spmm/cutespmm/cutespmm.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/tensor_core/mma.hpp"
#include "kernels/tensor_core/precision.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using namespace cutespmm;

/// A format and an instruction.
struct Tiling {
  int tile_rows = 16, tile_cols = 16, depth = 8;
};
const Tiling kTilings[] = {{16, 16, 8}, {16, 16, 4}, {16, 4, 8},  {16, 12, 8},
                           {16, 8, 4},  {32, 16, 8}, {32, 32, 4}, {32, 20, 8}};

std::unique_ptr<PackedMatrix> pack(const CsrMatrix& a, const Tiling& tiling) {
  return Registry<Format>::instance()
      .make("hrpb", {{"tile_rows", std::int64_t{tiling.tile_rows}},
                     {"tile_cols", std::int64_t{tiling.tile_cols}}})
      ->pack(a);
}

std::unique_ptr<SpmmKernel> kernel_of(const Tiling& tiling, const std::string& balance,
                                      Params::Given more = {}) {
  more.insert({"mma", tiling.depth == 4 ? std::string("m16n8k4") : std::string("m16n8k8")});
  more.insert({"balance", balance});
  return Registry<SpmmKernel>::instance().make("cutespmm", more);
}

/// Calls visit(columns, whether the brick row has a nonzero in them) for the columns of every MMA
/// that can change row i: of every TK active columns of its row panel, TK at a time.
template <class Visit>
void for_each_group(const CsrMatrix& a, const Tiling& tiling, std::int64_t i, Visit visit) {
  const auto active = [&](std::int64_t rows) {
    std::set<std::int32_t> columns;
    const std::int64_t first = i / rows * rows;
    for (std::int64_t row = first; row < std::min<std::int64_t>(first + rows, a.rows); ++row)
      columns.insert(a.row_cols(row).begin(), a.row_cols(row).end());
    return columns;
  };
  const std::set<std::int32_t> of_panel = active(tiling.tile_rows), of_brick = active(16);
  const std::vector<std::int32_t> columns(of_panel.begin(), of_panel.end());
  for (std::size_t block = 0; block < columns.size(); block += tiling.tile_cols) {
    const std::size_t end = std::min(block + tiling.tile_cols, columns.size());
    for (std::size_t first = block; first < end; first += tiling.depth) {
      const std::vector<std::int32_t> group(
          columns.begin() + first,
          columns.begin() + std::min<std::size_t>(first + tiling.depth, end));
      visit(group,
            std::ranges::any_of(group, [&](std::int32_t col) { return of_brick.contains(col); }));
    }
  }
}

/// An element of C by definition.
float element(const CsrMatrix& a, const DenseMatrix& dense_a, const DenseMatrix& b,
              const Tiling& tiling, const Precision& precision, std::int64_t i, std::int64_t j) {
  const FusedStep& step = find_generation("hopper").step(MmaType::kTf32);
  float sum = 0;
  for_each_group(a, tiling, i, [&](const std::vector<std::int32_t>& columns, bool multiplied) {
    if (!multiplied) return;
    for (const ChunkMma& mma : precision.mmas) {
      std::vector<float> left(tiling.depth, 0), right(tiling.depth, 0);
      for (std::size_t k = 0; k < columns.size(); ++k) {
        left[k] = split(dense_a.at(i, columns[k]), precision)[mma.a_part];
        right[k] = split(b.at(columns[k], j), precision)[mma.b_part];
      }
      sum = fused_dot_add(step, left, right, sum);
    }
  });
  return sum;
}

void check_bits(const CsrMatrix& a, const DenseMatrix& b, const Tiling& tiling,
                const std::string& precision) {
  CAPTURE(tiling.tile_rows);
  CAPTURE(tiling.tile_cols);
  CAPTURE(tiling.depth);
  const auto kernel = kernel_of(tiling, "none", {{"precision", precision}});
  const DenseMatrix c = kernel->emulate(*pack(a, tiling), b, find_generation("hopper"));
  const DenseMatrix dense_a = to_dense(a);
  REQUIRE(c.rows == a.rows);
  REQUIRE(c.cols == b.cols);
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < c.cols; ++j) {
      CAPTURE(i);
      CAPTURE(j);
      REQUIRE(std::bit_cast<std::uint32_t>(c.at(i, j)) ==
              std::bit_cast<std::uint32_t>(
                  element(a, dense_a, b, tiling, find_precision(precision), i, j)));
    }
  }
}

TEST_CASE(
    "cutespmm's emulation gives the bits of its definition, for every block and instruction") {
  struct Shape {
    std::int32_t m, k;
    double density;
  };
  for (const Shape& shape : {Shape{1, 1, 1.0}, Shape{7, 5, 0.4}, Shape{70, 90, 0.06},
                             Shape{33, 9, 0.9}, Shape{20, 20, 0.0}}) {
    const CsrMatrix a = random_sparse(shape.m, shape.k, shape.density, 11);
    const DenseMatrix b = random_dense(shape.k, 5, 12);
    for (const Tiling& tiling : kTilings) check_bits(a, b, tiling, "tf32");
    check_bits(a, b, kTilings[0], "tf32_raw");
    for (const Tiling& tiling : kTilings)
      if (tiling.depth == 8 && tiling.tile_rows == 16) check_bits(a, b, tiling, "tf32x3");
  }
}

TEST_CASE("cutespmm splits operands only for blocks and instructions that leave registers for it") {
  const CsrMatrix a = random_sparse(40, 40, 0.1, 13);
  const DenseMatrix b = random_dense(40, 3, 14);
  for (const Tiling& tiling : kTilings) {
    CAPTURE(tiling.tile_rows);
    CAPTURE(tiling.depth);
    const auto kernel = kernel_of(tiling, "none", {{"precision", std::string("tf32x3")}});
    const auto packed = pack(a, tiling);
    if (tiling.depth == 8 && tiling.tile_rows == 16)
      CHECK(kernel->work(*packed, 3).total().mma ==
            3 * kernel_of(tiling, "none")->work(*packed, 3).total().mma);
    else
      CHECK_THROWS_AS(kernel->emulate(*packed, b, find_generation("hopper")), Unsupported);
  }
}

TEST_CASE(
    "cutespmm's emulation gives the bits of its definition with NaN, infinities and tiny values in "
    "B") {
  const CsrMatrix a = random_sparse(50, 60, 0.05, 21);
  DenseMatrix b = random_dense(60, 9, 22);
  b.at(3, 2) = std::numeric_limits<float>::quiet_NaN();
  b.at(5, 4) = std::numeric_limits<float>::infinity();
  b.at(17, 4) = -std::numeric_limits<float>::infinity();
  for (std::int64_t k = 0; k < 60; ++k) b.at(k, 7) *= 0x1p-126f;

  for (const Tiling& tiling : kTilings) check_bits(a, b, tiling, "tf32");
}

/// Row panels of very different length, some of them empty.
CsrMatrix uneven(std::uint64_t seed) {
  const CsrMatrix dense = random_sparse(400, 300, 0.2, seed);
  std::vector<std::int64_t> row_offsets{0};
  std::vector<std::int32_t> col_indices;
  std::vector<float> values;
  for (std::int32_t i = 0; i < dense.rows; ++i) {
    const int kind = i / 32 % 3;  // long, short, empty
    const std::int64_t most = kind == 0 ? dense.cols : kind == 1 ? 1 : 0;
    const auto keep = static_cast<std::size_t>(std::min(most, dense.row_length(i)));
    for (const std::int32_t col : dense.row_cols(i).first(keep)) col_indices.push_back(col);
    for (const float value : dense.row_values(i).first(keep)) values.push_back(value);
    row_offsets.push_back(std::ssize(values));
  }
  return {dense.rows, dense.cols, row_offsets, col_indices, values};
}

/// Every block is in one task, of its own panel; panels without blocks have a task too.
void check_cover(const Hrpb& a, const std::vector<Task>& tasks) {
  std::vector<int> of_block(static_cast<std::size_t>(a.num_blocks()), 0);
  std::vector<int> of_panel(static_cast<std::size_t>(a.num_row_panels()), 0);
  for (const Task& task : tasks) {
    ++of_panel[task.panel];
    CHECK(task.first >= a.blocked_row_ptr[task.panel]);
    CHECK(task.last <= a.blocked_row_ptr[task.panel + 1]);
    for (std::uint32_t b = task.first; b < task.last; ++b) ++of_block[b];
  }
  for (const int count : of_block) CHECK(count == 1);
  for (const Task& task : tasks) CHECK((of_panel[task.panel] > 1) == (task.is_part != 0));
  for (const int count : of_panel) CHECK(count >= 1);
}

TEST_CASE("the tasks of cutespmm have every block once for every balance") {
  const CsrMatrix matrix = uneven(31);
  const auto packed = pack(matrix, {});
  const auto& a = packed_as<Hrpb>(*packed);

  const auto none = plan_tasks(a, 128, {.balance = Balance::kNone});
  const auto waves = plan_tasks(a, 128, {.balance = Balance::kWaves});
  const auto many = plan_tasks(a, 128, {.balance = Balance::kWaves, .resident = 2});
  const auto sorted = plan_tasks(a, 128, {.balance = Balance::kSorted});

  for (const auto* tasks : {&none, &waves, &many, &sorted}) check_cover(a, *tasks);
  CHECK(std::ssize(none) == a.num_row_panels());
  CHECK(waves.size() > none.size());
  CHECK(many == none);  // 13 waves: no panel is that much longer than the mean
  CHECK(sorted != none);
  CHECK(std::ranges::is_sorted(sorted, std::greater{},
                               [](const Task& task) { return task.last - task.first; }));
  CHECK(split_panels(none).empty());
  CHECK(split_panels(waves).size() > 3);
}

TEST_CASE("row panels have the number of parts of equations 6 and 7") {
  const CsrMatrix matrix = uneven(32);
  const auto packed = pack(matrix, {});
  const auto& a = packed_as<Hrpb>(*packed);
  const double mean = static_cast<double>(a.num_blocks()) / static_cast<double>(a.num_row_panels());

  for (const std::int64_t resident : {7, 25, 1000}) {
    const auto waves =
        std::ceil(static_cast<double>(a.num_row_panels()) / static_cast<double>(resident));
    const auto tasks = plan_tasks(a, 128, {.balance = Balance::kWaves, .resident = resident});
    for (std::int64_t panel = 0; panel < a.num_row_panels(); ++panel) {
      const auto blocks =
          static_cast<double>(a.blocked_row_ptr[panel + 1] - a.blocked_row_ptr[panel]);
      const auto parts =
          std::ranges::count_if(tasks, [&](const Task& task) { return task.panel == panel; });
      CHECK(parts == std::max<std::int64_t>(
                         1, static_cast<std::int64_t>(std::ceil(blocks / mean / waves - 1e-12))));
    }
  }
}

TEST_CASE("a split by the average leaves no part with more blocks than the mean row panel") {
  const CsrMatrix matrix = uneven(32);
  const auto packed = pack(matrix, {});
  const auto& a = packed_as<Hrpb>(*packed);
  const auto mean = static_cast<std::uint32_t>(
      std::ceil(static_cast<double>(a.num_blocks()) / static_cast<double>(a.num_row_panels())));
  const auto most = [](const std::vector<Task>& tasks) {
    std::uint32_t blocks = 0;
    for (const Task& task : tasks) blocks = std::max(blocks, task.last - task.first);
    return blocks;
  };
  // Two thread blocks at a time take so many waves that equation 7 splits nothing.
  const CuteSpmmOptions average{.balance = Balance::kAverage, .resident = 2};
  const auto tasks = plan_tasks(a, 128, average);

  check_cover(a, tasks);
  CHECK(most(tasks) <= mean);
  CHECK(most(plan_tasks(a, 128, {.balance = Balance::kWaves, .resident = 2})) > mean);
  CHECK_THROWS_AS(kernel_of({}, "average")
                      ->emulate(*packed, random_dense(a.cols(), 3, 1), find_generation("hopper")),
                  Unsupported);
  CHECK(kernel_of({}, "average")->terms_per_row(*packed) ==
        kernel_of({}, "waves")->terms_per_row(*packed));
}

TEST_CASE("columns of a warp by the number of row panels leave every SM two warps") {
  CHECK(warp_cols_for(264, 128, 132) == 128);
  CHECK(warp_cols_for(263, 128, 132) == 64);
  CHECK(warp_cols_for(132, 128, 132) == 64);
  CHECK(warp_cols_for(131, 128, 132) == 32);
  CHECK(warp_cols_for(1, 128, 132) == 32);
  CHECK(warp_cols_for(1, 32, 132) == 32);
  CHECK(warp_cols_for(131, 64, 132) == 32);
  CHECK(warp_cols_for(131, 128, 60) == 128);

  const CsrMatrix a = uneven(40);  // 25 row panels
  const auto packed = pack(a, {});
  const auto threads = [&](std::int64_t coarsen, std::int64_t n, std::int64_t sms) {
    const auto kernel = kernel_of({}, "none", {{"coarsen", coarsen}});
    GpuLimits gpu = kH200Limits;
    gpu.sms = sms;
    kernel->set_gpu(gpu);
    return kernel->work(*packed, n).launches[0].threads_per_block;
  };
  CHECK(threads(0, 128, 132) == 128);
  CHECK(threads(0, 128, 20) == 64);
  CHECK(threads(0, 512, 20) == 32);  // four chunks of columns
  CHECK(threads(128, 128, 132) == 32);
}

TEST_CASE("cutespmm does not emulate sums without a fixed order, and bounds their terms") {
  const CsrMatrix a = uneven(33);
  const auto packed = pack(a, {});
  const DenseMatrix b = random_dense(a.cols, 3, 34);
  const auto splits = kernel_of({}, "waves"), unsplit = kernel_of({}, "none");

  CHECK_THROWS_AS(splits->emulate(*packed, b, find_generation("hopper")), Unsupported);
  const auto more = splits->terms_per_row(*packed), terms = unsplit->terms_per_row(*packed);

  const DenseMatrix dense_a = to_dense(a);
  for (std::int32_t i = 0; i < a.rows; ++i) {
    std::int64_t mmas = 0;
    for_each_group(a, {}, i, [&](const std::vector<std::int32_t>& columns, bool) {
      mmas +=
          std::ranges::any_of(columns, [&](std::int32_t col) { return dense_a.at(i, col) != 0; });
    });
    CHECK(terms[i] == mmas);
    const auto parts = std::ranges::count_if(
        plan_tasks(packed_as<Hrpb>(*packed), 3, {}),
        [&](const Task& task) { return task.panel == static_cast<std::uint32_t>(i / 16); });
    CHECK(more[i] >= mmas + (parts > 1 ? parts : 0));
  }
}

TEST_CASE("sorted panels and other shapes of thread blocks change no bit") {
  const CsrMatrix a = uneven(35);
  const auto packed = pack(a, {});
  const DenseMatrix b = random_dense(a.cols, 40, 36);
  const Generation& hopper = find_generation("hopper");
  const DenseMatrix c = kernel_of({}, "none")->emulate(*packed, b, hopper);

  CHECK(kernel_of({}, "sorted")->emulate(*packed, b, hopper).values == c.values);
  CHECK(kernel_of({}, "none", {{"coarsen", std::int64_t{32}}, {"stages", std::int64_t{1}}})
            ->emulate(*packed, b, hopper)
            .values == c.values);
  CHECK(kernel_of({16, 16, 4}, "none")->emulate(*packed, b, hopper).values != c.values);
}

/// MMAs per 8 columns of C, counted from the matrix.
std::int64_t count_mmas(const CsrMatrix& a, const Tiling& tiling) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < a.rows; i += 16)
    for_each_group(a, tiling, i, [&](const auto&, bool multiplied) { count += multiplied; });
  return count;
}

TEST_CASE("cutespmm's work counts the MMAs and the bytes of the blocks") {
  const CsrMatrix a = uneven(37);
  for (const Tiling& tiling : kTilings) {
    CAPTURE(tiling.tile_rows);
    CAPTURE(tiling.tile_cols);
    CAPTURE(tiling.depth);
    const auto packed = pack(a, tiling);
    const auto& hrpb = packed_as<Hrpb>(*packed);
    std::int64_t active = 0;
    for (const std::int32_t col : hrpb.active_cols) active += col != kNoColumn;
    for (const std::int64_t n : {8, 100, 300}) {
      const std::int64_t widths = n <= 32 ? 32 : (n + 127) / 128 * 128;
      for (const char* balance : {"none", "waves"}) {
        const WorkDescription work = kernel_of(tiling, balance)->work(*packed, n);
        const ThreadBlockWork total = work.total();

        CHECK(total.mma == count_mmas(a, tiling) * widths / 8);
        CHECK(total.b_bytes == 4 * active * n);
        CHECK(total.barriers == 0);
        CHECK(work.flops_per_mma == 2 * 16 * 8 * tiling.depth);
        CHECK(work.useful_flops == 2 * a.nnz() * n);
        CHECK(work.c_bytes == 4 * a.rows * n);
        CHECK(total.c_bytes == work.c_bytes);  // rows that are split are cleared
        if (balance == std::string("none")) {
          CHECK(total.atomics == 0);
          CHECK(work.launches.size() == 1);
        } else {
          CHECK(total.atomics > 0);
          REQUIRE(work.launches.size() == 2);
          CHECK(work.launches[0].name == "clear");
        }
      }
    }
  }
}

TEST_CASE("four warps of a team read a block once and have barriers") {
  const CsrMatrix a = uneven(38);
  const auto packed = pack(a, {});
  const auto& hrpb = packed_as<Hrpb>(*packed);

  const auto alone = kernel_of({}, "none")->work(*packed, 128);
  for (const std::int64_t stages : {1, 2}) {
    const auto team = kernel_of({}, "none", {{"coarsen", std::int64_t{32}}, {"stages", stages}})
                          ->work(*packed, 128);
    CHECK(team.total().mma == alone.total().mma);
    CHECK(team.total().b_bytes == alone.total().b_bytes);
    CHECK(team.total().barriers == (stages == 1 ? 8 : 4) * hrpb.num_blocks());
    CHECK(team.launches[0].threads_per_block == 128);
    CHECK(team.total().a_bytes > alone.total().a_bytes);
    CHECK(team.total().a_bytes < 4 * alone.total().a_bytes);
  }
  CHECK(alone.launches[0].threads_per_block == 32);
}

TEST_CASE("lanes read 16 bytes of a row of B each, without bank conflicts") {
  std::set<int> places;
  for (int group = 0; group < 8; ++group) places.insert(place_of_piece(group));
  CHECK(places == std::set<int>{0, 1, 2, 3, 4, 5, 6, 7});
  for (const int cols : {32, 64, 128}) {
    for (int first = 0; first < 32; first += 8) {  // eight lanes at a time load 16 bytes each
      std::set<int> banks;
      for (int lane = first; lane < first + 8; ++lane)
        banks.insert((lane % 4 * (cols + kPad) + 4 * place_of_piece(lane / 4)) % 32 / 4);
      CHECK(banks.size() == 8);
    }
  }
  // Column 2t + i of an MMA's result is in lane t: four lanes have 64 bytes of a row of C.
  for (int i = 0; i < 2; ++i) {
    std::set<int> pieces;
    for (int t = 0; t < 4; ++t) {
      CHECK(MmaM16N8::c_col(t, i) == 2 * t + i);
      pieces.insert(place_of_piece(MmaM16N8::c_col(t, i)));
    }
    CHECK(*pieces.begin() == 4 * i);
    CHECK(*pieces.rbegin() == 4 * i + 3);
    CHECK(pieces.size() == 4);
  }
}

TEST_CASE("cutespmm refuses blocks that are too large") {
  const CsrMatrix a = random_sparse(64, 64, 0.1, 39);
  for (const Tiling& tiling : {Tiling{48, 16, 8}, Tiling{16, 36, 8}}) {
    const auto packed = pack(a, tiling);
    CHECK_THROWS_AS(kernel_of(tiling, "none")->work(*packed, 32), Unsupported);
    CHECK_THROWS_AS(kernel_of(tiling, "none")->terms_per_row(*packed), Unsupported);
    CHECK_THROWS_AS(kernel_of(tiling, "none")
                        ->emulate(*packed, random_dense(64, 3, 1), find_generation("hopper")),
                    Unsupported);
  }
}

}  // namespace
}  // namespace tessera
