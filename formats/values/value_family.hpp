// A value family: the values of the nonzeros of A, whose pattern is given, and of B.
//
// Errors depend on values as much as on arithmetic, so an accuracy study sweeps both. A family
// defines both operands because a property of the product (its condition, its exactness) belongs to
// the pair. A and B draw from different streams. A new family is one file in this folder; configs
// name it: values = "normal", or values = "cancelling(condition=1e4)".
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/random.hpp"

namespace tessera {

class ValueFamily {
 public:
  static constexpr const char* kKind = "value family";
  virtual ~ValueFamily() = default;

  /// Values of the nonzeros of A in CSR order, [nnz]. `stored` is A with the values of its file.
  virtual Array<float> a_values(const CsrMatrix& stored, std::uint64_t seed) const = 0;

  /// B [rows x cols]. By default its values lie in (-1, 1) and are never zero.
  virtual DenseMatrix b(std::int64_t rows, std::int64_t cols, std::uint64_t seed) const {
    return random_dense(rows, cols, seed);
  }

  /// The name of the family that this one selects for the matrix ("auto" selects "random" or
  /// "stored"); empty for a family that selects none.
  virtual std::string chosen_for(const CsrMatrix&) const { return {}; }
};

/// Sets values[i] to draw(i), the same at any number of threads.
template <class Draw>
void draw_into(std::span<float> values, Draw draw) {
  constexpr std::int64_t kGrain = 1 << 16;
  parallel_for(std::ssize(values), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) values[i] = draw(static_cast<std::uint64_t>(i));
  });
}

/// The values draw(0), ..., draw(count - 1).
template <class Draw>
std::vector<float> draw_values(std::int64_t count, Draw draw) {
  std::vector<float> values(static_cast<std::size_t>(count));
  draw_into(values, draw);
  return values;
}

/// B [rows x cols] of the values draw(0), draw(1), ..., row by row.
template <class Draw>
DenseMatrix draw_dense(std::int64_t rows, std::int64_t cols, Draw draw) {
  DenseMatrix dense(rows, cols);
  draw_into(dense.values, draw);
  return dense;
}

/// `count` values in (-1, 1), never zero.
inline std::vector<float> random_values(std::int64_t count, std::uint64_t seed) {
  return draw_values(count, [=](std::uint64_t i) { return random_signed(seed, i); });
}

/// A family whose values are independent and identically distributed in A and B: draw(seed, index).
template <class Draw>
class IndependentValues final : public ValueFamily {
 public:
  explicit IndependentValues(Draw draw) : draw_(std::move(draw)) {}

  Array<float> a_values(const CsrMatrix& stored, std::uint64_t seed) const override {
    return draw_values(stored.nnz(), [&](std::uint64_t i) { return draw_(seed, i); });
  }
  DenseMatrix b(std::int64_t rows, std::int64_t cols, std::uint64_t seed) const override {
    return draw_dense(rows, cols, [&](std::uint64_t i) { return draw_(seed, i); });
  }

 private:
  Draw draw_;
};

}  // namespace tessera
