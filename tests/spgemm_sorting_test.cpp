// SpGEMM kernels that sort products: their emulations against the oracle, on shapes where sums are
// cut in other places; what the closed library does not tell.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "oracle/spgemm_oracle.hpp"
#include "tests/oracle_support.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

CsrMatrix emulated(const std::string& name, const CsrMatrix& a, const CsrMatrix& b) {
  return Registry<SpgemmKernel>::instance().make(name)->emulate(a, b, find_generation("hopper"));
}

/// A hub row and a hub column among rows that are short or empty.
CsrMatrix with_hub(std::int32_t rows, std::int32_t cols, std::uint64_t seed) {
  const CsrMatrix sparse = random_sparse(rows, cols, 0.01, seed);
  const CsrMatrix dense = random_sparse(rows, cols, 0.9, seed + 1);
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> indices;
  std::vector<float> values;
  for (std::int32_t row = 0; row < rows; ++row) {
    const CsrMatrix& from = row == rows / 3 ? dense : sparse;
    for (std::int64_t k = from.row_offsets[row]; k < from.row_offsets[row + 1]; ++k) {
      if (row % 7 == 3 && row != rows / 3) continue;  // an empty row
      indices.push_back(from.col_indices[k]);
      values.push_back(from.values[k]);
    }
    offsets.push_back(std::ssize(indices));
  }
  return csr(rows, cols, offsets, indices, values);
}

const std::vector<std::string> kSorting{"esc_spgemm"};

TEST_CASE("kernels that sort products give A B within the bound of their terms") {
  for (const std::string& name : kSorting)
    for (const auto& [a, b] :
         {std::pair(random_sparse(300, 200, 0.05, 1), random_sparse(200, 500, 0.04, 2)),
          std::pair(with_hub(400, 400, 3), with_hub(400, 400, 5)),
          std::pair(with_hub(150, 2500, 7), random_sparse(2500, 90, 0.3, 9))}) {
      CAPTURE(name);
      const auto kernel = Registry<SpgemmKernel>::instance().make(name);
      const CsrMatrix c = emulated(name, a, b);
      validate(c);
      ErrorBound bound;
      for (const std::int64_t terms : kernel->terms_per_row(a, b)) {
        bound.relative.push_back(fp32_sum_bound(terms));
        bound.absolute.push_back(underflow_bound(terms));
      }

      const SpgemmErrors errors = compare_spgemm(a, b, c, bound);

      CHECK(errors.values.ok());
      CHECK(errors.same_pattern());
      CHECK(errors.values.compared == c.nnz());
      CHECK(c != spgemm_fp32(a, b));  // whose products are not rounded
    }
}

TEST_CASE("kernels that sort products take matrices without rows, columns or terms") {
  for (const std::string& name : kSorting)
    for (const std::int32_t rows : {0, 1, 70})
      for (const std::int32_t inner : {0, 5})
        for (const std::int32_t cols : {0, 1, 70}) {
          const CsrMatrix a = random_sparse(rows, inner, 0.3, 41);
          const CsrMatrix b = random_sparse(inner, cols, 0.3, 42);

          const CsrMatrix c = emulated(name, a, b), truth = spgemm_fp32(a, b);

          CHECK(std::ranges::equal(c.row_offsets, truth.row_offsets));
          CHECK(std::ranges::equal(c.col_indices, truth.col_indices));
        }
  CHECK_THROWS_AS(emulated("esc_spgemm", random_sparse(4, 3, 0.5, 1), random_sparse(4, 3, 0.5, 2)),
                  Error);
}

TEST_CASE("esc_spgemm rounds products and adds them from left to right") {
  // 1 * 2^24 + 1 * 1 + 1 * 1: each 1 is lost alone, not both together. And -0 alone stays -0.
  const CsrMatrix a = csr(1, 3, {0, 3}, {0, 1, 2}, {1, 1, 1});
  const CsrMatrix b = csr(3, 3, {0, 2, 3, 5}, {0, 1, 0, 0, 2}, {0x1p24f, 3, 1, 1, -0.0f});

  const CsrMatrix c = emulated("esc_spgemm", a, b);

  CHECK(c == csr(1, 3, {0, 3}, {0, 1, 2}, {0x1p24f, 3, -0.0f}));
  // (1 + u)^2 - (1 + 2 u): fused, what the rounding of the first product lost would come back.
  const float x = 1 + 0x1p-23f;
  const CsrMatrix row = csr(1, 2, {0, 2}, {0, 1}, {-1, x});
  const CsrMatrix column = csr(2, 1, {0, 1, 2}, {0, 0}, {1 + 0x1p-22f, x});
  CHECK(emulated("esc_spgemm", row, column).values[0] == 0);
  CHECK(multiply_rows(row, column).values[0] == 0x1p-46f);
}

TEST_CASE("infinities and NaNs come out of a sorting kernel as the GPU has them") {
  const CsrMatrix a = csr(1, 2, {0, 2}, {0, 1}, {1, 1});
  const CsrMatrix b = csr(2, 2, {0, 2, 4}, {0, 1, 0, 1}, {kInf, kInf, 1, -kInf});

  const CsrMatrix c = emulated("esc_spgemm", a, b);

  CHECK(c.values[0] == kInf);
  CHECK(std::bit_cast<std::uint32_t>(c.values[1]) == 0x7fffffff);
}

TEST_CASE("cuSPARSE's sparse product has no emulation and knows its algorithms") {
  const CsrMatrix a = random_sparse(9, 9, 0.3, 71);

  CHECK_THROWS_AS(emulated("cusparse_spgemm", a, a), Unsupported);
  for (const char* algorithm : {"default", "alg2", "alg3", "reuse"})
    CHECK_NOTHROW(Registry<SpgemmKernel>::instance().make("cusparse_spgemm",
                                                          {{"algorithm", std::string(algorithm)}}));
  CHECK_THROWS_AS(Registry<SpgemmKernel>::instance().make("cusparse_spgemm",
                                                          {{"algorithm", std::string("alg1")}}),
                  Error);
}

}  // namespace
}  // namespace tessera
