// SpGEMM by rows or by tiles, ours: what the two halves share. See
// kernels/spgemm/mixed/mixed_spgemm.cpp.
#pragma once

#include "formats/base/matrix.hpp"
#include "formats/base/params.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "kernels/work.hpp"

namespace tessera::mixed_spgemm {

/// The registered kernel that makes a product, and how it is made.
struct Choice {
  SpgemmPath path;
  Params params;
};

/// By the parameters of mixed_spgemm. The same on every machine.
///
/// Throws an Error when the shapes do not fit, and for a device that is not known; Unsupported for
/// one whose file lacks a rate, and in a program without models unless a path is named.
Choice choose(const CsrMatrix& a, const CsrMatrix& b, const Params& params);

/// In time and memory for the nonzeros of A and B, and a few million products of tiles. Throws an
/// Error when the shapes do not fit.
SparseProductFigures figures(const CsrMatrix& a, const CsrMatrix& b);

}  // namespace tessera::mixed_spgemm
