#include "formats/generators/distinct_draws.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kDrawGrain = 1 << 15;
constexpr std::int64_t kMinDraws = 1 << 12;  // a round's, also when a single key is missing
constexpr int kMaxRounds = 200;

struct Drawn {
  std::uint64_t key;
  std::int64_t place;  // of the draw in its round
};

/// Draws first, first + 1, ... of the stream, `count` of them.
std::vector<Drawn> draw_batch(std::uint64_t stream, std::int64_t first, std::int64_t count,
                              const std::function<std::uint64_t(RandomSequence& random)>& draw) {
  std::vector<Drawn> batch(count);
  parallel_for(count, kDrawGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      RandomSequence random(random_bits(stream, first + i));
      batch[i] = {draw(random), i};
    }
  });
  return batch;
}

}  // namespace

std::vector<std::uint64_t> distinct_draws(
    std::string_view owner, std::int64_t count, std::uint64_t stream,
    const std::function<std::uint64_t(RandomSequence& random)>& draw) {
  std::vector<std::uint64_t> keys;
  std::int64_t drawn = 0;
  double draws_per_key = 1.0625;
  for (int round = 0; static_cast<std::int64_t>(keys.size()) < count; ++round) {
    require(round < kMaxRounds, "{}: {} distinct entries do not fit; {} were found", owner, count,
            keys.size());
    const std::int64_t missing = count - static_cast<std::int64_t>(keys.size());
    const auto draws =
        static_cast<std::int64_t>(draws_per_key * static_cast<double>(missing)) + kMinDraws;
    std::vector<Drawn> batch = draw_batch(stream, drawn, draws, draw);
    drawn += draws;
    std::ranges::sort(batch, [](const Drawn& a, const Drawn& b) {
      return a.key != b.key ? a.key < b.key : a.place < b.place;
    });
    const auto repeated = std::ranges::unique(batch, {}, &Drawn::key);
    batch.erase(repeated.begin(), repeated.end());
    std::erase_if(batch, [&](const Drawn& d) { return std::ranges::binary_search(keys, d.key); });
    if (static_cast<std::int64_t>(batch.size()) > missing) {  // the first draws count
      std::ranges::nth_element(batch, batch.begin() + missing, {}, &Drawn::place);
      batch.resize(missing);
      std::ranges::sort(batch, {}, &Drawn::key);
    }
    const auto found = static_cast<double>(batch.size());
    draws_per_key = std::min(4.0, static_cast<double>(draws) / std::max(1.0, found));
    const auto present = static_cast<std::ptrdiff_t>(keys.size());
    for (const Drawn& d : batch) keys.push_back(d.key);
    std::ranges::inplace_merge(keys, keys.begin() + present);
  }
  return keys;
}

WeightedChoice::WeightedChoice(const std::vector<double>& weights) : before_{0} {
  before_.reserve(weights.size() + 1);
  for (const double weight : weights) before_.push_back(before_.back() + weight);
}

std::int64_t WeightedChoice::draw(RandomSequence& random, std::int64_t first,
                                  std::int64_t last) const {
  assert(0 <= first && first < last && last <= places());
  const double at = before_[first] + random.unit() * (before_[last] - before_[first]);
  const auto above = std::upper_bound(before_.begin() + first + 1, before_.begin() + last, at);
  return above - before_.begin() - 1;
}

std::vector<double> pareto_weights(std::int64_t count, double tail, std::uint64_t stream) {
  const auto steps = std::lround(tail * 256);
  std::vector<double> weights(count);
  for (std::int64_t i = 0; i < count; ++i) {
    double root = 1 / (1 - random_unit(stream, i));
    double weight = steps >= 256 ? root : 1;
    for (long bit = 128; bit > 0 && steps < 256; bit /= 2) {
      root = std::sqrt(root);
      if ((steps & bit) != 0) weight *= root;
    }
    weights[i] = weight;
  }
  return weights;
}

}  // namespace tessera
