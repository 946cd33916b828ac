// A row of C in a table, by a warp or a thread block. See kernels/spgemm/hash/hash_bins.hpp.
//
// A group takes a chunk of a row's nonzeros of A, one per lane, computes the prefix sum of the
// lengths of their rows of B, and gives each lane one product per step. Within a step the products
// of one element are added in the order of their lanes, which is that of A's columns: lanes of a
// warp take turns, and warps of a thread block bid for the slot, of which the first warp wins.
#pragma once

#include <cstdint>

#include "kernels/spgemm/hash/hash_bins.hpp"
#include "kernels/spgemm/shared/row_bins.cuh"

namespace tessera::hash_rows {

using row_bins::kWholeWarp;
using row_bins::Peers;

inline constexpr int kMostWarps = 32;         // of a thread block
inline constexpr int kNoColumn = 0x7fffffff;  // marks a free slot; greater than all columns

struct Operands {
  const std::int64_t* a_offsets;
  const int* a_cols;
  const float* a_values;
  const std::int64_t* b_offsets;
  const int* b_cols;
  const float* b_values;
};

/// A lane's inclusive prefix sum over its group, and the sum of all lanes.
struct RunningSum {
  int up_to, all;
};

__device__ inline int sum_up_to_lane(int x) {
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(kWholeWarp, x, step);
    if (static_cast<int>(threadIdx.x % 32) >= step) x += other;
  }
  return x;
}

__device__ inline RunningSum count_up_to_lane(bool x) {
  const unsigned mask = __ballot_sync(kWholeWarp, x);
  return {__popc(mask & (0xffffffffu >> (31 - threadIdx.x % 32))), __popc(mask)};
}

struct WarpGroup {
  static constexpr bool kIsWarp = true;

  __device__ int size() const { return 32; }
  __device__ int rank() const { return threadIdx.x % 32; }
  __device__ void sync() const { __syncwarp(); }
  __device__ RunningSum sum(int x) const {
    const int up_to = sum_up_to_lane(x);
    return {up_to, __shfl_sync(kWholeWarp, up_to, 31)};
  }
  __device__ RunningSum count(bool x) const { return count_up_to_lane(x); }
};

/// A one-dimensional thread block of whole warps.
struct BlockGroup {
  static constexpr bool kIsWarp = false;

  int* totals;  // [kMostWarps], shared

  __device__ int size() const { return blockDim.x; }
  __device__ int rank() const { return threadIdx.x; }
  __device__ void sync() const { __syncthreads(); }
  __device__ RunningSum sum(int x) const {
    const int up_to = sum_up_to_lane(x);
    return over_warps({up_to, __shfl_sync(kWholeWarp, up_to, 31)});
  }
  __device__ RunningSum count(bool x) const { return over_warps(count_up_to_lane(x)); }

 private:
  __device__ RunningSum over_warps(RunningSum own) const {
    const int warp = threadIdx.x / 32, warps = blockDim.x / 32, lane = threadIdx.x % 32;
    if (lane == 0) totals[warp] = own.all;
    __syncthreads();
    const int of_warp = lane < warps ? totals[lane] : 0;
    const int up_to = sum_up_to_lane(of_warp);
    const int before = __shfl_sync(kWholeWarp, up_to - of_warp, warp);
    __syncthreads();
    return {before + own.up_to, __shfl_sync(kWholeWarp, up_to, 31)};
  }
};

/// Columns [first, last) of B; clips is true if the row has others.
struct Window {
  std::int64_t first, last;
  bool clips;
};

__device__ inline int first_not_below(const int* cols, int begin, int end, std::int64_t limit) {
  while (begin < end) {
    const int middle = begin + (end - begin) / 2;
    if (cols[middle] < limit)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

/// The group's nonzeros of A, one per lane, in shared memory.
struct Chunk {
  int* ends;    // [size]: inclusive prefix sum of products
  int* begins;  // [size]: the place in B minus the number of the product, equal for a row of B
  float* a;     // [size]

  static constexpr int kWordsPerLane = 3;

  __device__ Chunk(int* memory, int size)
      : ends(memory), begins(memory + size), a(reinterpret_cast<float*>(memory + 2 * size)) {}

  /// The nonzero of a product, among the first `size`, which is a power of two.
  __device__ int find(int product, int size) const {
    int at = 0;
    for (int step = size / 2; step > 0; step /= 2)
      if (ends[at + step - 1] <= product) at += step;
    return at;
  }

  /// Takes nonzero k of A, if it is before `last`. Returns the number of products of all lanes.
  template <class Group>
  __device__ int take(const Group& group, const Operands& x, std::int64_t k, std::int64_t last,
                      const Window& window) const {
    int begin = 0, end = 0;
    float value = 0;
    if (k < last) {
      const int of_b = x.a_cols[k];
      begin = static_cast<int>(x.b_offsets[of_b]);
      end = static_cast<int>(x.b_offsets[of_b + 1]);
      value = x.a_values[k];
      if (window.clips) {
        begin = first_not_below(x.b_cols, begin, end, window.first);
        end = first_not_below(x.b_cols, begin, end, window.last);
      }
    }
    const RunningSum products = group.sum(end - begin);
    ends[group.rank()] = products.up_to;
    begins[group.rank()] = begin - (products.up_to - (end - begin));
    a[group.rank()] = value;
    group.sync();
    return products.all;
  }
};

/// A product of a nonzero of A and one of B, if there is one.
struct IntermediateProduct {
  bool is_there = false;
  int col = 0;
  float a = 0, b = 0;
};

/// The least power of two that is at least `count`; count is at least one.
__device__ inline int places_for(int count) { return 1 << (32 - __clz(count - 1)); }

/// Calls body(product) for every product of the row in the window, in order. All lanes call it
/// equally often.
template <class Group, class Body>
__device__ void for_each_product(const Group& group, const Chunk& chunk, const Operands& x, int row,
                                 const Window& window, Body body) {
  const std::int64_t last = x.a_offsets[row + 1];
  for (std::int64_t k = x.a_offsets[row]; k < last; k += group.size()) {
    const int products = chunk.take(group, x, k + group.rank(), last, window);
    const int nonzeros = places_for(static_cast<int>(min(last - k, std::int64_t{group.size()})));
    for (std::int64_t first = 0; first < products; first += group.size()) {
      const std::int64_t at = first + group.rank();
      IntermediateProduct product;
      if (at < products) {
        const int nonzero = chunk.find(static_cast<int>(at), nonzeros);
        const int of_b = chunk.begins[nonzero] + static_cast<int>(at);
        product = {true, x.b_cols[of_b], chunk.a[nonzero], x.b_values[of_b]};
      }
      body(product);
    }
    group.sync();  // before the next chunk overwrites this one
  }
}

/// The columns and sums of a row. A table has at least one slot per nonzero of the row.
struct Table {
  int* keys;            // [slots]
  float* values;        // [slots]; nullptr when counting
  unsigned* bids;       // [slots]; nullptr where warps need not take turns
  std::uint32_t slots;  // a power of two
  bool quadratic;
  int first = 0;  // the column of slot 0 of a dense table

  /// Enters a column, unless it is there, and returns its slot. Lanes may call it concurrently.
  template <bool kDense>
  __device__ std::uint32_t enter(int col, bool& is_new) const {
    if constexpr (kDense) {
      const std::uint32_t slot = col - first;
      is_new = atomicExch(&keys[slot], col) == kNoColumn;
      return slot;
    }
    // The upper bits of the product with 2^32 / golden ratio (Fibonacci hashing).
    std::uint32_t slot =
        (static_cast<std::uint32_t>(col) * 2654435769u) >> __clz(static_cast<int>(slots - 1));
    // Steps of 1, 2, 3, ... reach every slot of a power of two, too.
    for (std::uint32_t step = 1;; step += quadratic ? 1 : 0) {
      const int there = atomicCAS(&keys[slot], kNoColumn, col);
      is_new = there == kNoColumn;
      if (is_new || there == col) return slot;
      slot = (slot + step) & (slots - 1);
    }
  }

  template <class Group>
  __device__ void clear(const Group& group) const {
    for (std::uint32_t i = group.rank(); i < slots; i += group.size()) {
      keys[i] = kNoColumn;
      if (values != nullptr) values[i] = 0;
      if (bids != nullptr) bids[i] = 0;
    }
    group.sync();
  }

  /// Moves filled slots to the front, in their order. Returns their number.
  template <class Group>
  __device__ int compact(const Group& group) const {
    int kept = 0;
    for (std::uint32_t begin = 0; begin < slots; begin += group.size()) {
      const int key = keys[begin + group.rank()];
      const float value = values[begin + group.rank()];
      const RunningSum places = group.count(key != kNoColumn);
      group.sync();  // all lanes have read before any of them writes
      if (key != kNoColumn) {
        keys[kept + places.up_to - 1] = key;
        values[kept + places.up_to - 1] = value;
      }
      kept += places.all;
    }
    group.sync();
    return kept;
  }

  /// Sorts the first `count` slots by column, in a bitonic network over a power of two.
  template <class Group>
  __device__ void sort(const Group& group, int count) const {
    const int places = places_for(max(count, 1));
    for (int i = count + group.rank(); i < places; i += group.size()) keys[i] = kNoColumn;
    group.sync();
    for (int size = 2; size <= places; size *= 2)
      for (int stride = size / 2; stride > 0; stride /= 2) {
        for (int i = group.rank(); i < places / 2; i += group.size())
          order(2 * i - (i & (stride - 1)), stride, size);
        // With strides of at most 32, a warp compares within its own 64 places.
        const bool is_last = stride == 1 && (size >= 64 || size == places);
        stride > 32 || is_last ? group.sync() : __syncwarp();
      }
  }

 private:
  __device__ void order(int low, int stride, int size) const {
    const int high = low + stride, key = keys[low], other = keys[high];
    if ((key > other) != ((low & size) == 0)) return;
    const float value = values[low];
    keys[low] = other;
    keys[high] = key;
    values[low] = values[high];
    values[high] = value;
  }
};

/// values[slot] += a b for the lanes of a warp that take part; lanes of one slot add in the order
/// of their ranks.
__device__ inline void add_in_turns(bool takes_part, const Peers& peers, std::uint32_t slot,
                                    const IntermediateProduct& product, float* values) {
  const unsigned turns = __reduce_max_sync(kWholeWarp, takes_part ? peers.rank + 1u : 0u);
  for (unsigned turn = 0; turn < turns; ++turn) {
    if (takes_part && static_cast<unsigned>(peers.rank) == turn)
      values[slot] = fmaf(product.a, product.b, values[slot]);
    __syncwarp();
  }
}

/// The same for a thread block. In each round the first of the warps that bid for a slot gets it.
/// Rounds count over the whole row, so that bids need no clearing. There is at most one round per
/// warp for each blockDim.x products, thus fewer than 2^31 / 32, and bids stay below 2^31.
__device__ inline void add_in_rounds(bool takes_part, std::uint32_t slot,
                                     const IntermediateProduct& product, const Table& table,
                                     unsigned& round) {
  constexpr std::uint32_t kNoSlot = 0xffffffff;
  const unsigned warp = threadIdx.x / 32;
  const Peers peers(takes_part ? slot : kNoSlot);
  bool waits = takes_part;
  do {
    const unsigned bid = ++round * kMostWarps + (kMostWarps - 1 - warp);
    if (waits && peers.rank == 0) atomicMax(&table.bids[slot], bid);
    __syncthreads();
    const bool won = waits && table.bids[slot] == bid;
    add_in_turns(won, peers, slot, product, table.values);
    waits = waits && !won;
  } while (__syncthreads_or(waits));
}

/// The mode of a launch: dense or hash tables, multiplying or counting, atomic or ordered sums.
template <bool kDenseTable, bool kMultiplies, bool kAtomicSums>
struct Mode {
  static constexpr bool kDense = kDenseTable;
  static constexpr bool kMultiply = kMultiplies;
  static constexpr bool kAtomic = kAtomicSums;
};

/// Enters the row's columns in the window and, when multiplying, their sums. Returns the number of
/// columns that this lane was the first to enter.
template <class M, class Group>
__device__ int fill(const Group& group, const Table& table, const Chunk& chunk, const Operands& x,
                    int row, const Window& window) {
  int entered = 0;
  unsigned round = 0;
  for_each_product(group, chunk, x, row, window, [&](const IntermediateProduct& product) {
    std::uint32_t slot = 0;
    bool is_new = false;
    if (product.is_there) slot = table.template enter<M::kDense>(product.col, is_new);
    entered += is_new;
    if constexpr (M::kMultiply && M::kAtomic) {
      if (product.is_there) atomicAdd(&table.values[slot], product.a * product.b);
    } else if constexpr (M::kMultiply && Group::kIsWarp) {
      add_in_turns(product.is_there, Peers(product.is_there ? slot : 0xffffffff), slot, product,
                   table.values);
    } else if constexpr (M::kMultiply) {
      add_in_rounds(product.is_there, slot, product, table, round);
    }
  });
  group.sync();
  return entered;
}

}  // namespace tessera::hash_rows
