// tSparse's SpGEMM on the CPU: its emulation against the oracle, its parts against their
// definitions.
#include "kernels/spgemm/tsparse/tsparse.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/bitmap_tile.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "oracle/error_bounds.hpp"
#include "oracle/spgemm_oracle.hpp"
#include "tests/oracle_support.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using namespace tsparse;

std::unique_ptr<SpgemmKernel> make_kernel(const Params::Given& given) {
  return Registry<SpgemmKernel>::instance().make("tsparse", given);
}

CsrMatrix emulated(const Params::Given& given, const CsrMatrix& a, const CsrMatrix& b,
                   const char* generation = "hopper") {
  const CsrMatrix c = make_kernel(given)->emulate(a, b, find_generation(generation));
  validate(c);
  return c;
}

TsparseOptions options_of(const Params::Given& given) {
  return TsparseOptions(Registry<SpgemmKernel>::instance().resolve("tsparse", given));
}

float largest(const CsrMatrix& matrix) {
  float most = 0;
  for (const float value : matrix.values) most = std::max(most, std::abs(value));
  return most;
}

/// Returns the error bound of chains of MMAs with FP16 operands that are scaled by matrix.
ErrorBound bound_of(const SpgemmKernel& kernel, const CsrMatrix& a, const CsrMatrix& b,
                    const FusedStep& step) {
  const Arithmetic arithmetic = kernel.arithmetic();
  if (arithmetic.sum == Arithmetic::Sum::kFp32) return fp32_bound(a);
  const auto terms = kernel.terms_per_row(a, b);
  const double back = static_cast<double>(largest(a)) * largest(b);
  const int steps = std::max(1, arithmetic.mma_depth / step.products);
  ErrorBound bound;
  for (std::int32_t row = 0; row < a.rows; ++row) {
    bound.relative.push_back(
        combine(input_rounding_bound(arithmetic.input_error),
                tensor_core_bound(terms[row] * steps, step.products, step.fraction_bits)));
    bound.absolute.push_back(underflow_bound(terms[row] * steps) * (1 + back) +
                             operand_underflow_bound(a.row_length(row), 4, 0x1p-24) * back);
  }
  return bound;
}

CsrMatrix banded(std::int32_t rows, std::int32_t width, std::uint64_t seed) {
  const CsrMatrix full = random_sparse(rows, rows, 0.7, seed);
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> cols;
  std::vector<float> values;
  for (std::int32_t row = 0; row < rows; ++row) {
    for (std::int64_t k = full.row_offsets[row]; k < full.row_offsets[row + 1]; ++k) {
      if (std::abs(full.col_indices[k] - row) > width) continue;
      cols.push_back(full.col_indices[k]);
      values.push_back(full.values[k]);
    }
    offsets.push_back(std::ssize(cols));
  }
  return csr(rows, rows, offsets, cols, values);
}

struct Case {
  const char* name;
  CsrMatrix a, b;
};

std::vector<Case> cases() {
  CsrMatrix sparse = random_sparse(203, 157, 0.03, 1), dense = random_sparse(70, 93, 0.9, 3);
  CsrMatrix band = banded(150, 9, 5), wide = random_sparse(100, 100, 0.1, 6);
  const CsrMatrix spread = rescaled(wide, [](int k) { return k * 7 % 60 - 40; });
  return {{"sparse and rectangular", sparse, random_sparse(157, 91, 0.05, 2)},
          {"dense tiles", dense, random_sparse(93, 64, 0.9, 4)},
          {"band", band, band},
          {"wide range", spread, wide},
          {"no rows", csr(0, 8, {0}, {}, {}), random_sparse(8, 20, 0.5, 7)},
          {"no nonzeros", csr(9, 8, std::vector<std::int64_t>(10, 0), {}, {}),
           random_sparse(8, 20, 0.5, 7)},
          {"no columns", random_sparse(20, 9, 0.5, 8),
           csr(9, 0, std::vector<std::int64_t>(10, 0), {}, {})}};
}

TEST_CASE("tsparse is within its bound and has the structural pattern where zeros stay") {
  for (const char* generation : {"volta", "turing", "hopper"})
    for (const char* cores : {"tensor", "scalar"})
      for (const Case& x : cases()) {
        CAPTURE(generation);
        CAPTURE(cores);
        CAPTURE(x.name);
        const Params::Given given{{"cores", std::string(cores)}, {"zeros", std::string("keep")}};
        const auto kernel = make_kernel(given);
        const FusedStep& step = find_generation(generation).step(MmaType::kFp16);

        const SpgemmErrors errors = compare_spgemm(x.a, x.b, emulated(given, x.a, x.b, generation),
                                                   bound_of(*kernel, x.a, x.b, step));

        CHECK(kernel->keeps_zeros());
        CHECK(errors.values.ok());
        CHECK(errors.same_pattern());
      }
}

TEST_CASE("the scalar twin equals a chain of fused multiply-adds") {
  for (const Case& x : cases()) {
    CAPTURE(x.name);
    const Params::Given given{{"cores", std::string("scalar")}, {"zeros", std::string("keep")}};
    CHECK(emulated(given, x.a, x.b) == spgemm_fp32(x.a, x.b));
  }
}

TEST_CASE("cells that cancel are dropped unless zeros stay, and so are tiles without other cells") {
  // (0, 0): 1 - 1; (0, 1): 2; (9, 9): 3 - 3, alone in its tile.
  const CsrMatrix a =
      csr(16, 16, {0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 4}, {0, 8, 1, 9}, {1, 1, 3, 3});
  const CsrMatrix b = csr(16, 16, {0, 2, 3, 3, 3, 3, 3, 3, 3, 4, 5, 5, 5, 5, 5, 5, 5},
                          {0, 1, 9, 0, 9}, {1, 2, 1, -1, -1});
  for (const char* cores : {"tensor", "scalar"}) {
    CAPTURE(cores);
    const Params::Given drop{{"cores", std::string(cores)}};
    const Params::Given keep{{"cores", std::string(cores)}, {"zeros", std::string("keep")}};

    const CsrMatrix dropped = emulated(drop, a, b), kept = emulated(keep, a, b);

    CHECK_FALSE(make_kernel(drop)->keeps_zeros());
    CHECK(dropped.nnz() == 1);
    CHECK(dropped.row_cols(0)[0] == 1);
    CHECK(dropped.values[0] == 2);
    CHECK(kept.nnz() == 3);
    CHECK(kept.row_values(0)[0] == 0);
    CHECK(kept.row_values(9)[0] == 0);
  }
}

TEST_CASE("values beyond FP16 are scaled, or refused with the name of the matrix") {
  const CsrMatrix small = random_sparse(40, 40, 0.2, 21);
  const CsrMatrix large = rescaled(small, [](int) { return 100; });
  const CsrMatrix tiny = rescaled(small, [](int) { return -90; });
  const Params::Given scale{}, refuse{{"range", std::string("refuse")}};

  const CsrMatrix c = emulated(scale, small, small);

  // A power of two changes no digit: there is no subnormal among the scaled.
  CHECK(emulated(scale, large, tiny) == rescaled(c, [](int) { return 10; }));
  CHECK(emulated(refuse, small, small).nnz() == c.nnz());
  CHECK_THROWS_WITH_AS(emulated(refuse, small, large), doctest::Contains("magnitude of B"),
                       Unsupported);
  CHECK_THROWS_AS(emulated(refuse, large, small), Unsupported);
}

TEST_CASE("infinities are refused on tensor cores and multiplied on scalar cores") {
  const CsrMatrix a = csr(1, 2, {0, 2}, {0, 1}, {1, kInf}),
                  b = csr(2, 1, {0, 1, 2}, {0, 0}, {1, 2});

  CHECK_THROWS_AS(emulated({}, a, b), Unsupported);
  CHECK(emulated({{"cores", std::string("scalar")}}, a, b).values[0] == kInf);
}

TEST_CASE("an operand holds its matrix in tiles, A's by rows and B's by columns") {
  const CsrMatrix matrix = random_sparse(61, 45, 0.2, 31);
  const TsparseOptions options = options_of({{"cores", std::string("scalar")}});

  for (const Side side : {Side::kA, Side::kB}) {
    const TileOperand operand = make_operand(matrix, side, options);
    DenseMatrix dense(64, 48);
    REQUIRE(operand.tile_rows == 8);
    REQUIRE(operand.tile_cols == 6);
    for (std::int32_t row = 0; row < operand.tile_rows; ++row)
      for (std::uint32_t t = operand.row_begin[row]; t < operand.row_begin[row + 1]; ++t) {
        CHECK(operand.row_of_tile[t] == row);
        std::int64_t k = operand.tiles[t].first_value;
        for (std::uint64_t rest = operand.tiles[t].bitmap; rest != 0; rest &= rest - 1, ++k) {
          const int bit = std::countr_zero(rest);
          const int major = bit / kSide, minor = bit % kSide;
          dense.at(row * kSide + (side == Side::kA ? major : minor),
                   operand.tiles[t].col * kSide + (side == Side::kA ? minor : major)) =
              operand.values[k];
        }
      }
    const DenseMatrix expected = to_dense(matrix);
    for (std::int32_t i = 0; i < 61; ++i)
      for (std::int32_t j = 0; j < 45; ++j) REQUIRE(dense.at(i, j) == expected.at(i, j));
  }
}

/// Returns the Boolean product of two bitmaps, cell by cell; B's is by columns.
std::uint64_t boolean_product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t c = 0;
  for (int row = 0; row < kSide; ++row)
    for (int col = 0; col < kSide; ++col)
      for (int k = 0; k < kSide; ++k)
        if ((a >> (kSide * row + k) & 1) != 0 && (b >> (kSide * col + k) & 1) != 0)
          c |= std::uint64_t{1} << (kSide * row + col);
  return c;
}

TEST_CASE("bitmaps multiply like their cells, and the filter drops exactly the empty products") {
  std::mt19937_64 random(41);
  int empty = 0;
  for (int i = 0; i < 4000; ++i) {
    // From a bit in two to one in 32.
    std::uint64_t a = random(), b = random();
    for (int thin = 0; thin < i % 5; ++thin) {
      a &= random();
      b &= random();
    }
    std::uint64_t product = 0;
    for (int row = 0; row < kSide; ++row)
      product |= std::uint64_t{nonzero_bytes(products_of_row(a, b, row))} << kSide * row;

    REQUIRE(product == boolean_product(a, b));
    REQUIRE((product != 0) == ((inner_indices(a) & inner_indices(b)) != 0));
    empty += product == 0 ? 1 : 0;
  }
  CHECK(empty > 100);
  CHECK(empty < 3000);
}

TEST_CASE("slices cover all tile rows, and only single rows exceed the limit of tasks") {
  const std::vector<std::int64_t> first_task{0, 10, 10, 25, 125, 130, 131, 131};

  CHECK(cut_slices(first_task, 1000) == std::vector<std::int32_t>{0, 7});
  CHECK(cut_slices(first_task, 25) == std::vector<std::int32_t>{0, 3, 4, 7});
  CHECK(cut_slices(first_task, 131) == std::vector<std::int32_t>{0, 7});
  CHECK(cut_slices(first_task, 1) == std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 7});
  CHECK(cut_slices(std::vector<std::int64_t>{0}, 5) == std::vector<std::int32_t>{0, 0});
  CHECK_THROWS_AS(cut_slices(std::vector<std::int64_t>{0, std::int64_t{1} << 31}, 5), Unsupported);
}

TEST_CASE("C has the same bits from slices as in one piece") {
  // Tiles of C from two slices, of a matrix of 20 x 10.
  const TilesOfC upper{{0, 0}, {0, 1}, {0x8001, 0x200}, {0, 2, 3}, {1, 2, 3}};
  const TilesOfC lower{{2}, {0}, {0x1}, {0, 1}, {4}};
  const TilesOfC whole{{0, 0, 2}, {0, 1, 0}, {0x8001, 0x200, 0x1}, {0, 2, 3, 4}, {1, 2, 3, 4}};

  const CsrMatrix c = to_csr(20, 10, std::vector{upper, lower});

  validate(c);
  CHECK(c == to_csr(20, 10, std::vector{whole}));
  CHECK(c.row_cols(0)[0] == 0);
  CHECK(c.row_cols(1)[0] == 7);
  CHECK(c.row_cols(1)[1] == 9);
  CHECK(c.values[3] == 4);
  CHECK(c.row_length(16) == 1);
}

}  // namespace
}  // namespace tessera
