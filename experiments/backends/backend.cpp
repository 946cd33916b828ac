#include "experiments/backends/backend.hpp"

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "model/described_limits.hpp"

namespace tessera {

namespace {

[[noreturn]] void refuse(const Point& point, const char* task) {
  throw Error(fmt::format("backend {} does not {}", point.backend, task));
}

}  // namespace

CsrMatrix emulate(const SparseMultiplication& m, const Generation& generation) {
  return m.mask ? m.kernel.emulate_masked(m.a, m.b, *m.mask, generation)
                : m.kernel.emulate(m.a, m.b, generation);
}

GpuLimits Backend::gpu_limits(const Point& point) const {
  return described_limits(find_device(point.device));
}

BackendResult Backend::run(const Multiplication& multiplication) const {
  refuse(multiplication.point, "multiply");
}

SparseProductResult Backend::multiply(const SparseMultiplication& multiplication) const {
  refuse(multiplication.point, "multiply sparse matrices");
}

SampledProductResult Backend::multiply(const SampledMultiplication& multiplication) const {
  refuse(multiplication.point, "multiply at the nonzeros of a matrix");
}

PackingResult Backend::pack(const PackingInput& packing) const { refuse(packing.point, "pack"); }

OrderingResult Backend::reorder(const OrderingInput& ordering) const {
  refuse(ordering.point, "reorder");
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
