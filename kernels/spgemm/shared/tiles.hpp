// Tiles of items, whose sums earlier launches add up for prefix sums in one launch (tile_sums.cuh).
#pragma once

#include <cstdint>

namespace tessera::spgemm {

/// Items of a tile: a thread block of a launch with a thread for each. Every thread block goes over
/// the tiles before its own, so there are at most kMostTiles.
constexpr int kTile = 256, kMostTiles = 1024;
constexpr std::int64_t kMostTiled = std::int64_t{kTile} * kMostTiles;

}  // namespace tessera::spgemm
