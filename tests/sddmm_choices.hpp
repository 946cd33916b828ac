// SDDMM kernels with the parameters under test: the values of every parameter at least once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/base/params.hpp"
#include "formats/base/registry.hpp"
#include "formats/format.hpp"
#include "kernels/sddmm_kernel.hpp"

namespace tessera {

struct SddmmChoice {
  std::string kernel;
  Params::Given params = {};

  bool is_library() const { return kernel == "cusparse_sddmm"; }
  std::unique_ptr<SddmmKernel> make() const {
    return Registry<SddmmKernel>::instance().make(kernel, params);
  }
  std::string text() const {
    std::string all = kernel;
    for (const auto& [name, value] : params) all += " " + name + " = " + to_text(value);
    return all;
  }
};

inline const std::vector<SddmmChoice>& sddmm_choices() {
  const auto named = [](const char* value) { return ParamValue{std::string(value)}; };
  static const std::vector<SddmmChoice> choices{
      {"tessera_sddmm"},
      {"tessera_sddmm", {{"factor", named("values")}, {"max_tiles", std::int64_t{1}}}},
      {"tessera_sddmm", {{"precision", named("tf32x3")}}},
      {"tessera_sddmm",
       {{"precision", named("tf32x3")},
        {"factor", named("values")},
        {"max_tiles", std::int64_t{3}}}},
      {"tessera_sddmm", {{"storage", named("fp16")}}},
      {"tessera_sddmm", {{"storage", named("fp16")}, {"result", named("as_x")}}},
      {"tessera_sddmm", {{"storage", named("bf16")}, {"factor", named("values")}}},
      {"tessera_sddmm",
       {{"storage", named("bf16")}, {"result", named("as_x")}, {"max_tiles", std::int64_t{32}}}},
      {"rows_sddmm"},
      {"rows_sddmm", {{"factor", named("values")}, {"run", named("4")}}},
      {"rows_sddmm", {{"storage", named("fp16")}, {"run", named("8")}}},
      {"rows_sddmm", {{"storage", named("fp16")}, {"result", named("as_x")}, {"run", named("32")}}},
      {"rows_sddmm", {{"storage", named("bf16")}, {"factor", named("values")}}},
      {"rows_sddmm", {{"storage", named("bf16")}, {"result", named("as_x")}, {"run", named("16")}}},
      {"flash_sddmm"},
      {"flash_sddmm", {{"factor", named("values")}}},
      {"flash_sddmm", {{"storage", named("fp16")}}},
      {"flash_sddmm", {{"storage", named("fp16")}, {"result", named("as_x")}}},
      {"flash_sddmm", {{"storage", named("bf16")}, {"factor", named("values")}}},
      {"sputnik_sddmm"},
      {"sputnik_sddmm", {{"factor", named("values")}}},
      {"cusparse_sddmm"},
      {"cusparse_sddmm", {{"storage", named("fp16")}}},
      {"cusparse_sddmm", {{"storage", named("fp16")}, {"result", named("as_x")}}},
  };
  return choices;
}

/// A as the kernel reads it.
inline std::unique_ptr<PackedMatrix> pack_for(const SddmmKernel& kernel, const CsrMatrix& a) {
  return Registry<Format>::instance().make(kernel.format())->pack(a);
}

}  // namespace tessera
