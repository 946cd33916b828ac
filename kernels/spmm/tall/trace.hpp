// The warp trace of tall_spmm.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "formats/tall_tiles.hpp"
#include "kernels/spmm/tall/schedule.hpp"
#include "kernels/storage.hpp"
#include "kernels/warp_trace.hpp"

namespace tessera::tall_spmm {

/// What the device knows of a tile: see TileRecord.
struct TileExtent {
  std::int64_t first, nonzeros;
  int columns;

  /// A tile without columns has a step, too.
  int steps() const { return std::max((columns + kStepDepth - 1) / kStepDepth, 1); }
};

/// Those of all tiles of a matrix and, behind them, of a window without any.
std::vector<TileExtent> extents_of(const TallTiles& a);

/// The trace of a product by a B of n columns; it refers to `a`, and adds its arrays to `memory`.
std::shared_ptr<const LaunchTrace> make_trace(const TallTiles& a, std::vector<TileExtent> extents,
                                              std::int64_t n, const Storage& storage, Plan plan,
                                              AddressSpace& memory);

}  // namespace tessera::tall_spmm
