// What acc_spmm's warps do, for the performance simulator.
#pragma once

#include <memory>

#include "kernels/acc_spmm.hpp"
#include "kernels/bit_tcf_kernel.hpp"

namespace tessera::acc_spmm {

/// Arrays beside those of the product.
struct TaskAddresses {
  std::uint64_t tasks, shares, slots;
  std::uint64_t tc_local_id;  // ME-TCF's
};

/// `a` has the TC blocks of the packed matrix, whatever names their nonzeros.
std::unique_ptr<LaunchTrace> make_trace(std::shared_ptr<const BitTcf> a, std::int64_t n,
                                        const Choices& choices,
                                        std::shared_ptr<const window_tasks::Tasks> tasks,
                                        const BitTcfAddresses& at, const TaskAddresses& task_at);

/// Of the launch before it, where atomics add: zeros to a split window by each thread block.
/// Windows of `window_rows` of C's [rows x n].
struct Clearing {
  int window_rows;
  std::int64_t rows, n;
  std::uint64_t tasks, c;  // addresses
};
std::unique_ptr<LaunchTrace> make_clear_trace(const Clearing& clearing,
                                              std::shared_ptr<const window_tasks::Tasks> tasks);

}  // namespace tessera::acc_spmm
