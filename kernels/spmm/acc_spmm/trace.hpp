// The warp trace of acc_spmm.
#pragma once

#include <memory>

#include "kernels/spmm/acc_spmm/acc_spmm.hpp"
#include "kernels/spmm/row_windows/bit_tcf_kernel.hpp"

namespace tessera::acc_spmm {

/// The addresses of the arrays that BitTcfAddresses lacks.
struct TaskAddresses {
  std::uint64_t tasks, shares, splits, slots;
  std::uint64_t tc_local_id;  // of ME-TCF
};

/// The trace of the launch that multiplies. `a` has the TC blocks of the packed matrix, whose
/// format may be BitTCF or ME-TCF.
std::unique_ptr<LaunchTrace> make_trace(std::shared_ptr<const BitTcf> a, std::int64_t n,
                                        const AccSpmmOptions& options,
                                        std::shared_ptr<const window_tasks::Tasks> tasks,
                                        const BitTcfAddresses& at, const TaskAddresses& task_at);

}  // namespace tessera::acc_spmm
