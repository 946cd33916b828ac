// Bank conflicts of shared memory, counted for traces.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace tessera {

/// The words of shared memory that one instruction of a warp accesses. At most 64 words.
class Banks {
 public:
  /// `word_bytes` is 4, 8 or 16: banks are grouped to words, so there are 32, 16 or 8 of them.
  explicit Banks(int word_bytes = 4) : banks_(kBankedBytes / word_bytes) {}

  void add(std::int64_t word) { words_[size_++] = word; }
  bool is_empty() const { return size_ == 0; }

  /// The wavefronts of a load or store: the largest number of different words in a bank.
  int wavefronts() { return most(false); }

  /// The accesses of an atomic, which lanes make one after another: the largest number of lanes
  /// that access a bank.
  int turns() { return most(true); }

  /// The largest number of lanes that access the same word.
  int most_of_a_word() {
    std::sort(words_.begin(), words_.begin() + size_);
    int most = 0, same = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      same = i > 0 && words_[i] == words_[i - 1] ? same + 1 : 1;
      most = std::max(most, same);
    }
    return most;
  }

 private:
  static constexpr int kBankedBytes = 128;

  int most(bool counts_same) {
    if (!counts_same) std::sort(words_.begin(), words_.begin() + size_);
    std::array<int, 32> of_bank{};
    for (std::size_t i = 0; i < size_; ++i)
      if (counts_same || i == 0 || words_[i] != words_[i - 1])
        ++of_bank[static_cast<std::size_t>(words_[i] % banks_)];
    return *std::max_element(of_bank.begin(), of_bank.end());
  }

  std::int64_t banks_;
  std::array<std::int64_t, 64> words_;
  std::size_t size_ = 0;
};

}  // namespace tessera
