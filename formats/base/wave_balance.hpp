// cuTeSpMM's wave-aware load balance (section 5, equations 6 and 7): the number of virtual panels
// that each row panel is split into, given the number of waves of thread blocks in a launch.
//
// A heavy panel needs no splitting when the others keep the device busy for as long, which the
// number of waves expresses. The code is here because the kernel and the model both use it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::cutespmm {

/// The load of each row panel, equation 6: its number of TM x TK blocks / the mean over all panels;
/// 0 without any block. `blocks` and the result are [row panels].
std::vector<double> num_loads(std::span<const std::int64_t> blocks);

/// ceil(thread blocks / resident thread blocks), as in the paper's example: 991 with 100 resident
/// are 10 waves. Throws an Error unless `resident` is positive.
std::int64_t num_waves(std::int64_t thread_blocks, std::int64_t resident);

/// The splitting of one row panel.
struct Partition {
  double ratio = 0;        // num_loads / num_waves, equation 7
  std::int64_t parts = 1;  // ceil(ratio) where that is above 1; more than one add to C atomically
};

/// The splitting of each row panel, equation 7. `blocks` and the result are [row panels]. A panel
/// has at most as many parts as blocks, which the paper does not state: it matters where most
/// panels are empty.
std::vector<Partition> partitions(std::span<const std::int64_t> blocks, std::int64_t waves);

}  // namespace tessera::cutespmm
