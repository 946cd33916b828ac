// The launch that narrows B: what its device code and its trace share.
#pragma once

#include "kernels/spmm/narrowed/narrowed_b.hpp"

namespace tessera::narrowed {

constexpr int kThreads = 256, kBlocksPerSm = 6, kWarps = kThreads / 32;
constexpr int kLaneCols = 4;
static_assert(kSegmentCols == 32 * kLaneCols);
constexpr int kInFlight = 4;    // rows that a warp loads at a time
constexpr int kRegisters = 40;  // of a thread (CUDA 13.0, sm_90a)
static_assert(kSampleRows % kWarps == 0);

}  // namespace tessera::narrowed
