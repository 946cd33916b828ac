// The axis "kernel" names kernels of two kinds: those that multiply a sparse matrix by a dense one,
// and those that multiply it by a sparse one. No name is of both (a test).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/base/params.hpp"

namespace tessera {

/// True for a registered kernel whose B and C are sparse.
bool is_sparse_product(std::string_view kernel);

/// The parameters of a kernel of either kind. Throws an Error with the nearest name for an unknown
/// kernel.
const std::vector<ParamSpec>& kernel_params(const std::string& kernel);

/// All values of the kernel's parameters: `given` over the declared defaults.
Params resolve_kernel(const std::string& kernel, const Params::Given& given);

}  // namespace tessera
