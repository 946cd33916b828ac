// The trace of a prefix sum by CUB, for the performance simulator.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/warp_trace.hpp"

namespace tessera::spgemm {

/// A prefix sum by CUB (CUDA 13.0, sm_90a) of 32-bit numbers, into sums of 32 bits or, if is_wide,
/// of 64 bits.
struct Scan {
  std::int64_t count;
  bool is_wide;
  std::uint64_t from, to;

  int threads() const { return is_wide ? 224 : 128; }
  int items() const { return is_wide ? 12 : 24; }  // per thread
  int registers() const { return is_wide ? 56 : 64; }
  std::int64_t shared_bytes() const { return is_wide ? 21520 : 12304; }
  std::int64_t thread_blocks() const {
    return (count + threads() * items() - 1) / (threads() * items());
  }
  static constexpr std::int64_t kBarriers = 3;  // per warp
};
std::shared_ptr<const LaunchTrace> trace_scan(const Scan& scan);

}  // namespace tessera::spgemm
