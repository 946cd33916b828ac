// How cutespmm cuts C up and what its warps keep in shared memory; host and device half go by this.
//
// A team of warps computes a row panel of C for up to 128 columns, each warp some of them, from
// blocks that it copies to stages of its own. A thread block has one or several teams, which do not
// wait for each other. Teams get their panels, or parts of panels, from a list of tasks.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/hrpb.hpp"
#include "kernels/tensor_core/mma_columns.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera::cutespmm {

constexpr int kTeamCols = 128;    // columns of C of a team, at most
constexpr int kChunkCols = 32;    // of four MMAs: a lane has 16 bytes of a row of B for them
constexpr int kPad = 8;           // floats after a staged row of B: see place_of_piece
constexpr int kMaxTileCols = 32;  // a lane of a warp for each column of a block
constexpr int kIndexBytes = 4 * kMaxTileCols;  // of a warp: the rows of B of a block
constexpr int kMaxStages = 4;

enum class Balance { kNone, kWaves, kSorted };

struct Options {
  int depth = 8;      // condensed columns of an MMA: 4 or 8
  int coarsen = 128;  // columns of C of a warp: 32, 64 or 128
  int stages = 2;     // blocks in shared memory, one of which is multiplied
  int panels = 1;     // teams of a thread block
  Tf32Precision precision = Tf32Precision::kRounded;
  Balance balance = Balance::kWaves;
  std::int64_t resident = 0;  // thread blocks at a time, for kWaves; 0: an H200's
};

/// MMAs for the same products.
constexpr int mmas_of_chunk(const Options& options) {
  return options.precision == Tf32Precision::kSplit ? 3 : 1;
}

/// What a thread block is, for one packed matrix and one width.
struct Geometry {
  int warp_cols, warps;  // of a team
  int teams;             // of a thread block
  int stages;
  int stage_rows;   // rows of B of a stage
  int block_bytes;  // of a stage: the largest block of the packed matrix

  constexpr int team_cols() const { return warp_cols * warps; }
  constexpr int pitch() const { return team_cols() + kPad; }  // floats, of a staged row of B
  constexpr int stage_bytes() const {
    // A lane may read one value beyond a block's last, in vain: not where the next stage is copied.
    constexpr int kSector = 32, kInVain = sizeof(float);
    const int used = 4 * pitch() * stage_rows + block_bytes + kInVain;
    return (used + kSector - 1) / kSector * kSector;
  }
  constexpr int team_bytes() const { return stages * stage_bytes() + warps * kIndexBytes; }
  constexpr int shared_bytes() const { return teams * team_bytes(); }
  constexpr int threads() const { return 32 * warps * teams; }
  /// Pieces of a row of C that take a thread block each.
  constexpr std::int64_t num_chunks(std::int64_t n) const {
    return (n + team_cols() - 1) / team_cols();
  }
};

Options read_options(const Params& params);

/// Throws Unsupported for blocks of more than 32 x 32, and, where operands are split, for others
/// than of 16 rows by m16n8k8: their parts would not leave registers for more.
void check_blocks(const Hrpb& a, const Options& options);

/// Throws as check_blocks.
Geometry geometry(const Hrpb& a, std::int64_t n, const Options& options);

/// Registers of a thread on compute capability 9.0, as they are allocated: in eights.
int registers_per_thread(const Geometry& geometry, const Options& options, int tile_rows);

/// How many parts each row panel has where the launch takes so many waves of thread blocks.
/// [row panels]
std::vector<std::int64_t> split_by_waves(const Hrpb& a, std::int64_t waves);

/// A row panel, or a part of its blocks: [first, last).
struct alignas(16) Task {
  std::uint32_t panel, first, last;
  std::uint32_t is_part;  // its sums are added to what other tasks have

  friend bool operator==(const Task&, const Task&) = default;
};

/// In the order in which thread blocks take them.
std::vector<Task> plan_tasks(const Hrpb& a, std::int64_t n, const Options& options);

/// Row panels that several tasks add to, and that are cleared before. Ascending.
std::vector<std::uint32_t> split_panels(const std::vector<Task>& tasks);

constexpr int kClearThreads = 256;  // a thread block clears a row panel
constexpr int kClearRegisters = 32;

}  // namespace tessera::cutespmm
