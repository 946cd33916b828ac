// What acc_spmm's warps do, for the performance simulator.
#pragma once

#include <memory>

#include "kernels/spmm/acc_spmm/acc_spmm.hpp"
#include "kernels/spmm/row_windows/bit_tcf_kernel.hpp"

namespace tessera::acc_spmm {

/// Arrays beside those of the product.
struct TaskAddresses {
  std::uint64_t tasks, shares, slots;
  std::uint64_t tc_local_id;  // ME-TCF's
};

/// `a` has the TC blocks of the packed matrix, whatever names their nonzeros.
std::unique_ptr<LaunchTrace> make_trace(std::shared_ptr<const BitTcf> a, std::int64_t n,
                                        const AccSpmmOptions& choices,
                                        std::shared_ptr<const window_tasks::Tasks> tasks,
                                        const BitTcfAddresses& at, const TaskAddresses& task_at);

}  // namespace tessera::acc_spmm
