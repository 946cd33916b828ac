// The work description and the warp trace of dense_spmm.
#pragma once

#include <cstdint>

#include "formats/dense_tiles.hpp"
#include "kernels/spmm/dense/dense_spmm.hpp"
#include "kernels/work.hpp"

namespace tessera::dense_spmm {

/// The work of a product by a B of n columns.
WorkDescription describe(const DenseTiles& a, std::int64_t n, const DenseSpmmOptions& options);

}  // namespace tessera::dense_spmm
