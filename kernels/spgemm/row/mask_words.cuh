// The cells of a row of a mask in shared memory: a hash table of the words of 32 columns that have
// cells, each with a bit per cell and the number of its first cell, from which the number of a
// column's cell follows. See kernels/spgemm/row/masked.hpp.
#pragma once

#include <cstdint>

#include "kernels/spgemm/row/schedule.hpp"
#include "kernels/spgemm/shared/thread_groups.cuh"

namespace tessera::row_spgemm {

/// The kLanes lanes of a warp that make a row. All lanes of the warp call sync().
template <int kLanes_>
struct LanesOfWarp {
  static constexpr int kLanes = kLanes_;

  static __device__ int lane() { return spgemm::lane_of_warp() % kLanes; }
  static __device__ void sync() { __syncwarp(); }
};

/// Slots of the table of that many cells at most. Where words are searched, half of them stay
/// empty, which ends every search.
TESSERA_HOST_DEVICE constexpr int most_mask_slots(int cells) { return 2 * cells; }

/// The words of some consecutive cells of a row of M.
class MaskWords {
 public:
  /// The bytes of shared memory for at most `most_cells` cells, a power of two; aligned to 8.
  static constexpr int bytes(int most_cells) {
    return most_mask_slots(most_cells) * static_cast<int>(sizeof(WordOfB) + sizeof(std::uint16_t));
  }

  /// The table of `count` cells with ascending columns from first_col to last_col. Every thread of
  /// the group calls it, then waits for the group, then calls fill().
  template <class Group>
  static __device__ MaskWords cleared(unsigned char* memory, int most_cells, int count,
                                      std::int32_t first_col, std::int32_t last_col) {
    MaskWords words;
    int slot_bits = 1;
    if (count > 0) {
      const int range = word_of(last_col) - word_of(first_col) + 1;
      // In a table as long as their range, words have slots of their own.
      words.is_direct_ = range <= min(4 * count, most_mask_slots(most_cells));
      const int wanted = words.is_direct_ ? range : 2 * min(count, range);
      while (1 << slot_bits < wanted) ++slot_bits;
      // The high bits of the product are those of the word, or the golden ratio's multiples.
      words.factor_ = words.is_direct_ ? 1u << (kBitsOfHash - slot_bits) : 0x9E3779B1u;
    }
    const int slots = 1 << slot_bits;
    words.shift_ = kBitsOfHash - slot_bits;
    words.last_slot_ = slots - 1;
    words.words_ = reinterpret_cast<WordOfB*>(memory);
    words.numbers_ = reinterpret_cast<std::uint16_t*>(words.words_ + most_mask_slots(most_cells));
    for (int i = Group::lane(); i < slots; i += Group::kLanes) words.words_[i] = {kNone, 0};
    return words;
  }

  /// Enters the cells and calls visit(number, column) with each. The caller waits for the group
  /// afterwards.
  template <class Group, class Visit>
  __device__ void fill(const std::int32_t* cols, int count, Visit visit) const {
    for (int i = Group::lane(); i < count; i += Group::kLanes) {
      const std::int32_t col = cols[i];
      visit(i, col);
      const int slot = enter(col);
      if (i == 0 || word_of(cols[i - 1]) != word_of(col)) set_number(slot, i);
    }
  }

  /// Enters a column and returns the slot of its word.
  __device__ int enter(std::int32_t col) const {
    const std::int32_t word = word_of(col);
    int slot = slot_of(word);
    for (;;) {
      const int was = atomicCAS(&words_[slot].word, kNone, word);
      if (was == kNone || was == word) break;
      slot = (slot + 1) & last_slot_;
    }
    atomicOr(&words_[slot].columns, 1u << (col % kWordCols));
    return slot;
  }

  /// Sets the number of the word in a slot: fill() takes that of its first cell.
  __device__ void set_number(int slot, int number) const {
    numbers_[slot] = static_cast<std::uint16_t>(number);
  }

  /// The columns of a word that have cells, and its slot.
  struct Word {
    std::uint32_t columns;
    int slot;
  };
  /// The word of the table; without columns where the table lacks it, and for that of column -1.
  __device__ Word find_word(std::int32_t word) const {
    int slot = slot_of(word);
    WordOfB at = words_[slot];
    while (!is_direct_ && at.word != word && at.word != kNone) {
      slot = (slot + 1) & last_slot_;
      at = words_[slot];
    }
    // A slot without a word has no columns.
    return {at.word == word ? at.columns : 0, slot};
  }

  /// The number of a word that has columns.
  __device__ int number_of(const Word& word) const { return numbers_[word.slot]; }

  /// The number of a column's cell among the cells of the table, -1 of one without a cell and of
  /// column -1. The numbers of words are those of fill().
  __device__ int find(std::int32_t col) const {
    const Word word = find_word(col >> kWordBits);
    const bool is_cell = word.columns >> (static_cast<std::uint32_t>(col) % kWordCols) & 1;
    return is_cell ? number_of(word) + __popc(word.columns & spgemm::bits_before(col)) : -1;
  }

 private:
  static constexpr std::int32_t kNone = -1;  // the word of column -1, too
  static constexpr int kWordBits = 5;
  static_assert(1 << kWordBits == kWordCols);

  static constexpr int kBitsOfHash = 32;

  /// The slot at which the search for a word begins.
  __device__ int slot_of(std::int32_t word) const {
    return static_cast<int>(static_cast<std::uint32_t>(word) * factor_ >> shift_);
  }

  bool is_direct_ = true;  // a word is in the slot at which its search begins, or in none
  int last_slot_ = 0;      // the number of slots, a power of two, less one
  std::uint32_t factor_ = 0;
  int shift_ = 0;
  WordOfB* words_ = nullptr;
  std::uint16_t* numbers_ = nullptr;
};

}  // namespace tessera::row_spgemm
