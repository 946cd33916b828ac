#include "kernels/sddmm/shared/sddmm_options.hpp"

#include <bit>
#include <cmath>

namespace tessera::sddmm {
namespace {

constexpr const char* kAsX = "as_x";

/// The parameter, or the default of those that have it.
std::string text_or(const Params& params, const char* name, const char* fallback) {
  return params.values().contains(name) ? params.text(name) : fallback;
}

}  // namespace

SddmmOptions::SddmmOptions(const Params& params)
    : storage{.b = element_type(text_or(params, "storage", "fp32"))},
      scales_by_a(text_or(params, "factor", "ones") == "values") {
  if (text_or(params, "result", "fp32") == kAsX) storage.c = storage.b;
}

std::vector<ParamSpec> storage_params() {
  return {{"storage", std::string("fp32"), "type of X and Y in memory", {"fp32", "fp16", "bf16"}},
          {"result",
           std::string("fp32"),
           "type of S in memory: FP32, or that of X and Y, to which FP32 sums are rounded once",
           {"fp32", kAsX}}};
}

ParamSpec factor_param() {
  return {"factor",
          std::string("ones"),
          "factor of each dot product: one, or the value of A",
          {"ones", "values"}};
}

std::vector<ParamSpec> option_params() {
  std::vector<ParamSpec> specs = storage_params();
  specs.push_back(factor_param());
  return specs;
}

float finished(const SddmmOptions& options, float sum, float value_of_a) {
  float value = options.scales_by_a ? sum * value_of_a : sum;
  if (std::isnan(value)) value = std::bit_cast<float>(0x7fffffffu);  // the GPU has one NaN
  return rounded_to(options.storage.c, value);
}

}  // namespace tessera::sddmm
