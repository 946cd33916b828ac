// SpGEMM by bitmap tiles, ours, for inputs whose tiles are dense: the options and the operand
// checks that its host half and its device half share. A, B and C are CSR outside and 8 x 8 bitmap
// tiles inside. Bitmap tiles are tSparse's (Zachariadis et al. 2020), which
// kernels/spgemm/shared/bitmap_tiles.hpp describes. See kernels/spgemm/tile/tile_spgemm.cpp.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "formats/base/matrix.hpp"
#include "formats/base/params.hpp"
#include "kernels/spgemm/tile/schedule.hpp"

namespace tessera::tile_spgemm {

using spgemm::inner_indices;
using spgemm::multiply_bitmaps;
using spgemm::nonzero_bytes;
using spgemm::products_of_row;
using spgemm::unscaled;

/// The value of the parameter "precision": "fp16", "tf32" or "tf32x3".
TileArithmetic read_arithmetic(const Params& params);

struct TileSpgemmOptions {
  explicit TileSpgemmOptions(const Params& params)
      : arithmetic(read_arithmetic(params)), reuse(params.flag("reuse")) {}

  TileArithmetic arithmetic;
  bool reuse;  // a product keeps the structure of C and its tasks for other values
};

/// Checks the operands of a product. Throws an Error where the shapes do not match, and Unsupported
/// for more nonzeros than 32 bits count, for infinite values and NaN, which the zeros of a tile
/// would spread, and for finite values that overflow TF32.
void check_operands(const CsrMatrix& a, const CsrMatrix& b, TileArithmetic arithmetic);
/// Checks the values of the matrix with that name. Throws Unsupported as check_operands() does.
void check_values(std::span<const float> values, char name, TileArithmetic arithmetic);

/// The exponent of the power of two that scales a matrix of this largest magnitude for FP16. The
/// scaled magnitude lies in [2^14, 2^15).
TESSERA_HOST_DEVICE inline int scaling_exponent(float largest) {
  constexpr int kLargestExponent = 14;
  return largest == 0 ? 0 : kLargestExponent - ilogbf(largest);
}

/// The bits of a tile by rows that precede a cell, in the order of rows and in that of columns.
TESSERA_HOST_DEVICE constexpr std::uint64_t before_by_rows(int row, int col) {
  return (std::uint64_t{1} << (kSide * row + col)) - 1;
}
TESSERA_HOST_DEVICE constexpr std::uint64_t before_by_cols(int row, int col) {
  constexpr std::uint64_t kCol = 0x0101010101010101u;
  return kCol * ((1u << col) - 1) | (kCol << col & ((std::uint64_t{1} << kSide * row) - 1));
}

/// The bitmap by columns of one by rows, and the other way round: three rounds of swaps, of bits,
/// of 2 x 2 and of 4 x 4 blocks.
TESSERA_HOST_DEVICE constexpr std::uint64_t transposed(std::uint64_t bitmap) {
  std::uint64_t swapped = (bitmap ^ bitmap >> 7) & 0x00aa00aa00aa00aau;
  bitmap ^= swapped ^ swapped << 7;
  swapped = (bitmap ^ bitmap >> 14) & 0x0000cccc0000ccccu;
  bitmap ^= swapped ^ swapped << 14;
  swapped = (bitmap ^ bitmap >> 28) & 0x00000000f0f0f0f0u;
  return bitmap ^ swapped ^ swapped << 28;
}

}  // namespace tessera::tile_spgemm
