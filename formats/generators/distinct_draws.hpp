// Distinct random keys: draws are repeated until enough of them differ.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "formats/base/random.hpp"

namespace tessera {

/// `count` distinct keys, ascending. draw(random) gives one key and may be called in parallel; a
/// key drawn again does not count. The result has the same bits at any number of threads. Throws an
/// Error that names `owner` when so few keys can be drawn that the count is not reached.
std::vector<std::uint64_t> distinct_draws(
    std::string_view owner, std::int64_t count, std::uint64_t stream,
    const std::function<std::uint64_t(RandomSequence& random)>& draw);

/// Places proportional to weights.
class WeightedChoice {
 public:
  /// The choice among places 0, 1, ..., each as likely as its weight, which is positive.
  explicit WeightedChoice(const std::vector<double>& weights);

  std::int64_t draw(RandomSequence& random) const { return draw(random, 0, places()); }
  /// The choice among the places [first, last) only.
  std::int64_t draw(RandomSequence& random, std::int64_t first, std::int64_t last) const;
  std::int64_t places() const { return static_cast<std::int64_t>(before_.size()) - 1; }
  double total() const { return before_.back(); }

 private:
  std::vector<double> before_;  // [places + 1], sums of the weights in front
};

/// `count` weights (1 - u)^(-tail) with u uniform: a Pareto tail of exponent 1 + 1 / tail; all are
/// 1 for tail = 0. `tail` in [0, 1] counts in steps of 1 / 256, so that square roots suffice, whose
/// bits are the same on every machine.
std::vector<double> pareto_weights(std::int64_t count, double tail, std::uint64_t stream);

}  // namespace tessera
