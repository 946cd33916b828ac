// Asynchronous copies of whole rows of B to shared memory: one instruction of a warp copies 512
// bytes.
#pragma once

#include "kernels/device/async_copies.cuh"
#include "kernels/device/loads.cuh"
#include "kernels/spmm/row_windows/staged_rows.hpp"

namespace tessera::row_windows {

using window_tile::kTileCols;

/// A lane's part of the copies of rows of B, one vector of 16 bytes of an instruction's 32.
template <bool kAligned, int kGroups, CopyCache kCache>
class RowCopier {
 public:
  static constexpr int kLanesPerRow = 8 * kGroups;
  static constexpr int kRowsAtOnce = rows_per_copy(kGroups);
  static constexpr int kSteps = kTileCols / kRowsAtOnce;

  /// The rows that the lane copies vectors of.
  struct Rows {
    std::int32_t row[kSteps];
  };

  /// `row_ids` are those of all TC blocks [tc_blocks * 8], read by rows().
  __device__ RowCopier(const std::int32_t* row_ids, const float* b, std::int64_t n,
                       std::int64_t first_col, int lane)
      : row_ids_(row_ids + lane / kLanesPerRow), stride_(static_cast<std::uint32_t>(n)) {
    const std::int64_t col = first_col + 4 * (lane % kLanesPerRow);
    cols_ = static_cast<int>(min(max(n - col, std::int64_t{0}), std::int64_t{4}));
    b_ = b + (cols_ > 0 ? col : 0);
    offset_ = 4 * (lane / kLanesPerRow * row_pitch(kGroups) + 4 * (lane % kLanesPerRow));
  }

  __device__ Rows rows(std::uint32_t tile) const {
    Rows rows;
    const std::int32_t* ids = row_ids_ + std::uint64_t{tile} * kTileCols;
    if constexpr (kRowsAtOnce == 1) {
      for (int i = 0; i < kSteps; i += 4)
        asm volatile("ld.global.v4.s32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(rows.row[i]), "=r"(rows.row[i + 1]), "=r"(rows.row[i + 2]),
                       "=r"(rows.row[i + 3])
                     : "l"(ids + i));
    } else {
      for (int i = 0; i < kSteps; ++i) rows.row[i] = load_ahead(ids + i * kRowsAtOnce);
    }
    return rows;
  }

  /// Copies to the stage at address `stage` in shared memory.
  __device__ void copy(const Rows& rows, std::uint32_t stage) const {
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const std::int32_t row = rows.row[i];
      const std::uint32_t to = stage + offset_ + 4 * i * kRowsAtOnce * row_pitch(kGroups);
      const float* from = b_ + std::uint64_t{static_cast<std::uint32_t>(max(row, 0))} * stride_;
      if constexpr (kAligned) {
        copy_async<16, kCache>(to, from, row >= 0 && cols_ > 0);
      } else {
        for (int k = 0; k < 4; ++k) {
          const bool real = row >= 0 && k < cols_;
          copy_async<4, kCache>(to + 4 * k, real ? from + k : b_, real);
        }
      }
    }
  }

 private:
  const std::int32_t* row_ids_;
  std::uint32_t stride_;  // of B, in elements
  int cols_;              // the number of the lane's four columns within B
  const float* b_;        // the lane's columns of row 0
  std::uint32_t offset_;  // of the lane's vector in a stage, bytes
};

}  // namespace tessera::row_windows
