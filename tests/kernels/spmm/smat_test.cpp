// smat's host half: every rung against its definition, element by element, from A itself.

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "experiments/backends/check_result.hpp"
#include "formats/base/registry.hpp"
#include "kernels/published.hpp"
#include "kernels/spmm/smat/smat.hpp"
#include "kernels/spmm/smat/tiles.hpp"
#include "kernels/spmm_kernel.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

struct Block {
  std::int64_t rows, cols;
};
const std::vector<Block> kBlocks{{16, 16}, {16, 8}, {8, 8}, {32, 32}, {5, 3}, {20, 50}};
const std::vector<std::string> kRungs{"b", "t", "bt", "cbt"};

bool on_tensor_cores(const std::string& rung) { return rung != "b"; }

Params::Given params(const std::string& rung, const std::string& precision = "fp16",
                     const std::string& padding = "skipped") {
  return {{"rung", rung}, {"precision", precision}, {"padding", padding}};
}

std::unique_ptr<SpmmKernel> kernel_of(const Params::Given& given) {
  return Registry<SpmmKernel>::instance().make("smat", given);
}

std::unique_ptr<PackedMatrix> pack(const CsrMatrix& a, const Block& block) {
  return Registry<Format>::instance()
      .make("bcsr", {{"block_rows", block.rows}, {"block_cols", block.cols}})
      ->pack(a);
}

/// Rows that share their tiles with row i: those of its block, eight or sixteen at a time.
struct Strip {
  std::int64_t first, last;
  Strip(const CsrMatrix& a, const Block& block, std::int64_t i) {
    const std::int64_t height = block.rows > 8 ? 16 : 8;
    const std::int64_t top = i / block.rows * block.rows;
    first = top + (i - top) / height * height;
    last = std::min({first + height, top + block.rows, std::int64_t{a.rows}});
  }
};

/// Columns that any row of the strip has, by the sixteen of a block they belong to. With padding,
/// all columns of a block that its block row has.
std::map<std::int64_t, std::set<std::int64_t>> tiles_of(const CsrMatrix& a, const Block& block,
                                                        std::int64_t i, bool padding) {
  Strip strip(a, block, i);
  if (padding) {
    strip.first = i / block.rows * block.rows;
    strip.last = std::min(strip.first + block.rows, std::int64_t{a.rows});
  }
  std::map<std::int64_t, std::set<std::int64_t>> tiles;
  const auto add = [&](std::int64_t col) {
    tiles[col / block.cols * block.cols + col % block.cols / 16 * 16].insert(col);
  };
  for (std::int64_t row = strip.first; row < strip.last; ++row)
    for (const std::int64_t col : a.row_cols(row)) {
      const std::int64_t left = col / block.cols * block.cols;
      const std::int64_t right = std::min(left + block.cols, std::int64_t{a.cols});
      if (!padding) add(col);
      for (std::int64_t k = left; padding && k < right; ++k) add(k);
    }
  return tiles;
}

float chain(const CsrMatrix& a, const DenseMatrix& dense_a, const DenseMatrix& b,
            const Block& block, bool padding, Conversion conversion, bool tensor_cores,
            std::int64_t i, std::int64_t j) {
  const FusedStep& step = find_generation("hopper").step(type_of(conversion));
  float sum = 0;
  for (const auto& [first, cols] : tiles_of(a, block, i, padding)) {
    std::vector<float> left(16), right(16);
    for (const std::int64_t k : cols) {
      if (!tensor_cores) sum = std::fma(dense_a.at(i, k), b.at(k, j), sum);
      left[k - first] = convert(dense_a.at(i, k), conversion);
      right[k - first] = convert(b.at(k, j), conversion);
    }
    if (!tensor_cores) continue;
    for (std::size_t at = 0; at < 16; at += step.products) {
      const auto count = static_cast<std::size_t>(step.products);
      sum = fused_dot_add(step, {left.data() + at, count}, {right.data() + at, count}, sum);
    }
  }
  return std::isnan(sum) ? std::bit_cast<float>(0x7fffffff) : sum;
}

void check_bits(const CsrMatrix& a, const DenseMatrix& b, const Block& block,
                const std::string& rung, const std::string& precision, const std::string& padding) {
  CAPTURE(rung);
  CAPTURE(block.rows);
  CAPTURE(block.cols);
  const auto kernel = kernel_of(params(rung, precision, padding));
  const DenseMatrix c = kernel->emulate(*pack(a, block), b, find_generation("hopper"));
  REQUIRE(c.rows == a.rows);
  REQUIRE(c.cols == b.cols);
  const DenseMatrix dense_a = to_dense(a);
  const Conversion conversion = precision == "fp16" ? Conversion::kFp16 : Conversion::kBf16;
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < c.cols; ++j) {
      CAPTURE(i);
      CAPTURE(j);
      REQUIRE(std::bit_cast<std::uint32_t>(c.at(i, j)) ==
              std::bit_cast<std::uint32_t>(chain(a, dense_a, b, block, padding == "read",
                                                 conversion, on_tensor_cores(rung), i, j)));
    }
  }
}

TEST_CASE("smat's emulation gives the bits of its definition, for blocks of any size") {
  const CsrMatrix a = random_sparse(61, 77, 0.08, 1), empty = random_sparse(20, 20, 0.0, 2);
  const DenseMatrix b = random_dense(77, 5, 3), b_of_empty = random_dense(20, 3, 4);

  for (const Block& block : kBlocks) {
    for (const std::string& rung : kRungs) check_bits(a, b, block, rung, "fp16", "skipped");
    check_bits(a, b, block, "cbt", "bf16", "skipped");
    check_bits(a, b, block, "cbt", "fp16", "read");
    check_bits(a, b, block, "b", "fp16", "read");
    check_bits(empty, b_of_empty, block, "cbt", "fp16", "skipped");
  }
}

TEST_CASE("smat's emulation honours NaN, infinities, overflow of FP16 and vanishing values") {
  const CsrMatrix a = random_sparse(40, 50, 0.1, 5);
  const DenseMatrix b = dense_beyond_fp16(50, 6);

  for (const Block& block : kBlocks)
    for (const std::string& rung : kRungs)
      for (const char* padding : {"skipped", "read"})
        check_bits(a, b, block, rung, "fp16", padding);
}

TEST_CASE("smat stays within its error bound, and a wrong element breaks it") {
  const CsrMatrix a = random_sparse(61, 77, 0.08, 11);
  const DenseMatrix b = random_dense(77, 20, 12);
  const Permutation order = Permutation::identity(a.rows);
  const std::string generation = "hopper";

  for (const Block& block : kBlocks) {
    const auto packed = pack(a, block);
    for (const std::string& rung : kRungs) {
      for (const char* precision : {"fp16", "bf16"}) {
        const auto kernel = kernel_of(params(rung, precision));
        DenseMatrix c = kernel->emulate(*packed, b, find_generation(generation));
        CHECK(check_result(a, b, c, {*kernel, *packed, order, generation}).reason == "");
        c.at(5, 7) += 1;
        CHECK(check_result(a, b, c, {*kernel, *packed, order, generation}).reason != "");
      }
    }
  }
}

TEST_CASE("smat reads rows of B that meet only padding with padding = read alone") {
  const CsrMatrix a = random_sparse(32, 64, 0.02, 21);
  const Block block{16, 16};
  DenseMatrix b = random_dense(64, 4, 22);
  std::set<std::int64_t> below(a.row_cols(0).begin(), a.row_cols(0).end());
  for (std::int64_t row = 1; row < 16; ++row)
    below.insert(a.row_cols(row).begin(), a.row_cols(row).end());
  REQUIRE(!below.empty());
  const std::int64_t left = *below.begin() / 16 * 16;
  std::int64_t unused = left;
  while (below.contains(unused)) ++unused;
  REQUIRE(unused < left + 16);
  for (std::int64_t j = 0; j < b.cols; ++j)
    b.at(unused, j) = std::numeric_limits<float>::quiet_NaN();

  for (const std::string& rung : kRungs) {
    const auto row_is_nan = [&](const char* padding) {
      const auto kernel = kernel_of(params(rung, "fp16", padding));
      const DenseMatrix c = kernel->emulate(*pack(a, block), b, find_generation("hopper"));
      return std::isnan(c.at(0, 0));
    };
    CHECK_FALSE(row_is_nan("skipped"));
    CHECK(row_is_nan("read"));
  }
}

TEST_CASE("an explicit zero of A meets its row of B") {
  CsrMatrix a;
  a.rows = 1;
  a.cols = 16;
  a.row_offsets = std::vector<std::int64_t>{0, 2};
  a.col_indices = std::vector<std::int32_t>{3, 9};
  a.values = std::vector<float>{0.0f, 1.5f};
  DenseMatrix b = random_dense(16, 2, 32);
  b.at(3, 1) = std::numeric_limits<float>::infinity();

  for (const std::string& rung : kRungs) {
    const DenseMatrix c =
        kernel_of(params(rung))->emulate(*pack(a, {16, 16}), b, find_generation("hopper"));
    CHECK(std::isfinite(c.at(0, 0)));
    CHECK(std::isnan(c.at(0, 1)));
  }
}

TEST_CASE("a lane's registers hold the 16-bit operands of its rows and columns") {
  CsrMatrix a = random_sparse(70, 90, 0.1, 8);
  std::vector<float> values(a.values.begin(), a.values.end());
  values[3] = 1e6f;    // infinite in FP16
  values[4] = 1e-7f;   // subnormal
  values[5] = -1e-9f;  // vanishes
  values[6] = std::numeric_limits<float>::quiet_NaN();
  a.values = values;
  for (const Block& block : kBlocks) {
    CAPTURE(block.rows);
    CAPTURE(block.cols);
    const auto packed = pack(a, block);
    const smat::Tiles tiles(packed_as<Bcsr>(*packed), false);
    const auto parts = static_cast<std::size_t>(tiles.height() / 8);
    const std::vector<float> cells = tiles.cells();
    for (const Conversion conversion : {Conversion::kFp16, Conversion::kBf16}) {
      const std::vector<std::uint32_t> words = tiles.fragments(conversion);
      REQUIRE(words.size() == tiles.all().size() * 32 * 2 * parts);
      for (std::size_t i = 0; i < words.size(); ++i) {
        const std::size_t word = i % (2 * parts), lane = i / (2 * parts) % 32;
        const std::size_t tile = i / (2 * parts) / 32;
        const std::size_t row = word / 2 * 8 + lane / 4, col = 2 * (lane % 4) + 8 * (word % 2);
        for (const std::size_t high : {0, 1}) {
          const float cell = cells[(tile * 8 * parts + row) * 16 + col + high];
          const float of_block =
              tiles.cell(tiles.all()[tile], static_cast<int>(row), static_cast<int>(col + high));
          CHECK(std::bit_cast<std::uint32_t>(cell) == std::bit_cast<std::uint32_t>(of_block));
          const float operand = convert(cell, conversion);
          const std::uint32_t expected = conversion == Conversion::kFp16
                                             ? fp16_bits(operand)
                                             : std::bit_cast<std::uint32_t>(operand) >> 16;
          CHECK((words[i] >> (16 * high) & 0xffff) == expected);
        }
      }
    }
  }
}

TEST_CASE("smat's work counts the MMAs, the multiply-adds and the bytes of its tiles") {
  const CsrMatrix a = random_sparse(203, 157, 0.03, 41);
  for (const Block& block : kBlocks) {
    CAPTURE(block.rows);
    std::int64_t tiles = 0, cols = 0;
    for (std::int64_t i = 0; i < a.rows; ++i) {
      if (Strip(a, block, i).first != i) continue;
      const auto of_row = tiles_of(a, block, i, false);
      tiles += std::ssize(of_row);
      for (const auto& [first, active] : of_row) cols += std::ssize(active);
    }
    const int parts = block.rows > 8 ? 2 : 1;
    for (const std::int64_t n : {8, 100, 128, 300}) {
      const auto total = [&](const std::string& rung) {
        return kernel_of(params(rung))->work(*pack(a, block), n).total();
      };
      const std::int64_t groups = n <= 32 ? 1 : (n + 127) / 128 * 4;
      const bool one_mma = n == 8 && parts == 2;
      CHECK(total("cbt").mma == (one_mma ? tiles : 2 * parts * tiles * groups));
      CHECK(total("bt").mma == (one_mma ? tiles : 2 * parts * tiles * groups));
      CHECK(total("t").mma == (one_mma ? tiles : 2 * parts * tiles * ((n + 31) / 32)));
      CHECK(total("b").mma == 0);
      CHECK(total("b").fma == 8 * parts * cols * n);
      CHECK(total("b").b_bytes == 4 * cols * n);
      for (const std::string& rung : kRungs) CHECK(total(rung).c_bytes == 4 * a.rows * n);
    }
  }
}

/// The parameters of smat as its poster has them.
Params::Given published() {
  Params::Given given;
  const auto system = Registry<Published>::instance().make("smat");
  for (const Published::Choice& choice : system->choices)
    if (choice.key.starts_with("kernel.")) given[choice.key.substr(7)] = choice.value;
  return given;
}

TEST_CASE("SMaT as published has one MMA a block of BCSR and eight columns of B") {
  const CsrMatrix a = random_sparse(403, 517, 0.01, 45);
  const auto packed = pack(a, {16, 16});
  const std::int64_t blocks = packed_as<Bcsr>(*packed).num_blocks();
  REQUIRE(blocks > 100);
  const auto kernel = kernel_of(published());

  for (const std::int64_t n : {8, 9, 128}) {
    CAPTURE(n);
    const WorkDescription work = kernel->work(*packed, n);
    CHECK(work.total().mma == blocks * ((n + 7) / 8));
    // The MMAs that its warps issue are those of the description.
    std::int64_t issued = 0;
    for (std::int64_t block = 0; block < work.launches[0].thread_blocks; ++block)
      for (int warp = 0; warp < smat::kWarps; ++warp) {
        WarpCursor cursor;
        WarpTrace trace;
        for (bool more = true; more;) {
          trace.clear();
          more = work.launches[0].trace->next(block, warp, cursor, trace);
          for (const WarpOp& op : trace.ops)
            if (op.kind == WarpOp::Kind::kMma) issued += op.count;
        }
      }
    CHECK(issued == blocks * ((n + 7) / 8));
  }
  CHECK(kernel_of({{"warp_cols", std::string("32")}})->work(*packed, 8).total().mma == 4 * blocks);
}

TEST_CASE("a warp of eight columns needs strips of sixteen rows") {
  const CsrMatrix a = random_sparse(64, 64, 0.1, 46);
  const auto kernel = kernel_of({{"warp_cols", std::string("8")}});
  CHECK_THROWS_AS(kernel->work(*pack(a, {8, 8}), 8), Unsupported);
  CHECK_NOTHROW(kernel->work(*pack(a, {16, 8}), 8));
  CHECK_NOTHROW(kernel_of({})->work(*pack(a, {8, 8}), 8));
}

TEST_CASE("smat's terms are the nonzeros of a row on CUDA cores, its MMAs on tensor cores") {
  const CsrMatrix a = random_sparse(61, 77, 0.08, 51);
  const auto packed = pack(a, {16, 16});
  const auto products = kernel_of(params("b"))->terms_per_row(*packed);
  const auto mmas = kernel_of(params("cbt"))->terms_per_row(*packed);

  for (std::int32_t i = 0; i < a.rows; ++i) {
    std::set<std::int32_t> blocks;
    for (const std::int32_t col : a.row_cols(i)) blocks.insert(col / 16);
    CHECK(products[i] == a.row_length(i));
    CHECK(mmas[i] == std::ssize(blocks));
  }
}

TEST_CASE("rows of smat's stages begin at whole 32 bytes and are read without bank conflicts") {
  using namespace smat;
  for (const int cols : {8, 32, 64, 128}) {
    CAPTURE(cols);
    std::set<int> rows;
    for (int k = 0; k < kDepth; ++k) rows.insert(row_in_stage(k, cols));
    CHECK(std::ssize(rows) == kDepth);
    CHECK(*rows.rbegin() == kDepth - 1);
    CHECK(4 * stage_pitch(cols) % 32 == 0);
    for (const int height : {8, 16}) CHECK(stage_bytes(cols, height) % 32 == 0);
  }
  for (const int cols : {32, 64, 128}) {
    CAPTURE(cols);
    // Lane 4g + t reads columns 4g to 4g + 3 of rows 2t + 1 or 2t, eight further or not: eight
    // lanes at a time, 16 bytes each.
    for (const int first_row : {0, 1, 8, 9}) {
      for (int first = 0; first < 32; first += 8) {
        std::set<int> banks;
        for (int lane = first; lane < first + 8; ++lane) {
          const int place = row_in_stage(first_row + lane % 4 * 2, cols) * stage_pitch(cols);
          banks.insert((place + lane / 4 * 4) / 4 % 8);
        }
        CHECK(banks.size() == 8);
      }
    }
    // Eight lanes at a time copy 128 bytes of a row.
    for (int row = 0; row < kDepth; ++row)
      CHECK(row_in_stage(row, cols) * stage_pitch(cols) % 8 == 0);
  }
  // Of eight columns, 32 lanes read an element each of four rows two apart, and eight lanes copy
  // four rows one after another.
  for (const int first_row : {0, 1, 8, 9}) {
    std::set<int> banks;
    for (int lane = 0; lane < 32; ++lane)
      banks.insert((row_in_stage(first_row + lane % 4 * 2, 8) * stage_pitch(8) + lane / 4) % 32);
    CHECK(banks.size() == 32);
  }
  for (int first = 0; first < kDepth; first += 4) {
    std::set<int> banks;
    for (int lane = 0; lane < 8; ++lane)
      banks.insert((row_in_stage(first + lane / 2, 8) * stage_pitch(8) + lane % 2 * 4) / 4 % 8);
    CHECK(banks.size() == 8);
  }
}

TEST_CASE("a warp of smat has warp_cols columns, or with auto the columns of B") {
  const CsrMatrix a = random_sparse(64, 64, 0.1, 61);
  const auto mmas = [&](const char* cols, std::int64_t n) {
    return kernel_of({{"warp_cols", std::string(cols)}})->work(*pack(a, {16, 16}), n).total().mma;
  };
  const std::int64_t one_group = mmas("32", 32);

  CHECK(mmas("auto", 33) == 2 * one_group);
  CHECK(mmas("auto", 65) == 4 * one_group);
  CHECK(mmas("64", 65) == 4 * one_group);
  CHECK(mmas("32", 65) == 3 * one_group);
  CHECK(mmas("128", 8) == 4 * one_group);
  CHECK(mmas("auto", 8) == one_group / 4);
  CHECK(mmas("auto", 9) == one_group);
}

}  // namespace
}  // namespace tessera
