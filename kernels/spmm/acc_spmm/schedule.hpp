// The schedule of acc_spmm: tasks of row windows (kernels/spmm/row_windows/schedule.hpp), a warp or
// a thread block each, and the layout of shared memory in each of its pipelines.
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

/// The threads that share the two buffers for TC blocks of A (pipelines least_bubble and dtc).
enum class Scope {
  kWarp,   // each warp has buffers, copies and decodes for itself, and waits for no other
  kBlock,  // the warps of a thread block, next to each other in C, as in Acc-SpMM's algorithm 2
};

/// The warps of a thread block that shares its buffers: 128 columns of C.
constexpr int kTeamWarps = 4;

TESSERA_HOST_DEVICE constexpr int team_of(Scope scope) {
  return scope == Scope::kBlock ? kTeamWarps : 1;
}

/// The schedule of warps that compute `groups` groups of 32 columns at a time.
TESSERA_HOST_DEVICE constexpr row_windows::Schedule schedule_of(int groups,
                                                                Scope scope = Scope::kWarp) {
  return {.window_rows = window_tile::kWindowRows, .groups = groups, .team = team_of(scope)};
}

/// The encoding of the positions of a TC block's nonzeros.
enum class NonzeroEncoding {
  kBitmap,  // BitTCF: a bit for each position
  kBytes,   // ME-TCF: a byte for each nonzero
};

/// The warps of a team that copy and decode its TC blocks of A, from the first on: two for a bitmap
/// (Acc-SpMM, section 3.3: one thread for each of the 64 positions).
TESSERA_HOST_DEVICE constexpr int decoding_warps(Scope scope, NonzeroEncoding encoding) {
  return scope == Scope::kBlock && encoding == NonzeroEncoding::kBitmap ? 2 : 1;
}

/// The warp of a team that copies column indices: the last, which decodes nothing in a team of
/// four.
TESSERA_HOST_DEVICE constexpr int index_warp(Scope scope) { return team_of(scope) - 1; }

/// The barriers of each warp of a thread block that shares its buffers, for a task of `blocks` TC
/// blocks. `ahead`: rows of B are loaded one TC block ahead; `in_share`: another task may follow.
constexpr std::int64_t barriers_of_task(std::int64_t blocks, bool ahead, bool in_share) {
  return (blocks > 0 ? blocks + (ahead ? 1 : 0) : 0) + (in_share ? 1 : 0);
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

/// The shared memory of a warp, or of a thread block, of the pipelines least_bubble and dtc: two TC
/// blocks of A, and the column indices of each.
struct Buffers {
  float tiles[2][kTileElements];
  std::int32_t rows[2][kTileCols];  // rows of B
};

}  // namespace tessera::acc_spmm
