#include "oracle/spmm_oracle.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <span>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/vector_clones.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kPanel = 16;  // rows of truth computed and compared at a time

// Columns that are summed at once, in registers: several vectors, since each addition waits for the
// one before.
using Doubles = double __attribute__((vector_size(64)));
using Floats = float __attribute__((vector_size(32)));
constexpr std::int64_t kVector = 8, kVectors = 4, kBlock = kVectors * kVector;
constexpr std::int64_t kAhead = 8;  // terms whose rows of B are fetched meanwhile

/// sum + lost holds the running total; magnitude the sum of absolute terms. The loss of an addition
/// is Knuth's TwoSum: exact without a branch, so that it vectorises. No contraction to fused
/// multiply-adds can change it: the product is exact.
template <class Number>
[[gnu::always_inline]] inline void add_term(const Number& term, Number& sum, Number& lost,
                                            Number& magnitude) {
  const Number total = sum + term;
  const Number term_part = total - sum;
  lost += (sum - (total - term_part)) + (term - term_part);
  sum = total;
  magnitude += term < 0 ? -term : term;
}

/// The nonzeros of a row of A, and a B of n columns.
struct RowTerms {
  const float* values;        // [count]
  const std::int32_t* b_row;  // [count]
  std::int64_t count;
  const float* b;
  std::int64_t n;
};

/// The sums of a row: those of whole blocks of columns in registers, then one column at a time.
/// With an infinity or a NaN among the terms the plain sum is the result: the loss is NaN.
TESSERA_VECTOR_CLONES
void sum_row(const RowTerms& row, double* __restrict product, double* __restrict magnitudes) {
  std::int64_t j = 0;
  for (; j + kBlock <= row.n; j += kBlock) {
    Doubles sum[kVectors] = {}, lost[kVectors] = {}, magnitude[kVectors] = {};
    for (std::int64_t k = 0; k < row.count; ++k) {
      const auto a = static_cast<double>(row.values[k]);
      const float* const b = row.b + row.b_row[k] * row.n + j;
      const float* const ahead = row.b + row.b_row[std::min(k + kAhead, row.count - 1)] * row.n + j;
      __builtin_prefetch(ahead);
      __builtin_prefetch(ahead + kBlock / 2);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        Floats of_b;
        std::memcpy(&of_b, b + v * kVector, sizeof of_b);
        add_term<Doubles>(a * __builtin_convertvector(of_b, Doubles), sum[v], lost[v],
                          magnitude[v]);
      }
    }
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const auto is_finite = (sum[v] < 0 ? -sum[v] : sum[v]) <= std::numeric_limits<double>::max();
      sum[v] = is_finite ? sum[v] + lost[v] : sum[v];
      std::memcpy(product + j + v * kVector, &sum[v], sizeof sum[v]);
      std::memcpy(magnitudes + j + v * kVector, &magnitude[v], sizeof magnitude[v]);
    }
  }
  for (; j < row.n; ++j) {
    double sum = 0, lost = 0, magnitude = 0;
    for (std::int64_t k = 0; k < row.count; ++k)
      add_term(
          static_cast<double>(row.values[k]) * static_cast<double>(row.b[row.b_row[k] * row.n + j]),
          sum, lost, magnitude);
    product[j] = std::isfinite(sum) ? sum + lost : sum;
    magnitudes[j] = magnitude;
  }
}

/// Adds with one rounding per product on every processor: std::fma is explicit.
TESSERA_VECTOR_CLONES
void fma_row(float a, const float* __restrict b, float* __restrict c, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) c[j] = std::fma(a, b[j], c[j]);
}

void spmm_fp32_row(const CsrMatrix& a, const DenseMatrix& b, std::int64_t i, std::span<float> c) {
  std::ranges::fill(c, 0.0f);
  for (std::int64_t k = a.row_offsets[i]; k < a.row_offsets[i + 1]; ++k)
    fma_row(a.values[k], b.row(a.col_indices[k]).data(), c.data(), b.cols);
}

/// The truth of rows [begin, end).
void sum_rows(const CsrMatrix& a, const DenseMatrix& b, std::int64_t begin, std::int64_t end,
              double* product, double* magnitude) {
  for (std::int64_t i = begin; i < end; ++i)
    sum_row(
        {a.row_values(i).data(), a.row_cols(i).data(), a.row_length(i), b.values.data(), b.cols},
        product + (i - begin) * b.cols, magnitude + (i - begin) * b.cols);
}

TrueRows room_for(std::int64_t rows, std::int64_t n) {
  const auto size = static_cast<std::size_t>(rows * n);
  return {std::vector<double>(size), std::vector<double>(size)};
}

ProductNorms norms_of(const CsrMatrix& a, const DenseMatrix& b) {
  return {frobenius_norm(a.values), frobenius_norm(b.values)};
}

void require_shapes(const CsrMatrix& a, const DenseMatrix& b) {
  require(b.rows == a.cols, "A is {} x {}, but B is {} x {}", a.rows, a.cols, b.rows, b.cols);
}

}  // namespace

TrueRows spmm_fp64(const CsrMatrix& a, const DenseMatrix& b, std::int64_t begin, std::int64_t end) {
  require_shapes(a, b);
  require(0 <= begin && begin <= end && end <= a.rows, "rows [{}, {}) of a product with {} rows",
          begin, end, a.rows);
  TrueRows rows = room_for(end - begin, b.cols);
  sum_rows(a, b, begin, end, rows.product.data(), rows.magnitude.data());
  return rows;
}

std::int64_t SpmmTruth::bytes(std::int64_t rows, std::int64_t n) {
  return 2 * std::int64_t{sizeof(double)} * rows * n;
}

SpmmTruth spmm_truth(const CsrMatrix& a, const DenseMatrix& b) {
  require_shapes(a, b);
  SpmmTruth truth{room_for(a.rows, b.cols), norms_of(a, b)};
  parallel_for(a.rows, kPanel, [&](std::int64_t begin, std::int64_t end) {
    sum_rows(a, b, begin, end, truth.rows.product.data() + begin * b.cols,
             truth.rows.magnitude.data() + begin * b.cols);
  });
  return truth;
}

DenseMatrix spmm_fp32(const CsrMatrix& a, const DenseMatrix& b) {
  require_shapes(a, b);
  DenseMatrix c(a.rows, b.cols);
  parallel_for(a.rows, kPanel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) spmm_fp32_row(a, b, i, c.row(i));
  });
  return c;
}

ProductErrors compare_spmm(const CsrMatrix& a, const DenseMatrix& b, const DenseMatrix& c,
                           const ErrorBound& bound, bool against_fp32, const SpmmTruth* known) {
  require(b.rows == a.cols && c.rows == a.rows && c.cols == b.cols,
          "shapes do not fit: A is {} x {}, B {} x {}, C {} x {}", a.rows, a.cols, b.rows, b.cols,
          c.rows, c.cols);
  require_bound(bound, a.rows);
  const ProductNorms norms = known != nullptr ? known->norms : norms_of(a, b);
  const auto n = static_cast<std::size_t>(b.cols);
  require(known == nullptr || known->rows.product.size() == c.values.size(),
          "the known truth has {} elements, C {}",
          known == nullptr ? 0 : known->rows.product.size(), c.values.size());
  const auto visit = [&](std::int64_t panel, PanelMeter& meter) {
    const std::int64_t begin = panel * kPanel, end = std::min<std::int64_t>(begin + kPanel, a.rows);
    std::optional<TrueRows> made;
    if (known == nullptr) made = spmm_fp64(a, b, begin, end);
    const TrueRows& truth = made ? *made : known->rows;
    const std::int64_t before = made ? begin : 0;
    std::vector<float> fp32(against_fp32 ? n : 0);
    for (std::int64_t i = begin; i < end; ++i) {
      if (against_fp32) spmm_fp32_row(a, b, i, fp32);
      const auto first = static_cast<std::size_t>(i - before) * n;
      meter.add({.row = i,
                 .relative = bound.relative[i],
                 .absolute = bound.absolute[i],
                 .truth = {truth.product.data() + first, n},
                 .magnitude = {truth.magnitude.data() + first, n},
                 .computed = c.row(i),
                 .fp32 = fp32});
    }
  };
  return measure_errors((a.rows + kPanel - 1) / kPanel, norms, {against_fp32, bound.largest},
                        visit);
}

}  // namespace tessera
