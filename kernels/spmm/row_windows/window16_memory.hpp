// The shared memory of kernels over TC blocks 16 rows high (window16_task.cuh), for host and
// device.
#pragma once

#include <cstdint>

#include "kernels/spmm/row_windows/schedule.hpp"
#include "kernels/spmm/row_windows/staged_rows.hpp"
#include "kernels/spmm/row_windows/window16_tile.hpp"

namespace tessera::window16_tile {

constexpr int kStages = 2;  // of rows of B: one is multiplied, one is being copied
constexpr int kTiles = 3;   // of A: one is multiplied, one is being copied, one is being cleared

/// The shared memory of a thread block, in floats: the TC blocks of A of each team, and then, where
/// rows of B are staged, the stages of each warp.
struct SharedMemory {
  row_windows::Schedule schedule;
  bool has_stages;

  TESSERA_HOST_DEVICE constexpr int tiles_of(int team) const {
    return team * kTiles * kTileElements;
  }
  TESSERA_HOST_DEVICE constexpr int stages_begin() const { return tiles_of(schedule.teams()); }
  /// The position of a warp's stages from stages_begin() on.
  TESSERA_HOST_DEVICE constexpr int stages_of(int warp) const {
    return warp * (kStages * row_windows::stage_floats(schedule.groups));
  }
  constexpr std::int64_t bytes() const {
    return std::int64_t{sizeof(float)} *
           (stages_begin() + (has_stages ? stages_of(schedule.warps()) : 0));
  }
};

}  // namespace tessera::window16_tile
