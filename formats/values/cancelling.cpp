// cancelling: sums of a given condition number |A||B| / |AB|, whatever the length of a row.
//
// With d = 1 / condition: half of a row's values are positive, half negative, in random order, and
// the positive ones are scaled so that the row sums to +-d times the sum of its magnitudes S. With
// B = 1 + d r, r uniform in (-1, 1), an element of C is +-d S + d sum(a r). The second term is
// never larger than the first and shrinks against it like 1 / sqrt(length), so the condition is
// condition / (1 + theta), |theta| < 1. A row of one nonzero has condition 1, as it must.
//
// The last value of a row absorbs the rounding errors of the others; half a unit in the last place
// of one value remains, which bounds the attainable condition to 1e7.

#include <algorithm>
#include <cmath>
#include <span>

#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "formats/values/value_family.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kRowGrain = 256;

/// Fills one row, which has a seed of its own.
void fill_row(std::span<float> values, double condition, std::uint64_t seed) {
  RandomSequence random(seed);
  const bool flipped = (random.bits() & 1) != 0;
  std::vector<double> row(values.size());
  double positive = 0, negative = 0;
  for (std::size_t k = 0; k < row.size(); ++k) {
    row[k] = 0.5 + 0.5 * random.unit();
    if (k % 2 == 0) {
      positive += row[k];
    } else {
      negative += row[k];
      row[k] = -row[k];
    }
  }
  random.shuffle(row);

  // scale * positive - negative = (scale * positive + negative) / condition
  const double scale =
      negative > 0 ? negative * (condition + 1) / (positive * (condition - 1)) : 1.0;
  const double sign = flipped ? -1 : 1;
  double left = negative > 0 ? 2 * negative / (condition - 1) : positive;
  for (std::size_t k = 0; k + 1 < row.size(); ++k) {
    const auto rounded = static_cast<float>(row[k] > 0 ? row[k] * scale : row[k]);
    values[k] = static_cast<float>(sign) * rounded;
    left -= rounded;
  }
  if (!row.empty()) values.back() = static_cast<float>(sign * left);
}

class Cancelling final : public ValueFamily {
 public:
  explicit Cancelling(double condition) : condition_(condition) {}

  Array<float> a_values(const CsrMatrix& stored, std::uint64_t seed) const override {
    std::vector<float> values(static_cast<std::size_t>(stored.nnz()));
    parallel_for(stored.rows, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        fill_row(std::span(values).subspan(stored.row_offsets[row], stored.row_length(row)),
                 condition_, random_bits(seed, row));
    });
    return values;
  }
  DenseMatrix b(std::int64_t rows, std::int64_t cols, std::uint64_t seed) const override {
    return draw_dense(rows, cols, [&](std::uint64_t i) {
      return static_cast<float>(1 + random_signed(seed, i) / condition_);
    });
  }

 private:
  double condition_;
};

const Register<ValueFamily> entry{{
    .name = "cancelling",
    .summary = "rows that cancel: a given condition number |A||B| / |AB|",
    .params = {{"condition", 1e4, "condition number, approximately", {}, 2, 1e7}},
    .make =
        [](const Params& params) { return std::make_unique<Cancelling>(params.real("condition")); },
}};

}  // namespace
}  // namespace tessera
