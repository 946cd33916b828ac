// The work of tile_spgemm's launches, and what their warps do step by step, for the simulator.
#pragma once

#include "formats/base/matrix.hpp"
#include "kernels/spgemm/tile/tile_spgemm.hpp"
#include "kernels/work.hpp"

namespace tessera::tile_spgemm {

/// Describes the product of A and B and refers to both. Throws an Error where the shapes do not
/// match, and Unsupported where a tile row of A has more than kShortRow tiles or a tile row of A or
/// B spans more than kColsGathered tile columns.
WorkDescription describe_work(const CsrMatrix& a, const CsrMatrix& b, TileArithmetic arithmetic);

}  // namespace tessera::tile_spgemm
