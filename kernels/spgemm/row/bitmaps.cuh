// The bitmaps in shared memory in which a group of threads marks the columns of a task: whole
// bitmaps, and bitmaps of the words that have marks. See kernels/spgemm/row/row_spgemm.hpp.
#pragma once

#include <cstdint>

#include "kernels/spgemm/row/schedule.hpp"
#include "kernels/spgemm/shared/thread_groups.cuh"

namespace tessera::row_spgemm {

using namespace spgemm;

/// The bitmap of a task with a slot for each 32 columns of its range.
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

  /// Bytes of its shared memory.
  __device__ int bytes() const { return whole_bitmap_bytes<int>(words_, kWithRanks); }

  /// The number of slots, the slots in the order of their columns, and the first column of one.
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

/// A bitmap that has slots only for words with marks. A directory marks these words first, and
/// their ranks in it are the indices of their slots.
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

  /// Ranks the words and clears their slots, once all words are marked.
  __device__ void open(int* scratch) {
    size_ = rank_slots<Group>(directory_, directory_size_, scratch, [](int, std::uint32_t, int) {});
    for (int i = Group::lane(); i < size_; i += Group::kLanes) slots_[i].marks = 0;
  }

  __device__ void mark(std::int32_t word, std::uint32_t columns) {
    const int slot = slot_of(word);
    if constexpr (kWithRanks) words_[slot] = word;
    mark_in(slots_[slot], columns);
  }

  static_assert(sizeof(Slot<true>) == slot_bytes(true) && sizeof(Slot<false>) == slot_bytes(false));
  __device__ int bytes() const { return words_bitmap_bytes<int>(directory_size_, kept_, true); }

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
  int size_ = 0;             // set by open()
  Slot<true>* directory_;    // [directory_size]
  Slot<kWithRanks>* slots_;  // [kept]
  std::int32_t* words_;      // [kept]: the word of each slot, with ranks only
};

}  // namespace tessera::row_spgemm
