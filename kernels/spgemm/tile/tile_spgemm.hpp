// SpGEMM by bitmap tiles, ours, for inputs whose tiles are dense: what its two halves share. CSR
// comes in and goes out; A, B and C are 8 x 8 bitmap tiles in between. Bitmap tiles are tSparse's
// (Zachariadis et al. 2020), which kernels/spgemm/shared/bitmap_tiles.hpp describes. See
// kernels/spgemm/tile/tile_spgemm.cpp.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

#include "formats/base/matrix.hpp"
#include "formats/base/params.hpp"
#include "kernels/spgemm/shared/bitmap_tiles.hpp"
#include "kernels/host_device.hpp"

namespace tessera::tile_spgemm {

using spgemm::inner_indices;
using spgemm::kSide;
using spgemm::multiply_bitmaps;
using spgemm::nonzero_bytes;
using spgemm::products_of_row;
using spgemm::Tile;
using spgemm::unscaled;

/// What the MMAs take A's and B's values for.
enum class TileArithmetic { kFp16, kTf32, kTf32x3 };

/// Of "precision": "fp16", "tf32", "tf32x3".
TileArithmetic read_numbers(const Params& params);

/// What the parameters say.
struct TileSpgemmOptions {
  explicit TileSpgemmOptions(const Params& params)
      : numbers(read_numbers(params)), reuse(params.flag("reuse")) {}

  TileArithmetic numbers;
  bool reuse;  // a product keeps what its multiplication needs for the next
};

/// Tiles of a tile row of A whose pairs are listed together: an MMA has none of two batches.
constexpr int kTilesOfBatch = 512;

/// Products of tiles that an MMA takes at once, next to each other along its depth.
constexpr int pairs_of_mma(TileArithmetic numbers) {
  return numbers == TileArithmetic::kFp16 ? 2 : 1;
}

/// The place along an MMA's depth of an inner index of its pair: FP16 fragments hold neighbours in
/// a register, TF32 fragments indices four apart, which are therefore neighbours of the tile.
constexpr int place_in_depth(TileArithmetic numbers, int pair, int inner) {
  return numbers == TileArithmetic::kFp16 ? kSide * pair + inner : inner % 2 * 4 + inner / 2;
}

/// Throws an Error when the shapes do not fit, and Unsupported for too many nonzeros, for those
/// that a tile's zeros would spread (NaN, infinite), and for those beyond TF32.
void check_operands(const CsrMatrix& a, const CsrMatrix& b, TileArithmetic numbers);
/// The same of the values alone, of the matrix with that name.
void check_values(std::span<const float> values, char name, TileArithmetic numbers);

/// FP16 operands are multiplied by two to the power of it: the largest magnitude is then in
/// [2^14, 2^15).
TESSERA_HOST_DEVICE inline int scaling_exponent(float largest) {
  constexpr int kLargestExponent = 14;
  return largest == 0 ? 0 : kLargestExponent - ilogbf(largest);
}

constexpr std::int32_t tiles_across(std::int32_t length) {
  return static_cast<std::int32_t>((std::int64_t{length} + kSide - 1) / kSide);
}

constexpr int kThreads = 128;  // of a thread block

/// Tiles of A or B that a thread block gathers at once, and the columns where it looks for them.
constexpr int kTilesGathered = 512, kColsGathered = 1 << 16;

/// Tile columns of C that have a mark in a slot, and whose marks a thread block has at once.
constexpr int kColsOfSlot = 32, kColsAtOnce = 1 << 13;

/// The longest tile row of A that is short: its values are in shared memory, and 64 bits say what
/// is in pairs with a tile of C.
constexpr int kShortRow = 64;

/// Pairs of tiles that a thread block lists at once, of short tile rows of A and of long ones.
constexpr int pairs_listed(bool is_long) { return is_long ? 2048 : 1024; }

/// Tiles of C whose cells are counted at once, and of A whose pairs are looked for.
constexpr int kTilesCounted = 512, kStaged = 128;

/// Tiles of C that a thread block has at once when it adds up.
constexpr int kTilesOfPass = 128;

/// As a tile's sums cost about as much time again as so many pairs.
constexpr int kPairsOfTile = 3;

/// Shared memory of a task's sums with a short tile row of A, but for A's values.
constexpr std::int64_t memory_of_sums(TileArithmetic numbers) {
  return numbers == TileArithmetic::kFp16 ? 17312 : 16544;
}

/// The tiles of a tile row.
struct alignas(8) TileRow {
  std::uint32_t begin;
  std::int32_t count;
};

/// The tile columns [first_col, end_col) of a tile row of C.
struct alignas(16) Task {
  std::int32_t tile_row, first_col, end_col;
  std::uint32_t slice : 16;          // of its tile row
  std::uint32_t is_sliced : 1;       // there are others
  std::uint32_t slots_at_once : 15;  // of columns whose pairs can be listed at once, about
};

/// The most tasks beside one for each tile row of C.
inline std::int64_t most_slices(std::int64_t tile_rows, std::int64_t tile_cols) {
  constexpr std::int64_t kMostSlices = 1 << 16;
  return std::min(kMostSlices, (tile_cols + kColsOfSlot - 1) / kColsOfSlot * tile_rows);
}

/// The most pairs of a task, where it can be cut. There have to be more tasks than the device
/// holds at once; how many pairs there are is not known, how many products is, about.
inline long long pairs_of_task(std::int64_t nonzeros_of_a, std::int64_t nonzeros_of_b,
                               std::int64_t rows_of_b) {
  const double products = static_cast<double>(nonzeros_of_a) * static_cast<double>(nonzeros_of_b) /
                          static_cast<double>(std::max(rows_of_b, std::int64_t{1}));
  constexpr double kProductsOfPair = 16, kTasks = 8192;
  return static_cast<long long>(std::clamp(products / kProductsOfPair / kTasks, 1024.0, 8192.0));
}

/// How wide the slices of a tile row of C are, in slots, if there is room for them; all it spans
/// where it stays whole. `pairs` may be empty.
TESSERA_HOST_DEVICE constexpr std::int32_t slots_of_slice(std::int32_t slots, long long pairs,
                                                          long long most_pairs) {
  constexpr long long kMostOfRow = 1024;
  const long long fit = slots < kMostOfRow ? slots : kMostOfRow;
  const long long full = (pairs + most_pairs - 1) / most_pairs, wanted = full < fit ? full : fit;
  return wanted > 1 ? static_cast<std::int32_t>((slots + wanted - 1) / wanted) : slots;
}

/// Slots of the columns whose pairs can be listed at once, about, where those of a tile row of C
/// are spread evenly.
TESSERA_HOST_DEVICE constexpr std::int32_t slots_at_once(std::int32_t slots, long long pairs,
                                                         std::int32_t tiles_of_a) {
  constexpr long long kMost = kColsAtOnce / kColsOfSlot;
  const long long listed =
      pairs == 0 ? 1 : slots * static_cast<long long>(pairs_listed(tiles_of_a > kShortRow)) / pairs;
  return static_cast<std::int32_t>(listed < 1 ? 1 : listed < kMost ? listed : kMost);
}

/// The bits of a tile by rows that come before one, by rows and by columns.
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
