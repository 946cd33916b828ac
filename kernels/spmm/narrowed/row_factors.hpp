// The powers of two by which rows of A are scaled to FP16's range, for kernels that narrow B and
// multiply on tensor cores.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "formats/base/check.hpp"
#include "kernels/spmm/narrowed/narrowed_b.hpp"

namespace tessera::narrowed {

class RowFactors {
 public:
  explicit RowFactors(std::int64_t rows) : factors_(static_cast<std::size_t>(rows), 0.0f) {}

  /// Takes a value of a row into account.
  void see(std::int64_t row, float value) {
    const float magnitude = std::abs(value);
    if (magnitude > factors_[row] || std::isnan(magnitude)) factors_[row] = magnitude;
  }

  /// Makes factors of what was seen. Throws Unsupported for a row whose largest magnitude cannot be
  /// scaled.
  void close() {
    for (std::size_t row = 0; row < factors_.size(); ++row) {
      const float factor = factor_of(factors_[row], kRowExponent);
      require<Unsupported>(
          factor != 0,
          "fp16_scaled takes rows of A whose largest magnitude is between 2^-{} and "
          "2^{}; that of row {} is {}",
          kMostExponent, kMostExponent + 1, row, factors_[row]);
      factors_[row] = factor;
    }
  }

  float of(std::int64_t row) const { return factors_[row]; }

  /// The powers of two that bring sums back. [rows]
  std::vector<float> inverses() const {
    std::vector<float> inverses(factors_.size());
    std::ranges::transform(factors_, inverses.begin(), [](float factor) { return 1 / factor; });
    return inverses;
  }

 private:
  std::vector<float> factors_;  // [rows]
};

}  // namespace tessera::narrowed
