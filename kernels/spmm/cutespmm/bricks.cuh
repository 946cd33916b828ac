// cutespmm's products: bricks decoded by counting the bits before a lane's own (cuTeSpMM, algorithm
// 1, lines 24 to 41), and their MMAs with staged rows of B.
//
// Lane l has g = l / 4 and t = l % 4. A is the left operand, so that lane l has bits l and l + 32
// of a brick (formats/hrpb.hpp). Of row t of a brick's four rows of B it reads 16 bytes from shared
// memory, one column of each of four MMAs (place_of_piece).
#pragma once

#include "kernels/spmm/cutespmm/stages.cuh"
#include "kernels/tensor_core/tf32_operands.cuh"

namespace tessera::cutespmm {

/// A lane's sums: [brick row][chunk, MMA of it][values of the accumulator].
template <class V>
using Sums = float[V::kBricks][4 * V::kChunks][4];

/// The bricks of a block's brick columns, one after another.
template <int kBricks>
class BrickReader {
 public:
  __device__ BrickReader(const std::uint8_t* bytes, int brick_cols)
      : col_ptr_(reinterpret_cast<const std::uint32_t*>(bytes)),
        brick_cols_(brick_cols),
        count_(static_cast<int>(col_ptr_[brick_cols])),
        patterns_(reinterpret_cast<const uint2*>(bytes + (4 * (brick_cols + 1) + 7) / 8 * 8)),
        rows_(reinterpret_cast<const std::uint32_t*>(patterns_ + count_)),
        values_(reinterpret_cast<const float*>(rows_ + count_)) {}

  /// True where brick column `col` has a brick. The brick columns with one come before the others.
  __device__ bool has(int col) const {
    if constexpr (kBricks == 1) return col < count_;  // one each
    return col < brick_cols_ && static_cast<int>(col_ptr_[col]) < count_;
  }

  /// The lane's elements (a0, a1) of every brick of a brick column, zeros where there is no brick.
  /// The calls have ascending columns.
  __device__ void next(int col, int lane, float (&a)[kBricks][2], bool (&present)[kBricks]) {
#pragma unroll
    for (int r = 0; r < kBricks; ++r) {
      const uint2 pattern = of_row(col, r);
      present[r] = (pattern.x | pattern.y) != 0;
      const std::uint32_t below = (1u << lane) - 1;
      const int low = __popc(pattern.x);
      const float a0 = values_[__popc(pattern.x & below)];
      const float a1 = values_[low + __popc(pattern.y & below)];
      a[r][0] = (pattern.x >> lane & 1) != 0 ? a0 : 0.0f;
      a[r][1] = (pattern.y >> lane & 1) != 0 ? a1 : 0.0f;
      values_ += low + __popc(pattern.y);
    }
  }

 private:
  __device__ uint2 of_row(int col, int row) {
    if constexpr (kBricks == 1) return col < count_ ? patterns_[col] : uint2{0, 0};
    const bool is_here = brick_ < count_ && col < brick_cols_ &&
                         brick_ < static_cast<int>(col_ptr_[col + 1]) &&
                         static_cast<int>(rows_[brick_]) == row;
    return is_here ? patterns_[brick_++] : uint2{0, 0};
  }

  const std::uint32_t* col_ptr_;
  int brick_cols_;
  int count_;
  const uint2* patterns_;
  const std::uint32_t* rows_;
  const float* values_;  // of the next brick
  int brick_ = 0;        // the next
};

/// sums += a staged block times the columns of the warp of its rows of B.
template <class V>
__device__ void multiply_block(const std::uint8_t* bytes, const float* rows, int tile_cols,
                               int lane, Sums<V>& sums) {
  BrickReader<V::kBricks> bricks(bytes, tile_cols / kBrickCols);
  const float* from = rows + lane % 4 * V::kPitch + 4 * place_of_piece(lane / 4);
  for (int col = 0; bricks.has(col); col += V::kHalves) {
    Tf32Operand<V::kPrecision, 2 * V::kHalves> a[V::kBricks];
    bool present[V::kBricks] = {};
#pragma unroll
    for (int half = 0; half < V::kHalves; ++half) {
      float of_column[V::kBricks][2];
      bool here[V::kBricks];
      bricks.next(col + half, lane, of_column, here);
      for (int r = 0; r < V::kBricks; ++r) {
        for (int i = 0; i < 2; ++i) a[r].set(2 * half + i, of_column[r][i]);
        present[r] |= here[r];
      }
    }
#pragma unroll
    for (int chunk = 0; chunk < V::kChunks; ++chunk) {
      Tf32Operand<V::kPrecision, V::kHalves> b[4];
#pragma unroll
      for (int half = 0; half < V::kHalves; ++half) {
        const float4 four = *reinterpret_cast<const float4*>(from + half * kBrickCols * V::kPitch +
                                                             chunk * kChunkCols);
        b[0].set(half, four.x), b[1].set(half, four.y);
        b[2].set(half, four.z), b[3].set(half, four.w);
      }
#pragma unroll
      for (int r = 0; r < V::kBricks; ++r) {
        if (V::kBricks > 1 && !present[r]) continue;
#pragma unroll
        for (int j = 0; j < 4; ++j)
          mma_m16n8<V::kPrecision, V::kDepth>(sums[r][4 * chunk + j], a[r], b[j]);
      }
    }
    from += V::kDepth * V::kPitch;
  }
}

}  // namespace tessera::cutespmm
