// The schedule of rows_sddmm: which lanes take which nonzeros and which columns of X and Y. The
// device code, the emulation, the work description and the warp trace read it.
//
// A group of eight lanes takes a run of nonzeros, one after another. For a nonzero a lane has 16 of
// every 128 bytes of a row of X and of Y; its products are added in the order of their columns, and
// a tree of shuffles adds the sums of the lanes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/host_device.hpp"

namespace tessera::rows_sddmm {

constexpr int kThreads = 256;  // of a thread block
constexpr int kLanes = 8;      // of a group
constexpr int kGroups = kThreads / kLanes;
constexpr int kGroupsPerWarp = 32 / kLanes;
constexpr int kVectorBytes = 16;                   // of a lane
constexpr int kTurnBytes = kLanes * kVectorBytes;  // of a row: a vector of every lane
constexpr int kMostVectors = 4;                    // of a lane in a chunk of a row
constexpr int kLeastRun = 4, kLongestRun = 32;     // nonzeros of a group
constexpr int kResident = 4;                       // thread blocks of an SM, at least
constexpr std::int64_t kGroupsOfGpu = 132 * kResident * kGroups;  // that an H200 holds

/// Nonzeros whose rows a group has in registers or on the way there.
TESSERA_HOST_DEVICE constexpr int nonzeros_in_flight(int vectors) { return kMostVectors / vectors; }

/// The chunks in which a lane has a row of X and of Y in registers.
struct Schedule {
  int vectors;          // of a lane in a chunk: 1, 2 or 4
  std::int64_t chunks;  // of a row
  std::int64_t run;     // nonzeros of a group: 4, 8, 16 or 32

  static constexpr Schedule of(std::int64_t nnz, std::int64_t row_bytes, std::int64_t run) {
    const std::int64_t all = (row_bytes + kTurnBytes - 1) / kTurnBytes;
    int vectors = 1;
    while (vectors < all && vectors < kMostVectors) vectors *= 2;
    if (run == 0) {
      run = kLeastRun;
      while (run < kLongestRun && 2 * run * kGroupsOfGpu <= nnz) run *= 2;
    }
    return {vectors, (all + vectors - 1) / vectors, run};
  }

  /// Those of a row, the rest of the last chunk among them, which is zeros.
  constexpr std::int64_t all_vectors() const { return vectors * chunks; }
  constexpr std::int64_t chunk_bytes() const { return std::int64_t{vectors} * kTurnBytes; }
  constexpr std::int64_t thread_blocks(std::int64_t nnz) const {
    const std::int64_t of_block = run * kGroups;
    return (nnz + of_block - 1) / of_block;
  }
};

}  // namespace tessera::rows_sddmm
