#include "model/tca_spmm.hpp"

#include <algorithm>
#include <bit>

#include "formats/base/check.hpp"

namespace tessera::tca {
namespace {

constexpr std::int64_t kOperandCols = 8;   // n of m16n8k8
constexpr std::int64_t kOperandDepth = 8;  // k
constexpr std::int64_t kMmaCols = 16;      // m: columns of B where a row needs one operand column

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

void check(std::int64_t n) { require(n > 0, "B has {} columns", n); }

}  // namespace

std::int64_t whole_fragment_mma(std::span<const std::int64_t> row_lengths, std::int64_t n,
                                const MmaShape& shape) {
  check(n);
  require(shape.m % shape.n == 0, "n = {} of the MMA does not divide m = {}", shape.n, shape.m);
  std::int64_t fragments = 0;
  for (const std::int64_t length : row_lengths)
    fragments += ceil_div(length, std::int64_t{shape.k} * shape.n);
  return fragments * ceil_div(n, shape.m / shape.n);
}

double approximate_mma(double nnz, double n, const MmaShape& shape) {
  return nnz * n / (static_cast<double>(shape.m) * shape.k);
}

std::int64_t row_mma(std::int64_t row_length, std::int64_t n) {
  check(n);
  const auto chunks = static_cast<std::uint64_t>(ceil_div(row_length, kOperandDepth));
  const auto p = std::min(kOperandCols, static_cast<std::int64_t>(std::bit_ceil(chunks)));
  return ceil_div(row_length, kOperandDepth * p) * ceil_div(n * p, kMmaCols);
}

std::int64_t matrix_mma(std::span<const std::int64_t> row_lengths, std::int64_t n) {
  std::int64_t mma = 0;
  for (const std::int64_t length : row_lengths) mma += row_mma(length, n);
  return mma;
}

double useful_fraction(std::int64_t nnz, std::int64_t n, std::int64_t mma, const MmaShape& shape) {
  if (mma == 0) return 0;
  return static_cast<double>(nnz) * static_cast<double>(n) /
         (static_cast<double>(mma) * static_cast<double>(shape.products()));
}

std::int64_t condensed_tile_mma(std::span<const std::int64_t> active_cols, std::int64_t n) {
  check(n);
  std::int64_t tiles = 0;
  for (const std::int64_t cols : active_cols) tiles += ceil_div(cols, kOperandDepth);
  return tiles * ceil_div(n, kMmaCols);
}

}  // namespace tessera::tca
