// The work of a product by tall_spmm.
#pragma once

#include "formats/tall_tiles.hpp"
#include "kernels/spmm/tall/tall_spmm.hpp"
#include "kernels/work.hpp"

namespace tessera::tall_spmm {

/// On tensor cores. The trace refers to `a`.
WorkDescription describe(const TallTiles& a, std::int64_t n, const TallSpmmOptions& options);

/// On CUDA cores.
WorkDescription describe_wide(const TallTiles& a, std::int64_t n);

}  // namespace tessera::tall_spmm
