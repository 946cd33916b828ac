// How dtc_spmm cuts C up and what it can be told; its host and its device half both go by this.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/params.hpp"
#include "formats/me_tcf.hpp"
#include "kernels/spmm/row_windows/staged_rows.hpp"
#include "kernels/spmm/row_windows/window16_tile.hpp"
#include "kernels/spmm/row_windows/window_launch.hpp"

namespace tessera::dtc_spmm {

constexpr int kStages = 2;  // of rows of B: one is multiplied, one on its way
constexpr int kTiles = 3;   // of A: the same, and one is cleared

/// How rows of B reach the warps.
enum class Fetch {
  kStaged,  // whole rows to shared memory, asynchronously
  kFloat,   // straight to registers, by loads of so many floats a lane
  kFloat2,
  kFloat4,
};

/// What a thread block is: one team of several warps next to each other in C, or several teams of a
/// warp each.
struct Geometry {
  int groups;  // of 32 columns of a warp
  int team;    // warps

  constexpr int teams() const { return team == 1 ? row_windows::kWarps : 1; }
  constexpr int threads() const { return 32 * team * teams(); }
  constexpr int warp_cols() const { return window16_tile::kWarpCols * groups; }
  constexpr int team_cols() const { return warp_cols() * team; }
  /// Teams side by side in C [rows x n].
  constexpr std::int64_t num_chunks(std::int64_t n) const {
    return (n + team_cols() - 1) / team_cols();
  }
  std::int64_t thread_blocks(const window_tasks::Tasks& tasks, std::int64_t n) const {
    return (tasks.num_shares() + teams() - 1) / teams() * num_chunks(n);
  }
};

/// Floats of a warp's stages.
constexpr int stage_floats(int groups) {
  return kStages * window16_tile::kTileCols * row_windows::row_pitch(groups);
}

struct DtcSpmmOptions {
  explicit DtcSpmmOptions(const Params& params);

  int depth;  // condensed columns of an MMA
  Fetch fetch;
  bool split;          // C's columns over the warps of a thread block
  bool double_buffer;  // a TC block of A is copied while the one before is multiplied
  bool strict;         // equal shares of TC blocks
  std::int64_t max_blocks;
  row_windows::Combine combine;

  Geometry geometry(std::int64_t n) const;
  /// With shares, of one window each where there is no balance.
  window_tasks::Tasks cut(const MeTcf& a) const;
  /// Of a thread block. Bytes.
  std::int64_t shared_bytes(const Geometry& shape) const;
};

std::vector<ParamSpec> params();

}  // namespace tessera::dtc_spmm
