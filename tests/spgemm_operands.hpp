// Operands of products of two sparse matrices for the tests: awkward shapes, regular patterns, rows
// of all lengths, hubs.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <set>
#include <utility>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/random.hpp"
#include "tests/support.hpp"

namespace tessera {

struct Operands {
  CsrMatrix a, b;
};

/// Rows of 1 to `most` nonzeros at random columns.
inline CsrMatrix random_rows(std::int32_t rows, std::int32_t cols, int most, std::uint64_t seed) {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> col_indices;
  std::vector<float> values;
  std::uint64_t draw = seed;
  const auto next = [&] { return draw = mix_bits(draw + 1); };
  for (std::int32_t row = 0; row < rows; ++row) {
    std::set<std::int32_t> chosen;
    const auto length = 1 + next() % static_cast<std::uint64_t>(most);
    while (chosen.size() < length)
      chosen.insert(static_cast<std::int32_t>(next() % static_cast<std::uint64_t>(cols)));
    for (const std::int32_t col : chosen) {
      col_indices.push_back(col);
      values.push_back(static_cast<float>(next() >> 40) * 0x1p-23f - 0.99999f);
    }
    offsets.push_back(std::ssize(col_indices));
  }
  return {rows, cols, std::move(offsets), std::move(col_indices), std::move(values)};
}

/// A matrix that has the cells for which `has` holds, values drawn.
template <class Has>
CsrMatrix patterned(std::int32_t rows, std::int32_t cols, std::uint64_t seed, Has has) {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> col_indices;
  for (std::int32_t row = 0; row < rows; ++row) {
    for (std::int32_t col = 0; col < cols; ++col)
      if (has(row, col)) col_indices.push_back(col);
    offsets.push_back(std::ssize(col_indices));
  }
  std::vector<float> values = random_dense(1, std::ssize(col_indices), seed).values;
  return {rows, cols, std::move(offsets), std::move(col_indices), std::move(values)};
}

inline std::vector<Operands> awkward_shapes() {
  struct Shape {
    std::int32_t rows, inner, cols;
    double density;
  };
  std::vector<Operands> cases;
  for (const Shape& shape :
       {Shape{1, 1, 1, 1.0}, Shape{1, 700, 1, 0.5}, Shape{700, 1, 900, 0.7}, Shape{7, 3, 5, 0.6},
        Shape{33, 65, 31, 0.3}, Shape{2000, 33, 500, 0.01}, Shape{40, 5000, 60, 0.02},
        Shape{300, 300, 300, 0.001}, Shape{203, 157, 411, 0.07}})
    cases.push_back({random_sparse(shape.rows, shape.inner, shape.density, 1),
                     random_sparse(shape.inner, shape.cols, shape.density, 2)});
  return cases;
}

/// Without a nonzero, without a row or column, or with none that meet.
inline std::vector<Operands> empty_products() {
  const CsrMatrix empty = random_sparse(40, 50, 0.0, 3), some = random_sparse(50, 30, 0.1, 4);
  return {{empty, some},
          {some, random_sparse(30, 20, 0.0, 7)},
          {patterned(50, 50, 5, [](int, int col) { return col < 20; }),
           patterned(50, 50, 6, [](int row, int) { return row >= 20; })},
          {random_sparse(0, 50, 0.0, 8), some},
          {some, random_sparse(30, 0, 0.0, 9)},
          {random_sparse(20, 0, 0.0, 10), random_sparse(0, 30, 0.0, 11)}};
}

inline std::vector<Operands> regular_patterns() {
  const CsrMatrix dense = random_sparse(200, 200, 1.0, 11);
  const CsrMatrix band =
      patterned(1500, 1500, 12, [](int row, int col) { return std::abs(row - col) <= 3; });
  const CsrMatrix blocks = patterned(
      900, 900, 13, [](int row, int col) { return (row / 3 * 7 + col / 3 * 5) % 41 < 2; });
  return {{dense, dense}, {band, band}, {blocks, blocks}};
}

inline std::vector<Operands> many_lengths() {
  const CsrMatrix a = random_rows(3000, 3000, 40, 21);
  return {{a, a}, {a, transpose(random_rows(500, 3000, 300, 22))}};
}

/// A full row, a full column, and both among short ones.
inline std::vector<Operands> hubs() {
  const auto strewn = [](int row, int col) { return (row * 31 + col * 17) % 1999 == 0; };
  const CsrMatrix row =
      patterned(5000, 5000, 31, [&](int i, int j) { return i == 17 || strewn(i, j); });
  const CsrMatrix both =
      patterned(1200, 1200, 32, [&](int i, int j) { return i == 17 || j == 4 || strewn(i, j); });
  const CsrMatrix column = transpose(row);
  return {{row, row}, {column, column}, {row, column}, {both, both}};
}

/// Tens of thousands of nonzeros in every row of C.
inline std::vector<Operands> long_rows() {
  return {{random_sparse(6, 300, 0.5, 41), random_rows(300, 120'000, 900, 42)},
          {random_sparse(3, 40, 1.0, 43), random_rows(40, 150'000, 12'000, 44)},
          // Few rows of B each, that have few columns in common.
          {random_rows(20, 50, 4, 45), random_rows(50, 150'000, 40'000, 46)}};
}

inline CsrMatrix with_values(const CsrMatrix& pattern, std::uint64_t seed) {
  return {pattern.rows, pattern.cols, pattern.row_offsets, pattern.col_indices,
          random_dense(1, pattern.nnz(), seed).values};
}

}  // namespace tessera
