// Backend "emulate": the values a GPU would compute, bit for bit, on the CPU.

#include <chrono>

#include "experiments/backends/backend.hpp"
#include "experiments/backends/restore.hpp"
#include "formats/base/registry.hpp"
#include "model/device.hpp"

namespace tessera {
namespace {

/// Emulates a product of any kind: emulate(result, generation) sets the values.
template <class Result, class Emulate>
Result emulated(const Point& point, Emulate emulate) {
  const Device& device = find_device(point.device);
  const auto start = std::chrono::steady_clock::now();
  Result result;
  result.generation = device.generation;
  emulate(result, find_generation(device.generation));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  result.findings.emulate_s = elapsed.count();
  return result;
}

class EmulateBackend final : public Backend {
 public:
  std::string origin() const override { return "emulated"; }

  BackendResult run(const Multiplication& m) const override {
    auto result = emulated<BackendResult>(m.point, [&](auto& made, const Generation& generation) {
      made.c = emulate_c(m.kernel, m.a, m.b, generation);
    });
    if (dense_product(m.point).unpermute)
      result.findings.unpermute = time_restoring(*result.c, m.rows);
    return result;
  }

  SparseProductResult multiply(const SparseMultiplication& m) const override {
    return emulated<SparseProductResult>(m.point, [&](auto& made, const Generation& generation) {
      made.c = tessera::emulate(m, generation);
    });
  }

  SampledProductResult multiply(const SampledMultiplication& m) const override {
    return emulated<SampledProductResult>(m.point, [&](auto& made, const Generation& generation) {
      made.s = with_values(m.pattern, m.kernel.emulate(m.a, m.x, m.y, generation));
    });
  }
};

constexpr const char* kSummary = "the values of the GPU kernel, bit for bit, on the CPU";
const RegisterTraits<BackendTraits> traits{
    "emulate", kSummary, {.computes_c = true, .needs_device = true}};
const Register<Backend> entry{{
    .name = "emulate",
    .summary = kSummary,
    .make = [](const Params&) { return std::make_unique<EmulateBackend>(); },
}};

}  // namespace
}  // namespace tessera
