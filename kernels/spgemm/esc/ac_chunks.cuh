// A chunk of ac_spgemm in one thread block: expand, sort, compress. See
// kernels/spgemm/esc/ac_spgemm.cpp.
#pragma once

#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_scan.cuh>

#include "kernels/spgemm/esc/ac_spgemm.hpp"
#include "kernels/spgemm/shared/slices.cuh"

namespace tessera::ac_spgemm {

using spgemm::CsrView;
using spgemm::last_at_most;
using spgemm::Slice;

/// The begin of a chunk. Only rows of the slice that have products are numbered.
struct Chunk {
  std::uint32_t product;
  std::uint32_t row;  // of the product
};

/// The part of a row that is in one of its several chunks.
struct RowPart {
  std::uint32_t row;
  std::uint32_t place;  // index of its first cell
  std::uint32_t cells;  // 0 where there is no such part
  std::uint32_t first;  // 1 for the first part of the row
};

constexpr std::uint32_t kMerged = 0x80000000;  // marks the index of a row in several chunks

/// The arrays that a slice's chunks read and write.
struct Chunks {
  std::uint32_t products, count;
  const std::int64_t* rows;             // [1] the number of rows that have products
  const std::int32_t* row_ids;          // [rows] in A
  const std::uint32_t* row_begins;      // [rows + 1] products before
  const std::uint32_t* nonzero_begins;  // [slice.nonzeros] products before
  const Chunk* begins;                  // [count + 1]
  std::int32_t* cols;                   // [products] of cells; a chunk's begin at its products
  float* values;                        // [products]
  std::uint32_t* row_places;            // [rows] index of the first cell
  std::uint32_t* row_cells;             // [rows]
  RowPart* row_parts;                   // [2 * count + 1] in each chunk's first and last row
};

/// A thread's walk over consecutive products.
class Products {
 public:
  __device__ Products(CsrView a, CsrView b, const Slice& slice, const Chunks& chunks,
                      std::uint32_t first_row, std::uint32_t end_row)
      : a_(a), b_(b), slice_(slice), chunks_(chunks), row_(first_row), end_row_(end_row) {}

  /// Moves to a product that follows all earlier ones.
  __device__ void find(std::uint32_t product) {
    row_ = last_at_most(chunks_.row_begins, row_, end_row_, product);
    const std::int64_t id = chunks_.row_ids[row_];
    end_nonzero_ = a_.row_offsets[id + 1];
    const std::int64_t nonzero =
        last_at_most(chunks_.nonzero_begins, a_.row_offsets[id] - slice_.first_nonzero,
                     end_nonzero_ - slice_.first_nonzero, product);
    read_nonzero(slice_.first_nonzero + nonzero);
    at_ += product - chunks_.nonzero_begins[nonzero];
  }
  /// Moves to the next product, number `product`, mostly of the same nonzero or of the next one.
  __device__ void next(std::uint32_t product) {
    if (++at_ < end_) return;
    if (nonzero_ + 1 < end_nonzero_) {
      read_nonzero(nonzero_ + 1);
      if (at_ < end_) return;
    }
    find(product);
  }

  __device__ std::uint32_t row() const { return row_; }
  __device__ std::int32_t col() const { return b_.col_indices[at_]; }
  __device__ float value() const { return __fmul_rn(value_of_a_, b_.values[at_]); }

 private:
  __device__ void read_nonzero(std::int64_t nonzero) {
    nonzero_ = nonzero;
    const std::int64_t row_of_b = a_.col_indices[nonzero];
    value_of_a_ = a_.values[nonzero];
    at_ = b_.row_offsets[row_of_b];
    end_ = b_.row_offsets[row_of_b + 1];
  }

  CsrView a_, b_;
  const Slice& slice_;
  const Chunks& chunks_;
  std::uint32_t row_, end_row_;
  std::int64_t nonzero_ = 0, end_nonzero_ = 0;  // in A
  std::int64_t at_ = 0, end_ = 0;               // in B
  float value_of_a_ = 0;
};

/// The least and the largest column of a chunk.
struct ColumnRange {
  __device__ void clear() {
    low = 0x7fffffff;
    high = 0;
  }
  __device__ void add(int from, int to) {
    from = __reduce_min_sync(0xffffffff, from);
    to = __reduce_max_sync(0xffffffff, to);
    if (threadIdx.x % 32 != 0) return;
    atomicMin(&low, from);
    atomicMax(&high, to);
  }
  int low, high;
};

template <class Key>
struct ChunkMemory {
  using Sort = cub::BlockRadixSort<Key, kThreads, kItems, float>;
  using Scan = cub::BlockScan<std::uint32_t, kThreads>;
  struct Cells {
    Key keys[kCapacity];
    float values[kCapacity];
  };
  union {
    typename Sort::TempStorage sort;
    Cells cells;  // sorted products
  };
  typename Scan::TempStorage scan;
  std::uint16_t runs_before[kCapacity];  // of equal keys, before each sorted product and the end
  ColumnRange range;
};

/// The products and rows of this thread block's chunk.
struct Extent {
  __device__ Extent(const Chunks& chunks, std::uint32_t chunk) {
    const Chunk from = chunks.begins[chunk], to = chunks.begins[chunk + 1];
    begin = from.product;
    end = to.product;
    first_row = from.row;
    end_row = to.row + (chunks.row_begins[to.row] < end ? 1 : 0);
  }
  __device__ std::uint32_t count() const { return end - begin; }

  std::uint32_t begin, end;          // products
  std::uint32_t first_row, end_row;  // rows with some of them
};

__device__ inline int bits_of(std::uint32_t largest) {
  return 32 - __clz(static_cast<int>(largest));
}

/// A thread's consecutive products.
template <class Key>
struct Taken {
  Key keys[kItems];  // at first only the row in the chunk
  int cols[kItems];
  float values[kItems];
};

/// Reads the products of the thread and finds the range of the columns.
template <class Key>
__device__ void expand(CsrView a, CsrView b, const Slice& slice, const Chunks& chunks,
                       const Extent& extent, Taken<Key>& taken, ColumnRange& range) {
  const std::uint32_t mine = extent.begin + threadIdx.x * kItems;
  Products products(a, b, slice, chunks, extent.first_row, extent.end_row);
  int low = 0x7fffffff, high = 0;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    taken.keys[i] = ~Key{0};  // is sorted behind all others
    taken.cols[i] = 0;
    taken.values[i] = 0;
    if (mine + i >= extent.end) continue;
    i == 0 ? products.find(mine) : products.next(mine + i);
    taken.keys[i] = products.row() - extent.first_row;
    taken.cols[i] = products.col();
    taken.values[i] = products.value();
    low = min(low, taken.cols[i]);
    high = max(high, taken.cols[i]);
  }
  if (threadIdx.x == 0) range.clear();
  __syncthreads();
  range.add(low, high);
  __syncthreads();
}

/// Moves the products to shared memory, sorted by their keys: row in the chunk, column in its
/// range. Returns the number of bits of the columns.
template <class Key>
__device__ int sort(const Extent& extent, Taken<Key>& taken, ChunkMemory<Key>& memory) {
  const int low = memory.range.low;
  const int col_bits = bits_of(static_cast<std::uint32_t>(memory.range.high - low));
  const int row_bits = bits_of(extent.end_row - 1 - extent.first_row);
#pragma unroll
  for (int i = 0; i < kItems; ++i)
    if (extent.begin + threadIdx.x * kItems + i < extent.end)
      taken.keys[i] = taken.keys[i] << col_bits | static_cast<Key>(taken.cols[i] - low);
  typename ChunkMemory<Key>::Sort(memory.sort)
      .SortBlockedToStriped(taken.keys, taken.values, 0, max(row_bits + col_bits, 1));
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    memory.cells.keys[i * kThreads + threadIdx.x] = taken.keys[i];
    memory.cells.values[i * kThreads + threadIdx.x] = taken.values[i];
  }
  __syncthreads();
  return col_bits;
}

template <class Key>
__device__ bool begins_run(const ChunkMemory<Key>& memory, std::uint32_t i) {
  return i == 0 || memory.cells.keys[i] != memory.cells.keys[i - 1];
}

template <class Key>
__device__ void count_runs(std::uint32_t count, ChunkMemory<Key>& memory) {
  const std::uint32_t mine = threadIdx.x * kItems;
  std::uint32_t runs = 0, before = 0;
  for (std::uint32_t i = mine; i < mine + kItems; ++i)
    runs += i < count && begins_run(memory, i) ? 1 : 0;
  typename ChunkMemory<Key>::Scan(memory.scan).ExclusiveSum(runs, before);
  for (std::uint32_t i = mine; i < mine + kItems; ++i) {
    memory.runs_before[i] = static_cast<std::uint16_t>(before);
    before += i < count && begins_run(memory, i) ? 1 : 0;
  }
  __syncthreads();
}

/// Writes one cell for each run of equal keys; it adds the products from left to right.
template <class Key>
__device__ void write_cells(const Chunks& chunks, const Extent& extent, int col_bits,
                            const ChunkMemory<Key>& memory) {
  const auto& [keys, values] = memory.cells;
  for (std::uint32_t i = threadIdx.x; i < extent.count(); i += kThreads) {
    if (!begins_run(memory, i)) continue;
    float sum = values[i];
    for (std::uint32_t j = i + 1; j < extent.count() && keys[j] == keys[i]; ++j)
      sum = __fadd_rn(sum, values[j]);
    const std::uint32_t place = extent.begin + memory.runs_before[i];
    chunks.cols[place] =
        static_cast<std::int32_t>(keys[i] & ((Key{1} << col_bits) - 1)) + memory.range.low;
    chunks.values[place] = sum;
  }
}

/// Writes where the cells of each row are. Sorting keeps the products of a row together, at the
/// same indices.
template <class Key>
__device__ void write_rows(const Chunks& chunks, const Extent& extent, std::uint32_t chunk,
                           const ChunkMemory<Key>& memory) {
  for (std::uint32_t row = extent.first_row + threadIdx.x; row < extent.end_row; row += kThreads) {
    const std::uint32_t row_begin = chunks.row_begins[row], row_end = chunks.row_begins[row + 1];
    const std::uint32_t first = memory.runs_before[max(row_begin, extent.begin) - extent.begin];
    const std::uint32_t last = memory.runs_before[min(row_end, extent.end) - extent.begin];
    const std::uint32_t place = extent.begin + first, cells = last - first;
    if (row_begin >= extent.begin && row_end <= extent.end) {
      chunks.row_places[row] = place;
      chunks.row_cells[row] = cells;
    } else {
      chunks.row_parts[2 * chunk + (row == extent.first_row ? 0 : 1)] = {
          row, place, cells, row_begin >= extent.begin ? 1u : 0u};
    }
  }
}

template <class Key>
__global__ void __launch_bounds__(kThreads)
    compress_chunks(CsrView a, CsrView b, Slice slice, Chunks chunks) {
  __shared__ ChunkMemory<Key> memory;
  const Extent extent(chunks, blockIdx.x);
  if (extent.count() == 0) return;
  Taken<Key> taken;
  expand(a, b, slice, chunks, extent, taken, memory.range);
  const int col_bits = sort(extent, taken, memory);
  count_runs(extent.count(), memory);
  write_cells(chunks, extent, col_bits, memory);
  write_rows(chunks, extent, blockIdx.x, memory);
}

}  // namespace tessera::ac_spgemm
