// The powers of two by which rows of a packed A are scaled to FP16's range, for kernels that narrow
// B and multiply on tensor cores.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "formats/base/check.hpp"
#include "kernels/spmm/narrowed/narrowed_b.hpp"
#include "kernels/spmm/narrowed/narrowed_spmm.hpp"

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

/// A copy of `packed`, whose format is Packed, with scaled rows. `for_each_value(a, visit)` calls
/// visit(row, index into the array `values`) for every nonzero. Throws Unsupported as
/// RowFactors::close does.
template <class Packed, class ForEachValue>
ScaledRows scale_rows(const PackedMatrix& packed, ForEachValue for_each_value) {
  const auto& a = packed_as<Packed>(packed);
  RowFactors factors(a.rows());
  for_each_value(a,
                 [&](std::int64_t row, std::int64_t value) { factors.see(row, a.values[value]); });
  factors.close();
  auto scaled = std::make_unique<Packed>(a.rows(), a.cols(), a.nnz());
  std::apply([&](auto... arrays) { ((scaled.get()->*arrays = a.*arrays), ...); },
             std::tuple_cat(Packed::kOffsets, Packed::kArrays));
  for_each_value(
      a, [&](std::int64_t row, std::int64_t value) { scaled->values[value] *= factors.of(row); });
  return {std::move(scaled), factors.inverses()};
}

}  // namespace tessera::narrowed
