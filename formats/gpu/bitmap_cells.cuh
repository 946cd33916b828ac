// Tiles described by bitmaps, on the device: a value's index in its tile is the rank of its bit.
#pragma once

#include "formats/gpu/window_kernel.cuh"

namespace tessera {

using Bitmap = unsigned long long;  // std::uint64_t to everyone but atomicOr

/// A nonzero's cell: its tile, counted from the window's first, and its bit in the tile's bitmap.
struct BitmapCell {
  std::int64_t tile;
  int bit;
};

/// Marks the nonzeros of a window in the bitmaps of its tiles, kWords 64-bit words each, and ranks
/// them. cell_of(row, place, nonzero) returns a BitmapCell; offsets[tile] becomes the index of the
/// tile's first value; write(slot, bit, nonzero) is called for every nonzero. All pointers are
/// those of the window's first tile.
template <int kWords, class AnyWindow, class CellOf, class Write>
__device__ void place_by_bitmap(const AnyWindow& window, std::int64_t tiles, Bitmap* bitmaps,
                                std::uint32_t* offsets, CellOf cell_of, Write write) {
  window.for_each(tiles * kWords, [&](std::int64_t i) { bitmaps[i] = 0; });
  __syncthreads();
  window.for_each_nonzero([&](int row, int place, std::int64_t k) {
    const BitmapCell cell = cell_of(row, place, k);
    atomicOr(&bitmaps[cell.tile * kWords + cell.bit / 64], Bitmap{1} << cell.bit % 64);
  });
  __syncthreads();
  const auto bits_below = [&](std::int64_t tile, int words) {
    std::uint32_t bits = 0;
    for (int w = 0; w < words; ++w) bits += __popcll(bitmaps[tile * kWords + w]);
    return bits;
  };
  window.running_sum(
      tiles, window.first_nonzero, [&](std::int64_t t) { return bits_below(t, kWords); },
      [&](std::int64_t t, std::int64_t sum) { offsets[t] = static_cast<std::uint32_t>(sum); });
  __syncthreads();
  window.for_each_nonzero([&](int row, int place, std::int64_t k) {
    const BitmapCell cell = cell_of(row, place, k);
    const Bitmap word = bitmaps[cell.tile * kWords + cell.bit / 64];
    const std::uint32_t rank =
        bits_below(cell.tile, cell.bit / 64) + __popcll(word & ((Bitmap{1} << cell.bit % 64) - 1));
    write(offsets[cell.tile] + rank, cell.bit, k);
  });
}

template <class T>
__global__ void store_value(T* at, T value) {
  *at = value;
}

/// Writes nnz, the last element of an array of offsets into the nonzeros: by a kernel, which the
/// host begins sooner than a copy of its memory.
inline void close_offsets(std::uint32_t* last, std::int64_t nnz, cudaStream_t stream) {
  store_value<<<1, 1, 0, stream>>>(last, static_cast<std::uint32_t>(nnz));
  cuda_check(cudaGetLastError(), "closing the offsets");
}

}  // namespace tessera
