// shares_spmm: where alpha, beta and the parts of a split window meet.

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spmm_kernel.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

const Generation& hopper() { return find_generation("hopper"); }

struct Product {
  std::unique_ptr<SpmmKernel> kernel;
  std::unique_ptr<PackedMatrix> packed;

  Product(const char* name, const CsrMatrix& a, const Params::Given& params = {})
      : kernel(Registry<SpmmKernel>::instance().make(name, params)),
        packed(Registry<Format>::instance().make(kernel->format())->pack(a)) {}

  DenseMatrix emulate(const DenseMatrix& b) const { return kernel->emulate(*packed, b, hopper()); }
  std::vector<DenseMatrix> emulate_scaled(const DenseMatrix& b, const Scaling& scaling,
                                          const DenseMatrix& old_c) const {
    return kernel->emulate_scaled(*packed, b, hopper(), scaling, old_c);
  }
};

Product shares(const CsrMatrix& a, std::int64_t thread_blocks) {
  return {"shares_spmm", a, {{"thread_blocks", thread_blocks}}};
}

/// The nonzeros of A for which keep(row, col) is true.
template <class Keep>
CsrMatrix selected(const CsrMatrix& a, Keep keep) {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> cols;
  std::vector<float> values;
  for (std::int32_t row = 0; row < a.rows; ++row) {
    for (std::int64_t k = a.row_offsets[row]; k < a.row_offsets[row + 1]; ++k) {
      if (!keep(row, a.col_indices[k])) continue;
      cols.push_back(a.col_indices[k]);
      values.push_back(a.values[k]);
    }
    offsets.push_back(std::ssize(cols));
  }
  return {a.rows, a.cols, std::move(offsets), std::move(cols), std::move(values)};
}

/// What red.global.add.f32 leaves.
float add_in_memory(float to, float value) {
  const auto flush = [](float x) {
    return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
  };
  const float sum = flush(flush(to) + flush(value));
  return std::isnan(sum) ? std::bit_cast<float>(0x7fffffff) : sum;
}

bool same_bits(float x, float y) {
  return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
}

TEST_CASE("two parts of a window are added to beta C in either order, after alpha") {
  const CsrMatrix a = random_sparse(8, 60, 0.4, 75);  // one window
  DenseMatrix b = random_dense(60, 12, 76), old_c = random_dense(8, 12, 77);
  b.at(3, 2) = std::numeric_limits<float>::quiet_NaN();
  for (std::int64_t k = 0; k < 60; ++k) b.at(k, 7) *= 0x1p-126f;
  for (std::int64_t i = 0; i < 8; ++i) old_c.at(i, 7) *= 0x1p-126f;
  // Two shares are the halves of its TC blocks, each of which has eight columns.
  const std::set<std::int32_t> active(a.col_indices.begin(), a.col_indices.end());
  const auto chunks = static_cast<std::ptrdiff_t>(active.size() + 7) / 8;
  const std::int32_t middle = *std::next(active.begin(), 8 * (chunks / 2));
  const auto part = [&](bool later) {
    const CsrMatrix of_part =
        selected(a, [&](std::int32_t, std::int32_t col) { return (col >= middle) == later; });
    return Product("windows_spmm", of_part).emulate(b);
  };
  const DenseMatrix first = part(false), second = part(true);
  const Product product = shares(a, 2);

  for (const Scaling scaling : {Scaling{-1.7f, 0.3f}, Scaling{0.5f, -2.0f}, Scaling{-1.7f, 0}}) {
    CAPTURE(scaling.alpha);
    CAPTURE(scaling.beta);
    const auto results = product.emulate_scaled(b, scaling, old_c);
    REQUIRE(results.size() == (scaling.beta == 0 ? 1 : 2));
    const DenseMatrix added_first = emulate_scaling(scaling, product.emulate(b), old_c);
    int by_order = 0, by_place_of_alpha = 0;
    for (std::size_t i = 0; i < old_c.values.size(); ++i) {
      CAPTURE(i);
      const float start = scaling.beta == 0 ? 0.0f : scaling.beta * old_c.values[i];
      const float x = scaling.alpha * first.values[i], y = scaling.alpha * second.values[i];
      const float in_order = results.front().values[i], reversed = results.back().values[i];
      CHECK(same_bits(in_order, add_in_memory(add_in_memory(start, x), y)));
      CHECK(same_bits(reversed, add_in_memory(add_in_memory(start, y), x)));
      by_order += !same_bits(in_order, reversed);
      by_place_of_alpha += !same_bits(in_order, added_first.values[i]);
    }
    CHECK((by_order > 0) == (scaling.beta != 0));
    CHECK(by_place_of_alpha > 0);
  }
}

TEST_CASE("shares round beta C before they add to it, and leave rows of empty windows at that") {
  const CsrMatrix a = selected(random_sparse(24, 60, 0.3, 78), [](std::int32_t row, std::int32_t) {
    return row / 8 != 1;  // the middle window
  });
  const DenseMatrix b = random_dense(60, 12, 79), old_c = random_dense(24, 12, 80);
  const DenseMatrix sums = Product("windows_spmm", a).emulate(b);
  for (const float beta : {0.0f, 0.3f}) {
    const auto results = shares(a, 1).emulate_scaled(b, {-1.7f, beta}, old_c);
    REQUIRE(results.size() == 1);
    for (std::int64_t i = 0; i < a.rows; ++i)
      for (std::int64_t j = 0; j < b.cols; ++j) {
        const float start = beta == 0 ? 0.0f : beta * old_c.at(i, j);
        const float sum = -1.7f * sums.at(i, j);
        const float expected = i / 8 == 1 ? start : beta == 0 ? sum : start + sum;
        CHECK(same_bits(results.front().at(i, j), expected));
      }
  }
}

TEST_CASE("shares refuse three parts of a window, and a C of another shape") {
  const CsrMatrix a = random_sparse(8, 60, 0.4, 71);
  const DenseMatrix b = random_dense(60, 12, 72), old_c = random_dense(8, 12, 73);
  CHECK_NOTHROW(shares(a, 2).emulate_scaled(b, {1, 1}, old_c));
  CHECK_THROWS_AS(shares(a, 3).emulate_scaled(b, {1, 1}, old_c), Unsupported);
  CHECK_THROWS_WITH_AS(shares(a, 2).emulate_scaled(b, {1, 1}, DenseMatrix(8, 11)),
                       "A B is 8 x 12, but C is 8 x 11", Error);
}

// Additions to C in fixed places have one order, so that emulate() and emulate_scaling() say all.
TEST_CASE("a kernel without additions in memory has one scaled result") {
  const CsrMatrix a = random_sparse(30, 40, 0.2, 83);
  const DenseMatrix b = random_dense(40, 9, 84), old_c = random_dense(30, 9, 85);
  const Product product("acc_spmm", a);
  const auto results = product.emulate_scaled(b, {-1.7f, 0.3f}, old_c);
  REQUIRE(results.size() == 1);
  CHECK(results.front().values == emulate_scaling({-1.7f, 0.3f}, product.emulate(b), old_c).values);
}

}  // namespace
}  // namespace tessera
