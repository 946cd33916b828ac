// tSparse's SpGEMM on the CPU: its emulation against the oracle, its parts against their
// definitions.
#include "kernels/spgemm/tsparse/tsparse.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
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
    for (const auto& [cores, multiplication] :
         {std::pair{"tensor", "batches"}, {"scalar", "batches"}, {"scalar", "pairs"}})
      for (const Case& x : cases()) {
        CAPTURE(generation);
        CAPTURE(cores);
        CAPTURE(multiplication);
        CAPTURE(x.name);
        const Params::Given given{{"cores", std::string(cores)},
                                  {"multiplication", std::string(multiplication)},
                                  {"zeros", std::string("keep")}};
        const auto kernel = make_kernel(given);
        const FusedStep& step = find_generation(generation).step(MmaType::kFp16);

        const SpgemmErrors errors = compare_spgemm(x.a, x.b, emulated(given, x.a, x.b, generation),
                                                   bound_of(*kernel, x.a, x.b, step));

        CHECK(kernel->keeps_zeros());
        CHECK(errors.values.ok());
        CHECK(errors.same_pattern());
      }
}

TEST_CASE("the scalar twins equal a chain of fused multiply-adds") {
  for (const char* multiplication : {"batches", "pairs"})
    for (const Case& x : cases()) {
      CAPTURE(multiplication);
      CAPTURE(x.name);
      const Params::Given given{{"cores", std::string("scalar")},
                                {"multiplication", std::string(multiplication)},
                                {"zeros", std::string("keep")}};
      CHECK(emulated(given, x.a, x.b) == spgemm_fp32(x.a, x.b));
    }
}

TEST_CASE("tensor cores give the same bits in batches and in pairs") {
  for (const Case& x : cases()) {
    CAPTURE(x.name);
    const Params::Given pairs{{"counting", std::string("product")},
                              {"multiplication", std::string("pairs")}};
    CHECK(emulated(pairs, x.a, x.b) == emulated({}, x.a, x.b));
  }
}

TEST_CASE("the dense twin adds the zeros of a tile, which turns a negative zero positive") {
  // The product underflows to -0; seven products of zeros follow.
  const CsrMatrix a = csr(1, 8, {0, 1}, {0}, {-0x1p-100f}),
                  b = csr(8, 1, {0, 1, 1, 1, 1, 1, 1, 1, 1}, {0}, {0x1p-100f});
  const auto value = [&](const char* multiplication) {
    return emulated({{"cores", std::string("scalar")},
                     {"multiplication", std::string(multiplication)},
                     {"zeros", std::string("keep")}},
                    a, b)
        .values[0];
  };
  CHECK(std::signbit(value("batches")));
  CHECK(value("pairs") == 0);
  CHECK_FALSE(std::signbit(value("pairs")));
}

/// Returns the cells of a tile of C that FP16 MMAs of zeros and ones, with sums in FP16, leave
/// nonzero.
std::uint64_t counted_by_products(const TileOperand& a, const TileOperand& b,
                                  std::span<const TileTask> tasks, const FusedStep& step) {
  std::array<float, kSide * kSide> sums{};
  for (const TileTask& task : tasks)
    for (int cell = 0; cell < kSide * kSide; ++cell)
      for (int begin = 0; begin < kSide; begin += std::min(step.products, kSide)) {
        std::vector<float> of_a, of_b;
        for (int i = begin; i < begin + std::min(step.products, kSide); ++i) {
          of_a.push_back(a.tiles[task.a].bitmap >> (cell / kSide * kSide + i) & 1 ? 1.0f : 0.0f);
          of_b.push_back(b.tiles[task.b].bitmap >> (cell % kSide * kSide + i) & 1 ? 1.0f : 0.0f);
        }
        sums[cell] = fused_dot_add(step, of_a, of_b, sums[cell]);
      }
  std::uint64_t cells = 0;
  for (int cell = 0; cell < kSide * kSide; ++cell)
    if (sums[cell] != 0) {
      CHECK(std::isfinite(sums[cell]));
      cells |= std::uint64_t{1} << cell;
    }
  return cells;
}

TEST_CASE("counting by products of ones in FP16 finds the cells that logic finds") {
  // The second product adds 80,000 ones to an element, more than FP16 holds.
  const CsrMatrix row = csr(
      1, 80000, {0, 80000},
      [] {
        std::vector<std::int32_t> cols(80000);
        std::iota(cols.begin(), cols.end(), 0);
        return cols;
      }(),
      std::vector<float>(80000, 1));
  const CsrMatrix col = [] {
    std::vector<std::int64_t> offsets(80001);
    std::iota(offsets.begin(), offsets.end(), 0);
    return csr(80000, 1, offsets, std::vector<std::int32_t>(80000, 0),
               std::vector<float>(80000, 1));
  }();
  for (const auto& [a, b] :
       {std::pair{random_sparse(50, 90, 0.08, 51), random_sparse(90, 70, 0.1, 52)}, {row, col}}) {
    const TileOperand tiles_a = make_operand(a, Side::kA, options_of({})),
                      tiles_b = make_operand(b, Side::kB, options_of({}));
    for (const char* generation : {"turing", "hopper"}) {
      const FusedStep& step = find_generation(generation).step(MmaType::kFp16Fp16);
      for (std::int32_t i = 0; i < tiles_a.tile_rows; ++i) {
        const std::vector<TileTask> tasks = sorted_tasks(tiles_a, tiles_b, i);
        for (auto begin = tasks.begin(); begin != tasks.end();) {
          const auto end = std::find_if(begin, tasks.end(), [&](const TileTask& task) {
            return tiles_b.tiles[task.b].col != tiles_b.tiles[begin->b].col;
          });
          const std::span<const TileTask> of_tile(begin, end);
          REQUIRE(counted_by_products(tiles_a, tiles_b, of_tile, step) ==
                  pattern_of(tiles_a, tiles_b, of_tile));
          begin = end;
        }
      }
    }
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

TEST_CASE("range = refuse takes what FP16 rounds to 65504 or to zero, and no larger value") {
  const Params::Given refuse{{"range", std::string("refuse")}, {"zeros", std::string("keep")}};
  const auto product = [&](float value) {
    return emulated(refuse, csr(1, 1, {0, 1}, {0}, {value}), csr(1, 1, {0, 1}, {0}, {1})).values[0];
  };
  CHECK(product(65519) == 65504);
  CHECK(product(0x1p-24f) == 0x1p-24f);
  CHECK(product(0x1p-26f) == 0);
  CHECK_THROWS_AS(product(65520), Unsupported);
}

TEST_CASE("infinities are refused where zeros are multiplied, and multiplied where not") {
  const CsrMatrix a = csr(1, 2, {0, 2}, {0, 1}, {1, kInf}),
                  b = csr(2, 1, {0, 1, 2}, {0, 0}, {1, 2});

  CHECK_THROWS_AS(emulated({}, a, b), Unsupported);
  CHECK_THROWS_AS(
      emulated({{"cores", std::string("scalar")}, {"multiplication", std::string("pairs")}}, a, b),
      Unsupported);
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
