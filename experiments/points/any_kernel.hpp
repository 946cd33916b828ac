// The axis "kernel" names kernels of three kinds: those that multiply a sparse matrix by a dense
// one (SpMM), those that multiply it by a sparse one (SpGEMM), and those that multiply two dense
// matrices at the nonzeros of a sparse one (SDDMM). No name is of two kinds (a test).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/base/params.hpp"

namespace tessera {

/// True for a registered kernel whose B and C are sparse.
bool is_sparse_product(std::string_view kernel);

/// True for a registered kernel that multiplies two dense matrices at the nonzeros of A.
bool is_sampled_product(std::string_view kernel);

/// The names of the kernels of all kinds: for a dense B, for a sparse B, then for two dense ones.
std::vector<std::string> kernel_names();

/// The format that a kernel for dense operands reads with its default parameters. Throws an Error
/// with the nearest name for any other kernel.
std::string format_read_by(const std::string& kernel);

/// The parameters of a kernel of any kind. Throws an Error with the nearest name for an unknown
/// kernel.
const std::vector<ParamSpec>& kernel_params(const std::string& kernel);

/// All values of the kernel's parameters: `given` over the declared defaults.
Params resolve_kernel(const std::string& kernel, const Params::Given& given);

}  // namespace tessera
