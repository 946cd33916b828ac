// The row of every nonzero, which COO and TCF store and CSR does not.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"

namespace tessera {

/// The row of every nonzero of `matrix`, in CSR order. [nnz] Parallel.
std::vector<std::int32_t> entry_rows(const CsrMatrix& matrix);

}  // namespace tessera
