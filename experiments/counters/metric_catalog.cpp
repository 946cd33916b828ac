#include "experiments/counters/metric_catalog.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

constexpr std::size_t kNearest = 3;

/// The known names with the fewest edits to `name`, the nearest first.
std::vector<std::string> nearest(const std::string& name, std::vector<std::string> known) {
  std::vector<std::pair<int, std::string>> ranked;
  for (std::string& one : known) {
    const int edits = edit_distance(name, one);
    ranked.emplace_back(edits, std::move(one));
  }
  const std::size_t count = std::min(kNearest, ranked.size());
  std::ranges::partial_sort(ranked, ranked.begin() + static_cast<std::ptrdiff_t>(count));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back(ranked[i].second);
  return names;
}

}  // namespace

std::unique_ptr<MetricCatalog> find_metric_catalog() {
  const auto& registry = Registry<MetricCatalog>::instance();
  require<Unsupported>(registry.contains("cupti"),
                       "this build was made without the headers of CUPTI");
  return registry.make("cupti");
}

std::string metric_fault(const std::string& chip, const ChipMetrics& metrics,
                         const std::string& metric) {
  if (metrics.has(metric)) return "";
  // "CTC.TriageCompute.ctc__rx_bytes.sum": the ending begins behind the unit.
  const std::size_t unit = metric.find("__");
  const std::size_t dot = metric.find('.', unit == std::string::npos ? 0 : unit);
  const std::string name = metric.substr(0, dot);
  const std::string ending = dot == std::string::npos ? "" : metric.substr(dot);
  std::vector<std::string> names = metrics.names();
  if (!std::ranges::binary_search(names, name))
    names = nearest(name, std::move(names));
  else
    names = {name};

  std::vector<std::string> suggestions;
  for (const std::string& one : names) {
    const auto endings = metrics.endings(one);
    const bool fits = std::ranges::find(endings, ending) != endings.end();
    if (fits)
      suggestions.push_back(one + ending);
    else
      for (const std::string& other : nearest(ending.empty() ? ".sum" : ending, endings))
        suggestions.push_back(one + other);
  }
  if (suggestions.size() > kNearest) suggestions.resize(kNearest);
  return fmt::format("chip {} has no metric {}; nearest: {}", chip, metric,
                     fmt::join(suggestions, ", "));
}

}  // namespace tessera
