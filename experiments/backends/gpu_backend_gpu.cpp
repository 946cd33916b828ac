// Backend "gpu": the kernel itself, timed, its result brought back with proof that it was written.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "experiments/backends/backend.hpp"
#include "experiments/backends/lost_context.hpp"
#include "experiments/backends/measure_dense_product.hpp"
#include "experiments/backends/measure_sampled_product.hpp"
#include "experiments/backends/measure_sparse_product.hpp"
#include "experiments/backends/out_of_memory.hpp"
#include "experiments/machine/gpu_info.hpp"
#include "formats/base/registry.hpp"
#include "kernels/device/limits_of_gpu.hpp"
#include "kernels/device/stored_values.hpp"
#include "kernels/gpu_spmm.hpp"

namespace tessera {
namespace {

class GpuBackend final : public Backend {
 public:
  std::string origin() const override { return "measured"; }
  std::string unavailable() const override { return gpu_unavailable(); }
  bool has_lost_device() const override { return context_is_lost(); }
  void open_device() const override { open_gpu(); }
  GpuLimits gpu_limits(const Point&) const override { return limits_of_gpu(); }

  void prepare(const Multiplication& m) override {
    prepared_product_ = nullptr;  // also where this one throws
    prepared_ = device_half(m.point);
    prepared_->prepare(m.a);
    const ElementType type = m.kernel.arithmetic().storage.b;
    prepared_b_.clear();
    if (type != ElementType::kFp32) prepared_b_ = stored_in_16_bits(type, m.b.values);
    prepared_product_ = &m;
  }

  BackendResult run(const Multiplication& m) const override {
    const bool is_prepared = std::exchange(prepared_product_, nullptr) == &m;
    const std::unique_ptr<GpuSpmm> half = is_prepared ? std::move(prepared_) : device_half(m.point);
    const std::vector<std::uint16_t> b =
        is_prepared ? std::move(prepared_b_) : std::vector<std::uint16_t>();
    return forgetting_out_of_memory(
        [&] { return measure_dense_product(m, *half->upload(m.a, m.b.cols), b); });
  }

  SparseProductResult multiply(const SparseMultiplication& m) const override {
    return forgetting_out_of_memory([&] { return measure_sparse_product(m); });
  }

  SampledProductResult multiply(const SampledMultiplication& m) const override {
    return forgetting_out_of_memory([&] { return measure_sampled_product(m); });
  }

 private:
  static std::unique_ptr<GpuSpmm> device_half(const Point& point) {
    const auto& registry = Registry<GpuSpmm>::instance();
    const auto& [name, params] = dense_product(point).kernel;
    require<Unsupported>(registry.contains(name), "kernel {} has no device half", name);
    return registry.make(name, params);
  }

  // The device half of a prepared product and its B where that has 16 bits, which its run() takes:
  // another product may have the same address later.
  mutable std::unique_ptr<GpuSpmm> prepared_ = nullptr;
  mutable std::vector<std::uint16_t> prepared_b_ = {};
  mutable const Multiplication* prepared_product_ = nullptr;
};

const Register<Backend> entry{{
    .name = "gpu",
    .summary = "",  // with the traits, in gpu_backend.cpp
    .make = [](const Params&) { return std::make_unique<GpuBackend>(); },
}};

}  // namespace
}  // namespace tessera
