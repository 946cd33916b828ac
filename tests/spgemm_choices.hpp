// SpGEMM kernels with parameters of the tests' choice. Every registered kernel is tested with its
// defaults; what else of one is worth a test is listed here.
#pragma once

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

/// By the name of the kernel; a kernel that is not registered is left out.
inline const std::vector<SpgemmChoice>& further_spgemm_choices() {
  static const std::vector<SpgemmChoice> choices{};
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
