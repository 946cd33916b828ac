// The arguments of rows_spmm, and the columns of C of a lane, by the type of B in memory.
#pragma once

#include "kernels/device/early_fetch.cuh"
#include "kernels/device/loads.cuh"
#include "kernels/device/narrowed_sums.cuh"
#include "kernels/device/store_elements.cuh"
#include "kernels/spmm/rows/rows_spmm.hpp"

namespace tessera::rows_spmm {

struct Arguments {
  const Unit* units;                // [gridDim.x * units of a thread block]; where they are rows:
  const std::uint32_t* row_begins;  // [rows + 1] nonzeros
  std::uint32_t rows, most_direct;  // most_direct: the nonzeros of a row; others have units
  std::uint32_t turns;              // rows of a unit
  bool ends_first;                  // whether thread blocks end before the next launch begins
  bool beside_long_rows;            // whether a launch of those comes before that of short rows
  const SplitRow* split_rows;       // [num_split_rows]
  std::int64_t num_slots, num_split_rows;
  float4* slots;                     // [chunks][num_slots][lanes of a unit]
  std::uint32_t* arrivals;           // [chunks][num_split_rows], zero between launches
  const std::int32_t* col_indices;   // [nnz], or null where the columns are offsets:
  const std::uint32_t* bases;        // [units] the first column of each unit
  const std::uint16_t* col_offsets;  // [nnz] the distance of a column from it
  const float* values;               // [nnz]
  std::uint32_t n, row_bytes;        // row_bytes: of a row of B
  const void* b;
  void* c;
  bool c_in_16_bits;
  Scaling scaling;
  const std::int32_t* places;  // [rows of A] the row of C of each row; null: the same one
  Narrowing narrowing;
  EarlyFetch early;
};

/// Elements of FP32, four in 16 bytes.
struct Fp32Numbers {
  using Element = float;
  static constexpr bool kScales = false;
  static constexpr int kCols = 4;
  /// Column `col` of words that are full, or that have one column each.
  __device__ static float value(const float* words, int col) { return words[col]; }
  __device__ static float value_alone(const float* words, int col) { return words[col]; }
};

/// Elements of 16 bits, eight in 16 bytes; `Packed` is PackedFp16 or PackedBf16.
template <class Packed>
struct HalfNumbers {
  using Element = Packed;
  static constexpr bool kScales = false;
  static constexpr int kCols = 8;
  __device__ static float value(const float* words, int col) {
    const std::uint32_t word = __float_as_uint(words[col / 2]);
    return col % 2 == 0 ? Packed::low(word) : Packed::high(word);
  }
  __device__ static float value_alone(const float* words, int col) {
    return Packed::low(__float_as_uint(words[col]));
  }
};

/// Whose sums are multiplied by powers of two (kernels/narrowing.hpp).
struct ScaledFp16Numbers : HalfNumbers<PackedFp16> {
  static constexpr bool kScales = true;
};

/// Whether a launch is to run: those of 16 bits are of narrowed products, or always run.
template <class Numbers>
__device__ bool is_to_run(const Arguments& product) {
  if constexpr (Numbers::kScales || Numbers::kCols == 4)
    return tessera::is_to_run(product.narrowing);
  else
    return true;
}

/// The columns of C of a lane: kWide times 16 bytes of B or, for operands that are not aligned, as
/// many single columns. The lanes of a unit always access bytes side by side. A lane that is alone
/// has one column.
template <class Numbers, int kLanes, bool kAligned, int kWide>
struct LaneColumns {
  static constexpr int kCols = kWide * Numbers::kCols;
  static constexpr int kElementBytes = 16 / Numbers::kCols;
  static constexpr int kWidth = kAligned ? Numbers::kCols : 1;  // columns of an access
  static constexpr int kAccesses = kLanes == 1 ? 1 : kCols / kWidth;
  static constexpr int kWords = kAligned ? 4 * kWide : kCols;  // of a lane for a row of B
  static constexpr int kInFlight = kUnroll * 4 / kWords;  // rows of B that a lane has in flight

  struct Piece {
    float words[kWords];
  };

  std::uint32_t first;  // column of the first access
  __device__ LaneColumns() : first(blockIdx.y * (kCols * kLanes) + threadIdx.x % kLanes * kWidth) {}

  __device__ static constexpr std::uint32_t offset(int access) {
    return static_cast<std::uint32_t>(access * kWidth * kLanes);
  }
  __device__ bool has(int access, std::uint32_t n) const { return first + offset(access) < n; }

  /// The first column of B's first row.
  __device__ const char* of(const void* b) const {
    return static_cast<const char*>(b) + std::uint64_t{first} * kElementBytes;
  }
  template <L1 kL1 = L1::kAsOthers>
  __device__ static void load_if(bool when, const char* row, int access, Piece& piece) {
    const char* from = row + offset(access) * kElementBytes;
    if constexpr (kAligned)
      tessera::load_if<4, kElementBytes == 4 ? kL1 : L1::kAsOthers>(
          when, reinterpret_cast<const float*>(from), piece.words + 4 * access);
    else if constexpr (kElementBytes == 4)
      tessera::load_if<1>(when, reinterpret_cast<const float*>(from), piece.words + access);
    else
      load_16_bits_if(when, reinterpret_cast<const std::uint16_t*>(from), piece.words[access]);
  }
  __device__ static void add(float factor, const Piece& piece, float (&sums)[kCols]) {
#pragma unroll
    for (int v = 0; v < kCols; ++v)
      sums[v] = fmaf(
          factor, kAligned ? Numbers::value(piece.words, v) : Numbers::value_alone(piece.words, v),
          sums[v]);
  }

  /// Writes the sums; `at` is the element of C of the first access.
  __device__ void store(const Arguments& product, std::uint64_t at, float (&sums)[kCols]) const {
    if (product.scaling.beta == 0)  // one branch, not one for every access
      store_scaled(product, {product.scaling.alpha, 0}, at, sums);
    else
      store_scaled(product, product.scaling, at, sums);
  }

 private:
  __device__ void store_scaled(const Arguments& product, const Scaling& scaling, std::uint64_t at,
                               float (&sums)[kCols]) const {
    if constexpr (Numbers::kScales) {
#pragma unroll
      for (int v = 0; v < kAccesses; ++v) {
        auto& of_access = *reinterpret_cast<float(*)[kWidth]>(sums + v * kWidth);
        scale_sums<kAligned>(product.narrowing, 1, first + offset(v),
                             has(v, product.n) ? kWidth : 0, of_access);
      }
    }
    if constexpr (kAligned) {
#pragma unroll
      for (int v = 0; v < kAccesses; ++v) store_access(product, scaling, at, v, sums + v * kWidth);
    } else {
#pragma unroll
      for (int v = 0; v < kAccesses; ++v)
        if (has(v, product.n)) store_one(product, scaling, at + offset(v), sums[v]);
    }
  }

  /// Writes the columns of 16 bytes of B; `at` is the element of C of the first access.
  __device__ void store_access(const Arguments& product, const Scaling& scaling, std::uint64_t at,
                               int v, const float* sums) const {
    const int cols = has(v, product.n) ? kWidth : 0;
    at += offset(v);
    if constexpr (kWidth == 8) {
      const float of_access[8] = {sums[0], sums[1], sums[2], sums[3],
                                  sums[4], sums[5], sums[6], sums[7]};
      if (product.c_in_16_bits)
        return store_8_halves<typename Numbers::Element, true>(
            static_cast<std::uint16_t*>(product.c) + at, of_access, cols, scaling);
    }
#pragma unroll
    for (int i = 0; i < kWidth; i += 4)
      store_16_bytes<true>(static_cast<float*>(product.c) + at + i,
                           {sums[i], sums[i + 1], sums[i + 2], sums[i + 3]}, cols - i, scaling,
                           Store::kStreaming);
  }

  __device__ static void store_one(const Arguments& product, const Scaling& scaling,
                                   std::uint64_t at, float sum) {
    if constexpr (kElementBytes == 2) {
      if (product.c_in_16_bits)
        return store_16_bits<typename Numbers::Element>(static_cast<std::uint16_t*>(product.c) + at,
                                                        sum, scaling);
    }
    float* to = static_cast<float*>(product.c) + at;
    *to = scaled(scaling, sum, to);
  }
};

}  // namespace tessera::rows_spmm
