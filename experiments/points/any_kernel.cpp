#include "experiments/points/any_kernel.hpp"

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera {

bool is_sparse_product(std::string_view kernel) {
  return Registry<SpgemmKernel>::instance().contains(kernel);
}

const std::vector<ParamSpec>& kernel_params(const std::string& kernel) {
  const auto& dense = Registry<SpmmKernel>::instance();
  const auto& sparse = Registry<SpgemmKernel>::instance();
  if (sparse.contains(kernel)) return sparse.find(kernel).params;
  if (dense.contains(kernel)) return dense.find(kernel).params;
  std::vector<std::string> names = dense.names();
  for (const std::string& name : sparse.names()) names.push_back(name);
  throw Error(unknown_name_message(SpmmKernel::kKind, kernel, names));
}

Params resolve_kernel(const std::string& kernel, const Params::Given& given) {
  return Params::resolve(fmt::format("{} {}", SpmmKernel::kKind, kernel), kernel_params(kernel),
                         given);
}

}  // namespace tessera
