// tsparse's schedule: which warp makes which tiles of C, and how many tasks it has at a time.
// Device code and the warp traces read it. See kernels/spgemm/tsparse/tsparse.cpp for the method.
#pragma once

#include <cstdint>

#include "kernels/host_device.hpp"
#include "kernels/spgemm/shared/bitmap_tiles.hpp"

namespace tessera::tsparse {

constexpr int kWarpSize = 32;
constexpr int kThreads = 256;  // of a thread block
constexpr int kWarps = kThreads / kWarpSize;

/// The number of a thread in its launch.
TESSERA_HOST_DEVICE constexpr std::int64_t number_of_thread(std::int64_t thread_block,
                                                            std::int64_t thread) {
  return thread_block * kThreads + thread;
}

/// The thread blocks of a launch with this many threads.
constexpr std::int64_t thread_blocks_for(std::int64_t threads) {
  return (threads + kThreads - 1) / kThreads;
}

/// count_tasks() and list_tasks(): a warp takes one tile of A.
struct ListTasks {
  TESSERA_HOST_DEVICE static constexpr std::int64_t item_of(std::int64_t thread_block,
                                                            std::int64_t thread) {
    return number_of_thread(thread_block, thread) / kWarpSize;
  }
  static constexpr std::int64_t thread_blocks(std::int64_t tiles) {
    return thread_blocks_for(kWarpSize * tiles);
  }
};

/// count_cells() and compact(): eight lanes take one tile of C, a lane one row of its cells.
struct CountCells {
  static constexpr int kTilesOfWarp = kWarpSize / spgemm::kSide;
  static constexpr int kTilesOfThreadBlock = kWarps * kTilesOfWarp;
  static constexpr int kBatch = spgemm::kSide;  // tasks of a tile that are loaded at a time

  /// The tile of C of a thread; for thread 32 w, the first tile of warp w.
  TESSERA_HOST_DEVICE static constexpr std::int64_t item_of(std::int64_t thread_block,
                                                            std::int64_t thread) {
    return number_of_thread(thread_block, thread) / spgemm::kSide;
  }
  static constexpr std::int64_t thread_blocks(std::int64_t tiles) {
    return thread_blocks_for(spgemm::kSide * tiles);
  }
};

/// multiply_tiles(): a warp makes two tiles of C; each half of its lanes loads the tasks of one.
struct MultiplyTiles {
  static constexpr int kTilesOfWarp = 2;
  static constexpr int kTilesOfThreadBlock = kWarps * kTilesOfWarp;
  static constexpr int kBatch = kWarpSize / kTilesOfWarp;  // tasks of a tile loaded at a time

  /// The first tile of C of a thread's warp.
  TESSERA_HOST_DEVICE static constexpr std::int64_t item_of(std::int64_t thread_block,
                                                            std::int64_t thread) {
    return number_of_thread(thread_block, thread) / kWarpSize * kTilesOfWarp;
  }
  static constexpr std::int64_t thread_blocks(std::int64_t tiles) {
    return thread_blocks_for((tiles + 1) / kTilesOfWarp * kWarpSize);
  }
  /// The tiles of A and B of a batch for each lane.
  static constexpr std::int64_t shared_bytes() {
    return std::int64_t{2} * static_cast<std::int64_t>(sizeof(spgemm::Tile)) * kThreads;
  }
};

/// count_pairs() and multiply_pairs(): a thread block has a pair of tiles of C (section 4.4), a
/// warp on tensor cores, and a thread a cell on scalar cores (algorithm 2).
struct Pairs {
  static constexpr int kTiles = 2;
  static constexpr int kCells = spgemm::kSide * spgemm::kSide;
  static constexpr int kMmas = 2;  // of m16n8k16, side by side: the 16 x 16 x 16 of a step

  static constexpr int threads(bool on_tensor_cores) {
    return on_tensor_cores ? kWarpSize : kTiles * kCells;
  }
  /// The first tile of C of a thread block.
  TESSERA_HOST_DEVICE static constexpr std::int64_t item_of(std::int64_t thread_block) {
    return kTiles * thread_block;
  }
  static constexpr std::int64_t thread_blocks(std::int64_t tiles) {
    return (tiles + kTiles - 1) / kTiles;
  }
  /// On scalar cores: the cells of a tile of A and of B for each tile of C, then 64 bits a warp.
  static constexpr std::int64_t shared_bytes(bool on_tensor_cores) {
    if (on_tensor_cores) return 0;
    return std::int64_t{2} * kTiles * kCells * 4 + threads(false) / kWarpSize * 8;
  }
};

}  // namespace tessera::tsparse
