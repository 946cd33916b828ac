// The schedule of dense_spmm: which thread block and which warp multiplies what. The device code,
// the emulation, the work description and the warp trace read it.
//
// A thread block has a tile of 64 rows of C and 64 or 128 columns, and a part of the depth (the
// columns of A). The thread blocks of a tile are a cluster, which adds their sums. A group of four
// warps has 64 columns of the tile; one more warp copies the operands.
#pragma once

#include <cstdint>

#include "formats/dense_tiles.hpp"
#include "kernels/host_device.hpp"

namespace tessera::dense_spmm {

constexpr int kTileRows = DenseTiles::kTileRows;  // rows of C of a thread block
constexpr int kGroupCols = 64;                    // columns of C of four warps
constexpr int kLineBytes = 128;                   // of a row of B that are copied as one box
constexpr int kStageSteps = 4;  // steps of the depth whose operands are copied together
constexpr int kPadFloats = 4;   // behind a row of sums in shared memory

/// Columns of A that an MMA multiplies, for elements of B of 4 or 2 bytes: 8 or 16.
TESSERA_HOST_DEVICE constexpr int depth_of_step(int element_bytes) { return 32 / element_bytes; }

struct Schedule {
  int groups = 1;      // of 64 columns of C: 1 or 2
  int parts_log2 = 0;  // of the thread blocks that share the depth: 1, 2, 4 or 8
  int element_bytes = 4;

  TESSERA_HOST_DEVICE constexpr int parts() const { return 1 << parts_log2; }

  TESSERA_HOST_DEVICE constexpr int columns() const { return kGroupCols * groups; }
  TESSERA_HOST_DEVICE constexpr int threads() const { return 128 * groups + 32; }
  TESSERA_HOST_DEVICE constexpr int stage_depth() const {
    return kStageSteps * depth_of_step(element_bytes);
  }
  /// A stage's elements of A, then its lines of B; a line's rows follow each other.
  TESSERA_HOST_DEVICE constexpr int a_bytes() const {
    return kTileRows * stage_depth() * element_bytes;
  }
  TESSERA_HOST_DEVICE constexpr int line_cols() const { return kLineBytes / element_bytes; }
  TESSERA_HOST_DEVICE constexpr int lines() const { return columns() / line_cols(); }
  TESSERA_HOST_DEVICE constexpr int line_bytes() const { return stage_depth() * kLineBytes; }
  TESSERA_HOST_DEVICE constexpr int stage_bytes() const {
    return a_bytes() + lines() * line_bytes();
  }
  /// So many that a multiprocessor can hold two thread blocks: clusters find room so.
  TESSERA_HOST_DEVICE constexpr int ring_stages() const { return groups == 1 ? 4 : 3; }
  TESSERA_HOST_DEVICE constexpr int ring_bytes() const { return ring_stages() * stage_bytes(); }
  /// A row of sums in shared memory, and the rows of a tile, in bytes.
  TESSERA_HOST_DEVICE constexpr int sum_pitch() const {
    return static_cast<int>(sizeof(float)) * (columns() + kPadFloats);
  }
  TESSERA_HOST_DEVICE constexpr int sums_bytes() const { return kTileRows * sum_pitch(); }
  /// The ring, in whose place the sums are written, those that arrive from the cluster, and the
  /// barriers: one for each stage to arrive, one to be free, and one for the sums.
  TESSERA_HOST_DEVICE constexpr int barriers_at() const { return ring_bytes() + sums_bytes(); }
  TESSERA_HOST_DEVICE constexpr int shared_bytes() const {
    return barriers_at() + 8 * (2 * ring_stages() + 1);
  }

  /// Of the depth as DenseTiles pads it.
  constexpr std::int64_t stages(std::int64_t depth) const {
    return DenseTiles::col_tiles_of(depth) * DenseTiles::kTileCols / stage_depth();
  }
  constexpr std::int64_t row_tiles(std::int64_t rows) const {
    return (rows + kTileRows - 1) / kTileRows;
  }
  constexpr std::int64_t column_tiles(std::int64_t n) const {
    return (n + columns() - 1) / columns();
  }
};

/// The first stage of part `part` of 2^parts_log2, of `stages` in all.
TESSERA_HOST_DEVICE constexpr int first_stage(int stages, int parts_log2, int part) {
  return static_cast<int>(static_cast<std::uint32_t>(stages) * static_cast<std::uint32_t>(part) >>
                          parts_log2);
}

/// Tiles of 128 columns, which read A less often, where these alone fill a GPU of 132
/// multiprocessors, else of 64. The thread blocks that share the depth are so many that they fill
/// it; a part has at least two stages. The numbers are constants, so that results do not depend on
/// the GPU.
constexpr Schedule make_schedule(std::int64_t rows, std::int64_t depth, std::int64_t n,
                                 int element_bytes) {
  constexpr std::int64_t kSms = 132, kMostParts = 8, kLeastStages = 2;
  Schedule schedule{.groups = 2, .element_bytes = element_bytes};
  const auto tiles = [&] { return schedule.row_tiles(rows) * schedule.column_tiles(n); };
  if (tiles() < kSms) schedule.groups = 1;
  while (schedule.parts() < kMostParts && 2 * schedule.parts() * tiles() <= kSms &&
         2 * schedule.parts() * kLeastStages <= schedule.stages(depth))
    ++schedule.parts_log2;
  return schedule;
}

}  // namespace tessera::dense_spmm
