// The parameters by which a kernel takes B and C in FP32, FP16 or BF16.
#pragma once

#include <string>
#include <vector>

#include "formats/base/params.hpp"
#include "kernels/storage.hpp"

namespace tessera {

/// "storage", which `about_b` describes, and "storage_c".
inline std::vector<ParamSpec> storage_params(std::string about_b) {
  return {{"storage", std::string("fp32"), std::move(about_b), {"fp32", "fp16", "bf16"}},
          {"storage_c", std::string("as_b"), "the type of C in memory", {"as_b", "fp32"}}};
}

/// The types of B and C that they ask for.
inline Storage storage_of(const Params& params) {
  const ElementType b = element_type(params.text("storage"));
  return {b, params.text("storage_c") == "fp32" ? ElementType::kFp32 : b};
}

}  // namespace tessera
