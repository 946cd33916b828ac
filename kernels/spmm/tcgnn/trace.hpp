// What tcgnn's warps do, for the performance simulator.
#pragma once

#include <memory>

#include "formats/me_tcf.hpp"
#include "kernels/spmm/tcgnn/tcgnn.hpp"
#include "kernels/warp_trace.hpp"

namespace tessera::tcgnn {

/// Where the arrays of a product lie.
struct Addresses {
  Addresses(const Tcf& a, std::int64_t n, AddressSpace& space);

  std::uint64_t row_offsets, col_indices, edge_to_column, block_partition, values, b, c;
};

/// Refers to `edges`; `tiles` are the same TC blocks.
std::unique_ptr<LaunchTrace> make_trace(const Tcf& edges, std::shared_ptr<const MeTcf> tiles,
                                        std::int64_t n, int warps, const Addresses& at);

}  // namespace tessera::tcgnn
