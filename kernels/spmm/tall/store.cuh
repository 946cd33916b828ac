// Writing the sums of a window of tall_spmm.
//
// Four lanes side by side have eight columns of a row. They exchange sums until each has 16 bytes
// of C: stores of less would fill sectors in parts, which costs as much as twice the bytes.
#pragma once

#include "kernels/device/narrowed_sums.cuh"
#include "kernels/device/store_elements.cuh"
#include "kernels/spmm/tall/arguments.cuh"
#include "kernels/spmm/tall/numbers.cuh"
#include "kernels/spmm/tall/operands.cuh"

namespace tessera::tall_spmm {

/// Exchanges `mine` with the lane whose number differs in the bits of `mask`.
__device__ inline std::uint32_t exchange(std::uint32_t mine, int mask) {
  return __shfl_xor_sync(~0u, mine, mask);
}
__device__ inline float2 exchange(float2 mine, int mask) {
  return {__shfl_xor_sync(~0u, mine.x, mask), __shfl_xor_sync(~0u, mine.y, mask)};
}

/// Exchanges elements of lanes whose numbers differ in the bits of `mask`: a lane that has `upper`
/// set gives the first and gets the other's second one.
template <class Element>
__device__ void exchange_elements(Element& first, Element& second, bool upper, int mask) {
  const Element other = exchange(upper ? first : second, mask);
  (upper ? first : second) = other;
}

/// Lane q of four gets the elements that they have at index q.
template <class Element>
__device__ void transpose_quad(Element (&elements)[4], int q) {
#pragma unroll
  for (int i = 0; i < 4; i += 2) exchange_elements(elements[i], elements[i + 1], q % 2 != 0, 1);
#pragma unroll
  for (int i = 0; i < 2; ++i) exchange_elements(elements[i], elements[i + 2], q / 2 != 0, 2);
}

/// The sums of a row that a lane has, of two columns in every eight.
class RowOfSums {
 public:
  __device__ RowOfSums(const Sums& sums, bool upper) : sums_(sums), upper_(upper) {}
  __device__ float2 pair(int j) const {
    return upper_ ? float2{sums_[j].z, sums_[j].w} : float2{sums_[j].x, sums_[j].y};
  }

 private:
  const Sums& sums_;
  bool upper_;
};

/// Where a row of C is written.
struct RowOfC {
  std::uint32_t row, first_col, n;
  std::uint64_t first;  // element of C

  __device__ RowOfC(const DenseArguments& dense, std::uint32_t of_row, std::uint32_t col)
      : row(of_row), first_col(col), n(dense.n) {
    std::uint32_t place = row;
    if (dense.places != nullptr && row < dense.rows)
      place = static_cast<std::uint32_t>(dense.places[row]);
    first = std::uint64_t{place} * n;
  }
  /// Columns from `col` on that exist.
  __device__ int cols_from(std::uint32_t col) const {
    return static_cast<int>(n) - static_cast<int>(col);
  }
};

/// The scales of the thread block's columns of C in shared memory: loads from the L1 instead, one
/// for every vector of a window, took a quarter of the time of a narrowed product.
class ColumnScales {
 public:
  __device__ explicit ColumnScales(std::uint32_t base) : at_(base + kColumnScalesAt) {}

  /// Each thread writes that of its column; all threads can read them behind a barrier.
  __device__ void fill(const DenseArguments& dense, std::uint32_t chunk) const {
    static_assert(kCols == kThreads);
    const std::uint32_t col = chunk * kCols + threadIdx.x;
    const float scale = col < dense.n ? dense.narrowing.col_scales[col] : 1;
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(at_ + 4 * threadIdx.x), "f"(scale) : "memory");
  }
  /// Multiplies sums of four columns of a chunk, from `col` on, by the scale of their row and
  /// theirs.
  __device__ void scale(float row_scale, std::uint32_t col, float (&sums)[4]) const {
    const uint4 words = load_shared(at_ + 4 * col);
    sums[0] = sums[0] * row_scale * __uint_as_float(words.x);
    sums[1] = sums[1] * row_scale * __uint_as_float(words.y);
    sums[2] = sums[2] * row_scale * __uint_as_float(words.z);
    sums[3] = sums[3] * row_scale * __uint_as_float(words.w);
  }

 private:
  std::uint32_t at_;
};

/// Rows in FP32: two lanes exchange pairs, so that four lanes write 64 bytes side by side.
template <class Numbers, bool kAligned>
__device__ void store_fp32(const DenseArguments& dense, const ColumnScales& scales, float row_scale,
                           const RowOfC& to, const RowOfSums& sums, int q) {
#pragma unroll
  for (int j = 0; j < kVectors; j += 2) {
    float2 first = sums.pair(j), second = sums.pair(j + 1);
    exchange_elements(first, second, q % 2 != 0, 1);
    float four[4] = {first.x, first.y, second.x, second.y};
    const std::uint32_t of_chunk = 8 * (j + q % 2) + 4 * (q / 2), col = to.first_col + of_chunk;
    if (to.row >= dense.rows) continue;
    if constexpr (Numbers::kScales) scales.scale(row_scale, of_chunk, four);
    store_16_bytes<kAligned>(static_cast<float*>(dense.c) + to.first + col,
                             {four[0], four[1], four[2], four[3]}, to.cols_from(col), dense.scaling,
                             Store::kStreaming);
  }
}

/// Rows in 16 bits, rounded before lanes exchange them: four lanes write 64 bytes side by side.
template <class Packed>
__device__ void store_rounded(const DenseArguments& dense, const RowOfC& to, const RowOfSums& sums,
                              int q) {
#pragma unroll
  for (int j = 0; j < kVectors; j += 4) {
    std::uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = sums.pair(j + i);
      words[i] = Packed::pair(__fmul_rn(dense.scaling.alpha, pair.x),
                              __fmul_rn(dense.scaling.alpha, pair.y));
    }
    transpose_quad(words, q);
    const std::uint32_t col = to.first_col + 8 * (j + q);
    if (to.row < dense.rows && col < to.n)
      asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(
                       static_cast<std::uint16_t*>(dense.c) + to.first + col),
                   "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                   : "memory");
  }
}

/// The same where C is read, or not aligned.
template <class Packed, bool kAligned>
__device__ void store_16_bit_sums(const DenseArguments& dense, const RowOfC& to,
                                  const RowOfSums& sums, int q) {
#pragma unroll
  for (int j = 0; j < kVectors; j += 4) {
    float2 pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[i] = sums.pair(j + i);
    transpose_quad(pairs, q);
    const float eight[8] = {pairs[0].x, pairs[0].y, pairs[1].x, pairs[1].y,
                            pairs[2].x, pairs[2].y, pairs[3].x, pairs[3].y};
    const std::uint32_t col = to.first_col + 8 * (j + q);
    if (to.row < dense.rows)
      store_8_halves<Packed, kAligned>(static_cast<std::uint16_t*>(dense.c) + to.first + col, eight,
                                       to.cols_from(col), dense.scaling);
  }
}

/// Stores a lane's sums of rows g and g + 8 of its warp. `first_row` is the warp's first row,
/// `first_col` that of the thread block's columns.
template <class Numbers, bool kAligned>
__device__ void store_sums(const DenseArguments& dense, const ColumnScales& scales,
                           std::uint32_t first_row, std::uint32_t first_col, const Sums& sums) {
  using Packed = typename Numbers::Element;
  const int lane = static_cast<int>(threadIdx.x) % 32, q = lane % 4;
  float row_scales[2] = {1, 1};
  if constexpr (Numbers::kScales) {
#pragma unroll
    for (int upper = 0; upper < 2; ++upper)
      row_scales[upper] =
          scale_of_row(dense.narrowing, min(first_row + lane / 4 + 8 * upper, dense.rows - 1));
  }
#pragma unroll
  for (int upper = 0; upper < 2; ++upper) {
    const RowOfC to(dense, first_row + lane / 4 + 8 * upper, first_col);
    const RowOfSums of_row(sums, upper != 0);
    if (!dense.c_in_16_bits)
      store_fp32<Numbers, kAligned>(dense, scales, row_scales[upper], to, of_row, q);
    else if (kAligned && dense.scaling.beta == 0)
      store_rounded<Packed>(dense, to, of_row, q);
    else
      store_16_bit_sums<Packed, kAligned>(dense, to, of_row, q);
  }
}

}  // namespace tessera::tall_spmm
