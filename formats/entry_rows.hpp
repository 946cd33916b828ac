// The row of every nonzero: what CSR leaves out and COO and TCF write down.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"

namespace tessera {

/// In CSR order. [nnz] Parallel.
std::vector<std::int32_t> entry_rows(const CsrMatrix& matrix);

}  // namespace tessera
