#include "experiments/counters/launch_counts.hpp"

#include <algorithm>

#include "formats/base/check.hpp"

namespace tessera {
namespace {

/// The rule that combines a metric of several launches.
struct Rule {
  enum class Kind { kSum, kLeast, kGreatest, kRatio, kWeighted, kUnknown };
  Kind kind = Kind::kUnknown;
  std::string part = {};    // kRatio: 100 part / whole
  std::string whole = {};   // kRatio
  std::string weight = {};  // kWeighted
};

/// "lts__t_sectors.avg.per_second" is "lts", "t_sectors" and ".avg.per_second".
struct Parts {
  std::string unit, ending;
};

Parts split(const std::string& metric) {
  const std::size_t unit = metric.find("__");
  if (unit == std::string::npos) return {};
  const std::size_t dot = metric.find('.', unit);
  return {metric.substr(0, unit), dot == std::string::npos ? "" : metric.substr(dot)};
}

Rule rule_of(const std::string& metric) {
  using enum Rule::Kind;
  const auto [unit, ending] = split(metric);
  // Averages over the instances of a unit add like what they are averages of.
  if (ending == ".sum" || ending == ".avg") return {.kind = kSum};
  if (ending == ".min") return {.kind = kLeast};
  if (ending == ".max") return {.kind = kGreatest};
  if (metric == unit + "__t_sector_hit_rate.pct")
    return {.kind = kRatio,
            .part = unit + "__t_sectors_lookup_hit.sum",
            .whole = unit + "__t_sectors.sum"};
  for (const char* rollup : {".sum", ".avg"}) {
    for (const char* span : {"active", "elapsed"}) {
      const std::string cycles = fmt::format("{}__cycles_{}.sum", unit, span);
      for (const char* rate : {".pct_of_peak_sustained_", ".per_cycle_"})
        if (ending == fmt::format("{}{}{}", rollup, rate, span))
          return {.kind = kWeighted, .weight = cycles};
    }
    if (ending == fmt::format("{}.per_second", rollup))
      return {.kind = kWeighted, .weight = "gpu__time_duration.sum"};
  }
  return {};
}

double value_of(const LaunchCounts& launch, const std::string& metric) {
  const auto found = launch.find(metric);
  require(found != launch.end(), "the report of a launch has no {}", metric);
  return found->second;
}

double sum_of(const std::vector<LaunchCounts>& launches, const std::string& metric) {
  double sum = 0;
  for (const LaunchCounts& launch : launches) sum += value_of(launch, metric);
  return sum;
}

double combine(const std::string& metric, const std::vector<LaunchCounts>& launches) {
  if (launches.size() == 1) return value_of(launches.front(), metric);
  const Rule rule = rule_of(metric);
  std::vector<double> values;
  for (const LaunchCounts& launch : launches) values.push_back(value_of(launch, metric));
  switch (rule.kind) {
    case Rule::Kind::kSum:
      return sum_of(launches, metric);
    case Rule::Kind::kLeast:
      return std::ranges::min(values);
    case Rule::Kind::kGreatest:
      return std::ranges::max(values);
    case Rule::Kind::kRatio: {
      const double whole = sum_of(launches, rule.whole);
      return whole > 0 ? 100 * sum_of(launches, rule.part) / whole : 0;
    }
    case Rule::Kind::kWeighted: {
      const double weight = sum_of(launches, rule.weight);
      double sum = 0;
      for (std::size_t i = 0; i < launches.size(); ++i)
        sum += values[i] * value_of(launches[i], rule.weight);
      return weight > 0 ? sum / weight : 0;
    }
    case Rule::Kind::kUnknown:
      break;
  }
  throw Unsupported(
      fmt::format("{} of a product of {} launches cannot be put together from those of each: "
                  "source cupti counts them as one",
                  metric, launches.size()));
}

}  // namespace

std::vector<std::string> with_companions(const std::vector<std::string>& metrics) {
  std::vector<std::string> all = metrics;
  for (const std::string& metric : metrics) {
    const Rule rule = rule_of(metric);
    for (const std::string& other : {rule.part, rule.whole, rule.weight})
      if (!other.empty() && std::ranges::find(all, other) == all.end()) all.push_back(other);
  }
  return all;
}

LaunchCounts combine_launches(const std::vector<std::string>& metrics,
                              const std::vector<LaunchCounts>& launches) {
  require(!launches.empty(), "the report has no launch");
  LaunchCounts all;
  for (const std::string& metric : metrics) all[metric] = combine(metric, launches);
  return all;
}

}  // namespace tessera
