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

/// Slots of the table of that many cells at most. Half of them stay empty, which ends every search.
TESSERA_HOST_DEVICE constexpr int most_mask_slots(int cells) { return 2 * cells; }

/// The words of some consecutive cells of a row of M.
class MaskWords {
 public:
  /// Bytes of its shared memory, aligned to 8, for at most so many cells, a power of two.
  static constexpr int bytes(int most_cells) {
    return most_mask_slots(most_cells) * static_cast<int>(sizeof(WordOfB) + sizeof(std::uint16_t));
  }

  /// The table of `count` cells with ascending columns. Every thread of the group calls it, then
  /// waits for the group, then calls fill().
  template <class Group>
  static __device__ MaskWords cleared(unsigned char* memory, int most_cells,
                                      const std::int32_t* cols, int count) {
    MaskWords words;
    int slots = 2;
    if (count > 0) {
      const int range = word_of(cols[count - 1]) - word_of(cols[0]) + 1;
      const int most = min(count, range);  // words
      while (slots < 2 * most) slots *= 2;
    }
    words.last_slot_ = slots - 1;
    words.words_ = reinterpret_cast<WordOfB*>(memory);
    words.first_cells_ =
        reinterpret_cast<std::uint16_t*>(words.words_ + most_mask_slots(most_cells));
    for (int i = Group::lane(); i < slots; i += Group::kLanes) words.words_[i] = {kNone, 0};
    return words;
  }

  /// Enters the cells. The caller waits for the group afterwards.
  template <class Group>
  __device__ void fill(const std::int32_t* cols, int count) const {
    for (int i = Group::lane(); i < count; i += Group::kLanes) {
      const std::int32_t col = cols[i], word = word_of(col);
      int slot = word & last_slot_;
      for (;;) {
        const int was = atomicCAS(&words_[slot].word, kNone, word);
        if (was == kNone || was == word) break;
        slot = (slot + 1) & last_slot_;
      }
      atomicOr(&words_[slot].columns, 1u << (col % kWordCols));
      if (i == 0 || word_of(cols[i - 1]) != word)
        first_cells_[slot] = static_cast<std::uint16_t>(i);
    }
  }

  /// The number of a column's cell among the cells of the table, -1 of one without a cell and of
  /// column -1.
  __device__ int find(std::int32_t col) const {
    const std::int32_t word = col >> kWordBits;
    int slot = word & last_slot_;
    WordOfB at = words_[slot];
    while (at.word != word && at.word != kNone) {
      slot = (slot + 1) & last_slot_;
      at = words_[slot];
    }
    // A slot without a word has no columns, whatever `word` is.
    if ((at.columns >> (static_cast<std::uint32_t>(col) % kWordCols) & 1) == 0) return -1;
    return first_cells_[slot] + __popc(at.columns & spgemm::bits_before(col));
  }

 private:
  static constexpr std::int32_t kNone = -1;  // the word of column -1, too
  static constexpr int kWordBits = 5;
  static_assert(1 << kWordBits == kWordCols);

  int last_slot_ = 0;  // the number of slots, a power of two, less one
  WordOfB* words_ = nullptr;
  std::uint16_t* first_cells_ = nullptr;
};

}  // namespace tessera::row_spgemm
