// The schedule and the options of cutespmm: the compiled instances, the task and the columns of C
// of every team of warps, and the layout of shared memory. The device code, the work description
// and the warp trace read it.
//
// A team of warps computes a row panel of C for up to 128 columns, which its warps divide, from
// blocks that it copies to its own stages. A thread block has one or several teams, which have no
// common barrier. A team takes a task: a row panel or a part of one.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "formats/hrpb.hpp"
#include "kernels/gpu_limits.hpp"
#include "kernels/host_device.hpp"
#include "kernels/tensor_core/mma_columns.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera::cutespmm {

constexpr int kTeamCols = 128;  // most columns of C of a team
constexpr int kChunkCols = 32;  // of kChunkMmas MMAs: a lane has 16 bytes of a row of B for them
constexpr int kChunkMmas = 4;
constexpr int kPad = 8;                        // floats after a staged row of B: see place_of_piece
constexpr int kMaxTileCols = 32;               // a lane of a warp for each column of a block
constexpr int kMaxTeams = 4;                   // of a thread block
constexpr int kIndexBytes = 4 * kMaxTileCols;  // of a warp: the rows of B of a block
constexpr int kMaxStages = 4;

enum class Balance { kNone, kWaves, kAverage, kSorted };

struct CuteSpmmOptions {
  int depth = 8;      // condensed columns of an MMA: 4 or 8
  int coarsen = 128;  // columns of C of a warp: 32, 64, 128, or 0 for warp_cols_for
  int stages = 2;     // blocks of a team in shared memory, one of which is multiplied
  int panels = 1;     // teams of a thread block
  Tf32Precision precision = Tf32Precision::kRounded;
  Balance balance = Balance::kWaves;
  std::int64_t resident = 0;  // resident thread blocks, for kWaves; 0: those of `gpu`
  GpuLimits gpu = kH200Limits;
};

/// MMAs for one product of operands: three where they are split.
constexpr int mmas_per_product(const CuteSpmmOptions& options) {
  return options.precision == Tf32Precision::kSplit ? 3 : 1;
}

/// An arithmetic that is compiled. kModes lists all of them: it decides what is legal.
struct Mode {
  int depth;   // condensed columns of an MMA
  int bricks;  // of a brick column: the rows of a block / 16
  Tf32Precision precision;
};
// Split operands leave no registers for more than one brick.
constexpr std::array kModes{Mode{4, 1, Tf32Precision::kRaw},  Mode{4, 1, Tf32Precision::kRounded},
                            Mode{4, 2, Tf32Precision::kRaw},  Mode{4, 2, Tf32Precision::kRounded},
                            Mode{8, 1, Tf32Precision::kRaw},  Mode{8, 1, Tf32Precision::kRounded},
                            Mode{8, 2, Tf32Precision::kRaw},  Mode{8, 2, Tf32Precision::kRounded},
                            Mode{8, 1, Tf32Precision::kSplit}};

/// The warps of a team, which are compiled for every mode.
struct TeamShape {
  int warp_cols;  // columns of C of a warp
  int warps;
  std::array<int, kModes.size()> registers;  // of a thread in each mode, as the hardware allocates
                                             // them (ptxas of CUDA 13.0, sm_90a)
};
constexpr std::array kTeamShapes{TeamShape{32, 1, {80, 72, 88, 80, 96, 72, 96, 96, 96}},
                                 TeamShape{32, 2, {96, 80, 88, 88, 96, 80, 104, 104, 88}},
                                 TeamShape{32, 4, {96, 80, 88, 88, 96, 72, 104, 104, 88}},
                                 TeamShape{64, 1, {104, 96, 120, 120, 112, 96, 136, 136, 120}},
                                 TeamShape{64, 2, {112, 96, 128, 128, 120, 96, 144, 144, 120}},
                                 TeamShape{128, 1, {136, 120, 184, 184, 136, 128, 200, 200, 184}}};

/// Index in kModes; kModes.size() where there is no such mode.
constexpr std::size_t find_mode(int depth, int bricks, Tf32Precision precision) {
  for (std::size_t i = 0; i < kModes.size(); ++i)
    if (kModes[i].depth == depth && kModes[i].bricks == bricks && kModes[i].precision == precision)
      return i;
  return kModes.size();
}
/// Index in kTeamShapes; kTeamShapes.size() where there is no such team.
constexpr std::size_t find_team_shape(int warp_cols, int warps) {
  for (std::size_t i = 0; i < kTeamShapes.size(); ++i)
    if (kTeamShapes[i].warp_cols == warp_cols && kTeamShapes[i].warps == warps) return i;
  return kTeamShapes.size();
}

// Thread blocks take groups of as many tasks as they have teams. All tasks of one chunk of columns
// of C come before those of the next.
TESSERA_HOST_DEVICE constexpr std::uint32_t count_groups(std::uint32_t num_tasks,
                                                         std::uint32_t teams) {
  return (num_tasks - 1) / teams + 1;
}
/// The task of a team; the team has no work where that is not below the number of tasks.
TESSERA_HOST_DEVICE constexpr std::uint32_t task_of(std::uint32_t thread_block, std::uint32_t team,
                                                    std::uint32_t groups, std::uint32_t teams) {
  return thread_block % groups * teams + team;
}
/// The chunk of columns of C of a thread block.
TESSERA_HOST_DEVICE constexpr std::uint32_t chunk_of(std::uint32_t thread_block,
                                                     std::uint32_t groups) {
  return thread_block / groups;
}

/// The shape of a thread block, for one packed matrix and one width of C.
struct Geometry {
  int warp_cols, warps;  // of a team
  int teams;             // of a thread block
  int stages;
  int stage_rows;   // rows of B of a stage
  int block_bytes;  // of a stage: the largest block of the packed matrix

  constexpr int team_cols() const { return warp_cols * warps; }
  constexpr int pitch() const { return team_cols() + kPad; }  // floats, of a staged row of B
  constexpr int stage_bytes() const {
    // A lane may read, and not use, one value behind the last of a block. No copy of the next stage
    // writes there.
    constexpr int kSector = 32, kUnused = sizeof(float);
    const int used = 4 * pitch() * stage_rows + block_bytes + kUnused;
    return (used + kSector - 1) / kSector * kSector;
  }
  constexpr int team_bytes() const { return stages * stage_bytes() + warps * kIndexBytes; }
  constexpr int shared_bytes() const { return teams * team_bytes(); }
  constexpr int threads() const { return 32 * warps * teams; }
  /// Chunks of columns of C, one for each group of teams.
  constexpr std::int64_t num_chunks(std::int64_t n) const {
    return (n + team_cols() - 1) / team_cols();
  }
};

CuteSpmmOptions read_options(const Params& params);

/// Throws Unsupported for blocks of more than 32 columns, and where kModes has no such mode.
void check_blocks(const Hrpb& a, const CuteSpmmOptions& options);

/// The columns of C of a warp where the number of row panels decides: the most that leave every SM
/// two warps, or 32. Few row panels of one warp each would leave SMs idle.
constexpr int warp_cols_for(std::int64_t teams, int team_cols, std::int64_t sms) {
  int cols = team_cols;
  while (cols > kChunkCols && teams * (team_cols / cols) < 2 * sms) cols /= 2;
  return cols;
}

/// Throws Unsupported as check_blocks does.
Geometry geometry(const Hrpb& a, std::int64_t n, const CuteSpmmOptions& options);

/// Index in kModes of the mode for blocks of `tile_rows` rows.
std::size_t mode_of(const CuteSpmmOptions& options, int tile_rows);

/// Registers of a thread: see TeamShape.
int registers_per_thread(const Geometry& geometry, const CuteSpmmOptions& options, int tile_rows);

/// The number of parts of each row panel where the launch takes `waves` waves of thread blocks.
/// [row panels]
std::vector<std::int64_t> split_by_waves(const Hrpb& a, std::int64_t waves);

/// A row panel, or a part of its blocks: [first, last).
struct alignas(16) Task {
  std::uint32_t panel, first, last;
  std::uint32_t is_part;  // 1: other tasks add to the same rows of C

  friend bool operator==(const Task&, const Task&) = default;
};

/// The tasks in the order in which thread blocks take them.
std::vector<Task> plan_tasks(const Hrpb& a, std::int64_t n, const CuteSpmmOptions& options);

/// The row panels that several tasks add to, in ascending order. A first launch clears them.
std::vector<std::uint32_t> split_panels(const std::vector<Task>& tasks);

constexpr int kClearThreads = 256;   // a thread block clears a row panel
constexpr int kClearRegisters = 32;  // of a thread

}  // namespace tessera::cutespmm
