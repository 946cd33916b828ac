// tessera_spmm: its results are bit for bit those of its definition in both precisions, its tasks
// follow the matrix and the width of C, and its work description agrees with counts of the matrix.

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <set>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/mosaic.hpp"
#include "kernels/spmm/tessera/tessera_spmm.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/tensor_core/precision.hpp"
#include "tests/kernels/spmm/windows_of_16_rows.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using tessera_spmm::TesseraSpmmOptions;

std::unique_ptr<PackedMatrix> pack(const CsrMatrix& a) {
  return Registry<Format>::instance().make("mosaic")->pack(a);
}

std::unique_ptr<SpmmKernel> kernel_with(const Params::Given& params) {
  return Registry<SpmmKernel>::instance().make("tessera_spmm", params);
}

TesseraSpmmOptions options_with(const Params::Given& params) {
  return TesseraSpmmOptions(Registry<SpmmKernel>::instance().resolve("tessera_spmm", params));
}

/// Element (i, j) of C by definition: one MMA for every eight active columns, a new sum at the
/// start of each of `parts` nearly equal parts of the window. Four parts are added at a time.
float element(const CsrMatrix& a, const DenseMatrix& dense_a, const DenseMatrix& b,
              const Precision& precision, std::int64_t parts, std::int64_t i, std::int64_t j) {
  const FusedStep& step = find_generation("hopper").step(MmaType::kTf32);
  const std::vector<std::int32_t> columns = active_cols(a, i / 16);
  const auto blocks = static_cast<std::int64_t>(columns.size() + 7) / 8;
  DenseMatrix column(b.rows, 1);
  for (std::int64_t k = 0; k < b.rows; ++k) column.at(k, 0) = b.at(k, j);
  const PreparedB prepared(column, precision);
  float total = 0, of_team = 0;
  for (std::int64_t part = 0; part < parts; ++part) {
    std::vector<float> sum(1, 0.0f);
    RowChain chain(precision, step, prepared, sum);
    for (std::int64_t block = blocks * part / parts; block < blocks * (part + 1) / parts; ++block) {
      std::vector<ChunkTerm> terms;
      for (std::int64_t k = 8 * block;
           k < std::min<std::int64_t>(8 * block + 8, std::ssize(columns)); ++k)
        terms.push_back({split(dense_a.at(i, columns[k]), precision), columns[k],
                         static_cast<int>(k - 8 * block)});
      chain.add(terms);
    }
    chain.finish();
    of_team = part % 4 == 0 ? sum[0] : add_on_gpu(of_team, sum[0]);
    if (part % 4 == 3 || part + 1 == parts) total = part < 4 ? of_team : add_on_gpu(total, of_team);
  }
  return total;
}

/// The parts of a window of `blocks` TC blocks: 1, 2, 4 or a multiple of 4.
std::int64_t parts_of(std::int64_t blocks, std::int64_t most) {
  const std::int64_t parts = blocks == 0 ? 1 : (blocks + most - 1) / most;
  return parts <= 2 ? parts : (parts + 3) / 4 * 4;
}

TEST_CASE("tessera_spmm's emulation gives the bits of its definition, split windows or whole") {
  const CsrMatrix a = random_sparse(70, 190, 0.06, 11);
  const DenseMatrix dense_a = to_dense(a);
  DenseMatrix b = random_dense(190, 3, 12);
  b.at(3, 1) = std::numeric_limits<float>::quiet_NaN();
  b.at(7, 2) = std::numeric_limits<float>::infinity();
  const auto packed = pack(a);
  for (const char* precision : {"tf32_even", "tf32x3"}) {
    CAPTURE(precision);
    for (const std::int64_t most : {100, 1, 2, 4}) {
      CAPTURE(most);
      const auto kernel =
          kernel_with({{"precision", std::string(precision)}, {"max_blocks", most}});
      const DenseMatrix c = kernel->emulate(*packed, b, find_generation("hopper"));
      for (std::int64_t i = 0; i < a.rows; ++i) {
        const auto blocks = static_cast<std::int64_t>(active_cols(a, i / 16).size() + 7) / 8;
        const std::int64_t parts = parts_of(blocks, most);
        for (std::int64_t j = 0; j < b.cols; ++j) {
          const float expected = element(a, dense_a, b, find_precision(precision), parts, i, j);
          const bool same = std::isnan(expected) ? std::isnan(c.at(i, j))
                                                 : std::bit_cast<std::uint32_t>(expected) ==
                                                       std::bit_cast<std::uint32_t>(c.at(i, j));
          if (!same) CAPTURE(i);
          if (!same) CAPTURE(j);
          CHECK(same);
        }
      }
    }
  }
}

TEST_CASE("tasks of tessera_spmm are shorter where the matrix is small") {
  const auto longest = [](const CsrMatrix& a, std::int64_t n) {
    const auto packed = pack(a);
    std::int64_t blocks = 0;
    for (const window_tasks::Task& task :
         options_with({}).cut(packed_as<Mosaic>(*packed).window_offset, n).tasks)
      blocks = std::max<std::int64_t>(blocks, task.last - task.first);
    return blocks;
  };
  // 30 windows with 100 TC blocks each, 3000 in all: 1.4 for each of an H200's 2112 warps.
  const CsrMatrix small = random_sparse(480, 800, 0.6, 21);
  CHECK(longest(small, 32) <= 8);
  CHECK(longest(small, 32) > 4);
  // Tasks of up to eight TC blocks: 100 are cut into 16, a multiple of four, of 6 or 7 each.
  CHECK(longest(small, 128) == 7);
  // With 64 times as many columns there is work for 91 TC blocks a warp.
  CHECK(longest(small, 64 * 128) > 48);
  CHECK(longest(small, 64 * 128) <= 64);
}

TEST_CASE("warps of tessera_spmm are as wide as C, up to 128 columns, or as they are told") {
  const auto columns = [](std::int64_t n) { return options_with({}).schedule(100, n).warp_cols(); };
  CHECK(columns(20) == 32);
  CHECK(columns(64) == 64);
  CHECK(columns(128) == 128);
  CHECK(columns(512) == 128);
  CHECK(options_with({{"columns", std::string("64")}}).schedule(100, 32).warp_cols() == 64);
}

TEST_CASE("chunks of tessera_spmm are neighbours where the L2 holds all of B or not even a chunk") {
  const auto at_once = [](std::int64_t k, std::int64_t n, const Params::Given& given = {}) {
    return options_with(given).schedule(k, n).chunks_at_once;
  };
  CHECK(at_once(20'000, 512) == 4);   // 41 MB of B
  CHECK(at_once(40'000, 512) == 1);   // 82 MB, 20 MB a chunk
  CHECK(at_once(100'000, 512) == 4);  // 205 MB, 51 MB a chunk
  CHECK(at_once(40'000, 512, {{"storage", std::string("fp16")}}) == 4);
  CHECK(at_once(100'000, 512, {{"storage", std::string("fp16")}}) == 1);
  CHECK(at_once(40'000, 512, {{"chunks", std::string("neighbours")}}) == 4);
  CHECK(at_once(20'000, 512, {{"chunks", std::string("in_turn")}}) == 1);
  CHECK(at_once(20'000, 128) == 1);
}

TEST_CASE("tessera_spmm joins short windows of large matrices only, unless it is told") {
  const auto shares = [](const CsrMatrix& a, std::int64_t n, const Params::Given& given = {}) {
    return options_with(given).cut(packed_as<Mosaic>(*pack(a)).window_offset, n);
  };
  const CsrMatrix small = random_sparse(4'000, 400, 0.005, 61);
  CHECK(shares(small, 128).shares.empty());
  const window_tasks::Tasks told = shares(small, 128, {{"joined", std::int64_t{40}}});
  CHECK(told.num_shares() < std::ssize(told.tasks) / 2);
  // 50,000 windows of three TC blocks.
  const CsrMatrix large = random_sparse(800'000, 24, 0.1, 62);
  const window_tasks::Tasks joined = shares(large, 128);
  CHECK(joined.num_shares() < std::ssize(joined.tasks));
  CHECK(shares(large, 128, {{"joined", std::int64_t{1}}}).shares.empty());
}

TEST_CASE("tessera_spmm prefetches A where the L2 does not hold a product, or where it is told") {
  const auto prefetches = [](std::int64_t rows, std::int64_t n, const Params::Given& given = {}) {
    const CsrMatrix a = random_sparse(static_cast<std::int32_t>(rows), 100, 0.02, 63);
    return options_with(given).prefetches(tessera_spmm::size_of(packed_as<Mosaic>(*pack(a))), n);
  };
  const Params::Given fp16{{"storage", std::string("fp16")}};
  const auto told = [](const char* how) {
    return Params::Given{{"prefetch", std::string(how)}, {"columns", std::string("64")}};
  };
  // C takes 51 or 26 MB.
  CHECK(prefetches(400'000, 32));
  CHECK_FALSE(prefetches(200'000, 32));
  CHECK(prefetches(100'000, 128, fp16));
  CHECK_FALSE(prefetches(100'000, 64, fp16));
  CHECK_FALSE(prefetches(50'000, 128, fp16));
  CHECK_FALSE(prefetches(400'000, 128));  // rows of 512 bytes
  CHECK(prefetches(100, 32, told("on")));
  CHECK_FALSE(prefetches(400'000, 32, told("off")));
  CHECK_THROWS_WITH_AS(prefetches(100, 128, {{"prefetch", std::string("on")}}),
                       "prefetch = on needs storage = fp16 or bf16, or warps of up to 64 columns",
                       Unsupported);
}

TEST_CASE("tessera_spmm refuses the emulation of atomics") {
  const CsrMatrix a = random_sparse(70, 190, 0.1, 31);
  const DenseMatrix b = random_dense(190, 4, 32);
  const auto atomic =
      kernel_with({{"combine", std::string("atomic")}, {"max_blocks", std::int64_t{1}}});
  CHECK_THROWS_AS(atomic->emulate(*pack(a), b, find_generation("hopper")), Unsupported);
}

TEST_CASE("tessera_spmm's work description agrees with counts of the matrix") {
  const CsrMatrix a = random_sparse(203, 157, 0.07, 41);
  std::int64_t active = 0, blocks = 0;
  for (std::int64_t w = 0; w < (a.rows + 15) / 16; ++w) {
    const std::int64_t columns = std::ssize(active_cols(a, w));
    active += columns, blocks += (columns + 7) / 8;
  }
  for (const char* precision : {"tf32_even", "tf32x3"}) {
    const std::int64_t products = precision == std::string("tf32x3") ? 3 : 1;
    for (const std::int64_t n : {8, 40, 128, 136}) {
      CAPTURE(n);
      const auto kernel = kernel_with({{"precision", std::string(precision)}});
      const WorkDescription work = kernel->work(*pack(a), n);
      // A warp has 32 columns of a narrow C and 64 or 128 of a wide one, beyond its edge, too.
      const std::int64_t cols = n <= 32 ? 32 : n <= 64 ? 64 : (n + 127) / 128 * 128;
      CHECK(work.total().mma == blocks * cols / 8 * products);
      CHECK(work.total().b_bytes == 4 * active * n);
      CHECK(work.total().c_bytes == 4 * n * a.rows);
      CHECK(work.total().barriers == 0);
      CHECK(work.useful_flops == 2 * a.nnz() * n);
    }
  }
}

}  // namespace
}  // namespace tessera
