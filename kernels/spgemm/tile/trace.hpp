// What tile_spgemm's launches do, and what their warps do step by step, for the simulator.
#pragma once

#include "formats/base/matrix.hpp"
#include "kernels/spgemm/tile/tile_spgemm.hpp"
#include "kernels/work.hpp"

namespace tessera::tile_spgemm {

/// Refers to A and B. Throws an Error when the shapes do not fit, Unsupported where a tile row of A
/// has more than kShortRow tiles, or one of A or B spans more columns than are gathered at once.
WorkDescription describe_work(const CsrMatrix& a, const CsrMatrix& b, TileArithmetic numbers);

}  // namespace tessera::tile_spgemm
