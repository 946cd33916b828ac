// A logarithmic histogram of non-negative numbers, for quantiles of more numbers than memory holds.
//
// It has 128 bins per octave: a quantile is a number of the data rounded up to eight significant
// bits, less than 2^-7 (0.8 %) too large and never too small; powers of two are exact. Counts are
// integers, so histograms filled in any order and by any number of threads have the same sum.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace tessera {

class LogHistogram {
 public:
  /// The bin of a number that is not NaN. Numbers of at most 2^-64 count as 0, numbers above 2^64
  /// as infinity. It has no branches, so that loops over it vectorise.
  static std::int32_t place(double number) {
    const auto bits = std::bit_cast<std::int64_t>(number);
    const std::int64_t rounded_up = (bits + ((std::int64_t{1} << kDropped) - 1)) >> kDropped;
    return static_cast<std::int32_t>(
        std::clamp<std::int64_t>(rounded_up - kZero, 0, std::int64_t{kInfinite}));
  }

  void add_at(std::int32_t place) {
    if (counts_.empty()) counts_.resize(kInfinite + 1);
    ++counts_[place];
  }
  void add(const LogHistogram& other);

  std::int64_t count() const;

  /// The smallest number that `percent` of the numbers do not exceed; 0 when the histogram is
  /// empty.
  double quantile(int percent) const;

 private:
  static constexpr int kDropped = 45;  // low bits of a double's 52
  static constexpr std::int64_t kZero = std::int64_t{1023 - 64} << (52 - kDropped);
  static constexpr std::int32_t kInfinite = (128 << (52 - kDropped)) + 1;

  std::vector<std::int64_t> counts_;  // [kInfinite + 1] by place, or empty
};

}  // namespace tessera
