#include "experiments/points/any_kernel.hpp"

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "kernels/sddmm_kernel.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera {

bool is_sparse_product(std::string_view kernel) {
  return Registry<SpgemmKernel>::instance().contains(kernel);
}

bool is_sampled_product(std::string_view kernel) {
  return Registry<SddmmKernel>::instance().contains(kernel);
}

std::vector<std::string> kernel_names() {
  std::vector<std::string> names = Registry<SpmmKernel>::instance().names();
  for (const auto& more :
       {Registry<SpgemmKernel>::instance().names(), Registry<SddmmKernel>::instance().names()})
    names.insert(names.end(), more.begin(), more.end());
  return names;
}

std::string format_read_by(const std::string& kernel) {
  if (is_sampled_product(kernel)) return Registry<SddmmKernel>::instance().make(kernel)->format();
  return Registry<SpmmKernel>::instance().make(kernel)->format();
}

const std::vector<ParamSpec>& kernel_params(const std::string& kernel) {
  const auto& dense = Registry<SpmmKernel>::instance();
  const auto& sparse = Registry<SpgemmKernel>::instance();
  const auto& sampled = Registry<SddmmKernel>::instance();
  if (sparse.contains(kernel)) return sparse.find(kernel).params;
  if (sampled.contains(kernel)) return sampled.find(kernel).params;
  if (dense.contains(kernel)) return dense.find(kernel).params;
  throw Error(unknown_name_message(SpmmKernel::kKind, kernel, kernel_names()));
}

Params resolve_kernel(const std::string& kernel, const Params::Given& given) {
  return Params::resolve(fmt::format("{} {}", SpmmKernel::kKind, kernel), kernel_params(kernel),
                         given);
}

}  // namespace tessera
