// The arguments of tall_spmm's kernels.
#pragma once

#include "kernels/narrowing.hpp"
#include "kernels/scaling.hpp"
#include "kernels/spmm/row_windows/split_windows.cuh"
#include "kernels/spmm/tall/schedule.hpp"

namespace tessera::tall_spmm {

/// What every kernel of tall_spmm knows of B and C.
struct DenseArguments {
  std::uint32_t rows, n;  // of C
  const void* b;          // [cols of A x n]
  void* c;                // [rows x n]
  bool c_in_16_bits;
  Scaling scaling;
  const std::int32_t* places;  // of the rows of C, or null
  Narrowing narrowing;
};

struct Arguments {
  const std::uint32_t* first_turn;  // [workers + 1]
  const Turn* turns;                // and kTurns more
  const TileRecord* records;        // [tiles + 1] the last one of no columns
  const std::uint32_t* nonzeros;    // an element of 16 bits, above it its byte of the tile
  std::uint32_t chunks;             // of columns of C
  window_tasks::SplitWindowSums split_windows;  // four of each, one for each warp
  DenseArguments dense;
};

/// Of the kernel on CUDA cores.
struct WideArguments {
  const std::uint32_t* window_offset;  // as in TallTiles
  const std::uint32_t* tile_offset;
  const std::int32_t* tile_cols;
  const std::uint16_t* places;
  const float* values;
  DenseArguments dense;
};

}  // namespace tessera::tall_spmm
