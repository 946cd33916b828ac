// The device half of kernels/spmm/row_windows/staged_tiles.hpp: copies of TC blocks to a warp's
// stages by cp.async (compute capability 8.0 or later), and the product of a stage.
//
// Rows of B are copied by vectors of 16 bytes, past the L1, or by elements where they are not
// aligned; the copy itself writes zeros for padding and for columns beyond the edge. Copies of less
// than 16 bytes go through the L1, the only way cp.async has; that suits values and bitmaps, which
// all warps of a thread block read.
#pragma once

#include "kernels/device/async_copies.cuh"
#include "kernels/device/loads.cuh"
#include "kernels/spmm/row_windows/staged_tiles.hpp"
#include "kernels/spmm/row_windows/window_tile.cuh"

namespace tessera::staged_tiles {

using window_tile::View;

/// The indices that lane l needs before it can copy its part of a TC block: rows l / 8 and l / 8 +
/// 4 of B, and the range of the TC block's values.
struct CopyIndex {
  std::int32_t row[2];
  std::uint32_t first_value, last_value;
};

/// A lane's part of the copies of a TC block.
template <bool kAligned>
class Copier {
 public:
  /// Copies columns [first_col, first_col + 32) of B.
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
      copy_row(index.row[half], stage.b + b_position(lane_ / 8 + 4 * half, lane_ % 8 * 4));
    const int count = static_cast<int>(index.last_value - index.first_value);
    const float* values = view_.values + index.first_value + lane_;
    if (lane_ < count) copy_async<4>(stage.values + lane_, values, true);
    if (lane_ + 32 < count) copy_async<4>(stage.values + lane_ + 32, values + 32, true);
    if (lane_ == 0) copy_async<8>(&stage.bitmap, view_.tc_local_bit + tile, true);
  }

 private:
  /// Copies four columns of a row of B; zeros for a negative row.
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
  std::uint32_t stride_;  // of B, in elements
  int cols_;              // the number of the lane's four columns within B
  const float* b_;        // the lane's columns of row 0
};

/// window_tile::tile_element without a branch: a value is read even where the bit is clear.
__device__ inline float tile_element(std::uint64_t bitmap, const float* values, int row, int col) {
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
    const float4 vector =
        *reinterpret_cast<const float4*>(stage.b + b_position(t + 4 * half, 4 * group));
    b[half][0] = vector.x, b[half][1] = vector.y, b[half][2] = vector.z, b[half][3] = vector.w;
    tile.set(half, tile_element(bitmap, stage.values, group, t + 4 * half));
  }
  window_tile::multiply(b, tile, acc);
}

/// A warp's TC blocks [first, last) for 32 columns: while one is multiplied, the next kAhead are
/// being copied and the indices of one more are being loaded. All lanes call all functions.
template <bool kAligned>
class Pipeline {
 public:
  /// `first` < `last`.
  __device__ Pipeline(const Copier<kAligned>& copier, Stage* stages, std::uint32_t first,
                      std::uint32_t last)
      : copier_(copier), stages_(stages), next_(first), last_(last) {
    CopyIndex index[kAhead];
    for (int i = 0; i < kAhead; ++i) index[i] = copier.load_index(min(first + i, last - 1));
    index_ = copier.load_index(min(first + kAhead, last - 1));
    __syncwarp();  // no lane reads the stages any more
    for (int i = 0; i < kAhead; ++i) copy(index[i], i);
  }

  /// Adds TC block first + `step` times its rows of B to acc; called with steps 0, 1, 2, ...
  __device__ void advance(std::uint32_t step, float (&acc)[2][4]) {
    wait_groups<kAhead - 1>();
    __syncwarp();  // all lanes' copies are there, and the stage before is free
    copy(index_, (step + kAhead) % kStages);
    index_ = copier_.load_index(min(next_, last_ - 1));
    multiply(stages_[step % kStages], static_cast<int>(threadIdx.x % 32), acc);
  }

 private:
  /// Copies the next TC block to a stage; past the last one, the group of copies is empty and keeps
  /// the count of groups right.
  __device__ void copy(const CopyIndex& index, std::uint32_t stage) {
    if (next_ < last_) copier_.copy(next_, index, stages_[stage]);
    ++next_;
    close_group();
  }

  const Copier<kAligned>& copier_;
  Stage* stages_;              // [kStages]
  std::uint32_t next_, last_;  // TC blocks: the next to copy, and beyond the last
  CopyIndex index_;            // of the next to copy
};

}  // namespace tessera::staged_tiles
