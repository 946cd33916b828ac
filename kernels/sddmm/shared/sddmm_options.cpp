#include "kernels/sddmm/shared/sddmm_options.hpp"

#include <bit>
#include <cmath>

namespace tessera::sddmm {
namespace {

constexpr const char* kAsX = "as_x";

}  // namespace

SddmmOptions::SddmmOptions(const Params& params)
    : storage{.b = element_type(params.text("storage"))},
      scales_by_a(params.values().contains("factor") && params.text("factor") == "values") {
  if (params.text("result") == kAsX) storage.c = storage.b;
}

std::vector<ParamSpec> storage_params() {
  return {{"storage", std::string("fp32"), "type of X and Y in memory", {"fp32", "fp16", "bf16"}},
          {"result",
           std::string("fp32"),
           "type of S in memory: FP32, or that of X and Y, to which FP32 sums are rounded once",
           {"fp32", kAsX}}};
}

std::vector<ParamSpec> option_params() {
  std::vector<ParamSpec> specs = storage_params();
  specs.push_back({"factor",
                   std::string("ones"),
                   "factor of each dot product: one, or the value of A",
                   {"ones", "values"}});
  return specs;
}

float finished(const SddmmOptions& options, float sum, float value_of_a) {
  float value = options.scales_by_a ? sum * value_of_a : sum;
  if (std::isnan(value)) value = std::bit_cast<float>(0x7fffffffu);  // the GPU has one NaN
  return rounded_to(options.storage.c, value);
}

}  // namespace tessera::sddmm
