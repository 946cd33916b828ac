// SpGEMM kernels that sort products: their emulations against the oracle, on shapes that cut sums
// in different places; and cuSPARSE, which has no emulation.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>

#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spgemm/esc/ac_spgemm.hpp"
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

const std::vector<std::string> kSorting{"ac_spgemm", "esc_spgemm"};

TEST_CASE("sorting kernels compute A B within the error bound of their terms") {
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
      CHECK(c != spgemm_fp32(a, b));  // fused multiply-adds do not round products
    }
}

TEST_CASE("sorting kernels take matrices without rows, columns or products") {
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
  // In 1 * 2^24 + 1 * 1 + 1 * 1 rounding loses each 1, but not their sum. A sum of -0 alone is -0.
  const CsrMatrix a = csr(1, 3, {0, 3}, {0, 1, 2}, {1, 1, 1});
  const CsrMatrix b = csr(3, 3, {0, 2, 3, 5}, {0, 1, 0, 0, 2}, {0x1p24f, 3, 1, 1, -0.0f});

  const CsrMatrix c = emulated("esc_spgemm", a, b);

  CHECK(c == csr(1, 3, {0, 3}, {0, 1, 2}, {0x1p24f, 3, -0.0f}));
  // (1 + u)^2 - (1 + 2 u): a fused multiply-add would keep what the rounding of a product loses.
  const float x = 1 + 0x1p-23f;
  const CsrMatrix row = csr(1, 2, {0, 2}, {0, 1}, {-1, x});
  const CsrMatrix column = csr(2, 1, {0, 1, 2}, {0, 0}, {1 + 0x1p-22f, x});
  CHECK(emulated("esc_spgemm", row, column).values[0] == 0);
  CHECK(multiply_rows(row, column).values[0] == 0x1p-46f);
}

TEST_CASE(
    "ac_spgemm adds products within chunks and then the sums of chunks, for rows of any length") {
  // A row of 5000 products behind one of 1000; chunks begin at every 1536th product.
  const std::int32_t before = 1000, terms = 5000;
  const CsrMatrix column = random_sparse(terms, 1, 1, 81);
  std::vector<std::int32_t> indices(before + terms);
  std::vector<float> values(before + terms);
  for (int k = 0; k < before + terms; ++k) {
    indices[k] = k < before ? k : k - before;
    values[k] = random_signed(82, k);
  }
  const CsrMatrix a = csr(2, terms, {0, before, before + terms}, indices, values);

  const CsrMatrix c = emulated("ac_spgemm", a, column);

  const auto sum_of = [&](int begin, int end) {
    float sum = values[begin] * column.values[indices[begin]];
    for (int k = begin + 1; k < end; ++k) {
      const float product = values[k] * column.values[indices[k]];
      sum += product;
    }
    return sum;
  };
  REQUIRE(c.nnz() == 2);
  CHECK(c.values[0] == sum_of(0, 1000));
  // The chunk at 1536 begins within the second row, more than 512 products after its start at 1000.
  const float whole =
      sum_of(1000, 1536) + sum_of(1536, 3072) + sum_of(3072, 4608) + sum_of(4608, 6000);
  CHECK(c.values[1] == whole);
  CHECK(c.values[1] != sum_of(1000, 6000));
}

/// The first products of a slice's chunks, as the device cuts them. [chunks + 1]
std::vector<std::int64_t> cut_slice(const std::vector<std::int64_t>& row_begins) {
  using namespace ac_spgemm;
  const std::int64_t first = row_begins.front(), end = row_begins.back();
  std::vector<std::int64_t> begins{first};
  for (std::int64_t nominal = (first / kStep + 1) * kStep; nominal < end; nominal += kStep) {
    const std::int64_t row_begin = *(std::ranges::upper_bound(row_begins, nominal) - 1);
    begins.push_back(chunk_begin(nominal, row_begin));
  }
  begins.push_back(end);
  return begins;
}

TEST_CASE("ac_spgemm's chunks hold their products and cut no short row, in any slice") {
  using namespace ac_spgemm;
  RandomSequence random(91);
  std::vector<std::int64_t> row_begins{0};
  for (int row = 0; row < 400; ++row)
    row_begins.push_back(row_begins.back() +
                         static_cast<std::int64_t>(random.below(row % 9 == 0 ? 6000 : 700)));
  std::int64_t cut_rows = 0;
  for (const std::size_t rows_of_slice : {400, 37, 3, 1})
    for (std::size_t row = 0; row < 400; row += rows_of_slice) {
      const std::size_t end = std::min<std::size_t>(row + rows_of_slice, 400);
      const std::vector<std::int64_t> slice(row_begins.begin() + row, row_begins.begin() + end + 1);
      const std::vector<std::int64_t> chunks = cut_slice(slice);
      for (std::size_t i = 0; i + 1 < chunks.size(); ++i) {
        REQUIRE(chunks[i] <= chunks[i + 1]);
        REQUIRE(chunks[i + 1] - chunks[i] < kCapacity);
        for (std::int64_t product = chunks[i]; product < chunks[i + 1]; ++product) {
          const auto in_row = std::ranges::upper_bound(slice, product);
          const std::int64_t row_begin = *(in_row - 1), row_end = *in_row;
          const std::int64_t piece = std::max(row_begin, chunks[i]);
          REQUIRE(row_part_begin(product, row_begin) == piece);
          REQUIRE((row_end - row_begin > kReach || piece == row_begin));
          cut_rows += product == piece && piece > row_begin;
        }
      }
    }
  CHECK(cut_rows > 100);
}

TEST_CASE("esc_spgemm gives the GPU's infinities and NaN") {
  const CsrMatrix a = csr(1, 2, {0, 2}, {0, 1}, {1, 1});
  const CsrMatrix b = csr(2, 2, {0, 2, 4}, {0, 1, 0, 1}, {kInf, kInf, 1, -kInf});

  const CsrMatrix c = emulated("esc_spgemm", a, b);

  CHECK(c.values[0] == kInf);
  CHECK(std::bit_cast<std::uint32_t>(c.values[1]) == 0x7fffffff);
}

TEST_CASE("cusparse_spgemm has no emulation and accepts the names of its algorithms") {
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
