#include "experiments/backend.hpp"

#include "formats/base/registry.hpp"

namespace tessera {

BackendChoice find_backend(const std::string& name) {
  const auto& registry = Registry<Backend>::instance();
  if (name == "gpu" && !registry.contains(name)) return {nullptr, "this build has no CUDA half"};
  auto backend = registry.make(name);
  std::string missing = backend->unavailable();
  return {std::move(backend), std::move(missing)};
}

}  // namespace tessera
