// Kernels say that their sums meet in memory, whose additions flush subnormals, where they do.
#include <doctest/doctest.h>

#include <algorithm>

#include "formats/base/registry.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera {
namespace {

/// Checks each choice of the parameters that have one called atomic; their number.
template <class Kernel>
int check_choices() {
  int checked = 0;
  const auto& registry = Registry<Kernel>::instance();
  for (const auto& [name, entry] : registry.entries())
    for (const ParamSpec& param : entry.params) {
      if (std::ranges::find(param.choices, "atomic") == param.choices.end()) continue;
      for (const std::string& choice : param.choices) {
        CAPTURE(name);
        CAPTURE(choice);
        const auto kernel = registry.make(name, {{param.name, choice}});
        CHECK(kernel->arithmetic().adds_in_memory == (choice == "atomic"));
      }
      ++checked;
    }
  return checked;
}

bool adds_in_memory(const char* kernel, const Params::Given& params = {}) {
  return Registry<SpmmKernel>::instance().make(kernel, params)->arithmetic().adds_in_memory;
}

TEST_CASE("kernels with a choice of atomics say that their sums meet in memory with it alone") {
  CHECK(check_choices<SpmmKernel>() >= 6);
  CHECK(check_choices<SpgemmKernel>() >= 2);
  CHECK(adds_in_memory("shares_spmm"));
  CHECK(adds_in_memory("cutespmm"));
  CHECK_FALSE(adds_in_memory("cutespmm", {{"balance", std::string("none")}}));
  CHECK_FALSE(adds_in_memory("csr_spmm"));
}

}  // namespace
}  // namespace tessera
