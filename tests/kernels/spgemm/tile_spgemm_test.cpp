// tile_spgemm on the CPU: its emulation against the truth, against MMAs written out in full, and
// its parts against what they are meant to be.
#include "kernels/spgemm/tile/tile_spgemm.hpp"

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "experiments/backends/check_result.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "kernels/tensor_core/precision.hpp"
#include "tests/oracle_support.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using namespace tile_spgemm;

constexpr const char* kPrecisions[] = {"fp16", "tf32", "tf32x3"};

std::unique_ptr<SpgemmKernel> make_kernel(const char* precision) {
  return Registry<SpgemmKernel>::instance().make("tile_spgemm",
                                                 {{"precision", std::string(precision)}});
}

CsrMatrix emulated(const char* precision, const CsrMatrix& a, const CsrMatrix& b,
                   const char* generation = "hopper") {
  const CsrMatrix c = make_kernel(precision)->emulate(a, b, find_generation(generation));
  validate(c);
  return c;
}

/// What is wrong with it; nothing if it is right.
std::string fault_of(const char* precision, const CsrMatrix& a, const CsrMatrix& b,
                     const std::string& generation = "hopper") {
  return check_result({*make_kernel(precision), a, b, generation},
                      emulated(precision, a, b, generation.c_str()))
      .reason;
}

struct Case {
  const char* name;
  CsrMatrix a, b;
};

std::vector<Case> cases() {
  const CsrMatrix wide = random_sparse(100, 100, 0.1, 6);
  const CsrMatrix spread = rescaled(wide, [](int k) { return k * 7 % 40 - 20; });
  return {
      {"sparse and rectangular", random_sparse(203, 157, 0.03, 1), random_sparse(157, 91, 0.05, 2)},
      {"dense tiles", random_sparse(70, 93, 0.9, 3), random_sparse(93, 64, 0.9, 4)},
      {"scattered", random_sparse(300, 300, 0.003, 5), random_sparse(300, 300, 0.003, 6)},
      {"wide range", spread, wide},
      {"one row, one column", random_sparse(1, 400, 0.5, 7), random_sparse(400, 1, 0.5, 8)},
      {"no rows", random_sparse(0, 8, 0.5, 9), random_sparse(8, 20, 0.5, 10)},
      {"no nonzeros", random_sparse(9, 8, 0, 11), random_sparse(8, 20, 0.5, 12)},
      {"no columns", random_sparse(20, 9, 0.5, 13), random_sparse(9, 0, 0.5, 14)}};
}

TEST_CASE("tile_spgemm is within its bound and has the structural pattern") {
  for (const char* precision : kPrecisions)
    for (const Case& x : cases()) {
      CAPTURE(precision);
      CAPTURE(x.name);
      CHECK(fault_of(precision, x.a, x.b) == "");
    }
  for (const char* generation : {"ampere", "ada", "blackwell"})
    for (const char* precision : kPrecisions) {
      CAPTURE(generation);
      CHECK(fault_of(precision, cases()[0].a, cases()[0].b, generation) == "");
    }
}

/// Largest error of C in relation to |A| |B|.
double backward_error(const char* precision, const CsrMatrix& a, const CsrMatrix& b) {
  const CsrMatrix c = emulated(precision, a, b);
  const DenseMatrix left = to_dense(a), right = to_dense(b);
  double largest = 0;
  for (std::int32_t i = 0; i < c.rows; ++i)
    for (std::int64_t at = c.row_offsets[i]; at < c.row_offsets[i + 1]; ++at) {
      double sum = 0, magnitude = 0;
      for (std::int64_t k = 0; k < a.cols; ++k) {
        const double product = static_cast<double>(left.at(i, k)) * right.at(k, c.col_indices[at]);
        sum += product;
        magnitude += std::abs(product);
      }
      largest = std::max(largest, std::abs(c.values[at] - sum) / magnitude);
    }
  return largest;
}

TEST_CASE("operands in two parts are as good as FP32, operands in one are not") {
  const CsrMatrix a = random_sparse(80, 120, 0.4, 21), b = random_sparse(120, 70, 0.4, 22);

  CHECK(backward_error("tf32x3", a, b) < 0x1p-20);
  CHECK(backward_error("tf32", a, b) > 0x1p-16);
  CHECK(backward_error("fp16", a, b) > 0x1p-16);
}

/// An MMA of one row: depth products, in the steps of the generation.
float mma(const FusedStep& step, const std::vector<float>& a, const std::vector<float>& b,
          float c) {
  for (std::size_t begin = 0; begin < a.size(); begin += step.products) {
    const std::size_t count = std::min<std::size_t>(step.products, a.size() - begin);
    c = fused_dot_add(step, {a.data() + begin, count}, {b.data() + begin, count}, c);
  }
  return c;
}

/// Eight values of a dense operand by their place along the depth, as a part; zeros past the end.
std::vector<float> depth_of(const char* precision, std::size_t part,
                            const std::array<float, 8>& values) {
  std::vector<float> placed(8);
  for (int k = 0; k < 8; ++k)
    placed[static_cast<std::size_t>(place_in_depth(TileArithmetic::kTf32, 0, k))] =
        split(values[static_cast<std::size_t>(k)], find_precision(precision))[part];
  return placed;
}

TEST_CASE("a cell is the MMAs of its tiles, written out") {
  const CsrMatrix a = random_sparse(13, 37, 0.6, 31), b = random_sparse(37, 11, 0.6, 32);
  const DenseMatrix left = to_dense(a), right = to_dense(b);
  for (const char* generation : {"ampere", "hopper"}) {
    const FusedStep& step = find_generation(generation).step(MmaType::kTf32);
    for (const char* precision : {"tf32", "tf32x3"}) {
      const bool splits = precision == std::string("tf32x3");
      const CsrMatrix c = emulated(precision, a, b, generation);
      for (std::int32_t i = 0; i < c.rows; ++i)
        for (std::int64_t at = c.row_offsets[i]; at < c.row_offsets[i + 1]; ++at) {
          float large = 0, small = 0;
          for (std::int64_t tile = 0; tile < 5; ++tile) {
            std::array<float, 8> of_a{}, of_b{};
            for (std::int64_t k = tile * 8; k < std::min<std::int64_t>(tile * 8 + 8, 37); ++k) {
              of_a[k % 8] = left.at(i, k);
              of_b[k % 8] = right.at(k, c.col_indices[at]);
            }
            for (int part = splits ? 1 : 0; part >= 0; --part) {
              const auto of_part = depth_of(precision, part, of_b);
              large = mma(step, depth_of(precision, 0, of_a), of_part, large);
              if (splits) small = mma(step, depth_of(precision, 1, of_a), of_part, small);
            }
          }
          REQUIRE(c.values[at] == (splits ? large + small : large));
        }
    }
  }
}

TEST_CASE("FP16 operands are scaled by powers of two, which change no bit") {
  const CsrMatrix small = random_sparse(40, 40, 0.2, 41);
  const CsrMatrix large = rescaled(small, [](int) { return 100; });
  const CsrMatrix tiny = rescaled(small, [](int) { return -90; });

  CHECK(emulated("fp16", large, tiny) ==
        rescaled(emulated("fp16", small, small), [](int) { return 10; }));
}

TEST_CASE("cells that cancel stay, and tiles that meet nowhere leave none") {
  // (0, 0): 1 - 1. Tile (0, 1) of A and tile (1, 1) of B share no inner index.
  const CsrMatrix a = csr(8, 16, {0, 2, 3, 3, 3, 3, 3, 3, 3}, {0, 8, 9}, {1, 1, 5}),
                  b = csr(16, 16, {0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 3, 3, 3, 3, 3}, {0, 0, 12},
                          {1, -1, 3});
  for (const char* precision : kPrecisions) {
    const CsrMatrix c = emulated(precision, a, b);

    CHECK(make_kernel(precision)->keeps_zeros());
    REQUIRE(c.nnz() == 1);
    CHECK(c.col_indices[0] == 0);
    CHECK(c.values[0] == 0);
  }
}

TEST_CASE("numbers that a tile's zeros would spread are refused, and so are shapes that differ") {
  const CsrMatrix one = csr(1, 1, {0, 1}, {0}, {1});
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float value : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()})
    for (const char* precision : kPrecisions) {
      CHECK_THROWS_WITH_AS(emulated(precision, csr(1, 1, {0, 1}, {0}, {value}), one),
                           doctest::Contains("A holds"), Unsupported);
      CHECK_THROWS_WITH_AS(emulated(precision, one, csr(1, 1, {0, 1}, {0}, {value})),
                           doctest::Contains("B holds"), Unsupported);
    }
  const CsrMatrix most = csr(1, 1, {0, 1}, {0}, {std::numeric_limits<float>::max()});
  CHECK_THROWS_AS(emulated("tf32x3", most, one), Unsupported);
  CHECK(emulated("fp16", most, one).nnz() == 1);
  CHECK_THROWS_AS(emulated("tf32x3", random_sparse(3, 4, 0.5, 1), random_sparse(5, 3, 0.5, 2)),
                  Error);
}

TEST_CASE("the terms of a row are its tiles") {
  const CsrMatrix a = csr(2, 30, {0, 4, 5}, {0, 7, 8, 29, 16}, {1, 1, 1, 1, 1});

  CHECK(make_kernel("tf32x3")->terms_per_row(a, random_sparse(30, 4, 0.5, 1)) ==
        std::vector<std::int64_t>{3, 1});
}

TEST_CASE("a bitmap transposed has its cells the other way round") {
  std::mt19937_64 random(51);
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t bitmap = random(), other = transposed(bitmap);
    for (int row = 0; row < kSide; ++row)
      for (int col = 0; col < kSide; ++col)
        REQUIRE((bitmap >> (kSide * row + col) & 1) == (other >> (kSide * col + row) & 1));
    REQUIRE(transposed(other) == bitmap);
  }
}

TEST_CASE("places along the depth of an MMA are taken once each") {
  for (const TileArithmetic numbers :
       {TileArithmetic::kFp16, TileArithmetic::kTf32, TileArithmetic::kTf32x3}) {
    std::uint32_t taken = 0;
    for (int pair = 0; pair < pairs_of_mma(numbers); ++pair)
      for (int inner = 0; inner < kSide; ++inner)
        taken |= 1u << place_in_depth(numbers, pair, inner);
    CHECK(taken == (1u << kSide * pairs_of_mma(numbers)) - 1);
  }
}

}  // namespace
}  // namespace tessera
