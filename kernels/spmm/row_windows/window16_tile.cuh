// The device half of kernels/spmm/row_windows/window16_tile.hpp: a lane's fragments and sums.
//
// Lane l has g = l / 4 and t = l % 4: rows g and g + 8 of the window, condensed columns t and t + 4
// of the TC block, MMA column g of B and 2t, 2t + 1 of C.
#pragma once

#include "kernels/device/store_16_bytes.cuh"
#include "kernels/spmm/row_windows/window16_tile.hpp"
#include "kernels/tensor_core/tf32_operands.cuh"

namespace tessera::window16_tile {

/// A lane's sums of groups of 32 columns: [2 i + j / 2][j % 2] holds those of MMA j of group i.
template <int kGroups>
using Accumulators = float[2 * kGroups][2][4];

/// A lane's fragments of a TC block, rounded to TF32, for MMAs of kDepth condensed columns.
template <int kDepth>
struct TileOperand {
  Tf32Operand<Tf32Precision::kRounded, kDepth / 2> of_mma[kTileCols / kDepth];

  /// Reads `tile` from shared memory, in the order of tile_position. [kTileElements]
  __device__ TileOperand(const float* tile, int lane) {
    for (int half = 0; half < 2; ++half) {
      for (int upper = 0; upper < 2; ++upper) {
        const int id = (lane / 4 + 8 * upper) * kTileCols + lane % 4 + 4 * half;
        const float value = tile[tile_position(id)];
        if constexpr (kDepth == 8)
          of_mma[0].set(2 * half + upper, value);
        else
          of_mma[half].set(upper, value);
      }
    }
  }
};

/// sums of a group += tile * b; b[h][j] is MMA j's column of the row of B that condensed column
/// t + 4h stands for.
template <int kDepth, int kGroups>
__device__ void multiply(const TileOperand<kDepth>& tile, const float (&b)[2][4], int group,
                         float (&sums)[kGroups][2][4]) {
  constexpr auto kRounded = Tf32Precision::kRounded;
  if constexpr (kDepth == 8) {
    for (int j = 0; j < kMmas; ++j) {
      Tf32Operand<kRounded, 2> columns;
      for (int half = 0; half < 2; ++half) columns.set(half, b[half][j]);
      mma_m16n8<kRounded, 8>(sums[2 * group + j / 2][j % 2], tile.of_mma[0], columns);
    }
  } else {
    // MMAs of one half follow each other: none waits for another's sums.
    for (int half = 0; half < 2; ++half) {
      for (int j = 0; j < kMmas; ++j) {
        Tf32Operand<kRounded, 1> column;
        column.set(0, b[half][j]);
        mma_m16n8<kRounded, 4>(sums[2 * group + j / 2][j % 2], tile.of_mma[half], column);
      }
    }
  }
}

/// Reads the lane's four columns of a group from a row of B in shared memory.
__device__ inline void read_vector(const float* row, int lane, float (&b)[4]) {
  const float4 vector = *reinterpret_cast<const float4*>(row + first_col<4>(0, lane / 4));
  b[0] = vector.x, b[1] = vector.y, b[2] = vector.z, b[3] = vector.w;
}

/// Calls visit(column of the group, values, number of values) for a lane's sums of row g + 8
/// `upper` of a group, where lanes loaded kWidth columns of B at once.
template <int kWidth, int kGroups, class Visit>
__device__ void for_each_vector(const float (&sums)[kGroups][2][4], int group, int upper, int lane,
                                Visit visit) {
  const auto sum = [&](int mma, int value) {
    return sums[2 * group + mma / 2][mma % 2][2 * upper + value];
  };
  const int t = lane % 4;
  if constexpr (kWidth == 4) {
    for (int i = 0; i < 2; ++i)
      visit(first_col<4>(0, 2 * t + i), float4{sum(0, i), sum(1, i), sum(2, i), sum(3, i)}, 4);
  } else if constexpr (kWidth == 2) {
    for (int part = 0; part < 2; ++part)
      visit(first_col<2>(part, 2 * t),
            float4{sum(2 * part, 0), sum(2 * part + 1, 0), sum(2 * part, 1), sum(2 * part + 1, 1)},
            4);
  } else {
    for (int part = 0; part < 4; ++part)
      visit(first_col<1>(part, 2 * t), float4{sum(part, 0), sum(part, 1), 0, 0}, 2);
  }
}

/// Calls write(to, values, number of them that lie within C, if positive) for a lane's sums of
/// columns [first_col, ...) of those rows of the window that C has.
template <int kWidth, int kGroups, class Write>
__device__ void for_each_sum(float* c, std::int64_t rows, std::int64_t n, std::int64_t window,
                             std::int64_t first_col, int lane, const float (&sums)[kGroups][2][4],
                             Write write) {
  const int cols = static_cast<int>(min(n - first_col, std::int64_t{kGroups} * kWarpCols / 2));
  for (int upper = 0; upper < 2; ++upper) {
    const std::int64_t row = window * kWindowRows + lane / 4 + 8 * upper;
    if (row >= rows) return;
    float* to = c + row * n + first_col;
    for (int group = 0; group < kGroups / 2; ++group)
      for_each_vector<kWidth>(sums, group, upper, lane,
                              [&](int col, const float4& values, int count) {
                                const int at = group * kWarpCols + col;
                                write(to + at, values, min(cols - at, count));
                              });
  }
}

}  // namespace tessera::window16_tile
