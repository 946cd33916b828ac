// TCA-SpMM's kernel: the bits of its traces worked out element by element, its MMAs against the
// paper's equations, and that no choice of who does what changes either.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "experiments/backends/check_result.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/published.hpp"
#include "kernels/spmm/tca_spmm/tca_spmm.hpp"
#include "kernels/spmm_kernel.hpp"
#include "model/tca_spmm.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using Given = Params::Given;

std::unique_ptr<SpmmKernel> make(const Given& params = {}) {
  return Registry<SpmmKernel>::instance().make("tca_spmm", params);
}

/// Rows of these lengths, their columns all over the width.
CsrMatrix rows_of_lengths(std::vector<std::int32_t> lengths, std::int32_t cols) {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> indices;
  std::vector<float> values;
  for (const std::int32_t length : lengths) {
    const CsrMatrix full = random_sparse(1, cols, 1.0, static_cast<std::uint64_t>(length) + 7);
    for (std::int32_t k = 0; k < length; ++k) {
      indices.push_back(static_cast<std::int32_t>(std::int64_t{k} * cols / length));
      values.push_back(full.values[k]);
    }
    offsets.push_back(static_cast<std::int64_t>(indices.size()));
  }
  CsrMatrix a;
  a.rows = static_cast<std::int32_t>(lengths.size());
  a.cols = cols;
  a.row_offsets = offsets;
  a.col_indices = indices;
  a.values = values;
  validate(a);
  return a;
}

/// Lengths around the changes of p and of the number of chunks, and empty rows.
CsrMatrix awkward_rows() {
  return rows_of_lengths(
      {0, 1, 7, 8, 9, 16, 17, 0, 0, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200, 5}, 211);
}

float one_nan(float value) { return std::isnan(value) ? std::bit_cast<float>(0x7fffffff) : value; }

/// The trace of a row and a column by the paper's layout: nonzero 8 r + k of a chunk of 8 p at
/// depth k of row r.
float trace(const CsrMatrix& a, const DenseMatrix& b, std::int64_t i, std::int64_t j,
            Conversion conversion, const FusedStep& step) {
  const std::int64_t nnz = a.row_length(i), first = a.row_offsets[i];
  const int p = nnz <= 8 ? 1 : nnz <= 16 ? 2 : nnz <= 32 ? 4 : 8;
  std::vector<float> sums(static_cast<std::size_t>(p), 0.0f);
  for (std::int64_t chunk = 0; chunk < nnz; chunk += 8 * p) {
    for (int r = 0; r < p; ++r) {
      std::vector<float> left(8, 0.0f), right(8, 0.0f);
      for (int k = 0; k < 8 && chunk + 8 * r + k < nnz; ++k) {
        const std::int64_t at = first + chunk + 8 * r + k;
        left[static_cast<std::size_t>(k)] = convert(b.at(a.col_indices[at], j), conversion);
        right[static_cast<std::size_t>(k)] = convert(a.values[at], conversion);
      }
      left.resize(static_cast<std::size_t>(std::max(8, step.products)), 0.0f);
      right.resize(left.size(), 0.0f);
      float& sum = sums[static_cast<std::size_t>(r)];
      for (std::size_t k = 0; k < left.size(); k += static_cast<std::size_t>(step.products))
        sum = fused_dot_add(step, std::span(left).subspan(k, step.products),
                            std::span(right).subspan(k, step.products), sum);
    }
  }
  while (sums.size() > 1) {
    for (std::size_t r = 0; r < sums.size() / 2; ++r) sums[r] = sums[2 * r] + sums[2 * r + 1];
    sums.resize(sums.size() / 2);
  }
  return one_nan(sums[0]);
}

void check_bits(const char* precision, Conversion conversion, const char* generation,
                const CsrMatrix& a, const DenseMatrix& b) {
  CAPTURE(precision);
  CAPTURE(generation);
  const FusedStep& step = find_generation(generation).step(type_of(conversion));
  const DenseMatrix c = make({{"precision", std::string(precision)}})
                            ->emulate(CsrPacked(a), b, find_generation(generation));
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < b.cols; ++j) {
      CAPTURE(i);
      CAPTURE(j);
      REQUIRE(std::bit_cast<std::uint32_t>(c.at(i, j)) ==
              std::bit_cast<std::uint32_t>(trace(a, b, i, j, conversion, step)));
    }
  }
}

TEST_CASE("tca_spmm's emulation is the sum of a diagonal, neighbours first") {
  const CsrMatrix a = awkward_rows();
  for (const std::int64_t n : {1, 6, 33}) {
    const DenseMatrix b = random_dense(a.cols, n, 12);
    for (const char* generation : {"ampere", "hopper"}) {
      check_bits("tf32", Conversion::kTf32, generation, a, b);
      check_bits("tf32_raw", Conversion::kTf32Raw, generation, a, b);
      check_bits("fp16", Conversion::kFp16, generation, a, b);
    }
    check_bits("fp16", Conversion::kFp16, "turing", a, b);
  }
  CHECK_THROWS_AS(
      make()->emulate(CsrPacked(a), random_dense(a.cols, 2, 1), find_generation("turing")),
      Unsupported);
}

TEST_CASE("NaN and infinities in B reach only the rows of C with a nonzero there") {
  const CsrMatrix a = awkward_rows();
  DenseMatrix b = random_dense(a.cols, 9, 22);
  b.at(0, 2) = std::numeric_limits<float>::quiet_NaN();
  b.at(a.col_indices[5], 4) = std::numeric_limits<float>::infinity();
  b.at(105, 4) = -std::numeric_limits<float>::infinity();
  for (std::int64_t k = 0; k < b.rows; ++k) b.at(k, 7) *= 0x1p-126f;

  check_bits("tf32", Conversion::kTf32, "hopper", a, b);
  check_bits("fp16", Conversion::kFp16, "hopper", a, b);

  const DenseMatrix c = make()->emulate(CsrPacked(a), b, find_generation("hopper"));
  for (std::int32_t i = 0; i < a.rows; ++i) CHECK(std::isnan(c.at(i, 2)) == (a.row_length(i) > 0));
}

/// The choices that do not change the result.
std::vector<Given> cuts() {
  std::vector<Given> all;
  for (const char* method : {"auto", "multirow", "multiblock"})
    for (const std::int64_t warps : {0, 1, 2, 4, 8})
      for (const std::int64_t tile_cols : {64, 128})
        for (const char* blocks : {"tiles", "nonzeros"})
          all.push_back({{"method", std::string(method)},
                         {"warps_per_row", warps},
                         {"tile_cols", tile_cols},
                         {"blocks", std::string(blocks)}});
  return all;
}

TEST_CASE("tca_spmm has the MMAs of the paper's equations for every split of a row") {
  const CsrMatrix a = awkward_rows();
  const auto lengths = CsrPacked(a).row_lengths();
  for (const std::int64_t n : {1, 2, 3, 8, 15, 16, 17, 24, 63, 64, 65, 128, 130, 515}) {
    CAPTURE(n);
    for (const Given& cut : cuts()) {
      const bool whole = cut.at("method") == ParamValue(std::string("multiblock"));
      const WorkDescription work = make(cut)->work(CsrPacked(a), n);
      CHECK(work.total().mma ==
            (whole ? tca::whole_fragment_mma(lengths, n) : tca::matrix_mma(lengths, n)));
      CHECK(work.total().b_bytes == 4 * a.nnz() * n);
      CHECK(work.total().c_bytes == 4 * a.rows * n);
      CHECK(work.useful_flops == 2 * a.nnz() * n);
    }
  }
  CHECK(make({{"precision", std::string("fp16")}})->work(CsrPacked(a), 8).mma_type == "fp16");
}

/// The plan of those parameters for n columns.
tca_spmm::Plan plan_of(const CsrMatrix& a, const Given& params, std::int64_t n = 64) {
  return tca_spmm::plan(
      a, tca_spmm::options_of(Registry<SpmmKernel>::instance().resolve("tca_spmm", params)), n);
}

/// The parameters of the paper.
Given published() {
  Given given;
  const auto system = Registry<Published>::instance().make("tca_spmm");
  for (const Published::Choice& choice : system->choices)
    given[choice.key.substr(std::string("kernel.").size())] = choice.value;
  return given;
}

TEST_CASE("the warps of a row are neighbours in one thread block") {
  const CsrMatrix a = awkward_rows();
  for (const Given& cut : cuts()) {
    const tca_spmm::Plan plan = plan_of(a, cut);
    REQUIRE(plan.tasks.size() % tca_spmm::kWarps == 0);
    CHECK(plan.shared_bytes() <= tca_spmm::kMaxSharedBytes);
    if (cut.at("blocks") == ParamValue(std::string("nonzeros"))) {
      CHECK(std::ssize(plan.cols) == plan.blocks());
      continue;  // a row may have several thread blocks
    }

    std::int32_t next = 0;
    for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
      const tca_spmm::Task& task = plan.tasks[i];
      if (task.row < 0) continue;
      if (task.warp == 0) CHECK(task.row == next++);
      CHECK(task.row == next - 1);
      const std::size_t first = i - task.warp;
      CHECK(first / tca_spmm::kWarps == (first + task.warps() - 1) / tca_spmm::kWarps);
      CHECK(plan.tasks[first].warp == 0);
      // A stage for a row of one chunk, two for a longer one.
      const int pitch =
          tca_spmm::pitch_of(static_cast<int>(std::get<std::int64_t>(cut.at("tile_cols"))),
                             task.log_p, task.log_warps);
      const int stages = a.row_length(task.row) > 8 * task.p() ? 2 : 1;
      if (a.row_length(task.row) > 0)
        CHECK(plan.warp_floats * task.warps() >= stages * 8 * task.p() * pitch);
    }
    CHECK(next == a.rows);
  }
}

TEST_CASE(
    "rows have 1, 2, 4 or 8 warps as in the paper, and a whole thread block beyond 64 nonzeros") {
  const CsrMatrix a = rows_of_lengths({8, 16, 32, 64, 65}, 100);
  const auto warps = [&](const Given& params) {
    std::vector<int> found(5);
    for (const tca_spmm::Task& task : plan_of(a, params).tasks)
      if (task.row >= 0) found[static_cast<std::size_t>(task.row)] = task.warps();
    return found;
  };
  CHECK(warps({}) == std::vector{1, 2, 4, 8, 8});
  CHECK(warps({{"warps_per_row", std::int64_t{2}}}) == std::vector{2, 2, 2, 2, 8});
  CHECK(warps({{"warps_per_row", std::int64_t{2}}, {"method", std::string("multirow")}}) ==
        std::vector{2, 2, 2, 2, 2});
  CHECK(warps({{"method", std::string("multiblock")}}) == std::vector{8, 8, 8, 8, 8});
  CHECK(plan_of(a, {}).blocks() == 3);  // 1 + 2 + 4 warps, 8, 8
}

TEST_CASE("a row beyond 64 nonzeros has a thread block for every 64, which share its columns") {
  const CsrMatrix a = rows_of_lengths({8, 65, 64, 128, 129, 1000, 0}, 1000);
  const auto parts = [&](std::int64_t n) {
    const tca_spmm::Plan plan = plan_of(a, published(), n);
    std::vector<std::vector<std::int64_t>> cols(7);
    CHECK(plan.thread_blocks() == plan.blocks());
    for (std::int64_t block = 0; block < plan.blocks(); ++block) {
      const tca_spmm::BlockCols of_block = plan.cols_of(block);
      for (int warp = 0; warp < tca_spmm::kWarps; ++warp) {
        const tca_spmm::Task& task = plan.tasks[tca_spmm::task_of(block, warp)];
        if (task.row < 0 || task.warp > 0) continue;
        std::vector<std::int64_t>& of_row = cols[task.row];
        CHECK(of_block.first == std::accumulate(of_row.begin(), of_row.end(), std::int64_t{0}));
        of_row.push_back(of_block.end - of_block.first);
      }
    }
    return cols;
  };
  using Parts = std::vector<std::vector<std::int64_t>>;
  // At least 16 columns a thread block: a fragment of two for each of eight warps.
  CHECK(
      parts(128) ==
      Parts{
          {128}, {64, 64}, {128}, {64, 64}, {48, 48, 32}, {16, 16, 16, 16, 16, 16, 16, 16}, {128}});
  CHECK(parts(24) == Parts{{24}, {16, 8}, {24}, {16, 8}, {16, 8}, {16, 8}, {24}});
  CHECK(parts(8) == Parts{{8}, {8}, {8}, {8}, {8}, {8}, {8}});
}

TEST_CASE("the columns of a row are spread over its warps, by sectors where these store them") {
  // Eight warps, p = 8: two columns a fragment.
  for (int warp = 0; warp < 8; ++warp) {
    CHECK(tca_spmm::fragments_of(true, 3, 3, warp, 16).last == warp + 1);
    CHECK(tca_spmm::fragments_of(true, 3, 3, warp, 64).last == 4 * warp + 4);
    // An uneven number is rounded up, because a warp multiplies two at once.
    CHECK(tca_spmm::fragments_of(true, 3, 3, warp, 40).first == std::min(4 * warp, 20));
    // Without a buffer no two warps store to a sector of C.
    CHECK(tca_spmm::fragments_of(false, 3, 3, warp, 16).first == std::min(4 * warp, 8));
  }
}

TEST_CASE("TCA-SpMM as published has the MMAs of equation 2 and an output buffer for its rows") {
  const CsrMatrix a = awkward_rows();
  for (const std::int64_t n : {1, 8, 24, 64, 130}) {
    const WorkDescription work = make(published())->work(CsrPacked(a), n);
    CHECK(work.total().mma == tca::matrix_mma(CsrPacked(a).row_lengths(), n));
    CHECK(work.total().c_bytes == 4 * a.rows * n);
    Given direct = published();
    direct["output"] = std::string("registers");
    const WorkDescription without = make(direct)->work(CsrPacked(a), n);
    // A warp's share of 64 columns for eight warps.
    CHECK(work.launches[0].shared_bytes >= without.launches[0].shared_bytes + 8 * 4 * 8);
    CHECK(work.total().barriers > without.total().barriers);
  }
  Given other = published();
  other["precision"] = std::string("tf32");
  CHECK_THROWS_WITH_AS(make(other), doctest::Contains("not for tf32 and 64"), Unsupported);
}

/// Bank of 16 bytes that a lane's load of 16 bytes begins in.
int bank_of(int log_p, int lane, int half, int pitch) {
  const int g = lane / 4, t = lane % 4, p = 1 << log_p;
  return tca_spmm::place_of(log_p, g % p, t, half, 4 * (g / p), pitch) / 4 % 8;
}

TEST_CASE("lanes read their rows of B from different banks, and no two rows share a place") {
  for (const int log_p : {0, 1, 2, 3}) {
    const int p = 1 << log_p;
    CAPTURE(p);
    for (const int pitch : {64 + tca_spmm::kPadding, 128 + tca_spmm::kPadding}) {
      for (int half = 0; half < 2; ++half) {
        for (int first = 0; first < 32; first += 8) {
          std::set<int> banks;
          for (int lane = first; lane < first + 8; ++lane)
            banks.insert(bank_of(log_p, lane, half, pitch));
          CHECK(banks.size() == 8);
        }
      }
      std::set<int> rows;
      for (int r = 0; r < p; ++r)
        for (int t = 0; t < 4; ++t)
          for (int half = 0; half < 2; ++half) {
            std::set<int> places;
            for (int col = 0; col < pitch - tca_spmm::kPadding; ++col) {
              const int place = tca_spmm::place_of(log_p, r, t, half, col, pitch);
              // Those of 32 bytes of B stay in 32 bytes of shared memory.
              CHECK(place % pitch / 8 == col / 8);
              CHECK(place / pitch < 8 * p);
              places.insert(place % pitch);
              rows.insert(place / pitch);
            }
            CHECK(std::ssize(places) == pitch - tca_spmm::kPadding);
          }
      CHECK(rows.size() == static_cast<std::size_t>(8 * p));
    }
  }
}

TEST_CASE("every precision of tca_spmm stays within its error bound, also for long rows") {
  const CsrMatrix a = awkward_rows();
  const DenseMatrix b = random_dense(a.cols, 20, 5);
  const CsrPacked packed(a);
  const Permutation order = Permutation::identity(a.rows);
  for (const char* precision : {"tf32", "tf32_raw", "fp16"}) {
    const auto kernel = make({{"precision", std::string(precision)}});
    DenseMatrix c = kernel->emulate(packed, b, find_generation("hopper"));

    CHECK(check_result(a, b, c, {*kernel, packed, order, "hopper"}).reason == "");
    c.at(18, 3) += 1;
    CHECK(check_result(a, b, c, {*kernel, packed, order, "hopper"}).reason != "");
  }
}

}  // namespace
}  // namespace tessera
