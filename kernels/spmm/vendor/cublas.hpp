// The options of the cuBLAS baseline, and the layout of A and B in memory, which its host half and
// its device half share.
//
// The library's fast kernels want 16-byte alignment: of K and of A's and B's leading dimensions
// (cuBLAS documentation, section "Tensor Core Usage"). We store A, and so can align it. The caller
// gives N, and with it the rows of B and C, which stay as they are.
#pragma once

#include <cstdint>

#include "formats/base/params.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera::cublas {

/// The dense A, row-major, and B as the library reads it. Extents are in elements; zeros follow the
/// columns of A and the rows of B.
struct Layout {
  std::int64_t rows, cols, n;  // of A, and B's width
  std::int64_t element_bytes;  // of A and B
  std::int64_t depth;          // K of the library's product, at least cols
  std::int64_t pitch;          // from a row of A to the next, at least depth
  bool b_in_place;             // the library reads the caller's B: FP32, of depth rows

  std::int64_t a_bytes() const { return element_bytes * rows * pitch; }
  std::int64_t b_bytes() const { return b_in_place ? 0 : element_bytes * depth * n; }  // our copy

  /// Bytes of a product with the caller's B and C; for some A more than an integer holds.
  double bytes() const {
    const double a = static_cast<double>(rows) * static_cast<double>(pitch);
    const double own_b = b_in_place ? 0 : static_cast<double>(depth) * static_cast<double>(n);
    const double given = static_cast<double>(rows + cols) * static_cast<double>(n);
    return static_cast<double>(element_bytes) * (a + own_b) + sizeof(float) * given;
  }
};

struct CublasOptions {
  explicit CublasOptions(const Params& params)
      : precision(find_precision(params.text("precision"))),
        pads_k(params.text("pad") == "k"),
        pads_rows(params.text("pad") != "none") {}

  Precision precision;  // tf32 or fp16
  bool pads_k;          // to 16 bytes
  bool pads_rows;       // to 128 bytes, a line of the caches

  bool half() const { return precision.conversion == Conversion::kFp16; }

  Layout layout(std::int64_t rows, std::int64_t cols, std::int64_t n) const {
    const std::int64_t element = half() ? 2 : 4;
    const auto padded = [&](std::int64_t count, std::int64_t bytes) {
      const std::int64_t multiple = bytes / element;
      return (count + multiple - 1) / multiple * multiple;
    };
    const std::int64_t depth = pads_k ? padded(cols, 16) : cols;
    return {.rows = rows,
            .cols = cols,
            .n = n,
            .element_bytes = element,
            .depth = depth,
            .pitch = pads_rows ? padded(cols, 128) : cols,
            .b_in_place = !half() && depth == cols};
  }
};

}  // namespace tessera::cublas
