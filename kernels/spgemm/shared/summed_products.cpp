#include "kernels/spgemm/shared/summed_products.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"

namespace tessera {
namespace {

struct IntermediateProduct {
  std::int32_t col;
  float value;
  std::int64_t piece;
};

/// The GPU has a single NaN.
float as_stored(float sum) { return std::isnan(sum) ? std::bit_cast<float>(0x7fffffff) : sum; }

/// Consecutive rows of C.
struct ResultRows {
  std::vector<std::int64_t> lengths;
  std::vector<std::int32_t> cols;
  std::vector<float> values;

  /// Appends a row; sorts its products.
  void add(std::vector<IntermediateProduct>& products) {
    std::ranges::stable_sort(products, {}, &IntermediateProduct::col);
    const std::size_t before = cols.size();
    for (std::size_t i = 0; i < products.size();) {
      const std::int32_t col = products[i].col;
      float sum = sum_of_piece(products, i);
      while (i < products.size() && products[i].col == col) sum += sum_of_piece(products, i);
      cols.push_back(col);
      values.push_back(as_stored(sum));
    }
    lengths.push_back(static_cast<std::int64_t>(cols.size() - before));
  }

 private:
  static float sum_of_piece(const std::vector<IntermediateProduct>& products, std::size_t& i) {
    const IntermediateProduct& first = products[i];
    float sum = first.value;
    for (++i;
         i < products.size() && products[i].col == first.col && products[i].piece == first.piece;
         ++i)
      sum += products[i].value;
    return sum;
  }
};

std::vector<std::int64_t> products_before_rows(const CsrMatrix& a, const CsrMatrix& b) {
  std::vector<std::int64_t> before{0};
  for (std::int64_t row = 0; row < a.rows; ++row) {
    std::int64_t products = before.back();
    for (const std::int32_t col : a.row_cols(row)) products += b.row_length(col);
    before.push_back(products);
  }
  return before;
}

CsrMatrix join(std::int32_t rows, std::int32_t cols, std::vector<ResultRows> parts) {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> indices;
  std::vector<float> values;
  for (ResultRows& part : parts) {
    for (const std::int64_t length : part.lengths) offsets.push_back(offsets.back() + length);
    indices.insert(indices.end(), part.cols.begin(), part.cols.end());
    values.insert(values.end(), part.values.begin(), part.values.end());
    part = {};
  }
  return {rows, cols, std::move(offsets), std::move(indices), std::move(values)};
}

}  // namespace

CsrMatrix sum_products(const CsrMatrix& a, const CsrMatrix& b, const PieceOfProduct& piece) {
  require(a.cols == b.rows, "A has {} columns and B {} rows", a.cols, b.rows);
  constexpr std::int64_t kRowsOfPart = 256;
  const std::vector<std::int64_t> before = products_before_rows(a, b);
  std::vector<ResultRows> parts((a.rows + kRowsOfPart - 1) / kRowsOfPart);
  parallel_for(a.rows, kRowsOfPart, [&](std::int64_t begin, std::int64_t end) {
    std::vector<IntermediateProduct> products;
    for (std::int64_t row = begin; row < end; ++row) {
      products.clear();
      for (std::int64_t k = a.row_offsets[row]; k < a.row_offsets[row + 1]; ++k)
        for (std::int64_t j = b.row_offsets[a.col_indices[k]];
             j < b.row_offsets[a.col_indices[k] + 1]; ++j) {
          const std::int64_t number = before[row] + std::ssize(products);
          products.push_back(
              {b.col_indices[j], a.values[k] * b.values[j], piece(number, before[row])});
        }
      parts[begin / kRowsOfPart].add(products);
    }
  });
  return join(a.rows, b.cols, std::move(parts));
}

}  // namespace tessera
