// The device half of kernels/spmm/row_windows/window_tile.hpp: the packed matrix on the device, a
// lane's fragments of the operands of two MMAs, and the stores of its results.
//
// Lane l has g = l / 4 and t = l % 4: columns 4g to 4g + 3 of the 32, condensed columns t and t + 4
// of the TC block, rows 2t and 2t + 1 of the window's C.
#pragma once

#include <climits>

#include "formats/base/device_memory.hpp"
#include "formats/bit_tcf.hpp"
#include "formats/me_tcf.hpp"
#include "formats/mosaic.hpp"
#include "kernels/device/store_16_bytes.cuh"
#include "kernels/early_fetch.hpp"
#include "kernels/packed_on_gpu.hpp"
#include "kernels/spmm/row_windows/window_tile.hpp"
#include "kernels/tensor_core/tf32_operands.cuh"

namespace tessera::window_tile {

/// A packed matrix on the device, and the width of B and C.
struct View {
  std::int64_t rows;
  std::int64_t n;
  std::int64_t windows;
  const std::uint32_t* row_window_offset;  // [windows + 1]
  const std::uint32_t* tc_offset;          // [tc_blocks + 1]
  const std::int32_t* sparse_a_to_b;       // [tc_blocks * 8]
  const std::uint64_t* tc_local_bit;       // [tc_blocks] BitTCF
  const uint4* bitmaps;                    // [tc_blocks] mosaic, and no tc_local_bit
  const std::uint8_t* tc_local_id;         // [nnz] ME-TCF of the same TC blocks, and no bitmaps
  const float* values;                     // [nnz]
};

class PackedOnDevice {
 public:
  explicit PackedOnDevice(const BitTcf& a)
      : rows_(a.rows()),
        windows_(a.num_row_windows()),
        row_window_offset_(a.row_window_offset),
        tc_offset_(a.tc_offset),
        sparse_a_to_b_(a.sparse_a_to_b),
        tc_local_bit_(a.tc_local_bit),
        values_(a.values) {}
  /// Throws an Error for windows of another height than `window_rows`.
  explicit PackedOnDevice(const MeTcf& a, int window_rows = kWindowRows)
      : rows_(a.rows()),
        windows_(a.num_row_windows()),
        row_window_offset_(a.row_window_offset),
        tc_offset_(a.tc_offset),
        sparse_a_to_b_(a.sparse_a_to_b),
        tc_local_id_(a.tc_local_id),
        values_(a.values) {
    require(a.window_rows == window_rows, "the kernel's TC blocks are {} rows high, not {}",
            window_rows, a.window_rows);
  }

  /// Room for `ahead` TC blocks and `values_ahead` values follows the last, for kernels that load
  /// beyond it.
  PackedOnDevice(const Mosaic& a, int ahead, int values_ahead)
      : rows_(a.rows()),
        windows_(a.num_windows()),
        row_window_offset_(a.window_offset),
        tc_offset_(a.tile_offset),
        sparse_a_to_b_(extended(a.tile_cols, ahead * kTileCols)),
        bitmaps_(extended(a.bitmaps, ahead)),
        values_(extended(a.values, values_ahead)) {}

  /// The same of a mosaic that was packed on the device.
  PackedOnDevice(const PackedOnGpu& a, int ahead, int values_ahead)
      : rows_(a.rows),
        row_window_offset_(a.copy<std::uint32_t>("window_offset")),
        tc_offset_(a.copy<std::uint32_t>("tile_offset")),
        sparse_a_to_b_(a.copy<std::int32_t>("tile_cols", ahead * kTileCols)),
        bitmaps_(a.copy<Mosaic::Bitmap>("bitmaps", ahead)),
        values_(a.copy<float>("values", values_ahead)) {
    windows_ = static_cast<std::int64_t>(row_window_offset_.size()) - 1;
  }

  float* values() { return values_.data(); }

  /// The shares of condensed columns, values and a B of b_bytes that a launch of `thread_blocks`
  /// fetches early.
  EarlyFetch early_fetch(std::int64_t b_bytes, std::int64_t thread_blocks) const {
    const auto bytes = [](const auto& array) {
      return static_cast<std::int64_t>(array.size() * sizeof(*array.data()));
    };
    return EarlyFetch::of(sparse_a_to_b_.data(), bytes(sparse_a_to_b_), values_.data(),
                          bytes(values_), b_bytes, thread_blocks);
  }

  /// The view for a B and C of n columns. Throws Unsupported for more columns than an int holds.
  View view(std::int64_t n) const {
    require<Unsupported>(n <= INT_MAX, "{} columns of B are more than the kernels can count", n);
    return {rows_,
            n,
            windows_,
            row_window_offset_.data(),
            tc_offset_.data(),
            sparse_a_to_b_.data(),
            tc_local_bit_.data(),
            reinterpret_cast<const uint4*>(bitmaps_.data()),
            tc_local_id_.data(),
            values_.data()};
  }

 private:
  /// The array, with `count` elements of zero bytes behind it.
  template <class T>
  static DeviceArray<T> extended(const std::vector<T>& array, std::size_t count) {
    DeviceArray<T> longer(array.size() + count);
    longer.upload(array);
    cuda_check(cudaMemsetAsync(longer.data() + array.size(), 0, count * sizeof(T), nullptr),
               "clearing the room behind an array of A");
    return longer;
  }

  std::int64_t rows_, windows_ = 0;
  DeviceArray<std::uint32_t> row_window_offset_;
  DeviceArray<std::uint32_t> tc_offset_;
  DeviceArray<std::int32_t> sparse_a_to_b_;
  DeviceArray<std::uint64_t> tc_local_bit_;
  DeviceArray<Mosaic::Bitmap> bitmaps_;
  DeviceArray<std::uint8_t> tc_local_id_;
  DeviceArray<float> values_;
};

/// Element (row, col) of a TC block: its value, or zero where its bit is clear. The TC block's
/// values begin at `first`.
__device__ inline float tile_element(std::uint64_t bitmap, const float* values, std::uint32_t first,
                                     int row, int col) {
  const int bit = row * kTileCols + col;
  if ((bitmap >> bit & 1) == 0) return 0;
  return values[first + __popcll(bitmap & ((1ull << bit) - 1))];
}

/// acc += 32 columns of B times the TC block. b[h][i] is column 4g + i of the row of B that
/// condensed column t + 4h stands for.
template <Tf32Precision kPrecision>
__device__ void multiply(const float (&b)[2][4], const Tf32Operand<kPrecision, 2>& tile,
                         float (&acc)[2][4]) {
  for (int mma = 0; mma < 2; ++mma) {
    // Register r holds MMA row g + 8 (r % 2) and depth t + 4 (r / 2).
    Tf32Operand<kPrecision, 4> columns;
    for (int r = 0; r < 4; ++r) columns.set(r, b[r / 2][col_of_mma_row(mma, 8 * (r % 2))]);
    mma_m16n8k8_swapped(acc[mma], columns, tile);
  }
}

/// Columns 4g to 4g + 3 of row 2t + j of the window's C, from a lane's accumulators: acc[mma][2 i +
/// j] is column 4g + 2 mma + i.
__device__ inline float4 row_of(const float (&acc)[2][4], int j) {
  return {acc[0][j], acc[0][2 + j], acc[1][j], acc[1][2 + j]};
}

/// Calls write(to, the row's four columns) for those of a lane's two rows that C has; `col` is the
/// lane's first column.
template <class Write>
__device__ void for_each_row(const View& view, float* c, std::int64_t window, int t,
                             std::int64_t col, const float (&acc)[2][4], Write write) {
  for (int j = 0; j < 2; ++j) {
    const std::int64_t row = window * kWindowRows + 2 * t + j;
    if (row < view.rows) write(c + row * view.n + col, row_of(acc, j));
  }
}

/// Stores a lane's sums of the window to C.
template <bool kAligned>
__device__ void store(const View& view, float* c, Scaling scaling, std::int64_t window, int t,
                      std::int64_t col, const float (&acc)[2][4]) {
  for_each_row(view, c, window, t, col, acc, [&](float* to, float4 sums) {
    store_16_bytes<kAligned>(to, sums, view.n - col, scaling);
  });
}

}  // namespace tessera::window_tile
