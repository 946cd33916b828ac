// GE-SpMM (Huang et al., SC 2020): a warp takes a row and stages 32 of its nonzeros at a time in
// shared memory (coalesced row caching), for one or several times 32 columns of C (coarse-grained
// warp merging); FP32 on CUDA cores.
//
// Departures: the merged columns of a lane are neighbours, so that a row of B is one load of up to
// 16 bytes a lane; several rows of B are in flight; the warp loads the next 32 nonzeros while it
// multiplies.

#include "kernels/spmm/row_pieces/gespmm.hpp"

#include "formats/base/registry.hpp"
#include "kernels/spmm/row_pieces/row_pieces_kernel.hpp"

namespace tessera {

using namespace row_pieces;

Method gespmm::method(const Params& params) {
  return warp_a_row("gespmm",
                    {.warps = static_cast<int>(params.integer("warps")),
                     .delivery = NonzeroDelivery::kSharedMemory},
                    32 * params.integer("cwm"), params.integer("unroll"), 8);
}

namespace {

const Register<SpmmKernel> entry{{
    .name = "gespmm",
    .summary = "CSR, one warp per row, nonzeros cached in shared memory (GE-SpMM, FP32)",
    .params = {{"cwm",
                std::int64_t{0},
                "columns of C of a warp, in units of 32 (coarse-grained warp merging); 0: 1, 2 or "
                "4, by the width of C",
                {"0", "1", "2", "4", "8"}},
               unroll_param(0, {"0", "4", "8"}),
               warps_param(8)},
    .make =
        [](const Params& params) {
          return std::make_unique<RowPiecesKernel>(gespmm::method(params));
        },
}};

}  // namespace
}  // namespace tessera
