// What dtc_spmm's warps do, for the performance simulator.
#pragma once

#include <memory>

#include "kernels/spmm/dtc_spmm/dtc_spmm.hpp"
#include "kernels/warp_trace.hpp"

namespace tessera::dtc_spmm {

/// Where the arrays of a product lie.
struct Addresses {
  Addresses(const MeTcf& a, const window_tasks::Tasks& tasks, std::int64_t n, const Geometry& shape,
            AddressSpace& space);

  std::uint64_t tasks, shares, slots, tc_offset, tc_local_id, sparse_a_to_b, values, b, c;
};

/// Refers to `a`.
std::unique_ptr<LaunchTrace> make_trace(const MeTcf& a, std::int64_t n,
                                        const DtcSpmmOptions& choices,
                                        std::shared_ptr<const window_tasks::Tasks> tasks,
                                        const Addresses& at);

}  // namespace tessera::dtc_spmm
