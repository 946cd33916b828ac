// Backend "emulate": the values a GPU would compute, bit for bit, on the CPU.

#include <chrono>

#include "experiments/backends/backend.hpp"
#include "experiments/backends/restore.hpp"
#include "formats/base/registry.hpp"
#include "model/device.hpp"

namespace tessera {
namespace {

/// C of a product of either kind.
DenseMatrix emulated_c(const Multiplication& m, const Generation& generation) {
  return emulate_c(m.kernel, m.a, m.b, generation);
}
CsrMatrix emulated_c(const SparseMultiplication& m, const Generation& generation) {
  return m.kernel.emulate(m.a, m.b, generation);
}

template <class Result, class Product>
Result emulated(const Product& m) {
  const Device& device = find_device(m.point.device);
  const auto start = std::chrono::steady_clock::now();
  Result result;
  result.generation = device.generation;
  result.c = emulated_c(m, find_generation(device.generation));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  result.findings.emulate_s = elapsed.count();
  return result;
}

class EmulateBackend final : public Backend {
 public:
  std::string origin() const override { return "emulated"; }

  BackendResult run(const Multiplication& m) const override {
    auto result = emulated<BackendResult>(m);
    if (dense_product(m.point).unpermute)
      result.findings.unpermute = time_restoring(*result.c, m.rows);
    return result;
  }

  SparseProductResult multiply(const SparseMultiplication& m) const override {
    return emulated<SparseProductResult>(m);
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
