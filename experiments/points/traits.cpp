#include "experiments/points/traits.hpp"

#include <algorithm>
#include <utility>

namespace tessera {

BackendTraits backend_traits(std::string_view backend) {
  BackendTraits traits = *Registry<BackendTraits>::instance().make(backend);
  traits.name = backend;
  return traits;
}

std::vector<std::string> counter_sources() {
  std::vector<std::string> names{"none", "auto"};
  std::ranges::copy(Registry<CounterSourceTraits>::instance().names(), std::back_inserter(names));
  return names;
}

std::vector<std::string> auto_counter_sources() {
  const auto& registry = Registry<CounterSourceTraits>::instance();
  std::vector<std::pair<int, std::string>> ranked;
  for (const std::string& name : registry.names())
    if (const int rank = registry.make(name)->auto_rank; rank > 0) ranked.emplace_back(rank, name);
  std::ranges::sort(ranked);
  std::vector<std::string> names;
  for (auto& [rank, name] : ranked) names.push_back(std::move(name));
  return names;
}

}  // namespace tessera
