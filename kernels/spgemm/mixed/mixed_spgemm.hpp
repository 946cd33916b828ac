// mixed_spgemm's choice among kernels, which its host half and its device half share. See
// kernels/spgemm/mixed/mixed_spgemm.cpp.
#pragma once

#include <optional>

#include "formats/base/matrix.hpp"
#include "formats/base/params.hpp"
#include "kernels/spgemm_kernel.hpp"

namespace tessera::mixed_spgemm {

/// The registered kernel that makes a product, and its parameters.
struct Choice {
  SpgemmPath path;
  Params params;
};

/// Chooses with the parameters of mixed_spgemm. The choice depends on nothing but A, B and the
/// parameters: it is the same on every machine.
///
/// Throws an Error when the shapes do not match and for an unknown device; Unsupported for a device
/// whose file lacks a rate that a cost model needs, and in a program without cost models unless a
/// path is named.
Choice choose(const CsrMatrix& a, const CsrMatrix& b, const Params& params);

/// The parameters of the row_spgemm that has the mask inside a product; empty where the whole
/// product comes first.
std::optional<Params> params_of_masked_rows(const Params& params);

}  // namespace tessera::mixed_spgemm
