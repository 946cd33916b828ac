// How acc_spmm cuts C up and what it can be told; its host and its device half both go by this.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/base/params.hpp"
#include "kernels/precision.hpp"
#include "kernels/store.hpp"
#include "kernels/window_tasks.hpp"
#include "kernels/window_tile.hpp"

namespace tessera::acc_spmm {

constexpr int kWarps = 4;  // per thread block
constexpr int kThreads = 32 * kWarps;

// Of a thread block that writes zeros to a window that atomics add to.
constexpr int kClearThreads = 256;
constexpr int kClearRegisters = 24;  // of a thread, as they are allocated

/// What says where the nonzeros of a TC block are.
enum class Names {
  kBitmap,  // BitTCF: a bit for each place
  kBytes,   // ME-TCF: a byte for each nonzero
};

/// Where a warp gets rows of B from, and when.
enum class Pipeline {
  kStaged,     // whole rows to stages in shared memory, asynchronously
  kRegisters,  // each lane the elements it multiplies
  // The same, while TC blocks of A go through two buffers in shared memory:
  kLeastBubble,  // a TC block ahead
  kDtc,          // when they are needed
};

/// Caches that rows of B are left in.
enum class Cache { kL1, kL2 };

/// How the sums of a split window come together.
enum class Combine {
  kOrdered,  // the last task to arrive adds all, in the order of their TC blocks
  kAtomic,   // each adds its own to C
};

struct Choices {
  explicit Choices(const Params& params);

  Precision precision;
  Names names;
  Pipeline pipeline;
  int stages;   // of a warp; staged
  int columns;  // of C that a warp computes at a time; 0: by the width of C
  Cache cache;
  Store store;
  std::string balance;
  std::int64_t max_blocks;
  Combine combine;

  /// Groups of 32 columns of a warp: 1, 2 or 4.
  int groups(std::int64_t n) const;
  /// Whether warps have equal shares of TC blocks, of several windows.
  bool deals() const { return balance == "dtc"; }
  window_tasks::Tasks cut(window_tasks::WindowOffsets windows) const;
  /// Of a thread block. Bytes.
  std::int64_t shared_bytes(std::int64_t n) const;

 private:
  /// Throws Unsupported for what there is no kernel for.
  void require_compiled() const;
};

std::vector<ParamSpec> params();

/// Warps side by side in C [rows x n].
constexpr std::int64_t num_chunks(std::int64_t n, int groups) {
  return (n + groups * window_tile::kWarpCols - 1) / (groups * window_tile::kWarpCols);
}

/// A stage: eight rows of B, of 32 columns a group and eight floats between rows, so that the eight
/// lanes that fetch pieces of four rows at once find them in different banks.
constexpr int row_pitch(int groups) { return groups * window_tile::kWarpCols + 8; }

constexpr int kTileCells = window_tile::kWindowRows * window_tile::kTileCols;

/// What a warp of least_bubble and dtc has in shared memory: two TC blocks of A, and the columns
/// that they stand for.
struct Buffers {
  float cells[2][kTileCells];
  std::int32_t rows[2][window_tile::kTileCols];
};

}  // namespace tessera::acc_spmm
