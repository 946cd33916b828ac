#include "experiments/tables/time_comparison.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "model/student_t.hpp"

namespace tessera {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-9;     // of exact times, whose computation may differ by rounding
constexpr double kTwoSided95 = 1.960;  // standard deviations of a normal distribution
constexpr double kMostFreedom = 1e6;   // beyond, Student's t is normal
constexpr int kResamples = 4000;
constexpr std::size_t kFewestMatrices = 5;

/// The difference of two logarithms, in multiples of what is known of it.
struct Difference {
  double log = 0;  // ln(time of B / time of A)
  double error = 0;
  double freedom = kMostFreedom;
  double threshold = 0;  // of the logarithm

  bool is_exact() const { return error == 0; }
  /// Probability of a difference this large or larger where the true one is `limit`.
  double above(double limit) const {
    return is_unknown() ? 1 : student_t_above((log - limit) / error, freedom);
  }
  double below(double limit) const {
    return is_unknown() ? 1 : student_t_above((limit - log) / error, freedom);
  }
  bool is_unknown() const { return !std::isfinite(error); }
};

Difference difference(const TimePair& pair) {
  require(pair.a.us > 0 && pair.b.us > 0, "times of {} and {} us cannot be compared", pair.a.us,
          pair.b.us);
  Difference found{.log = std::log(pair.b.us / pair.a.us),
                   .error = std::hypot(pair.a.error, pair.b.error),
                   .threshold = std::log1p(pair.threshold)};
  // Welch and Satterthwaite.
  double rest = 0;
  for (const TimeEstimate* time : {&pair.a, &pair.b})
    if (time->error > 0) rest += std::pow(time->error / found.error, 4) / time->freedom;
  if (std::isfinite(rest) && rest > 0) found.freedom = std::min(1 / rest, kMostFreedom);
  return found;
}

Interval interval_of(const Difference& difference) {
  if (difference.is_unknown()) return {0, kInfinite};
  double half = 0;
  if (!difference.is_exact()) half = difference.error * student_t_limit(0.95, difference.freedom);
  return {std::exp(-difference.log - half), std::exp(-difference.log + half)};
}

TimeVerdict exact_verdict(const Difference& difference) {
  if (std::abs(difference.log) <= std::max(difference.threshold, kRounding))
    return TimeVerdict::kSame;
  return difference.log > 0 ? TimeVerdict::kSlower : TimeVerdict::kFaster;
}

/// The verdict on a difference that is not called faster or slower.
TimeVerdict same_or_ambiguous(const Difference& difference, double alpha) {
  const bool same = difference.above(-difference.threshold) <= alpha &&
                    difference.below(difference.threshold) <= alpha;
  return same ? TimeVerdict::kSame : TimeVerdict::kAmbiguous;
}

/// Holm's procedure: the places of the p-values that are rejected.
std::vector<std::size_t> rejected_of(const std::vector<double>& p_values, double alpha) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return p_values[i]; });
  for (std::size_t rank = 0; rank < order.size(); ++rank)
    if (p_values[order[rank]] > alpha / static_cast<double>(order.size() - rank)) {
      order.resize(rank);
      break;
    }
  return order;
}

}  // namespace

TimeEstimate measured_time(double median_us, double p5_us, double p95_us, std::int64_t samples) {
  if (samples < 2) return {median_us, kInfinite, 1};
  const auto n = static_cast<double>(samples);
  const double slope = std::max(p95_us - median_us, median_us - p5_us) / 0.45;
  return {median_us, slope / (2 * std::sqrt(n)) / median_us, n - 1};
}

TimeEstimate predicted_time(double us, double half_interval) {
  return {us, half_interval / kTwoSided95, kInfinite};
}

std::vector<TimeComparison> compare_times(std::span<const TimePair> pairs, double alpha) {
  require(alpha > 0 && alpha < 0.5, "an error rate of {} is not between 0 and 0.5", alpha);
  std::vector<TimeComparison> results;
  std::vector<Difference> differences;
  std::vector<std::size_t> noisy;  // places
  std::vector<double> p_values;    // of the noisy ones, in either direction
  for (const TimePair& pair : pairs) {
    const Difference& found = differences.emplace_back(difference(pair));
    results.push_back({.speed = std::exp(-found.log), .interval = interval_of(found)});
    if (found.is_exact()) {
      results.back().verdict = exact_verdict(found);
      continue;
    }
    results.back().verdict = same_or_ambiguous(found, alpha);
    noisy.push_back(differences.size() - 1);
    p_values.push_back(
        std::min(1.0, 2 * std::min(found.above(found.threshold), found.below(-found.threshold))));
  }
  for (const std::size_t rank : rejected_of(p_values, alpha)) {
    const std::size_t place = noisy[rank];
    results[place].verdict =
        differences[place].log > 0 ? TimeVerdict::kSlower : TimeVerdict::kFaster;
  }
  return results;
}

SpeedMean mean_speed(std::span<const double> speeds, std::span<const std::string> matrix_of,
                     std::uint64_t seed) {
  require(!speeds.empty() && speeds.size() == matrix_of.size(),
          "a mean of {} speeds of {} matrices", speeds.size(), matrix_of.size());
  struct Sum {
    double logs = 0;
    double count = 0;
  };
  std::map<std::string, Sum> by_matrix;
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    Sum& sum = by_matrix[matrix_of[i]];
    sum.logs += std::log(speeds[i]);
    sum.count += 1;
  }
  std::vector<Sum> sums;
  Sum all;
  for (const auto& [name, sum] : by_matrix) {
    sums.push_back(sum);
    all.logs += sum.logs;
    all.count += sum.count;
  }
  SpeedMean mean{.speed = std::exp(all.logs / all.count), .matrices = sums.size()};
  if (sums.size() < kFewestMatrices) return mean;

  RandomSequence draws(seed);
  std::vector<double> means;
  for (int resample = 0; resample < kResamples; ++resample) {
    Sum drawn;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const Sum& sum = sums[draws.below(sums.size())];
      drawn.logs += sum.logs;
      drawn.count += sum.count;
    }
    means.push_back(drawn.logs / drawn.count);
  }
  std::ranges::sort(means);
  const auto at = [&](double share) {
    return std::exp(means[static_cast<std::size_t>(share * (kResamples - 1))]);
  };
  mean.interval = Interval{at(0.025), at(0.975)};
  return mean;
}

}  // namespace tessera
