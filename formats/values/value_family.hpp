// A value family: what stands in the nonzeros of A, and in B, the pattern of A being given.
//
// Errors depend on values as much as on arithmetic, so an accuracy study sweeps both. A family says
// what both operands hold because a property of the product (its condition, that it is exact) is
// one of the pair. The seed of A and the one of B are different streams. A new family is one file
// here; configs say values = "normal", or values = "cancelling(condition=1e4)".
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/parallel.hpp"

namespace tessera {

class ValueFamily {
 public:
  static constexpr const char* kKind = "value family";
  virtual ~ValueFamily() = default;

  /// Values of the nonzeros of A in CSR order, [nnz]. `stored` is A with the values of its file.
  virtual Array<float> a_values(const CsrMatrix& stored, std::uint64_t seed) const = 0;

  /// B [rows x cols]. Unless a family needs another one: in (-1, 1), never zero.
  virtual DenseMatrix b(std::int64_t rows, std::int64_t cols, std::uint64_t seed) const {
    return random_dense(rows, cols, seed);
  }

  /// The family this one comes down to for that matrix; empty when it is one of its own.
  virtual std::string chosen_for(const CsrMatrix&) const { return {}; }
};

/// draw(0), draw(1), ..., [count], whatever the number of threads.
template <class Draw>
std::vector<float> draw_values(std::int64_t count, Draw draw) {
  constexpr std::int64_t kGrain = 1 << 16;
  std::vector<float> values(static_cast<std::size_t>(count));
  parallel_for(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) values[i] = draw(static_cast<std::uint64_t>(i));
  });
  return values;
}

/// A family whose values are independent of each other, and alike in A and B: draw(seed, index).
template <class Draw>
class IndependentValues final : public ValueFamily {
 public:
  explicit IndependentValues(Draw draw) : draw_(std::move(draw)) {}

  Array<float> a_values(const CsrMatrix& stored, std::uint64_t seed) const override {
    return draw_values(stored.nnz(), [&](std::uint64_t i) { return draw_(seed, i); });
  }
  DenseMatrix b(std::int64_t rows, std::int64_t cols, std::uint64_t seed) const override {
    DenseMatrix dense;
    dense.rows = rows;
    dense.cols = cols;
    dense.values = draw_values(rows * cols, [&](std::uint64_t i) { return draw_(seed, i); });
    return dense;
  }

 private:
  Draw draw_;
};

}  // namespace tessera
