// SpGEMM by bitmap tiles, ours, for inputs whose tiles are dense: what its two halves share. CSR
// comes in and goes out; A, B and C are 8 x 8 bitmap tiles in between. Bitmap tiles are tSparse's
// (Zachariadis et al. 2020), which kernels/tsparse.hpp describes. See kernels/tile_spgemm.cpp.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

#include "formats/base/matrix.hpp"
#include "formats/base/params.hpp"
#include "kernels/tsparse.hpp"

namespace tessera::tile_spgemm {

using tsparse_spgemm::inner_indices;
using tsparse_spgemm::kSide;
using tsparse_spgemm::nonzero_bytes;
using tsparse_spgemm::products_of_row;
using tsparse_spgemm::Tile;
using tsparse_spgemm::unscaled;

/// What the MMAs take A's and B's values for.
enum class Numbers { kFp16, kTf32, kTf32x3 };

/// Of "precision": "fp16", "tf32", "tf32x3".
Numbers read_numbers(const Params& params);

/// What the parameters say.
struct Choices {
  explicit Choices(const Params& params)
      : numbers(read_numbers(params)), reuse(params.flag("reuse")) {}

  Numbers numbers;
  bool reuse;  // a product keeps what its multiplication needs for the next
};

/// Tiles of a tile row of A whose pairs are listed together: an MMA has none of two batches.
constexpr int kTilesOfBatch = 512;

/// Products of tiles that an MMA takes at once, next to each other along its depth.
constexpr int pairs_of_mma(Numbers numbers) { return numbers == Numbers::kFp16 ? 2 : 1; }

/// The place along an MMA's depth of an inner index of its pair: FP16 fragments hold neighbours in
/// a register, TF32 fragments indices four apart, which are therefore neighbours of the tile.
constexpr int place_in_depth(Numbers numbers, int pair, int inner) {
  return numbers == Numbers::kFp16 ? kSide * pair + inner : inner % 2 * 4 + inner / 2;
}

/// Throws an Error when the shapes do not fit, and Unsupported for too many nonzeros, for those
/// that a tile's zeros would spread (NaN, infinite), and for those beyond TF32.
void check_operands(const CsrMatrix& a, const CsrMatrix& b, Numbers numbers);
/// The same of the values alone, of the matrix with that name.
void check_values(std::span<const float> values, char name, Numbers numbers);

/// FP16 operands are multiplied by two to the power of it: the largest magnitude is then in
/// [2^14, 2^15).
TESSERA_HOST_DEVICE inline int scaling_exponent(float largest) {
  constexpr int kLargestExponent = 14;
  return largest == 0 ? 0 : kLargestExponent - ilogbf(largest);
}

constexpr std::int32_t tiles_across(std::int32_t length) {
  return static_cast<std::int32_t>((std::int64_t{length} + kSide - 1) / kSide);
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
