// The emulation of an SDDMM on tensor cores: every element of S is one chain of MMAs over the
// columns of X and Y, in an order that the kernel's schedule has.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/sddmm/shared/sddmm_options.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera::sddmm {

/// The order in which an element's products are added.
struct ChainOrder {
  std::int64_t mmas;  // of an element, one after another
  int depth;          // products of an MMA
  std::function<std::int64_t(std::int64_t mma, int slot)>
      column_of;  // the column of X and Y at that depth of an MMA; K and more for none
};

/// S [nnz of A] in the order of A's CSR form: X is the left operand of the MMAs (its parts are the
/// a_part of Precision::mmas), Y the right one.
std::vector<float> chained_dots(const CsrMatrix& a, const DenseMatrix& x, const DenseMatrix& y,
                                const SddmmOptions& options, const Precision& precision,
                                const Generation& generation, const ChainOrder& order);

}  // namespace tessera::sddmm
