// Plans of an SDDMM for the C interface: their options here, their work in sddmm_plan_gpu.cpp.

#include "experiments/backends/backend.hpp"
#include "formats/base/registry.hpp"
#include "kernels/abi/guarded.hpp"
#include "kernels/abi/matrices.hpp"
#include "kernels/abi/options.hpp"
#include "kernels/abi/plan.hpp"

using namespace tessera;
using namespace tessera::abi;

struct tessera_sddmm_plan {
  std::unique_ptr<GpuSddmmPlan> gpu;
};

namespace tessera::abi {
namespace {

constexpr tessera_sddmm_options kSddmmDefaults{.size = sizeof(tessera_sddmm_options),
                                               .num_kernels = 0,
                                               .kernels = nullptr,
                                               .precision = TESSERA_FASTEST,
                                               .type = TESSERA_FP32,
                                               .narrow_result = 0,
                                               .scales_by_a = 0};

SddmmRequest sddmm_request_of(const tessera_sddmm_options* given) {
  const tessera_sddmm_options options = options_of(given, kSddmmDefaults);
  require_plan_type(options.type);
  return {.kernels = kernels_of(options.num_kernels, options.kernels, options.precision,
                                options.type, "tessera_sddmm", "rows_sddmm"),
          .type = options.type,
          .narrow_result = options.narrow_result != 0,
          .scales_by_a = options.scales_by_a != 0};
}

}  // namespace
}  // namespace tessera::abi

void tessera_sddmm_options_init(tessera_sddmm_options* options) {
  if (options != nullptr) *options = kSddmmDefaults;
}

tessera_status tessera_sddmm_plan_create(const tessera_csr* a, int64_t k,
                                         const tessera_sddmm_options* options,
                                         tessera_sddmm_plan** plan) {
  if (plan != nullptr) *plan = nullptr;
  return guarded([&] {
    require_pointer(plan, "plan");
    // The plan keeps what it packs, and some formats are A's own arrays.
    const CsrMatrix matrix = copy_of(a);
    const SddmmRequest request = sddmm_request_of(options);
    const BackendChoice gpu = find_backend("gpu");
    require<Unsupported>(gpu.missing.empty(), "a plan needs a GPU: {}", gpu.missing);
    const auto maker = Registry<GpuSddmmPlanMaker>::instance().make("sddmm");
    *plan = new tessera_sddmm_plan{maker->make(matrix, k, request)};
  });
}

tessera_status tessera_sddmm_plan_run(tessera_sddmm_plan* plan, const void* x, const void* y,
                                      void* s, void* stream) {
  return guarded([&] {
    require_pointer(plan, "plan");
    plan->gpu->run(x, y, s, stream);
  });
}

tessera_status tessera_sddmm_plan_set_values(tessera_sddmm_plan* plan, const float* values,
                                             void* stream) {
  return guarded([&] {
    require_pointer(plan, "plan");
    plan->gpu->set_values(values, stream);
  });
}

tessera_status tessera_sddmm_plan_describe(const tessera_sddmm_plan* plan, char** json) {
  if (json != nullptr) *json = nullptr;
  return guarded([&] {
    require_pointer(plan, "plan");
    require_pointer(json, "json");
    *json = text_of(plan->gpu->describe());
  });
}

void tessera_sddmm_plan_destroy(tessera_sddmm_plan* plan) { delete plan; }
