#include "model/smat.hpp"

#include <algorithm>

#include "formats/base/check.hpp"

namespace tessera::smat {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

BlockBounds printed_bounds(std::int64_t rows, std::int64_t cols, std::int64_t nnz, int h, int w) {
  require(h > 0 && w > 0, "a block cannot be {} x {}", h, w);
  return {ceil_div(nnz, std::int64_t{h} * w), std::min(nnz, ceil_div(rows, h) * ceil_div(cols, w))};
}

BlockBounds refined_bounds(std::span<const std::int64_t> active_cols, std::int64_t cols, int w) {
  require(w > 0, "a block cannot be {} wide", w);
  BlockBounds bounds;
  for (const std::int64_t active : active_cols) {
    bounds.lower += ceil_div(active, w);
    bounds.upper += std::min(active, ceil_div(cols, w));
  }
  return bounds;
}

std::int64_t mma_columns(std::int64_t n) { return ceil_div(n, kMmaCols); }

}  // namespace tessera::smat
