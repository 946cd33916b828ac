// Plans of the C interface: their options here, their work in spmm_plan_gpu.cpp.

#include "kernels/abi/plan.hpp"

#include "experiments/backends/backend.hpp"
#include "formats/base/registry.hpp"
#include "formats/dense_tiles.hpp"
#include "formats/io/call_syntax.hpp"
#include "kernels/abi/guarded.hpp"
#include "kernels/abi/matrices.hpp"
#include "kernels/abi/options.hpp"
#include "kernels/spmm_kernel.hpp"

using namespace tessera;
using namespace tessera::abi;

struct tessera_spmm_plan {
  std::unique_ptr<GpuPlan> gpu;
};

namespace tessera::abi {
namespace {

constexpr tessera_spmm_options kDefaults{.size = sizeof(tessera_spmm_options),
                                         .num_kernels = 0,
                                         .kernels = nullptr,
                                         .formats = nullptr,
                                         .precision = TESSERA_FASTEST,
                                         .type = TESSERA_FP32,
                                         .row_order = nullptr,
                                         .sets_values = 0,
                                         .strided = 0,
                                         .expected_products = 0};

/// dense_spmm as a candidate of plans; a sparser A is none of its.
PlanKernel dense_kernel() {
  return {"dense_spmm", {}, {{"growth", DenseTiles::kWorthwhileGrowth}}};
}

/// tall_spmm as a candidate of plans for B in 16 bits, unless its formula, which is off by up to
/// half, rules it out: most matrices have too few nonzeros in 64 rows.
PlanKernel tall_kernel() { return {"tall_spmm", {}, {}, 1.5}; }

std::vector<PlanKernel> kernels_in(tessera_precision precision, tessera_type type,
                                   const char* tensor_cores, const char* cuda_cores) {
  const PlanKernel rows{cuda_cores}, tiles{tensor_cores};
  const PlanKernel exact_tiles{tensor_cores, {{"precision", std::string("tf32x3")}}};
  switch (precision) {
    case TESSERA_FASTEST:
      return {tiles, rows};
    case TESSERA_TF32:
      return {tiles};
    case TESSERA_FP32_ACCURATE:
      // Operands of 16 bits are no sums of TF32 parts.
      if (type != TESSERA_FP32) return {rows};
      return {rows, exact_tiles};
    default:
      throw Error(fmt::format("a plan has no precision {}", precision));
  }
}

/// The parameters of the kernel's format. Throws an Error when the text names another format.
Params::Given format_of(const PlanKernel& kernel, const char* text) {
  if (text == nullptr) return {};
  const Call call = parse_call(text);
  const auto made = Registry<SpmmKernel>::instance().make(kernel.name, kernel.params);
  require(call.name == made->format(), "kernel {} reads format {}, not {}", kernel.name,
          made->format(), call.name);
  return call.given;
}

}  // namespace

std::vector<PlanKernel> kernels_of(std::int64_t num_kernels, const char* const* kernels,
                                   tessera_precision precision, tessera_type type,
                                   const char* tensor_cores, const char* cuda_cores) {
  std::vector<PlanKernel> named;
  for (const std::string& text : texts_of("kernels", num_kernels, kernels)) {
    const Call call = parse_call(text);
    named.push_back({call.name, call.given});
  }
  return named.empty() ? kernels_in(precision, type, tensor_cores, cuda_cores) : named;
}

void require_plan_type(tessera_type type) {
  require(type == TESSERA_FP32 || type == TESSERA_FP16 || type == TESSERA_BF16,
          "a plan has no dense operands of type {}", type);
}

PlanRequest request_of(const tessera_spmm_options* given, std::int64_t rows) {
  const tessera_spmm_options options = options_of(given, kDefaults);
  PlanRequest request;
  request.kernels = kernels_of(options.num_kernels, options.kernels, options.precision,
                               options.type, "tessera_spmm", "rows_spmm");
  if (options.num_kernels == 0 && options.precision != TESSERA_FP32_ACCURATE) {
    request.kernels.push_back(dense_kernel());
    if (options.type != TESSERA_FP32) request.kernels.push_back(tall_kernel());
  }
  if (options.formats != nullptr)
    for (std::int64_t i = 0; i < options.num_kernels; ++i)
      request.kernels[i].format = format_of(request.kernels[i], options.formats[i]);
  request.type = options.type;
  require_plan_type(options.type);
  if (options.row_order != nullptr)
    request.row_order =
        Permutation(std::vector<std::int32_t>(options.row_order, options.row_order + rows));
  request.sets_values = options.sets_values != 0;
  request.strided = options.strided != 0;
  require(options.expected_products >= 0, "expected_products takes 0 or more, not {}",
          options.expected_products);
  request.expected_products = options.expected_products;
  return request;
}

}  // namespace tessera::abi

void tessera_spmm_options_init(tessera_spmm_options* options) {
  if (options != nullptr) *options = kDefaults;
}

tessera_status tessera_spmm_plan_create(const tessera_csr* a, int64_t n,
                                        const tessera_spmm_options* options,
                                        tessera_spmm_plan** plan) {
  if (plan != nullptr) *plan = nullptr;
  return guarded([&] {
    require_pointer(plan, "plan");
    // The plan keeps what it packs, and some formats are A's own arrays.
    const CsrMatrix matrix = copy_of(a);
    const PlanRequest request = request_of(options, matrix.rows);
    const BackendChoice gpu = find_backend("gpu");
    require<Unsupported>(gpu.missing.empty(), "a plan needs a GPU: {}", gpu.missing);
    const auto maker = Registry<GpuPlanMaker>::instance().make("spmm");
    *plan = new tessera_spmm_plan{maker->make(matrix, n, request)};
  });
}

tessera_status tessera_spmm_plan_run(tessera_spmm_plan* plan, const void* b, int64_t ldb, void* c,
                                     int64_t ldc, float alpha, float beta, void* stream) {
  return guarded([&] {
    require_pointer(plan, "plan");
    plan->gpu->run(1, b, {ldb}, c, {ldc}, alpha, beta, stream);
  });
}

tessera_status tessera_spmm_plan_run_batch(tessera_spmm_plan* plan, int64_t count, const void* b,
                                           int64_t ldb, int64_t stride_b, void* c, int64_t ldc,
                                           int64_t stride_c, float alpha, float beta,
                                           void* stream) {
  return guarded([&] {
    require_pointer(plan, "plan");
    plan->gpu->run(count, b, {ldb, stride_b}, c, {ldc, stride_c}, alpha, beta, stream);
  });
}

tessera_status tessera_spmm_plan_set_values(tessera_spmm_plan* plan, const float* values,
                                            void* stream) {
  return guarded([&] {
    require_pointer(plan, "plan");
    plan->gpu->set_values(values, stream);
  });
}

int64_t tessera_spmm_plan_workspace_bytes(const tessera_spmm_plan* plan) {
  return plan == nullptr ? 0 : plan->gpu->workspace_bytes();
}

tessera_status tessera_spmm_plan_describe(const tessera_spmm_plan* plan, char** json) {
  if (json != nullptr) *json = nullptr;
  return guarded([&] {
    require_pointer(plan, "plan");
    require_pointer(json, "json");
    *json = text_of(plan->gpu->describe());
  });
}

void tessera_spmm_plan_destroy(tessera_spmm_plan* plan) { delete plan; }
