// The parts of the device half of tca_spmm: operands, copies, MMAs and traces of the warps of a
// row.
//
// The warps of a row copy a chunk's rows of B to shared memory together, a whole row of the tile by
// neighbouring lanes, 16 bytes each, while they multiply the previous chunk. Columns of B are
// assigned to the fragments so that a lane reads four at once for two of them.
#pragma once

#include <cuda_fp16.h>

#include "kernels/device/async_copies.cuh"
#include "kernels/device/hidden.cuh"
#include "kernels/device/loads.cuh"
#include "kernels/device/store_16_bytes.cuh"
#include "kernels/spmm/tca_spmm/tca_spmm.hpp"
#include "kernels/tensor_core/half_operands.cuh"
#include "kernels/tensor_core/tf32_operands.cuh"

namespace tessera::tca_spmm {

struct KernelArguments {
  int n;  // what a grid holds tiles of columns for: four times that is below 2^31
  int warp_floats;
  const Task* tasks;                // [thread blocks of a tile of columns * kWarps]
  const BlockCols* cols;            // [thread blocks], or none: by tiles
  const std::int64_t* row_offsets;  // [rows + 1]
  const std::int32_t* col_indices;  // [nnz]
  const float* values;              // [nnz]
};

/// Operands of m16n8k8 in TF32: a lane has depths t and t + 4.
template <Tf32Precision kPrecision>
struct Tf32Operands {
  static constexpr int depth(int t, int half) { return t + 4 * half; }
  static constexpr int t_of(unsigned depth) { return depth % 4; }
  static constexpr int half_of(unsigned depth) { return depth / 4; }

  Tf32Operand<kPrecision, 2> right;

  __device__ Tf32Operands(float low, float high) {
    right.set(0, low);
    right.set(1, high);
  }
  /// Values of rows g and g + 8 of the left operand, at both depths.
  __device__ void multiply(float (&d)[4], float2 low, float2 high) const {
    Tf32Operand<kPrecision, 4> left;
    left.set(0, low.x);
    left.set(1, low.y);
    left.set(2, high.x);
    left.set(3, high.y);
    mma_m16n8k8_swapped(d, left, right);
  }
};

/// Operands of m16n8k8 in FP16: a lane has depths 2 t and 2 t + 1 in one register.
struct Fp16Operands {
  static constexpr int depth(int t, int half) { return 2 * t + half; }
  static constexpr int t_of(unsigned depth) { return depth / 2; }
  static constexpr int half_of(unsigned depth) { return depth % 2; }

  std::uint32_t right[1];

  __device__ Fp16Operands(float low, float high) : right{pack(low, high)} {}
  __device__ void multiply(float (&d)[4], float2 low, float2 high) const {
    const std::uint32_t left[2] = {pack(low.x, high.x), pack(low.y, high.y)};
    mma_m16n8k8_fp16(d, left, right);
  }
  __device__ static std::uint32_t pack(float low, float high) {
    const __half2 both = __floats2half2_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&both);
  }
};

/// The warps of a row, and the place of a lane in an MMA.
struct Group {
  int log_p, log_warps;
  int warp;
  int barrier;  // one of the 16 of a thread block; 0 is __syncthreads's
  int g, t;     // of the lane

  __device__ Group(const Task& task, int warp_of_block, int lane)
      : log_p(task.log_p),
        log_warps(task.log_warps),
        warp(task.warp),
        barrier(1 + warp_of_block - task.warp),
        g(lane / 4),
        t(lane % 4) {}

  __device__ int chunk_size() const { return kDepth << log_p; }
  __device__ int r() const { return g & ((1 << log_p) - 1); }
  __device__ int block() const { return g >> log_p; }
  /// The index of the thread in the warps of the row.
  __device__ int id() const { return 32 * warp + 4 * g + t; }
  __device__ void sync() const {
    if (log_warps == 0)
      __syncwarp();
    else
      asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(32 << log_warps) : "memory");
  }
};

/// The part of a lane in the copies of the chunks of a row: the same four columns of every step_-th
/// row of B.
template <class Operands, int kCopies, bool kAligned>
class Copier {
 public:
  /// Columns [col, col + cols) of B.
  __device__ Copier(const KernelArguments& product, const Group& group, const float* b, int col,
                    int cols, int pitch)
      : chunk_size_(static_cast<unsigned>(group.chunk_size())),
        log_p_(group.log_p),
        stride_(4u * static_cast<unsigned>(product.n)),
        pitch_(pitch) {
    const int log_fours = log_fours_of(group.log_p, cols);
    const auto id = static_cast<unsigned>(group.id());
    four_ = static_cast<int>(id & ((1u << log_fours) - 1));
    first_ = id >> log_fours;
    step_ = (32u << group.log_warps) >> log_fours;
    cols_ = min(max(cols - 4 * four_, 0), 4);
    b_ = reinterpret_cast<const char*>(b + col + (cols_ > 0 ? 4 * four_ : 0));
  }

  /// Rows of B of a chunk with these column indices, `left` to the end of the row; -1 for none.
  __device__ void load_index(const std::int32_t* col_indices, int left,
                             std::int32_t (&rows)[kCopies]) const {
    const unsigned real = min(static_cast<unsigned>(left), chunk_size_), first = hidden(first_);
    for (int i = 0; i < kCopies; ++i) {
      const unsigned place = first + i * step_;
      rows[i] = place < real ? load_ahead(col_indices + place) : -1;
    }
  }

  __device__ void copy(const std::int32_t (&rows)[kCopies], float* stage) const {
    const unsigned first = hidden(first_);
    for (int i = 0; i < kCopies; ++i) {
      const unsigned place = first + i * step_, depth = place % kDepth;
      if (place >= chunk_size_) break;
      const int at = place_of(log_p_, static_cast<int>(place / kDepth), Operands::t_of(depth),
                              Operands::half_of(depth), 4 * four_, pitch_);
      copy_four(rows[i], stage + at);
    }
    close_group();
  }

 private:
  /// Zeros where there is no row, or no column.
  __device__ void copy_four(std::int32_t row, float* to) const {
    const bool is_row = row >= 0;
    const char* from =
        b_ + std::uint64_t{is_row ? static_cast<std::uint32_t>(row) : 0u} * std::uint64_t{stride_};
    if constexpr (kAligned) {
      copy_async<16>(to, from, is_row && cols_ > 0);
    } else {
      for (int i = 0; i < 4; ++i) {
        const bool real = is_row && i < cols_;
        copy_async<4>(to + i, real ? from + 4 * i : b_, real);
      }
    }
  }

  unsigned chunk_size_;
  int log_p_;
  unsigned stride_;  // of B, bytes
  int pitch_;
  int four_;               // of columns of a row of B
  unsigned first_, step_;  // places of a chunk
  int cols_;               // columns of the four within B
  const char* b_;          // the four columns of row 0
};

/// The right operand of a chunk, `left` to the end of the row: column g repeats column g mod p.
template <class Operands>
__device__ void load_chunk(const float* values, int left, const Group& group, float (&a)[2]) {
  for (int half = 0; half < 2; ++half) {
    const int place = kDepth * group.r() + Operands::depth(group.t, half);
    const auto* from = reinterpret_cast<const std::int32_t*>(values + place);
    a[half] = place < left ? __int_as_float(load_ahead(from)) : 0.0f;
  }
}

/// The traces of the fragments of a lane, and their writes to a row of C or, with kBuffered, to its
/// output buffer. Partial sums of a block are added with their neighbours, then pairs with pairs,
/// then fours with fours.
template <bool kBuffered>
class Traces {
 public:
  /// `row` has `cols` columns; a buffer is for whole fours of them.
  __device__ Traces(const Group& group, float* row, int cols, Scaling scaling)
      : group_(group),
        row_(row),
        cols_(cols),
        scaling_(scaling),
        odd_((group.g & 1) != 0),
        on_diagonal_(group.t == group.g / 2) {}

  /// Stores two fragments with the columns from `col` on: a block of MMA rows has four columns in a
  /// row.
  template <bool kAligned>
  __device__ void store_two(const float (&d)[4], const float (&e)[4], int col) const {
    const int first = col + 4 * group_.block();
    if (group_.log_p == 0) {
      store_four<kAligned>(first, {upper(d), lower(d), upper(e), lower(e)});
      return;
    }
    const float sum = add_neighbours(d), other = add_neighbours(e);
    if (group_.log_p == 1) {
      store(first + odd_, sum);
      store(first + 2 + odd_, other);
      return;
    }
    // Lanes of odd pairs go on with the second fragment.
    const bool second = (group_.g & 2) != 0;
    const float pairs = add_pairs(second ? other : sum, second ? sum : other);
    if (group_.g < 4 || group_.log_p == 2) store(first + (group_.g & 3), pairs);
  }

  __device__ void store_one(const float (&d)[4], int col) const {
    const int first = col + 2 * group_.block();
    if (group_.log_p == 0) {
      store(first, upper(d));
      store(first + 1, lower(d));
      return;
    }
    float sum = add_neighbours(d);
    if (group_.log_p > 1) sum = add_pairs(sum, sum);
    if (group_.r() < 2) store(first + odd_, sum);
  }

 private:
  // Lane 4 g + g / 2 holds (g, g) and (g + 8, g) of the result, in the registers of its parity: on
  // the diagonal for every p, since the right operand repeats its p columns.
  __device__ float upper(const float (&d)[4]) const { return odd_ ? d[1] : d[0]; }
  __device__ float lower(const float (&d)[4]) const { return odd_ ? d[3] : d[2]; }

  // On the diagonal g ^ 1, g ^ 2 and g ^ 4 are lanes ^ 4, ^ 9 and ^ 18. Even lanes go on with the
  // upper block, odd ones with the lower.
  __device__ float add_neighbours(const float (&d)[4]) const {
    return (odd_ ? d[3] : d[0]) + __shfl_xor_sync(0xffffffff, odd_ ? d[1] : d[2], 4);
  }
  __device__ float add_pairs(float keep, float give) const {
    float sum = keep + __shfl_xor_sync(0xffffffff, give, 9);
    if (group_.log_p == 3) sum += __shfl_xor_sync(0xffffffff, sum, 18);
    return sum;
  }

  __device__ void store(int col, float sum) const {
    if (!on_diagonal_ || col >= cols_) return;
    row_[col] = kBuffered ? sum : scaled(scaling_, sum, row_ + col);
  }
  template <bool kAligned>
  __device__ void store_four(int col, float4 sums) const {
    if constexpr (kBuffered) {
      if (on_diagonal_ && col < cols_) *reinterpret_cast<float4*>(row_ + col) = sums;
    } else {
      if (on_diagonal_) store_16_bytes<kAligned>(row_ + col, sums, cols_ - col, scaling_);
    }
  }

  const Group& group_;
  float* row_;
  int cols_;
  Scaling scaling_;
  bool odd_;
  bool on_diagonal_;
};

/// Writes `cols` columns of a row of C from its output buffer with all warps of the row:
/// neighbouring lanes write neighbouring columns, four each.
template <bool kAligned>
__device__ void flush(const Group& group, const float* buffer, float* row, int cols,
                      const Scaling& scaling) {
  group.sync();  // all warps have written their columns
  for (int col = 4 * group.id(); col < cols; col += 128 << group.log_warps)
    store_16_bytes<kAligned>(row + col, *reinterpret_cast<const float4*>(buffer + col), cols - col,
                             scaling);
}

/// acc += a stage's rows of B times the chunk of A, in fragments [mine.first, mine.last).
template <class Operands, int kFragments>
__device__ void multiply(const float* stage, const Group& group, int pitch, const Fragments& mine,
                         const Operands& operands, float (&acc)[kFragments][4]) {
  pitch = hidden(pitch);
  const auto low = [&](int col) {
    return stage + place_of(group.log_p, group.r(), group.t, 0, col, pitch);
  };
  const auto high = [&](int col) {
    return stage + place_of(group.log_p, group.r(), group.t, 1, col, pitch);
  };
  const int first = hidden(mine.first);
  for (int f = 0; f < kFragments; f += 2) {
    const int fragment = first + f;
    if (fragment >= mine.last) break;
    const int col = cols_of(group.log_p, fragment);
    if (fragment + 1 < mine.last) {
      const int at = col + 4 * group.block();
      const float4 b = *reinterpret_cast<const float4*>(low(at));
      const float4 c = *reinterpret_cast<const float4*>(high(at));
      operands.multiply(acc[f], {b.x, b.y}, {c.x, c.y});
      operands.multiply(acc[f + 1], {b.z, b.w}, {c.z, c.w});
    } else {
      const int at = col + 2 * group.block();
      operands.multiply(acc[f], *reinterpret_cast<const float2*>(low(at)),
                        *reinterpret_cast<const float2*>(high(at)));
    }
  }
}

}  // namespace tessera::tca_spmm
