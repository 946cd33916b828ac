// The kernels over TC blocks 16 rows high: their results are bit for bit those of their definition,
// however rows of B reach the warps, and their work descriptions agree with counts of the matrix.

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <set>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/me_tcf.hpp"
#include "kernels/spmm/dtc_spmm/dtc_spmm.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/tensor_core/precision.hpp"
#include "tests/kernels/spmm/windows_of_16_rows.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

std::unique_ptr<PackedMatrix> pack(const SpmmKernel& kernel, const CsrMatrix& a) {
  return Registry<Format>::instance().make(kernel.format())->pack(a);
}

std::unique_ptr<SpmmKernel> dtc(const Params::Given& params) {
  return Registry<SpmmKernel>::instance().make("dtc_spmm", params);
}

/// The number of TC blocks of the windows before this one.
std::int64_t first_block(const CsrMatrix& a, std::int64_t window) {
  std::int64_t blocks = 0;
  for (std::int64_t w = 0; w < window; ++w)
    blocks += static_cast<std::int64_t>(active_cols(a, w).size() + 7) / 8;
  return blocks;
}

/// An element of C by definition: MMAs of `depth` active columns, eight of which are a TC block,
/// with a new sum at the start of every share of `share` TC blocks; 0: one sum.
float element(const CsrMatrix& a, const DenseMatrix& dense_a, const DenseMatrix& b, int depth,
              std::int64_t share, std::int64_t i, std::int64_t j) {
  const FusedStep& step = find_generation("hopper").step(MmaType::kTf32);
  const std::vector<std::int32_t> columns = active_cols(a, i / 16);
  const std::int64_t first = first_block(a, i / 16);
  float total = 0, sum = 0;
  bool has_total = false;
  for (std::size_t at = 0; at < columns.size(); at += depth) {
    const std::int64_t block = first + static_cast<std::int64_t>(at / 8);
    if (share > 0 && at > 0 && at % 8 == 0 && block % share == 0) {
      total = has_total ? add_on_gpu(total, sum) : sum;
      has_total = true;
      sum = 0;
    }
    std::vector<float> left(depth, 0), right(depth, 0);
    for (std::size_t k = 0; k < static_cast<std::size_t>(depth) && at + k < columns.size(); ++k) {
      left[k] = convert(dense_a.at(i, columns[at + k]), Conversion::kTf32);
      right[k] = convert(b.at(columns[at + k], j), Conversion::kTf32);
    }
    sum = fused_dot_add(step, left, right, sum);
  }
  return has_total ? add_on_gpu(total, sum) : sum;
}

void check_bits(const SpmmKernel& kernel, const CsrMatrix& a, const DenseMatrix& b, int depth,
                std::int64_t share) {
  CAPTURE(depth);
  CAPTURE(share);
  const DenseMatrix c = kernel.emulate(*pack(kernel, a), b, find_generation("hopper"));
  const DenseMatrix dense_a = to_dense(a);
  REQUIRE(c.rows == a.rows);
  REQUIRE(c.cols == b.cols);
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < c.cols; ++j) {
      CAPTURE(i);
      CAPTURE(j);
      REQUIRE(std::bit_cast<std::uint32_t>(c.at(i, j)) ==
              std::bit_cast<std::uint32_t>(element(a, dense_a, b, depth, share, i, j)));
    }
  }
}

struct Shape {
  std::int32_t m, k;
  double density;
};
const Shape kShapes[] = {{1, 1, 1.0}, {7, 5, 0.4}, {70, 90, 0.06}, {33, 9, 0.9}, {20, 20, 0.0}};

TEST_CASE("dtc_spmm's emulation gives the bits of its definition, split windows or whole") {
  for (const Shape& shape : kShapes) {
    CAPTURE(shape.m);
    const CsrMatrix a = random_sparse(shape.m, shape.k, shape.density, 11);
    DenseMatrix b = random_dense(shape.k, 5, 12);
    for (const bool special : {false, true}) {
      if (special) b.at(0, 1) = std::numeric_limits<float>::quiet_NaN();
      if (special) b.at(shape.k - 1, 2) = std::numeric_limits<float>::infinity();
      check_bits(*dtc({{"balance", std::string("none")}}), a, b, 4, 0);
      check_bits(*dtc({{"balance", std::string("none")}, {"mma", std::string("m16n8k8")}}), a, b, 8,
                 0);
      for (const std::int64_t share : {1, 3})
        check_bits(*dtc({{"max_blocks", share}}), a, b, 4, share);
    }
  }
}

TEST_CASE("the way in which rows of B reach dtc_spmm's warps changes no bit") {
  const CsrMatrix a = random_sparse(70, 90, 0.1, 21);
  const DenseMatrix b = random_dense(90, 40, 22);
  const auto values = [&](const Params::Given& params) {
    const auto kernel = dtc(params);
    return kernel->emulate(*pack(*kernel, a), b, find_generation("hopper")).values;
  };
  const auto expected = values({});

  for (const char* fetch : {"float", "float2", "float4"})
    CHECK(values({{"fetch", std::string(fetch)}}) == expected);
  CHECK(values({{"split", true}, {"double_buffer", false}}) == expected);
  CHECK(values({{"mma", std::string("m16n8k8")}}) != expected);
}

TEST_CASE("dtc_spmm refuses windows of eight rows and the emulation of atomics") {
  const CsrMatrix a = random_sparse(70, 90, 0.1, 31);
  const DenseMatrix b = random_dense(90, 4, 32);
  const Generation& hopper = find_generation("hopper");
  const auto low =
      Registry<Format>::instance().make("me_tcf", {{"window_rows", std::int64_t{8}}})->pack(a);
  const auto atomic = dtc({{"combine", std::string("atomic")}, {"max_blocks", std::int64_t{1}}});

  CHECK_THROWS_WITH_AS(dtc({})->emulate(*low, b, hopper), doctest::Contains("window_rows = 16"),
                       Error);
  CHECK_THROWS_AS(atomic->emulate(*pack(*atomic, a), b, hopper), Unsupported);
  // Without split windows there are no atomics.
  const auto whole = dtc({{"combine", std::string("atomic")}, {"balance", std::string("none")}});
  CHECK_NOTHROW(whole->emulate(*pack(*whole, a), b, hopper));
}

TEST_CASE("dtc_spmm's work description agrees with counts of the matrix") {
  const CsrMatrix a = random_sparse(203, 157, 0.07, 41);
  const std::int64_t windows = (a.rows + 15) / 16, blocks = first_block(a, windows);
  std::int64_t active = 0;
  for (std::int64_t w = 0; w < windows; ++w) active += std::ssize(active_cols(a, w));
  const std::set<std::int32_t> used(a.col_indices.begin(), a.col_indices.end());

  for (const std::int64_t n : {8, 32, 40, 128, 136}) {
    CAPTURE(n);
    for (const bool split : {false, true}) {
      CAPTURE(split);
      const auto kernel = dtc({{"split", split}, {"max_blocks", std::int64_t{3}}});
      const WorkDescription work = kernel->work(*pack(*kernel, a), n);
      // Warps that share a TC block have 32 columns, others 32, 64 or 128.
      const std::int64_t warp = split || n <= 32 ? 32 : n <= 64 ? 64 : 128;
      CHECK(work.total().mma == blocks * ((n + warp - 1) / warp) * (warp / 8) * 2);
      CHECK(work.total().b_bytes == 4 * active * n);
      CHECK(work.total().c_bytes == 4 * n * a.rows);
      CHECK(work.b_rows_bytes == 4 * n * std::ssize(used));
      CHECK(work.useful_flops == 2 * a.nnz() * n);
      CHECK(work.flops_per_mma == 2 * 16 * 8 * 4);
      CHECK((work.total().barriers > 0) == (split && n > 32));
    }
  }
}

TEST_CASE("dtc_spmm's terms are the MMAs with a nonzero of the row and the parts of its window") {
  const CsrMatrix a = random_sparse(50, 90, 0.1, 51);
  for (const int depth : {4, 8}) {
    const auto mma = std::string(depth == 4 ? "m16n8k4" : "m16n8k8");
    const auto whole = dtc({{"mma", mma}, {"balance", std::string("none")}});
    const auto split = dtc({{"mma", mma}, {"max_blocks", std::int64_t{1}}});
    const auto terms = whole->terms_per_row(*pack(*whole, a));
    const auto parts = split->terms_per_row(*pack(*split, a));
    for (std::int32_t i = 0; i < a.rows; ++i) {
      const std::vector<std::int32_t> columns = active_cols(a, i / 16);
      std::set<std::int64_t> mmas;
      for (const std::int32_t col : a.row_cols(i))
        mmas.insert((std::ranges::find(columns, col) - columns.begin()) / depth);
      CHECK(terms[i] == std::ssize(mmas));
      CHECK(parts[i] == terms[i] + (columns.size() > 8 ? (std::ssize(columns) + 7) / 8 : 0));
    }
  }
}

std::unique_ptr<SpmmKernel> tcgnn(std::int64_t warps) {
  return Registry<SpmmKernel>::instance().make("tcgnn", {{"warps", warps}});
}

TEST_CASE("tcgnn's emulation gives the bits of its definition with m16n8k8") {
  for (const Shape& shape : kShapes) {
    CAPTURE(shape.m);
    const CsrMatrix a = random_sparse(shape.m, shape.k, shape.density, 61);
    DenseMatrix b = random_dense(shape.k, 5, 62);
    check_bits(*tcgnn(4), a, b, 8, 0);
    b.at(0, 1) = std::numeric_limits<float>::quiet_NaN();
    b.at(shape.k - 1, 2) = std::numeric_limits<float>::infinity();
    check_bits(*tcgnn(1), a, b, 8, 0);
  }
}

TEST_CASE("tcgnn's work description agrees with counts of the matrix, its terms with dtc_spmm's") {
  const CsrMatrix a = random_sparse(203, 157, 0.07, 71);
  const std::int64_t windows = (a.rows + 15) / 16, blocks = first_block(a, windows);
  std::int64_t active = 0;
  for (std::int64_t w = 0; w < windows; ++w) active += std::ssize(active_cols(a, w));

  for (const std::int64_t n : {8, 40, 128, 136}) {
    for (const std::int64_t warps : {1, 2, 4, 8}) {
      CAPTURE(n);
      CAPTURE(warps);
      const WorkDescription work = tcgnn(warps)->work(*pack(*tcgnn(warps), a), n);
      CHECK(std::ssize(work.thread_blocks) == windows * ((n + 32 * warps - 1) / (32 * warps)));
      CHECK(work.total().mma == blocks * ((n + 31) / 32) * 4);
      CHECK(work.total().b_bytes == 4 * active * n);
      CHECK(work.total().c_bytes == 4 * n * a.rows);
      CHECK(work.useful_flops == 2 * a.nnz() * n);
      CHECK(work.flops_per_mma == 2 * 16 * 8 * 8);
    }
  }
  const auto like = dtc({{"mma", std::string("m16n8k8")}, {"balance", std::string("none")}});
  CHECK(tcgnn(4)->terms_per_row(*pack(*tcgnn(4), a)) == like->terms_per_row(*pack(*like, a)));
}

TEST_CASE("tcgnn refuses TC blocks other than 16 x 8") {
  const CsrMatrix a = random_sparse(40, 40, 0.1, 81);
  const auto wide =
      Registry<Format>::instance().make("tcf", {{"tile_cols", std::int64_t{16}}})->pack(a);
  CHECK_THROWS_WITH_AS(tcgnn(4)->work(*wide, 8), doctest::Contains("16 x 8"), Error);
}

TEST_CASE("a TC block's elements have distinct positions, and a fragment's distinct banks") {
  std::set<int> positions;
  for (int id = 0; id < window16_tile::kTileElements; ++id)
    positions.insert(window16_tile::tile_position(id));
  CHECK(std::ssize(positions) == window16_tile::kTileElements);
  CHECK(*positions.rbegin() == window16_tile::kTileElements - 1);
  for (const int first : {0, 4, 64, 68}) {  // of rows g or g + 8, columns t or t + 4
    std::set<int> banks;
    for (int lane = 0; lane < 32; ++lane)
      banks.insert(window16_tile::tile_position(first + lane / 4 * 8 + lane % 4) % 32);
    CHECK(std::ssize(banks) == 32);
  }
}

template <int kWidth>
void check_columns() {
  std::set<int> columns;
  for (int part = 0; part < 4 / kWidth; ++part)
    for (int mma_col = 0; mma_col < 8; ++mma_col)
      for (int j = 0; j < kWidth; ++j)
        columns.insert(window16_tile::first_col<kWidth>(part, mma_col) + j);
  CHECK(std::ssize(columns) == window16_tile::kWarpCols);
  CHECK(*columns.rbegin() == window16_tile::kWarpCols - 1);
}

TEST_CASE("four MMAs cover a group's columns once, for every width of a lane's load") {
  check_columns<1>();
  check_columns<2>();
  check_columns<4>();
}

}  // namespace
}  // namespace tessera
