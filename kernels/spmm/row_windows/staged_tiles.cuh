// The device half of kernels/spmm/row_windows/staged_tiles.hpp: cp.async (compute capability 8.0
// on) copies of TC blocks into a warp's stages, and the product of a stage.
//
// Rows of B come in pieces of 16 bytes, past the L1, in elements where their alignment asks for
// that; places without column and columns beyond the edge are filled with zeros by the copy itself.
// Copies of less than 16 bytes go through the L1 (cp.async knows no other), which is as well for
// values and bitmaps: the warps of a thread block ask for the same ones.
#pragma once

#include "kernels/device/async_copies.cuh"
#include "kernels/device/loads.cuh"
#include "kernels/spmm/row_windows/staged_tiles.hpp"
#include "kernels/spmm/row_windows/window_tile.cuh"

namespace tessera::staged_tiles {

using window_tile::View;

/// What a lane has to know of a TC block before it can copy its part: the rows of B l / 8 and
/// l / 8 + 4, and the TC block's values.
struct CopyIndex {
  std::int32_t row[2];
  std::uint32_t first_value, last_value;
};

/// A lane's part of the copies of a TC block: where they come from.
template <bool kAligned>
class Copier {
 public:
  /// For 32 columns of B from first_col on.
  __device__ Copier(const View& view, const float* b, std::int64_t first_col, int lane)
      : view_(view), lane_(lane), stride_(static_cast<std::uint32_t>(view.n)) {
    const std::int64_t col = first_col + 4 * (lane % 8);
    cols_ = static_cast<int>(min(max(view.n - col, std::int64_t{0}), std::int64_t{4}));
    b_ = b + (cols_ > 0 ? col : 0);
  }

  __device__ CopyIndex load_index(std::uint32_t tile) const {
    const std::int32_t* rows =
        view_.sparse_a_to_b + tile * std::int64_t{window_tile::kTileCols} + lane_ / 8;
    return {{load_ahead(rows), load_ahead(rows + 4)},
            load_ahead(view_.tc_offset + tile),
            load_ahead(view_.tc_offset + tile + 1)};
  }

  __device__ void copy(std::uint32_t tile, const CopyIndex& index, Stage& stage) const {
    for (int half = 0; half < 2; ++half)
      copy_row(index.row[half], stage.b + place_of_b(lane_ / 8 + 4 * half, lane_ % 8 * 4));
    const int count = static_cast<int>(index.last_value - index.first_value);
    const float* values = view_.values + index.first_value + lane_;
    if (lane_ < count) copy_async<4>(stage.values + lane_, values, true);
    if (lane_ + 32 < count) copy_async<4>(stage.values + lane_ + 32, values + 32, true);
    if (lane_ == 0) copy_async<8>(&stage.bitmap, view_.tc_local_bit + tile, true);
  }

 private:
  /// Four columns of a row of B (negative: none).
  __device__ void copy_row(std::int32_t row, float* to) const {
    const float* from = b_ + std::uint64_t{static_cast<std::uint32_t>(max(row, 0))} * stride_;
    if constexpr (kAligned) {
      copy_async<16>(to, from, row >= 0 && cols_ > 0);
    } else {
      for (int i = 0; i < 4; ++i) {
        const bool real = row >= 0 && i < cols_;
        copy_async<4>(to + i, real ? from + i : b_, real);
      }
    }
  }

  const View& view_;
  int lane_;
  std::uint32_t stride_;  // of B, elements
  int cols_;              // of the lane's four, those within B
  const float* b_;        // the lane's columns of row 0
};

/// window_tile::cell without a branch: some value is read in any case.
__device__ inline float cell(std::uint64_t bitmap, const float* values, int row, int col) {
  const int bit = row * window_tile::kTileCols + col;
  const float value = values[__popcll(bitmap & ((1ull << bit) - 1))];
  return (bitmap >> bit & 1) != 0 ? value : 0;
}

/// acc += the stage's TC block times its rows of B.
__device__ inline void multiply(const Stage& stage, int lane, float (&acc)[2][4]) {
  const int group = lane / 4, t = lane % 4;
  const std::uint64_t bitmap = stage.bitmap;
  Tf32Operand<Tf32Precision::kRounded, 2> tile;
  float b[2][4];
  for (int half = 0; half < 2; ++half) {
    const float4 piece =
        *reinterpret_cast<const float4*>(stage.b + place_of_b(t + 4 * half, 4 * group));
    b[half][0] = piece.x, b[half][1] = piece.y, b[half][2] = piece.z, b[half][3] = piece.w;
    tile.set(half, cell(bitmap, stage.values, group, t + 4 * half));
  }
  window_tile::multiply(b, tile, acc);
}

/// A warp's TC blocks [first, last) for 32 columns, kAhead of them on their way while one is
/// multiplied, the indices of one more. All lanes call all of it.
template <bool kAligned>
class Pipeline {
 public:
  /// There is a TC block.
  __device__ Pipeline(const Copier<kAligned>& copier, Stage* stages, std::uint32_t first,
                      std::uint32_t last)
      : copier_(copier), stages_(stages), next_(first), last_(last) {
    CopyIndex index[kAhead];
    for (int i = 0; i < kAhead; ++i) index[i] = copier.load_index(min(first + i, last - 1));
    index_ = copier.load_index(min(first + kAhead, last - 1));
    __syncwarp();  // nobody reads the stages any more
    for (int i = 0; i < kAhead; ++i) copy(index[i], i);
  }

  /// Adds the next TC block, number `step` from the first on, to acc.
  __device__ void advance(std::uint32_t step, float (&acc)[2][4]) {
    wait_groups<kAhead - 1>();
    __syncwarp();  // all lanes' copies are there, and the stage before is free
    copy(index_, (step + kAhead) % kStages);
    index_ = copier_.load_index(min(next_, last_ - 1));
    multiply(stages_[step % kStages], static_cast<int>(threadIdx.x % 32), acc);
  }

 private:
  /// The next TC block to a stage; past the last one an empty group, for the count's sake.
  __device__ void copy(const CopyIndex& index, std::uint32_t stage) {
    if (next_ < last_) copier_.copy(next_, index, stages_[stage]);
    ++next_;
    close_group();
  }

  const Copier<kAligned>& copier_;
  Stage* stages_;              // [kStages]
  std::uint32_t next_, last_;  // TC blocks: the next to copy, and beyond the last
  CopyIndex index_;            // of the next
};

}  // namespace tessera::staged_tiles
