// The work of tile_spgemm in numbers that its cost model takes. See kernels/spgemm/tile/counts.cpp.
#pragma once

#include "formats/base/choice.hpp"
#include "kernels/spgemm/shared/product_sketch.hpp"

namespace tessera::tile_spgemm {

/// Counts the work of one product, in time for the tiles of A and their products.
WorkCounts count_work(const spgemm::ProductSketch& product);

}  // namespace tessera::tile_spgemm
