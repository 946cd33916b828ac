// The schedule of acc_spmm: tasks of row windows (kernels/spmm/row_windows/schedule.hpp), a warp
// each, and the layout of shared memory in each of its pipelines.
#pragma once

#include <cstdint>

#include "kernels/spmm/row_windows/schedule.hpp"
#include "kernels/spmm/row_windows/staged_rows.hpp"
#include "kernels/spmm/row_windows/window_tile.hpp"

namespace tessera::acc_spmm {

using row_windows::kWarps;
using row_windows::row_pitch;
using window_tile::kTileCols;
using window_tile::kTileElements;
using window_tile::kWarpCols;

/// The schedule of warps that compute `groups` groups of 32 columns at a time.
TESSERA_HOST_DEVICE constexpr row_windows::Schedule schedule_of(int groups) {
  return {.window_rows = window_tile::kWindowRows, .groups = groups};
}

/// The shared memory of a thread block of the staged pipeline, in floats: the stages of each warp,
/// and then, for ME-TCF, a TC block of A for each warp.
struct StagedMemory {
  int groups;
  int stages;  // of a warp, each the rows of B of one TC block
  bool has_tiles;

  TESSERA_HOST_DEVICE constexpr int warp_floats() const {
    return stages * row_windows::stage_floats(groups);
  }
  TESSERA_HOST_DEVICE constexpr int stages_of(int warp) const { return warp * warp_floats(); }
  TESSERA_HOST_DEVICE constexpr int tile_of(int warp) const {
    return kWarps * warp_floats() + warp * kTileElements;
  }
  constexpr std::int64_t bytes() const {
    return std::int64_t{sizeof(float)} * (has_tiles ? tile_of(kWarps) : stages_of(kWarps));
  }
};

/// The shared memory of a warp of the pipelines least_bubble and dtc: two TC blocks of A, and the
/// column indices of each.
struct Buffers {
  float tiles[2][kTileElements];
  std::int32_t rows[2][kTileCols];  // rows of B
};

}  // namespace tessera::acc_spmm
