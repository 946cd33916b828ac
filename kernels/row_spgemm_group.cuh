// Groups of threads that share a row of C, and the bitmaps in which they mark its columns: whole
// ones, and ones of the words that have marks. See kernels/row_spgemm.hpp.
#pragma once

#include <cstdint>

#include "kernels/row_spgemm.hpp"

namespace tessera::row_spgemm {

constexpr unsigned kAllLanes = ~0u;

__device__ inline int lane_of_warp() { return static_cast<int>(threadIdx.x) % 32; }
__device__ inline unsigned lanes_before() { return (1u << lane_of_warp()) - 1; }

/// The sum over the lanes of a warp, or of each kWidth of them, up to this one.
template <int kWidth = 32>
__device__ int sum_up_to(int value) {
  const int lane = lane_of_warp() % kWidth;
#pragma unroll
  for (int step = 1; step < kWidth; step *= 2) {
    const int below = __shfl_up_sync(kAllLanes, value, step, kWidth);
    if (lane >= step) value += below;
  }
  return value;
}

/// A warp, or a thread block.
template <int kLanes_>
struct Group {
  static constexpr int kLanes = kLanes_;
  static_assert(kLanes % 32 == 0);
  static constexpr bool kIsBlock = kLanes > 32;
  static constexpr int kWarps = kLanes / 32;

  static __device__ int lane() { return static_cast<int>(threadIdx.x) % kLanes; }
  static __device__ int warp() { return kIsBlock ? static_cast<int>(threadIdx.x) / 32 : 0; }

  static __device__ void sync() {
    if constexpr (kIsBlock)
      __syncthreads();
    else
      __syncwarp();
  }

  /// The sum over the lanes before this one, and over all. `scratch` [kWarps] is shared memory of
  /// the group, used where it is a thread block.
  static __device__ int before(int value, int& total, int* scratch) {
    const int sum = sum_up_to(value);
    total = __shfl_sync(kAllLanes, sum, 31);
    int others = 0;
    if constexpr (kIsBlock) {
      if (lane_of_warp() == 0) scratch[warp()] = total;
      __syncthreads();
      total = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        if (w < warp()) others += scratch[w];
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
__device__ inline std::uint32_t bits_before(std::int32_t at) {
  return (1u << (static_cast<std::uint32_t>(at) % 32)) - 1;
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
__device__ void mark_in(Slot<kWithRank>& slot, std::uint32_t marks) {
  if ((peek(&slot.marks) & marks) != marks) atomicOr(&slot.marks, marks);
}

__device__ inline int rank_in(const Slot<true>& slot, std::int32_t at) {
  return slot.rank + __popc(slot.marks & bits_before(at));
}

/// Gives each slot as its rank the marks of those before it, and calls visit(slot, marks, rank), by
/// the whole warp for as many lanes as there are; all marks.
template <class Group, class Visit>
__device__ int rank_slots(Slot<true>* slots, int size, int* scratch, Visit visit) {
  int ranked = 0;
  for (int first = 0; first < size; first += Group::kLanes) {
    const int at = first + Group::lane();
    const std::uint32_t marks = at < size ? slots[at].marks : 0;
    int all = 0;
    const int rank = ranked + Group::before(__popc(marks), all, scratch);
    if (at < size) slots[at].rank = rank;
    visit(at, marks, rank);
    ranked += all;
  }
  return ranked;
}

/// The bitmap of a task, a slot for each 32 columns of its range.
template <class Group, bool kWithRanks>
class WholeBitmap {
 public:
  static constexpr bool kHasDirectory = false;

  __device__ WholeBitmap(const Task& task, unsigned char* memory)
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

  /// Slots, in the order of their columns; the first column of each.
  __device__ int size() const { return words_; }
  __device__ Slot<kWithRanks>* slots() const { return slots_; }
  __device__ std::int32_t first_col(int slot) const { return (first_word_ + slot) * kWordCols; }

  __device__ int rank(std::int32_t col) const {
    return rank_in(slots_[word_of(col) - first_word_], col);
  }

 private:
  int first_word_, words_;
  Slot<kWithRanks>* slots_;  // [words]
};

/// A bitmap that has slots only for words with marks: these are marked themselves before, in a
/// directory, and then ranked.
template <class Group, bool kWithRanks>
class WordsBitmap {
 public:
  static constexpr bool kHasDirectory = true;

  __device__ WordsBitmap(const Task& task, unsigned char* memory)
      : first_word_(task.first_word),
        directory_size_(directory_words(task)),
        kept_(task.kept),
        directory_(reinterpret_cast<Slot<true>*>(memory)),
        slots_(reinterpret_cast<Slot<kWithRanks>*>(directory_ + directory_size_)),
        words_(reinterpret_cast<std::int32_t*>(slots_ + kept_)) {
    for (int i = Group::lane(); i < directory_size_; i += Group::kLanes) directory_[i].marks = 0;
  }

  __device__ void mark_word(std::int32_t word) {
    const int at = word - first_word_;
    mark_in(directory_[at / 32], 1u << (at % 32));
  }

  /// Once all words are marked.
  __device__ void open(int* scratch) {
    size_ = rank_slots<Group>(directory_, directory_size_, scratch, [](int, std::uint32_t, int) {});
    for (int i = Group::lane(); i < size_; i += Group::kLanes) slots_[i].marks = 0;
  }

  __device__ void mark(std::int32_t word, std::uint32_t columns) {
    const int slot = slot_of(word);
    if constexpr (kWithRanks) words_[slot] = word;
    mark_in(slots_[slot], columns);
  }

  __device__ int bytes() const {
    return directory_size_ * static_cast<int>(sizeof(Slot<true>)) +
           kept_ * static_cast<int>(sizeof(Slot<kWithRanks>) + sizeof(std::int32_t));
  }

  __device__ int size() const { return size_; }
  __device__ Slot<kWithRanks>* slots() const { return slots_; }
  __device__ std::int32_t first_col(int slot) const { return words_[slot] * kWordCols; }

  __device__ int rank(std::int32_t col) const {
    return rank_in(slots_[slot_of(word_of(col))], col);
  }

 private:
  __device__ int slot_of(std::int32_t word) const {
    const int at = word - first_word_;
    return rank_in(directory_[at / 32], at);
  }

  int first_word_, directory_size_, kept_;
  int size_ = 0;             // once open
  Slot<true>* directory_;    // [directory_size]
  Slot<kWithRanks>* slots_;  // [kept]
  std::int32_t* words_;      // [kept]: of slots; where ranks are asked for
};

}  // namespace tessera::row_spgemm
