// The warp trace of dtc_spmm.
#pragma once

#include <memory>

#include "kernels/spmm/dtc_spmm/dtc_spmm.hpp"
#include "kernels/warp_trace.hpp"

namespace tessera::dtc_spmm {

/// The addresses of a product's arrays.
struct Addresses {
  Addresses(const MeTcf& a, const window_tasks::Tasks& tasks, std::int64_t n,
            const row_windows::Schedule& schedule, AddressSpace& space);

  std::uint64_t tasks, shares, slots, tc_offset, tc_local_id, sparse_a_to_b, values, b, c;
};

/// The trace of the launch that multiplies. It refers to `a`.
std::unique_ptr<LaunchTrace> make_trace(const MeTcf& a, std::int64_t n,
                                        const DtcSpmmOptions& options,
                                        std::shared_ptr<const window_tasks::Tasks> tasks,
                                        const Addresses& at);

}  // namespace tessera::dtc_spmm
