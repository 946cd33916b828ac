// The schedule of dtc_spmm: tasks of row windows (kernels/spmm/row_windows/schedule.hpp), a team of
// warps each.
#pragma once

#include <cstdint>

#include "kernels/spmm/row_windows/window16_memory.hpp"

namespace tessera::dtc_spmm {

/// `team` warps next to each other in C with `groups` groups of 32 columns each; one of the two
/// is 1.
TESSERA_HOST_DEVICE constexpr row_windows::Schedule schedule_of(int groups, int team) {
  return {.window_rows = window16_tile::kWindowRows, .groups = groups, .team = team};
}

}  // namespace tessera::dtc_spmm
