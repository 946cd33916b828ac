// Groups of threads that share a row of C, and the bitmaps in which they mark its columns: plain
// ones, and hashed ones for few marks over a wide range. See kernels/row_spgemm.hpp.
#pragma once

#include <climits>
#include <cstdint>

#include "kernels/row_spgemm.hpp"

namespace tessera::row_spgemm {

/// A part of a warp, or a thread block. The groups of a warp go through the same steps together:
/// every loop that holds a sync() has a trip count that is most() of theirs.
template <int kLanes_>
struct Group {
  static constexpr int kLanes = kLanes_;
  static_assert(kLanes <= 32 ? 32 % kLanes == 0 : kLanes % 32 == 0);
  static constexpr bool kIsBlock = kLanes > 32;
  static constexpr int kWarps = kIsBlock ? kLanes / 32 : 1;

  static __device__ int lane() { return static_cast<int>(threadIdx.x) % kLanes; }

  static __device__ void sync() {
    if constexpr (kIsBlock)
      __syncthreads();
    else
      __syncwarp();
  }

  /// The largest of the warp's groups; `value` is the same for all lanes of a group.
  static __device__ int most(int value) {
    if constexpr (kIsBlock)
      return value;
    else
      return __reduce_max_sync(~0u, value);
  }

  /// The sum over the lanes before this one, and over all. `scratch` [kWarps] is shared memory of
  /// the group, used where it is a thread block.
  static __device__ int before(int value, int& total, int* scratch) {
    constexpr int kWidth = kIsBlock ? 32 : kLanes;
    const int in_warp = static_cast<int>(threadIdx.x) % kWidth;
    int sum = value;
#pragma unroll
    for (int step = 1; step < kWidth; step *= 2) {
      const int below = __shfl_up_sync(~0u, sum, step, kWidth);
      if (in_warp >= step) sum += below;
    }
    total = __shfl_sync(~0u, sum, kWidth - 1, kWidth);
    int others = 0;
    if constexpr (kIsBlock) {
      const int warp = static_cast<int>(threadIdx.x) / 32;
      if (in_warp == 0) scratch[warp] = total;
      __syncthreads();
      total = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        if (w < warp) others += scratch[w];
        total += scratch[w];
      }
      __syncthreads();
    }
    return others + sum - value;
  }
};

/// What others may be changing.
template <class T>
__device__ T peek(const T* at) {
  return *static_cast<const volatile T*>(at);
}

__device__ inline std::uint32_t bit_of(std::int32_t col) { return 1u << (col % kWordCols); }

__device__ inline void mark_in(std::uint32_t* word, std::int32_t col) {
  if ((peek(word) & bit_of(col)) == 0) atomicOr(word, bit_of(col));
}

/// Marks of a word below a column's own.
__device__ inline int marks_below(std::uint32_t word, std::int32_t col) {
  return __popc(word & (bit_of(col) - 1));
}

/// The bitmap of a task, a word for each 32 columns of its range: 4 bytes a word, 6 with ranks.
template <class Group>
class PlainBitmap {
 public:
  __device__ PlainBitmap(const Task& task, unsigned char* memory)
      : first_word_(task.first_word),
        words_(task.words),
        marks_(reinterpret_cast<std::uint32_t*>(memory)),
        ranks_(reinterpret_cast<std::uint16_t*>(memory + 4 * task.words)) {
    for (int i = Group::lane(); i < words_; i += Group::kLanes) marks_[i] = 0;
  }

  __device__ void mark(std::int32_t col) { mark_in(marks_ + col / kWordCols - first_word_, col); }

  /// Slots that marks are counted in, without order.
  __device__ int slots() const { return words_; }
  __device__ std::uint32_t marks(int slot) const { return marks_[slot]; }

  /// Makes words() and word() what they are: nothing to do, they lie in order.
  __device__ void sort(int*) {}

  /// Words in the order of their columns: how many, the slot of each and its first column.
  __device__ int words() const { return words_; }
  __device__ int slot(int i) const { return i; }
  __device__ std::int32_t first_col(int i) const { return (first_word_ + i) * kWordCols; }

  __device__ void set_rank(int slot, int rank) { ranks_[slot] = static_cast<std::uint16_t>(rank); }

  __device__ int rank(std::int32_t col) const {
    const int at = col / kWordCols - first_word_;
    return ranks_[at] + marks_below(marks_[at], col);
  }

 private:
  int first_word_, words_;
  std::uint32_t* marks_;  // [words]
  std::uint16_t* ranks_;  // [words]: marks of the words before
};

/// The same with words found by hashing, for tasks whose products are at most half of the slots: 8
/// bytes a slot, 12 with order and ranks.
template <class Group, int kSlots>
class HashedBitmap {
 public:
  __device__ HashedBitmap(const Task&, unsigned char* memory)
      : keys_(reinterpret_cast<std::int32_t*>(memory)),
        marks_(reinterpret_cast<std::uint32_t*>(keys_ + kSlots)),
        sorted_(reinterpret_cast<std::int32_t*>(marks_ + kSlots)),
        ranks_(reinterpret_cast<std::uint16_t*>(sorted_ + kSlots / 2)) {
    for (int i = Group::lane(); i < kSlots; i += Group::kLanes) {
      keys_[i] = kEmpty;
      marks_[i] = 0;
    }
  }

  __device__ void mark(std::int32_t col) {
    const std::int32_t word = col / kWordCols;
    int at = first_slot(word);
    while (true) {
      std::int32_t key = peek(keys_ + at);
      if (key == kEmpty) key = atomicCAS(keys_ + at, kEmpty, word);
      if (key == kEmpty || key == word) break;
      at = (at + 1) % kSlots;
    }
    mark_in(marks_ + at, col);
  }

  __device__ int slots() const { return kSlots; }
  __device__ std::uint32_t marks(int slot) const { return marks_[slot]; }

  __device__ void sort(int* scratch) {
    size_ = 0;
    for (int first = 0; first < kSlots; first += Group::kLanes) {
      const std::int32_t key = keys_[first + Group::lane()];
      int found = 0;
      const int at = size_ + Group::before(key != kEmpty ? 1 : 0, found, scratch);
      if (key != kEmpty) sorted_[at] = key;
      size_ += found;
    }
    int padded = 1;
    while (padded < size_) padded *= 2;
    for (int i = size_ + Group::lane(); i < padded; i += Group::kLanes) sorted_[i] = INT_MAX;
    sort_bitonic(padded);
  }

  __device__ int words() const { return size_; }
  __device__ int slot(int i) const { return find(sorted_[i]); }
  __device__ std::int32_t first_col(int i) const { return sorted_[i] * kWordCols; }

  __device__ void set_rank(int slot, int rank) { ranks_[slot] = static_cast<std::uint16_t>(rank); }

  __device__ int rank(std::int32_t col) const {
    const int at = find(col / kWordCols);
    return ranks_[at] + marks_below(marks_[at], col);
  }

 private:
  static constexpr std::int32_t kEmpty = -1;

  static __device__ int first_slot(std::int32_t word) {
    return static_cast<int>(static_cast<std::uint32_t>(word) * 2654435769u >> 16) % kSlots;
  }

  __device__ int find(std::int32_t word) const {
    int at = first_slot(word);
    while (keys_[at] != word) at = (at + 1) % kSlots;
    return at;
  }

  /// sorted_ [size], a power of two; groups of a warp may have different ones.
  __device__ void sort_bitonic(int size) {
    const int most = Group::most(size);
    Group::sync();
    for (int run = 2; run <= most; run *= 2) {
      for (int step = run / 2; step > 0; step /= 2) {
        for (int i = Group::lane(); i < size / 2; i += Group::kLanes) {
          const int low = 2 * i - i % step, high = low + step;
          const bool ascends = (low & run) == 0 || run == size;
          const std::int32_t a = sorted_[low], b = sorted_[high];
          if (run <= size && (a > b) == ascends) {
            sorted_[low] = b;
            sorted_[high] = a;
          }
        }
        Group::sync();
      }
    }
  }

  std::int32_t* keys_;    // [kSlots]
  std::uint32_t* marks_;  // [kSlots]
  std::int32_t* sorted_;  // [kSlots / 2]: keys
  std::uint16_t* ranks_;  // [kSlots]
  int size_ = 0;
};

}  // namespace tessera::row_spgemm
