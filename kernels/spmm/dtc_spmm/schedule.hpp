// The schedule of dtc_spmm: tasks of row windows (kernels/spmm/row_windows/schedule.hpp), a team of
// warps each, and the layout of shared memory.
#pragma once

#include <cstdint>

#include "kernels/spmm/row_windows/schedule.hpp"
#include "kernels/spmm/row_windows/staged_rows.hpp"
#include "kernels/spmm/row_windows/window16_tile.hpp"

namespace tessera::dtc_spmm {

using window16_tile::kTileElements;

constexpr int kStages = 2;  // of rows of B: one is multiplied, one is being copied
constexpr int kTiles = 3;   // of A: one is multiplied, one is being copied, one is being cleared

/// `team` warps next to each other in C with `groups` groups of 32 columns each; one of the two
/// is 1.
TESSERA_HOST_DEVICE constexpr row_windows::Schedule schedule_of(int groups, int team) {
  return {.window_rows = window16_tile::kWindowRows, .groups = groups, .team = team};
}

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

}  // namespace tessera::dtc_spmm
