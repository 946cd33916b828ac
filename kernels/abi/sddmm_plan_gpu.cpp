// Plans of an SDDMM on a GPU: those of kernels/sddmm/plan, with errors of CUDA told apart.

#include "experiments/points/point.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/call_syntax.hpp"
#include "kernels/abi/plan.hpp"
#include "kernels/abi/plans_on_device.hpp"
#include "kernels/sddmm/plan/sddmm_plan.hpp"

namespace tessera::abi {
namespace {

SddmmPlanOptions options_of(const SddmmRequest& request) {
  SddmmPlanOptions options;
  options.candidates.clear();
  for (const PlanKernel& kernel : request.kernels)
    options.candidates.push_back({kernel.name, kernel.params});
  options.operands = type_of(request.type);
  if (request.narrow_result) options.result = options.operands;
  options.scales_by_a = request.scales_by_a;
  return options;
}

class SddmmGpuPlan final : public GpuSddmmPlan {
 public:
  SddmmGpuPlan(const CsrMatrix& a, std::int64_t k, const SddmmRequest& request)
      : options_(options_of(request)),
        plan_(on_device([&] { return SddmmPlan(a, k, options_); })) {}

  void run(const void* x, const void* y, void* s, void* stream) override {
    on_device([&] { plan_.run({x, y, s}, static_cast<cudaStream_t>(stream)); });
  }

  void set_values(const float* values, void* stream) override {
    on_device([&] { plan_.set_values(values, static_cast<cudaStream_t>(stream)); });
  }

  Json describe() const override {
    Json timings = Json::array();
    for (const SddmmTiming& timing : plan_.timings()) {
      Json one{{"kernel", call_text(timing.candidate.kernel, timing.candidate.params)}};
      if (timing.us > 0) one["us"] = timing.us;
      if (!timing.problem.empty()) one["problem"] = timing.problem;
      timings.push_back(one);
    }
    return {{"rows", plan_.rows()},
            {"cols", plan_.cols()},
            {"nnz", plan_.nnz()},
            {"k", plan_.k()},
            {"type", name_of(options_.operands)},
            {"result", name_of(options_.result)},
            {"scales_by_a", options_.scales_by_a},
            {"kernel", call_text(plan_.kernel().kernel, plan_.kernel().params)},
            {"packed_bytes", plan_.packed_bytes()},
            {"timings", timings}};
  }

 private:
  SddmmPlanOptions options_;
  SddmmPlan plan_;
};

class SddmmPlanMaker final : public GpuSddmmPlanMaker {
 public:
  std::unique_ptr<GpuSddmmPlan> make(const CsrMatrix& a, std::int64_t k,
                                     const SddmmRequest& request) const override {
    return std::make_unique<SddmmGpuPlan>(a, k, request);
  }
};

const Register<GpuSddmmPlanMaker> entry{{
    .name = "sddmm",
    .summary = "plans of kernels/sddmm/plan",
    .make = [](const Params&) { return std::make_unique<SddmmPlanMaker>(); },
}};

}  // namespace
}  // namespace tessera::abi
