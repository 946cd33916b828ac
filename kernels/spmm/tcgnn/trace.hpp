// The warp trace of tcgnn.
#pragma once

#include <memory>

#include "formats/me_tcf.hpp"
#include "kernels/spmm/tcgnn/tcgnn.hpp"
#include "kernels/warp_trace.hpp"

namespace tessera::tcgnn {

/// The addresses of a product's arrays.
struct Addresses {
  Addresses(const Tcf& a, std::int64_t n, AddressSpace& space);

  std::uint64_t row_offsets, col_indices, edge_to_column, block_partition, values, b, c;
};

/// The trace of the launch. It refers to `edges`; `tiles` are the same TC blocks.
std::unique_ptr<LaunchTrace> make_trace(const Tcf& edges, std::shared_ptr<const MeTcf> tiles,
                                        std::int64_t n, const Schedule& schedule,
                                        const Addresses& at);

}  // namespace tessera::tcgnn
