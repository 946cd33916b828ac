// cuTeSpMM's wave-aware load balance (section 5, equations 6 and 7): which row panels are split
// into how many virtual ones, given how many waves of thread blocks a launch takes.
//
// A heavy panel needs no splitting where the others keep the device busy as long: that is what the
// number of waves stands for. Here because the kernel goes by it and the model counts with it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::cutespmm {

/// Blocks (TM x TK) of a row panel / mean blocks of a panel, equation 6; 0 without any block.
/// [row panels]
std::vector<double> num_loads(std::span<const std::int64_t> blocks);

/// ceil(thread blocks / those resident at a time), as in the paper's example: 991 on 100 are 10.
/// Throws an Error where none is resident.
std::int64_t num_waves(std::int64_t thread_blocks, std::int64_t resident);

/// How a row panel is split.
struct Partition {
  double ratio = 0;        // num_loads / num_waves, equation 7
  std::int64_t parts = 1;  // ceil(ratio) where that is above 1; more than one add to C atomically
};

/// No more parts than blocks, which the paper does not say: it matters where most panels are empty.
/// [row panels]
std::vector<Partition> partitions(std::span<const std::int64_t> blocks, std::int64_t waves);

}  // namespace tessera::cutespmm
