// The arguments of rows_spmm, and the columns of C of a lane, by the type of B in memory.
#pragma once

#include "kernels/device/loads.cuh"
#include "kernels/device/store_elements.cuh"
#include "kernels/spmm/rows/rows_spmm.hpp"

namespace tessera::rows_spmm {

struct Arguments {
  const Unit* units;           // [gridDim.x * units of a thread block]
  const SplitRow* split_rows;  // [num_split_rows]
  std::int64_t num_slots, num_split_rows;
  float4* slots;                    // [chunks][num_slots][lanes of a unit]
  std::uint32_t* arrivals;          // [chunks][num_split_rows], zero between launches
  const std::int32_t* col_indices;  // [nnz]
  const float* values;              // [nnz]
  std::uint32_t n, row_bytes;       // row_bytes: of a row of B
  const void* b;
  void* c;
  bool c_in_16_bits;
  Scaling scaling;
  const std::int32_t* places;  // [rows of A] the row of C of each row; null: the same one
};

/// Four columns, FP32.
struct Fp32Numbers {
  using Element = float;
  static constexpr int kCols = 4;
  __device__ static float value(const float (&words)[4], int col) { return words[col]; }
};

/// Eight columns of 16 bits; `Packed` is PackedFp16 or PackedBf16.
template <class Packed>
struct HalfNumbers {
  using Element = Packed;
  static constexpr int kCols = 8;
  __device__ static float value(const float (&words)[4], int col) {
    const std::uint32_t word = __float_as_uint(words[col / 2]);
    return col % 2 == 0 ? Packed::low(word) : Packed::high(word);
  }
  /// Of a column that is alone in its word.
  __device__ static float value(const float (&words)[8], int col) {
    return Packed::low(__float_as_uint(words[col]));
  }
};

/// The columns of C of a lane: 16 bytes of B side by side or, for operands that are not aligned,
/// one of every kLanes, so that the lanes of a unit always access bytes side by side. A lane that
/// is alone has one.
template <class Numbers, int kLanes, bool kAligned>
struct LaneColumns {
  static constexpr int kCols = Numbers::kCols;
  static constexpr int kElementBytes = 16 / kCols;
  static constexpr int kWidth = kAligned ? kCols : 1;  // columns of an access
  static constexpr int kAccesses = kLanes == 1 ? 1 : kCols / kWidth;
  static constexpr int kWords = kAligned ? 4 : kCols;     // registers of a lane for a row of B
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
  __device__ static void load_if(bool when, const char* row, int access, Piece& piece) {
    const char* from = row + offset(access) * kElementBytes;
    if constexpr (kAligned)
      tessera::load_if<4>(when, reinterpret_cast<const float*>(from), piece.words);
    else if constexpr (kElementBytes == 4)
      tessera::load_if<1>(when, reinterpret_cast<const float*>(from), piece.words + access);
    else
      load_16_bits_if(when, reinterpret_cast<const std::uint16_t*>(from), piece.words[access]);
  }
  __device__ static void add(float factor, const Piece& piece, float (&sums)[kCols]) {
#pragma unroll
    for (int v = 0; v < kCols; ++v) sums[v] = fmaf(factor, Numbers::value(piece.words, v), sums[v]);
  }

  /// Writes the sums; `at` is the element of C of the first access.
  __device__ void store(const Arguments& product, std::uint64_t at,
                        const float (&sums)[kCols]) const {
    if constexpr (kAligned) {
      const auto cols = static_cast<int>(min(std::int64_t{product.n} - first, std::int64_t{kCols}));
      if constexpr (kCols == 8) {
        if (product.c_in_16_bits)
          return store_8_halves<typename Numbers::Element, true>(
              static_cast<std::uint16_t*>(product.c) + at, sums, cols, product.scaling);
      }
#pragma unroll
      for (int v = 0; v < kCols; v += 4)
        store_16_bytes<true>(static_cast<float*>(product.c) + at + v,
                             {sums[v], sums[v + 1], sums[v + 2], sums[v + 3]}, cols - v,
                             product.scaling, Store::kStreaming);
    } else {
#pragma unroll
      for (int v = 0; v < kAccesses; ++v)
        if (has(v, product.n)) store_one(product, at + offset(v), sums[v]);
    }
  }

 private:
  __device__ static void store_one(const Arguments& product, std::uint64_t at, float sum) {
    if constexpr (kCols == 8) {
      if (product.c_in_16_bits)
        return store_16_bits<typename Numbers::Element>(static_cast<std::uint16_t*>(product.c) + at,
                                                        sum, product.scaling);
    }
    float* to = static_cast<float*>(product.c) + at;
    *to = scaled(product.scaling, sum, to);
  }
};

}  // namespace tessera::rows_spmm
