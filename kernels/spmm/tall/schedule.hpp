// The schedule of tall_spmm: which thread block multiplies what, in which order. The device code,
// the emulation, the work description and the warp trace read it.
//
// A thread block is four warps that multiply tiles of 64 x 64 condensed columns by 128 columns of
// B, one tile after another. It has its tiles for the whole launch: a grid is as large as the GPU
// holds at a time, so that the rows of B of the next tiles are on their way when a window ends.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/tall_tiles.hpp"
#include "kernels/host_device.hpp"
#include "kernels/spmm/row_windows/window_tasks.hpp"

namespace tessera::tall_spmm {

constexpr int kWarps = 4, kThreads = 32 * kWarps;
constexpr int kWindowRows = TallTiles::kWindowRows;
constexpr int kTileCols = TallTiles::kTileCols;
constexpr int kWarpRows = kWindowRows / kWarps;  // rows of C of a warp
constexpr int kCols = 128;                       // columns of C of a thread block
constexpr int kStepDepth = 16;                   // condensed columns of an MMA
constexpr int kSteps = kTileCols / kStepDepth;   // of a full tile
constexpr int kElementBytes = 2;                 // of B in shared memory

/// Tiles whose rows of B are in shared memory or on their way.
constexpr int kStages = 3;
/// Expanded tiles of A: one that is multiplied, one that is filled and one that is cleared.
constexpr int kExpandedTiles = 3;
/// Records of tiles in shared memory: those of the stages and of two tiles behind.
constexpr int kRecords = kStages + 2;
/// Nonzeros of a tile that a thread loads before it writes them to their cells.
constexpr int kLoaded = 6;
/// Turns of a thread block in shared memory, of which half are fetched at a time.
constexpr int kTurns = 64;
/// Thread blocks on a multiprocessor.
constexpr int kResident = 3;

/// The thread blocks that an H200 holds. It is a constant, so that results do not depend on the
/// GPU.
constexpr std::int64_t kWorkers = std::int64_t{132} * kResident;

constexpr int kLineBytes = 128;  // of a row of B that lie together in shared memory
constexpr int kStageBytes = kTileCols * kCols * kElementBytes;
constexpr int kTileBytes = kWindowRows * kTileCols * kElementBytes;

/// What the device has of a tile besides its nonzeros. The columns of B's rows, zero behind the
/// last one, are 64 words.
struct alignas(16) TileRecord {
  std::uint32_t cols[kTileCols];
  std::uint32_t first_nonzero, nonzeros;
  std::uint32_t columns;  // of the tile
  std::uint32_t unused;
};

/// A tile in the order in which a thread block multiplies its tiles.
struct alignas(16) Turn {
  static constexpr std::uint32_t kFirst = 1, kLast = 2;  // of a task

  std::uint32_t tile;    // the number of all tiles: a window without any
  std::uint32_t window;  // of 64 rows
  std::uint32_t flags;   // and the number of the part of a split window, times four
  std::uint32_t split;   // 0: the window is whole; 1 + index into Plan::tasks.splits

  TESSERA_HOST_DEVICE constexpr bool is_first() const { return (flags & kFirst) != 0; }
  TESSERA_HOST_DEVICE constexpr bool is_last() const { return (flags & kLast) != 0; }
  TESSERA_HOST_DEVICE constexpr std::uint32_t part() const { return flags / 4; }
};

/// Shared memory of a thread block: rows of B, expanded tiles, turns, records.
constexpr int kTilesAt = kStages * kStageBytes;
constexpr int kTurnsAt = kTilesAt + kExpandedTiles * kTileBytes;
constexpr int kRecordsAt = kTurnsAt + kTurns * static_cast<int>(sizeof(Turn));
constexpr int kSharedBytes = kRecordsAt + kRecords * static_cast<int>(sizeof(TileRecord));
/// And, where B was narrowed, the scales of the columns of C.
constexpr int kColumnScalesAt = kSharedBytes;
constexpr int kScaledSharedBytes = kColumnScalesAt + kCols * static_cast<int>(sizeof(float));

/// The byte of a cell of an expanded tile, whose rows of 128 bytes have their 16-byte pieces
/// exchanged by an exclusive or with the row mod 8 (the 128-byte swizzle of wgmma).
TESSERA_HOST_DEVICE constexpr std::uint32_t expanded_byte(std::uint32_t row, std::uint32_t col) {
  return row * kLineBytes + ((col / 8 ^ row % 8) * 16) + col % 8 * kElementBytes;
}

/// Threads of a thread block of the kernel on CUDA cores, its warps, each with a row and a chunk of
/// columns at a time, and the thread blocks of a launch.
constexpr int kWideThreads = 256, kWideRows = kWideThreads / 32;
constexpr std::int64_t kWideBlocks = std::int64_t{132} * 8;

/// Windows cut into tasks, and the tasks of each thread block of a chunk of 128 columns.
struct Plan {
  window_tasks::Tasks tasks;
  std::vector<std::uint32_t> first_turn;  // [workers + 1] index into turns
  std::vector<Turn> turns;                // by worker

  std::int64_t workers() const { return std::ssize(first_turn) - 1; }
};

/// The parts of split windows, of which each warp has its own rows: a split window is four, one for
/// each warp, and so are its tasks. There are no other tasks.
window_tasks::Tasks parts_of_warps(const window_tasks::Tasks& tasks);

/// Chunks of columns of C.
TESSERA_HOST_DEVICE constexpr std::int64_t chunks_of(std::int64_t n) {
  return (n + kCols - 1) / kCols;
}

/// Rows of all chunks, and the thread blocks that multiply them on CUDA cores.
TESSERA_HOST_DEVICE constexpr std::int64_t wide_items(std::int64_t rows, std::int64_t n) {
  return rows * chunks_of(n);
}
constexpr std::int64_t wide_blocks(std::int64_t rows, std::int64_t n) {
  return std::min((wide_items(rows, n) + kWideRows - 1) / kWideRows, kWideBlocks);
}

/// The expected time of task `i`, in quarters of the time of a tile.
std::int64_t cost_of(const window_tasks::Tasks& tasks, std::int64_t i);

/// The plan for a B of n columns. A window of more than `max_tiles` tiles is split; with 0, that
/// limit is chosen with which the last thread block is expected to end first. Every task goes to
/// the thread block that has the least to do. Throws Unsupported for 2^31 tasks or more.
Plan make_plan(std::span<const std::uint32_t> window_offset, std::int64_t n,
               std::int64_t max_tiles);

}  // namespace tessera::tall_spmm
