// SpGEMM kernels with further parameters for the tests. Every registered kernel is tested with its
// defaults; the other choices under test are listed here.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "formats/base/params.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spgemm_kernel.hpp"

namespace tessera {

struct SpgemmChoice {
  std::string kernel;
  Params::Given params = {};
};

/// The choices by kernel name; a kernel that is not registered is omitted.
inline const std::vector<SpgemmChoice>& further_spgemm_choices() {
  const auto named = [](const char* value) { return ParamValue{std::string(value)}; };
  const std::int64_t short_slice = 5000;  // products: most operands of the tests take several
  static const std::vector<SpgemmChoice> choices{
      {"ac_spgemm", {{"slice", short_slice}}},
      {"cusparse_spgemm", {{"algorithm", named("alg2")}}},
      {"cusparse_spgemm", {{"algorithm", named("alg3")}}},
      {"cusparse_spgemm", {{"algorithm", named("reuse")}}},
      {"cusparse_spgemm", {{"precision", named("fp64")}}},
      {"cusparse_spgemm", {{"precision", named("fp64")}, {"algorithm", named("reuse")}}},
      {"esc_spgemm", {{"slice", short_slice}}},
      {"hash_spgemm", {{"sums", named("atomic")}}},
      {"hash_spgemm", {{"probing", named("quadratic")}, {"load", 0.9}}},
      {"merge_spgemm", {{"width", std::int64_t{2}}}},
      {"merge_spgemm", {{"width", std::int64_t{8}}}},
      {"mixed_spgemm", {{"precision", named("fp64")}}},
      {"mixed_spgemm", {{"precision", named("tf32x3")}}},
      {"mixed_spgemm", {{"precision", named("fp16")}, {"path", named("tiles")}}},
      {"row_spgemm", {{"reuse", true}}},
      {"row_spgemm", {{"precision", named("fp64")}, {"reuse", true}}},
      {"row_spgemm", {{"reuse", true}, {"keeps", named("lists")}}},
      {"row_spgemm", {{"reuse", true}, {"keeps", named("portions")}}},
      {"row_spgemm", {{"reuse", true}, {"keeps", named("positions")}}},
      {"row_spgemm", {{"reuse", true}, {"keeps", named("products")}}},
      {"tile_spgemm", {{"precision", named("fp16")}, {"reuse", true}}},
      {"tile_spgemm", {{"precision", named("tf32")}}},
      {"tile_spgemm", {{"reuse", true}}},
      {"tile_spgemm", {{"precision", named("fp16")}, {"reuse", true}}},
      {"tsparse", {{"cores", named("scalar")}}},
      {"tsparse", {{"zeros", named("keep")}}},
      {"tsparse", {{"counting", named("product")}, {"slice", short_slice}}},
      {"tsparse", {{"multiplication", named("pairs")}}},
      {"tsparse",
       {{"counting", named("product")},
        {"multiplication", named("pairs")},
        {"range", named("refuse")}}},
      {"tsparse", {{"multiplication", named("pairs")}, {"cores", named("scalar")}}},
      {"tsparse",
       {{"counting", named("product")},
        {"multiplication", named("pairs")},
        {"cores", named("scalar")},
        {"zeros", named("keep")}}},
  };
  return choices;
}

inline std::vector<SpgemmChoice> spgemm_choices() {
  std::vector<SpgemmChoice> all;
  for (const std::string& name : Registry<SpgemmKernel>::instance().names()) {
    all.push_back({name, {}});
    for (const SpgemmChoice& choice : further_spgemm_choices())
      if (choice.kernel == name) all.push_back(choice);
  }
  return all;
}

}  // namespace tessera
