// Plans of the C interface on a GPU: those of kernels/spmm/plan, with errors of CUDA told apart.

#include <cuda_runtime_api.h>

#include "experiments/points/point.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/call_syntax.hpp"
#include "kernels/abi/guarded.hpp"
#include "kernels/abi/plan.hpp"
#include "kernels/abi/plans_on_device.hpp"
#include "kernels/spmm/plan/spmm_plan.hpp"

namespace tessera::abi {
namespace {

SpmmPlanOptions options_of(const PlanRequest& request) {
  SpmmPlanOptions options;
  options.candidates.clear();
  for (const PlanKernel& kernel : request.kernels)
    options.candidates.push_back(
        {kernel.name, kernel.params, kernel.format, "", 0, kernel.most_predicted});
  options.storage = {type_of(request.type), type_of(request.type)};
  options.rows = request.row_order;
  options.converts_b = options.converts_c = request.strided;
  options.sets_values = request.sets_values;
  options.expected_products = request.expected_products;
  return options;
}

class SpmmGpuPlan final : public GpuPlan {
 public:
  SpmmGpuPlan(const CsrMatrix& a, std::int64_t n, const PlanRequest& request)
      : strided_(request.strided),
        type_(type_of(request.type)),
        plan_(on_device([&] { return SpmmPlan(a, n, options_of(request)); })) {}

  void run(std::int64_t count, const void* b, const DenseBatch& of_b, void* c,
           const DenseBatch& of_c, float alpha, float beta, void* stream) override {
    const auto queue = static_cast<cudaStream_t>(stream);
    const std::int64_t n = plan_.n();
    require(of_b.ld >= n && of_c.ld >= n,
            "rows of B and C are {} and {} elements apart, but have {}", of_b.ld, of_c.ld, n);
    require(strided_ || (of_b.ld == n && of_c.ld == n),
            "rows of B and C are {} and {} elements apart instead of {}: the plan needs the option "
            "strided",
            of_b.ld, of_c.ld, n);
    on_device([&] {
      plan_.run_batch(count, {b, Order::kRowMajor, of_b.ld}, of_b.stride,
                      {c, Order::kRowMajor, of_c.ld}, of_c.stride, {alpha, beta}, queue);
    });
  }

  void set_values(const float* values, void* stream) override {
    on_device([&] { plan_.set_values(values, static_cast<cudaStream_t>(stream)); });
  }

  std::int64_t workspace_bytes() const override { return plan_.workspace_bytes(); }

  Json describe() const override {
    const SpmmCandidate& chosen = plan_.kernel();
    Json timings = Json::array();
    for (const SpmmTiming& timing : plan_.timings()) {
      Json one{{"kernel", call_text(timing.candidate.kernel, timing.candidate.params)}};
      if (!timing.candidate.order.empty()) one["order"] = timing.candidate.order;
      if (timing.us > 0) one["us"] = timing.us;
      if (timing.preparation_us > 0) one["preparation_us"] = timing.preparation_us;
      if (timing.predicted_us > 0) one["predicted_us"] = timing.predicted_us;
      if (!timing.algorithm.empty()) one["algorithm"] = timing.algorithm;
      if (!timing.problem.empty()) one["problem"] = timing.problem;
      timings.push_back(one);
    }
    return {{"rows", plan_.rows()},
            {"cols", plan_.cols()},
            {"n", plan_.n()},
            {"type", name_of(type_)},
            {"kernel", call_text(chosen.kernel, chosen.params)},
            {"order", plan_.preparation().order},
            {"order_reason", plan_.preparation().reason},
            {"packed_bytes", plan_.packed_bytes()},
            {"workspace_bytes", plan_.workspace_bytes()},
            {"timings", timings}};
  }

 private:
  bool strided_;
  ElementType type_;
  SpmmPlan plan_;
};

class SpmmPlanMaker final : public GpuPlanMaker {
 public:
  std::unique_ptr<GpuPlan> make(const CsrMatrix& a, std::int64_t n,
                                const PlanRequest& request) const override {
    return std::make_unique<SpmmGpuPlan>(a, n, request);
  }
};

const Register<GpuPlanMaker> entry{{
    .name = "spmm",
    .summary = "plans of kernels/spmm/plan",
    .make = [](const Params&) { return std::make_unique<SpmmPlanMaker>(); },
}};

}  // namespace
}  // namespace tessera::abi
