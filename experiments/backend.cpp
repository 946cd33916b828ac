#include "experiments/backend.hpp"

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"

namespace tessera {

BackendResult Backend::run(const Multiplication& multiplication) const {
  throw Error(fmt::format("backend {} packs and does not multiply", multiplication.point.backend));
}

PackingResult Backend::pack(const Packing& packing) const {
  throw Error(fmt::format("backend {} multiplies and does not pack", packing.point.backend));
}

BackendChoice find_backend(const std::string& name) {
  const auto& registry = Registry<Backend>::instance();
  if (backend_traits(name).needs_gpu && !registry.contains(name))
    return {nullptr, "this build has no CUDA half"};
  auto backend = registry.make(name);
  std::string missing = backend->unavailable();
  return {std::move(backend), std::move(missing)};
}

}  // namespace tessera
