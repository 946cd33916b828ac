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

/// The word of a column, and the columns of a word before it.
__device__ inline std::int32_t word_of(std::int32_t col) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(col) / kWordCols);
}
__device__ inline std::uint32_t columns_before(std::int32_t col) {
  return (1u << (static_cast<std::uint32_t>(col) % kWordCols)) - 1;
}

/// Marks of 32 columns, and where ranks are asked for, the marks of all words before.
template <bool kWithRank>
struct Slot;
template <>
struct Slot<false> {
  std::uint32_t marks;
};
template <>
struct alignas(8) Slot<true> {
  std::uint32_t marks;
  std::int32_t rank;
};

template <bool kWithRank>
__device__ void mark_in(Slot<kWithRank>& slot, std::uint32_t columns) {
  if ((peek(&slot.marks) & columns) != columns) atomicOr(&slot.marks, columns);
}

__device__ inline int rank_in(const Slot<true>& slot, std::int32_t col) {
  return slot.rank + __popc(slot.marks & columns_before(col));
}

/// The bitmap of a task, a slot for each 32 columns of its range.
template <class Group, bool kWithRanks>
class PlainBitmap {
 public:
  __device__ PlainBitmap(const Task& task, unsigned char* memory)
      : first_word_(task.first_word),
        words_(task.words),
        slots_(reinterpret_cast<Slot<kWithRanks>*>(memory)) {
    for (int i = Group::lane(); i < words_; i += Group::kLanes) slots_[i].marks = 0;
  }

  __device__ void mark(std::int32_t word, std::uint32_t columns) {
    mark_in(slots_[word - first_word_], columns);
  }

  /// Of its memory.
  __device__ int bytes() const { return words_ * static_cast<int>(sizeof(Slot<kWithRanks>)); }

  /// How many slots may have marks; those of a slot.
  __device__ int size() const { return words_; }
  __device__ std::uint32_t marks(int slot) const { return slots_[slot].marks; }

  /// Makes words() and slot() what they are: nothing to do, words lie in order.
  __device__ void sort(int*) {}

  /// Words in the order of their columns: how many, the slot of each and its first column.
  __device__ int words() const { return words_; }
  __device__ int slot(int i) const { return i; }
  __device__ std::int32_t first_col(int slot) const { return (first_word_ + slot) * kWordCols; }

  __device__ void set_rank(int slot, int rank) { slots_[slot].rank = rank; }
  __device__ int rank(std::int32_t col) const {
    return rank_in(slots_[word_of(col) - first_word_], col);
  }

 private:
  int first_word_, words_;
  Slot<kWithRanks>* slots_;  // [words]
};

/// The same with words found by hashing, for tasks whose words are at most half of the slots.
template <class Group, bool kWithRanks, int kSlots>
class HashedBitmap {
 public:
  __device__ HashedBitmap(const Task&, unsigned char* memory)
      : slots_(reinterpret_cast<Slot<kWithRanks>*>(memory)),
        keys_(reinterpret_cast<std::int32_t*>(slots_ + kSlots)),
        sorted_(keys_ + kSlots) {
    for (int i = Group::lane(); i < kSlots; i += Group::kLanes) {
      keys_[i] = kEmpty;
      slots_[i].marks = 0;
    }
  }

  __device__ void mark(std::int32_t word, std::uint32_t columns) {
    int at = first_slot(word);
    while (true) {
      std::int32_t key = peek(keys_ + at);
      if (key == kEmpty) key = atomicCAS(keys_ + at, kEmpty, word);
      if (key == kEmpty || key == word) break;
      at = (at + 1) % kSlots;
    }
    mark_in(slots_[at], columns);
  }

  __device__ int bytes() const {
    return kSlots * static_cast<int>(sizeof(Slot<kWithRanks>) + 4) + kSlots / 2 * 4;
  }

  __device__ int size() const { return kSlots; }
  __device__ std::uint32_t marks(int slot) const { return slots_[slot].marks; }

  __device__ void sort(int* scratch) {
    words_ = 0;
    for (int first = 0; first < kSlots; first += Group::kLanes) {
      const std::int32_t key = keys_[first + Group::lane()];
      int found = 0;
      const int at = words_ + Group::before(key != kEmpty ? 1 : 0, found, scratch);
      if (key != kEmpty) sorted_[at] = key;
      words_ += found;
    }
    int padded = 1;
    while (padded < words_) padded *= 2;
    for (int i = words_ + Group::lane(); i < padded; i += Group::kLanes) sorted_[i] = INT_MAX;
    sort_bitonic(padded);
  }

  __device__ int words() const { return words_; }
  __device__ int slot(int i) const { return find(sorted_[i]); }
  __device__ std::int32_t first_col(int slot) const { return keys_[slot] * kWordCols; }

  __device__ void set_rank(int slot, int rank) { slots_[slot].rank = rank; }
  __device__ int rank(std::int32_t col) const { return rank_in(slots_[find(word_of(col))], col); }

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

  Slot<kWithRanks>* slots_;  // [kSlots]
  std::int32_t* keys_;       // [kSlots]
  std::int32_t* sorted_;     // [kSlots / 2]: keys; where ranks are asked for
  int words_ = 0;
};

}  // namespace tessera::row_spgemm
