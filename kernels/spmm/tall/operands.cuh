// The shared memory of a thread block of tall_spmm: its turns, the records of tiles, rows of B and
// expanded tiles.
#pragma once

#include "kernels/device/async_copies.cuh"
#include "kernels/device/hidden.cuh"
#include "kernels/spmm/tall/arguments.cuh"

namespace tessera::tall_spmm {

__device__ inline uint4 load_shared(std::uint32_t at) {
  uint4 words;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(at)
               : "memory");
  return words;
}

/// The turns of a thread block: a ring of which half is fetched while the other half is read.
class Turns {
 public:
  __device__ Turns(const Turn* turns, std::uint32_t at)
      : from_(hidden(turns + threadIdx.x % kTurns)), at_(at) {}

  __device__ void fill() const {
    if (threadIdx.x < kTurns)
      copy_async<16>(at_ + threadIdx.x * std::uint32_t{sizeof(Turn)}, from_, true);
  }
  /// Fetches the turns that follow those of the ring, where a half of it has been read; turn
  /// `i` is the next one.
  __device__ void refill(std::uint32_t i) const {
    constexpr std::uint32_t kHalf = kTurns / 2;
    static_assert(kHalf == 32);
    if (threadIdx.x < kHalf && i % kHalf == 0 && i > 0)
      copy_async<16>(at_of(i + kHalf + threadIdx.x), from_ + i + kHalf, true);
  }

  __device__ Turn at(std::uint32_t i) const {
    const uint4 words = load_shared(at_of(i));
    return {words.x, words.y, words.z, words.w};
  }
  __device__ std::uint32_t tile(std::uint32_t i) const {
    std::uint32_t tile;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(tile) : "r"(at_of(i)) : "memory");
    return tile;
  }

 private:
  __device__ std::uint32_t at_of(std::uint32_t i) const {
    return at_ + i % kTurns * std::uint32_t{sizeof(Turn)};
  }

  const Turn* from_;  // the thread's
  std::uint32_t at_;
};

/// The nonzeros and columns of a tile.
struct Extent {
  std::uint32_t first, nonzeros, columns;

  /// A tile without columns has a step, too, which sets sums to zero.
  __device__ int steps() const {
    return max((static_cast<int>(columns) + kStepDepth - 1) / kStepDepth, 1);
  }
};

/// The records of the tiles that are multiplied next: a ring.
class Records {
 public:
  __device__ Records(const TileRecord* records, std::uint32_t at)
      : from_(hidden(reinterpret_cast<const uint4*>(records) + threadIdx.x)), at_(at) {}

  /// The slot of the tile that is `ahead` of the one that is multiplied.
  __device__ int slot(int ahead) const {
    const int slot = first_ + ahead;
    return slot < kRecords ? slot : slot - kRecords;
  }
  __device__ void advance() { first_ = slot(1); }

  __device__ void fetch(std::uint32_t tile, int slot) const {
    constexpr std::uint32_t kPieces = sizeof(TileRecord) / 16;
    if (threadIdx.x < kPieces)
      copy_async<16, CopyCache::kL1>(at_of(slot) + threadIdx.x * 16,
                                     from_ + std::uint64_t{tile} * kPieces, true);
  }
  /// Eight columns, from `row` on.
  __device__ void load_cols(int slot, int row, std::uint32_t (&cols)[8]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint4 four = load_shared(at_of(slot) + 4 * (row + 4 * half));
      cols[4 * half] = four.x, cols[4 * half + 1] = four.y;
      cols[4 * half + 2] = four.z, cols[4 * half + 3] = four.w;
    }
  }
  __device__ Extent extent(int slot) const {
    const uint4 words = load_shared(at_of(slot) + 4 * kTileCols);
    return {words.x, words.y, words.z};
  }

 private:
  __device__ std::uint32_t at_of(int slot) const {
    return at_ + slot * static_cast<int>(sizeof(TileRecord));
  }

  const uint4* from_;  // the thread's
  std::uint32_t at_;
  int first_ = 0;
};

/// The rows of B of the tiles' columns, a stage for each tile. A thread copies 16 bytes of each of
/// eight rows; those of row k change places by an exclusive or with k mod 8, as in expanded_byte().
template <bool kAligned>
class RowsOfB {
 public:
  __device__ RowsOfB(const DenseArguments& dense, std::uint32_t chunk, std::uint32_t at)
      : row_bytes_(dense.n * kElementBytes) {
    const std::uint32_t piece = threadIdx.x % kPieces, col = chunk * kCols + piece * kPieceCols;
    from_ = hidden(static_cast<const char*>(dense.b) + std::uint64_t{col} * kElementBytes);
    cols_ = min(max(static_cast<int>(dense.n) - static_cast<int>(col), 0), kPieceCols);
    constexpr std::uint32_t kLinePieces = kLineBytes / 16;
    at_ = at + piece / kLinePieces * (kTileCols * kLineBytes) + first_row() * kLineBytes +
          piece % kLinePieces * 16;
    asm volatile("" : "+r"(row_bytes_));  // in a register
  }

  __device__ void copy(int stage, const Records& records, int slot, std::uint32_t columns) const {
    std::uint32_t cols[kRows];
    records.load_cols(slot, first_row(), cols);
    const std::uint32_t to = at_ + stage * kStageBytes;
    const auto copy_rows = [&](auto is_real) {
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        copy_piece((to ^ r << 4) + r * kLineBytes, from_ + std::uint64_t{cols[r]} * row_bytes_,
                   is_real(r));
    };
    // Behind the last column of a window there are zeros.
    if (columns == kTileCols)
      copy_rows([&](int) { return cols_ > 0; });
    else
      copy_rows([&](int r) { return cols_ > 0 && first_row() + r < columns; });
  }

 private:
  static constexpr int kRows = 8, kPieceCols = 16 / kElementBytes;
  static constexpr std::uint32_t kPieces = kCols / kPieceCols;
  static_assert(kTileCols == kRows * kThreads / static_cast<int>(kPieces));

  __device__ static std::uint32_t first_row() { return threadIdx.x / kPieces * kRows; }

  __device__ void copy_piece(std::uint32_t to, const char* from, bool is_real) const {
    if constexpr (kAligned) {
      copy_async<16>(to, from, is_real);
    } else {
      std::uint32_t words[4] = {};
#pragma unroll
      for (int i = 0; i < kPieceCols; ++i)
        if (is_real && i < cols_)
          words[i / 2] |= std::uint32_t{__ldg(reinterpret_cast<const std::uint16_t*>(from) + i)}
                          << 16 * (i % 2);
      asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words[0]),
                   "r"(words[1]), "r"(words[2]), "r"(words[3])
                   : "memory");
    }
  }

  const char* from_;  // the thread's columns of row 0
  std::uint32_t row_bytes_, at_;
  int cols_;  // of the thread that exist
};

/// Tiles of A, expanded to all their cells.
class Tiles {
 public:
  __device__ Tiles(const std::uint32_t* nonzeros, std::uint32_t at)
      : from_(hidden(nonzeros + threadIdx.x)), at_(at) {}

  __device__ std::uint32_t address() const { return at_ + buffer_ * kTileBytes; }
  __device__ void advance() { buffer_ = buffer_ + 1 < kExpandedTiles ? buffer_ + 1 : 0; }

  __device__ void clear_all() const {
    for (int buffer = 0; buffer < kExpandedTiles; ++buffer) clear(buffer);
  }
  /// Clears the tile that was multiplied before: all of it. Stores of two bytes to its nonzeros
  /// took longer even on DD, where a tile has 113 of them.
  __device__ void clear_last() const { clear(buffer_ > 0 ? buffer_ - 1 : kExpandedTiles - 1); }

  /// Loads the first nonzeros of a tile.
  __device__ void load(const Extent& extent) {
#pragma unroll
    for (int i = 0; i < kLoaded; ++i)
      if (threadIdx.x + i * kThreads < extent.nonzeros)
        loaded_[i] = __ldg(from_ + extent.first + i * kThreads);
  }
  /// Writes the nonzeros of a tile, whose first ones are loaded, to where it is multiplied.
  __device__ void expand(const Extent& extent) const {
    write(extent, 0, loaded_);
    // Rare: a tile with more than kLoaded nonzeros for each thread.
#pragma unroll 1
    for (std::uint32_t first = kLoaded * kThreads; first < extent.nonzeros;
         first += kLoaded * kThreads) {
      std::uint32_t more[kLoaded];
#pragma unroll
      for (int i = 0; i < kLoaded; ++i)
        if (first + threadIdx.x + i * kThreads < extent.nonzeros)
          more[i] = __ldg(from_ + extent.first + first + i * kThreads);
      write(extent, first, more);
    }
  }

 private:
  __device__ void clear(int buffer) const {
#pragma unroll
    for (int i = 0; i < kTileBytes / (16 * kThreads); ++i)
      asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(
                       at_ + buffer * kTileBytes + (threadIdx.x + i * kThreads) * 16),
                   "r"(0)
                   : "memory");
  }
  __device__ void write(const Extent& extent, std::uint32_t first,
                        const std::uint32_t (&nonzeros)[kLoaded]) const {
#pragma unroll
    for (int i = 0; i < kLoaded; ++i)
      if (first + threadIdx.x + i * kThreads < extent.nonzeros)
        asm volatile("st.shared.u16 [%0], %1;" ::"r"(address() + (nonzeros[i] >> 16)),
                     "h"(static_cast<std::uint16_t>(nonzeros[i]))
                     : "memory");
  }

  const std::uint32_t* from_;  // the thread's
  std::uint32_t at_;
  int buffer_ = 0;
  std::uint32_t loaded_[kLoaded] = {};
};

}  // namespace tessera::tall_spmm
