#include "python/torch_operators/cpu_loops.hpp"

#include <cstring>

namespace tessera::torch_cpu {
namespace {

constexpr int kWidth = 8, kVectors = 4;
constexpr int kColumns = kWidth * kVectors;  // of C, summed at a time, in the processor's registers
using Doubles [[gnu::vector_size(kWidth * sizeof(double))]] = double;
template <class Real>
using Reals [[gnu::vector_size(kWidth * sizeof(Real))]] = Real;

template <class Real>
double value(const Rows<Real>& product, std::int64_t i) {
  const std::int64_t* indices = product.a.value_indices;
  return static_cast<double>(product.values[indices == nullptr ? i : indices[i]]);
}

template <class Real>
void store(const Rows<Real>& product, double sum, Real* to) {
  const double old = product.beta == 0 ? 0 : product.beta * static_cast<double>(*to);
  *to = static_cast<Real>(product.alpha * sum + old);
}

template <class Real>
void many_columns(const Rows<Real>& product, std::int64_t row, std::int64_t first) {
  Doubles sums[kVectors] = {};
  const auto& [a, values, b, n, c, alpha, beta] = product;
  for (std::int64_t i = a.row_offsets[row]; i < a.row_offsets[row + 1]; ++i) {
    const double factor = value(product, i);
    const Real* from = b + a.col_indices[i] * n + first;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      Reals<Real> loaded;
      std::memcpy(&loaded, from + v * kWidth, sizeof loaded);
      sums[v] += factor * __builtin_convertvector(loaded, Doubles);
    }
  }
  Real* to = c + row * n + first;
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v)
    for (int j = 0; j < kWidth; ++j) store(product, sums[v][j], to + v * kWidth + j);
}

template <class Real>
void few_columns(const Rows<Real>& product, std::int64_t row, std::int64_t first, int count) {
  double sums[kColumns] = {};
  const auto& [a, values, b, n, c, alpha, beta] = product;
  for (std::int64_t i = a.row_offsets[row]; i < a.row_offsets[row + 1]; ++i) {
    const double factor = value(product, i);
    const Real* from = b + a.col_indices[i] * n + first;
    for (int j = 0; j < count; ++j) sums[j] += factor * static_cast<double>(from[j]);
  }
  for (int j = 0; j < count; ++j) store(product, sums[j], c + row * n + first + j);
}

template <class Real>
void rows(const Rows<Real>& product, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    std::int64_t first = 0;
    for (; first + kColumns <= product.n; first += kColumns) many_columns(product, row, first);
    if (first < product.n) few_columns(product, row, first, static_cast<int>(product.n - first));
  }
}

/// Partial sums, one for each place of a vector, are added pairwise at the end.
template <class Real>
void dots(const Dots<Real>& product, std::int64_t begin, std::int64_t end) {
  constexpr int kParts = 16;
  const auto& [a, x, y, depth, out] = product;
  for (std::int64_t row = begin; row < end; ++row) {
    const Real* of_x = x + row * depth;
    for (std::int64_t i = a.row_offsets[row]; i < a.row_offsets[row + 1]; ++i) {
      const Real* of_y = y + a.col_indices[i] * depth;
      Real parts[kParts] = {};
      std::int64_t k = 0;
      for (; k + kParts <= depth; k += kParts)
        for (int j = 0; j < kParts; ++j) parts[j] += of_x[k + j] * of_y[k + j];
      for (int j = 0; k + j < depth; ++j) parts[j] += of_x[k + j] * of_y[k + j];
      for (int half = kParts / 2; half > 0; half /= 2)
        for (int j = 0; j < half; ++j) parts[j] += parts[j + half];
      out[a.value_indices == nullptr ? i : a.value_indices[i]] = parts[0];
    }
  }
}

}  // namespace

const Loops TESSERA_LOOPS = {rows<float>, rows<double>, dots<float>, dots<double>};

}  // namespace tessera::torch_cpu
