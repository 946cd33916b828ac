// Device half of kernels/spmm/smat/tiles.hpp: the tiles of A on the device, and the part of a lane
// in the operands and results of the MMAs of one tile.
//
// In warps of kBlockCols columns A is the left operand: lane 4g + t has column g of rows 2t, 2t +
// 1, 2t + 8 and 2t + 9 of B, and columns 2t and 2t + 1 of rows g and g + 8 of C. In wider ones B is
// the left operand: the lane has columns 4g to 4g + 3 of every 32, the same rows of B, and rows 2t
// and 2t + 1 of every eight of C. Pairs of rows of B share the registers of a 16-bit operand.
//
// Rows of B that a tile does not need are zeros. Copies to shared memory fill them in; nothing
// reads them from B.
#pragma once

#include <climits>
#include <vector>

#include "formats/base/device_memory.hpp"
#include "kernels/device/async_copies.cuh"
#include "kernels/device/loads.cuh"
#include "kernels/device/store_16_bytes.cuh"
#include "kernels/spmm/smat/smat.hpp"
#include "kernels/tensor_core/half_operands.cuh"
#include "kernels/tensor_core/mma.cuh"

namespace tessera::smat {

/// The rows of B of a tile, which a warp reads before it can load them.
struct alignas(8) RowsOfB {
  std::int32_t first;
  std::uint32_t cols;  // bit k: row first + k is needed
};

__device__ inline RowsOfB load_ahead(const RowsOfB* from) {
  const auto both = tessera::load_ahead(reinterpret_cast<const std::uint64_t*>(from));
  return {static_cast<std::int32_t>(both), static_cast<std::uint32_t>(both >> 32)};
}

struct KernelArguments {
  std::int64_t rows;
  std::int64_t n;
  std::int64_t strips;
  int height;  // of a strip
  std::int64_t block_rows, strips_per_block_row;
  const std::int64_t* strip_offset;  // [strips + 1]
  const RowsOfB* rows_of_b;          // [tiles]
  const std::uint32_t* fragments;    // [tiles * 32 * height / 8 * 2], or none
  const float* cells;                // [tiles * height * 16], or none

  // The same as in Tiles.
  __device__ std::int64_t first_row(std::int64_t strip) const {
    return first_row_of_strip(strip, strips_per_block_row, block_rows, height);
  }
  __device__ int num_rows(std::int64_t strip) const {
    const std::int64_t below = strip % strips_per_block_row * height;
    return static_cast<int>(
        min(min(std::int64_t{height}, block_rows - below), rows - first_row(strip)));
  }
  template <int kParts>
  __device__ const std::uint32_t* fragment(std::int64_t tile, int lane) const {
    return fragments + (tile * 32 + lane) * (kLaneWords * kParts);
  }
};

/// The tiles of A as the device reads them, still on the host.
struct HostTiles {
  std::int64_t rows, block_rows, strips_per_block_row;
  int height;
  std::vector<std::int64_t> strip_offset;  // as in KernelArguments, like the following
  std::vector<RowsOfB> rows_of_b;
  std::vector<std::uint32_t> fragments;
  std::vector<float> cells;
};

inline HostTiles tiles_of(const Bcsr& a, const SmatOptions& options) {
  const Tiles tiles(a, options.read_padding);
  HostTiles host{.rows = a.rows(),
                 .block_rows = a.block_rows,
                 .strips_per_block_row = tiles.strips_per_block_row(),
                 .height = tiles.height(),
                 .strip_offset = {tiles.strip_offset().begin(), tiles.strip_offset().end()},
                 .rows_of_b = {},
                 .fragments = {},
                 .cells = {}};
  host.rows_of_b.reserve(tiles.all().size());
  for (const Tile& tile : tiles.all()) host.rows_of_b.push_back({tile.b_row, tile.cols});
  if (options.by_blocks())
    host.fragments = tiles.fragments(options.precision.conversion);
  else
    host.cells = tiles.cells();
  return host;
}

class DeviceTiles {
 public:
  explicit DeviceTiles(const HostTiles& host)
      : rows_(host.rows),
        block_rows_(host.block_rows),
        strips_per_block_row_(host.strips_per_block_row),
        height_(host.height),
        strip_offset_(host.strip_offset),
        rows_of_b_(host.rows_of_b),
        fragments_(host.fragments),
        cells_(host.cells) {}

  /// The arguments for a B and C of n columns.
  KernelArguments arguments(std::int64_t n) const {
    require<Unsupported>(n <= INT_MAX, "smat takes at most {} columns of B, not {}", INT_MAX, n);
    return {rows_,
            n,
            static_cast<std::int64_t>(strip_offset_.size()) - 1,
            height_,
            block_rows_,
            strips_per_block_row_,
            strip_offset_.data(),
            rows_of_b_.data(),
            fragments_.data(),
            cells_.data()};
  }

 private:
  std::int64_t rows_, block_rows_, strips_per_block_row_;
  int height_;
  DeviceArray<std::int64_t> strip_offset_;
  DeviceArray<RowsOfB> rows_of_b_;
  DeviceArray<std::uint32_t> fragments_;
  DeviceArray<float> cells_;
};

/// The part of a tile in a lane: two registers for each eight rows.
template <int kParts>
struct alignas(8 * kParts) FragmentOfA {
  std::uint32_t part[kParts][kLaneWords];
};

template <class Operands, int kParts>
__device__ FragmentOfA<kParts> fragment_of_cells(const KernelArguments& product, std::int64_t tile,
                                                 int lane) {
  const float* const cells =
      product.cells + (tile * kParts * kMmaRows + lane / 4) * kDepth + 2 * (lane % 4);
  FragmentOfA<kParts> a;
#pragma unroll
  for (int p = 0; p < kParts; ++p)
#pragma unroll
    for (int w = 0; w < kLaneWords; ++w) {
      const auto two = *reinterpret_cast<const float2*>(cells + p * kMmaRows * kDepth + 8 * w);
      a.part[p][w] = Operands::pair(two.x, two.y);
    }
  return a;
}

/// Row of B of value i of a lane.
__device__ constexpr int row_of_lane(int t, int i) { return 2 * t + i % 2 + i / 2 * 8; }

/// Four columns of the rows of B of a lane.
struct FragmentOfB {
  float4 row[4];
};

/// Loads rows of B from global memory, columns from `col` on; zeros beyond the edge of B.
template <bool kAligned>
__device__ FragmentOfB load_rows(const KernelArguments& product, const float* __restrict__ b,
                                 RowsOfB rows, int t, std::int64_t col) {
  FragmentOfB fragment;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int k = row_of_lane(t, i);
    const bool needed = (rows.cols >> k & 1) != 0;
    const float* const from = b + (std::int64_t{rows.first} + k) * product.n + col;
    if constexpr (kAligned) {
      fragment.row[i] =
          needed && col < product.n ? *reinterpret_cast<const float4*>(from) : float4{0, 0, 0, 0};
    } else {
      float each[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) each[j] = needed && col + j < product.n ? from[j] : 0.0f;
      fragment.row[i] = {each[0], each[1], each[2], each[3]};
    }
  }
  return fragment;
}

/// The sums of a lane for 32 columns: two MMAs for each eight rows.
template <int kParts>
struct Sums {
  float part[kParts][kMmasPerGroup][4];
};

/// sums += a tile times four columns a lane. MMA m takes columns 4g + 2m (its rows 0 to 7) and
/// 4g + 2m + 1 (8 to 15).
template <class Operands, int kParts>
__device__ void multiply(const FragmentOfB& b, const FragmentOfA<kParts>& a, Sums<kParts>& sums) {
  const std::uint32_t left[2][4] = {
      {Operands::pair(b.row[0].x, b.row[1].x), Operands::pair(b.row[0].y, b.row[1].y),
       Operands::pair(b.row[2].x, b.row[3].x), Operands::pair(b.row[2].y, b.row[3].y)},
      {Operands::pair(b.row[0].z, b.row[1].z), Operands::pair(b.row[0].w, b.row[1].w),
       Operands::pair(b.row[2].z, b.row[3].z), Operands::pair(b.row[2].w, b.row[3].w)}};
#pragma unroll
  for (int p = 0; p < kParts; ++p)
#pragma unroll
    for (int m = 0; m < 2; ++m) Operands::mma(sums.part[p][m], left[m], a.part[p]);
}

/// Writes the part of a lane in 32 columns of the strip to C: rows 2t and 2t + 1 of every eight.
template <int kParts, bool kAligned>
__device__ void store(const KernelArguments& product, float* __restrict__ c, Scaling scaling,
                      std::int64_t strip, int t, std::int64_t col, const Sums<kParts>& sums) {
  const int rows = product.num_rows(strip);
  const std::int64_t first = product.first_row(strip);
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = p * kMmaRows + 2 * t + i;
      if (row >= rows) continue;
      const auto& [even, odd] = sums.part[p];
      const float4 values{even[i], even[2 + i], odd[i], odd[2 + i]};
      float* const to = c + (first + row) * product.n + col;
      store_16_bytes<kAligned>(to, values, product.n - col, scaling);
    }
  }
}

/// A tile's rows of B, kCols columns of them, and its fragments in shared memory.
template <int kCols, int kParts>
struct alignas(32) Stage {
  static constexpr int kPitch = stage_pitch(kCols);
  float b[kDepth * kPitch];
  std::uint32_t a[32 * kLaneWords * kParts];

  __device__ FragmentOfA<kParts> fragment(int lane) const {
    return *reinterpret_cast<const FragmentOfA<kParts>*>(a + lane * kLaneWords * kParts);
  }
};
static_assert(sizeof(Stage<128, 2>) == stage_bytes(128, 16) &&
                  sizeof(Stage<32, 1>) == stage_bytes(32, 8) &&
                  sizeof(Stage<kBlockCols, 2>) == stage_bytes(kBlockCols, 16),
              "stage_bytes gives the size of a stage");

/// A lane's part of the copies of a tile. kCols / 4 lanes take a row of B.
template <int kCols, int kParts, bool kAligned>
class Copier {
 public:
  __device__ Copier(const KernelArguments& product, const float* b, std::int64_t first_col,
                    int lane)
      : arguments_(product),
        lane_(lane),
        row_(lane / kLanes),
        place_(row_in_stage(lane / kLanes, kCols) * kPitch) {
    const int in_row = lane % kLanes * 4;
    place_ += in_row;
    const std::int64_t col = first_col + in_row;
    cols_ = static_cast<int>(min(max(product.n - col, std::int64_t{0}), std::int64_t{4}));
    b_ = b + (cols_ > 0 ? col : 0);
  }

  __device__ void copy(std::int64_t tile, RowsOfB rows, Stage<kCols, kParts>& stage) const {
    const float* from = b_ + (std::int64_t{rows.first} + row_) * arguments_.n;
    const std::uint32_t needed = rows.cols >> row_;
#pragma unroll
    for (int i = 0; i < kDepth / kRowsAtOnce; ++i) {
      // row_in_stage of a sum is the sum of both: row_ is below kRowsAtOnce, a power of two.
      copy_row(from, (needed >> (i * kRowsAtOnce) & 1) != 0,
               stage.b + place_ + row_in_stage(i * kRowsAtOnce, kCols) * kPitch);
      from += kRowsAtOnce * arguments_.n;
    }
    copy_async<4 * kLaneWords * kParts>(stage.a + lane_ * kLaneWords * kParts,
                                        arguments_.fragment<kParts>(tile, lane_), true);
  }

 private:
  static constexpr int kLanes = kCols / 4, kRowsAtOnce = 32 / kLanes;
  static constexpr int kPitch = Stage<kCols, kParts>::kPitch;

  __device__ void copy_row(const float* from, bool needed, float* to) const {
    if constexpr (kAligned) {
      copy_async<16>(to, from, needed && cols_ > 0);
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const bool real = needed && j < cols_;
        copy_async<4>(to + j, real ? from + j : b_, real);
      }
    }
  }

  const KernelArguments& arguments_;
  int lane_;
  int row_;         // of the first rows that are copied at once
  int place_;       // in a stage
  int cols_;        // columns of the lane within B
  const float* b_;  // the lane's columns of row 0
};

static_assert(kMaxStages == 4, "a wait for each number of stages");

/// The columns of C of a warp: a lane's sums, their MMAs and their store.
template <class Operands, int kCols, int kParts, bool kAligned>
class ColsOfWarp {
 public:
  __device__ ColsOfWarp(const KernelArguments& product, std::int64_t first_col, int lane)
      : arguments_(product), lane_(lane), first_col_(first_col) {}

  __device__ void multiply(const FragmentOfA<kParts>& a, const float* __restrict__ b,
                           RowsOfB rows) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
      smat::multiply<Operands, kParts>(load_rows<kAligned>(arguments_, b, rows, lane_ % 4, col(g)),
                                       a, sums_[g]);
  }

  __device__ void multiply(const Stage<kCols, kParts>& stage) {
    const auto a = stage.fragment(lane_);
    const float* const rows =
        stage.b + row_in_stage(row_of_lane(lane_ % 4, 0), kCols) * stage.kPitch + lane_ / 4 * 4;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      FragmentOfB b;
#pragma unroll
      for (int i = 0; i < 4; ++i)
        b.row[i] = *reinterpret_cast<const float4*>(
            rows + row_in_stage(row_of_lane(0, i), kCols) * stage.kPitch + g * kGroupCols);
      smat::multiply<Operands, kParts>(b, a, sums_[g]);
    }
  }

  __device__ void store(float* __restrict__ c, Scaling scaling, std::int64_t strip) const {
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
      smat::store<kParts, kAligned>(arguments_, c, scaling, strip, lane_ % 4, col(g), sums_[g]);
  }

 private:
  static constexpr int kGroups = kCols / kGroupCols;

  /// The lane's first column of group g.
  __device__ std::int64_t col(int g) const { return first_col_ + g * kGroupCols + lane_ / 4 * 4; }

  const KernelArguments& arguments_;
  int lane_;
  std::int64_t first_col_;
  Sums<kParts> sums_[kGroups] = {};
};

/// Eight columns: A is the left operand, and a tile of sixteen rows takes one MMA.
template <class Operands, bool kAligned>
class ColsOfWarp<Operands, kBlockCols, 2, kAligned> {
 public:
  __device__ ColsOfWarp(const KernelArguments& product, std::int64_t first_col, int lane)
      : arguments_(product), lane_(lane), first_col_(first_col) {}

  __device__ void multiply(const FragmentOfA<2>& a, const float* __restrict__ b, RowsOfB rows) {
    const std::int64_t col = first_col_ + lane_ / 4;
    float column[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int k = row_of_lane(lane_ % 4, i);
      const bool needed = (rows.cols >> k & 1) != 0 && col < arguments_.n;
      column[i] = needed ? b[(std::int64_t{rows.first} + k) * arguments_.n + col] : 0.0f;
    }
    add(a, column);
  }

  __device__ void multiply(const Stage<kBlockCols, 2>& stage) {
    const float* const rows = stage.b + lane_ / 4;
    float column[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      column[i] = rows[row_in_stage(row_of_lane(lane_ % 4, i), kBlockCols) * stage.kPitch];
    add(stage.fragment(lane_), column);
  }

  __device__ void store(float* __restrict__ c, Scaling scaling, std::int64_t strip) const {
    const std::int64_t col = first_col_ + lane_ % 4 * 2;
    const int rows = arguments_.num_rows(strip);
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      const int row = p * kMmaRows + lane_ / 4;
      if (row >= rows || col >= arguments_.n) continue;
      float* const to = c + (arguments_.first_row(strip) + row) * arguments_.n + col;
      if constexpr (kAligned) {
        *reinterpret_cast<float2*>(to) = {scaled(scaling, sums_[2 * p], to),
                                          scaled(scaling, sums_[2 * p + 1], to + 1)};
      } else {
        to[0] = scaled(scaling, sums_[2 * p], to);
        if (col + 1 < arguments_.n) to[1] = scaled(scaling, sums_[2 * p + 1], to + 1);
      }
    }
  }

 private:
  /// Tiles hold their fragments in the order of right operands: columns before rows.
  __device__ void add(const FragmentOfA<2>& a, const float (&column)[4]) {
    const std::uint32_t left[4] = {a.part[0][0], a.part[1][0], a.part[0][1], a.part[1][1]};
    const std::uint32_t right[2] = {Operands::pair(column[0], column[1]),
                                    Operands::pair(column[2], column[3])};
    Operands::mma(sums_, left, right);
  }

  const KernelArguments& arguments_;
  int lane_;
  std::int64_t first_col_;
  float sums_[4] = {};
};

}  // namespace tessera::smat
