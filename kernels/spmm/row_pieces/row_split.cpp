// Row-split SpMM (Yang, Buluc, Owens, Euro-Par 2018): a warp takes a row, each of its lanes loads
// one of 32 nonzeros and shuffles it to the others; FP32 on CUDA cores.
//
// Departures: a lane has up to four neighbouring columns of C, so that a row of B is one load of up
// to 16 bytes a lane; the warp loads the next 32 nonzeros ahead; a batch that is not full ends with
// its last nonzero.

#include "kernels/spmm/row_pieces/row_split.hpp"

#include "formats/base/registry.hpp"
#include "kernels/spmm/row_pieces/row_pieces_kernel.hpp"

namespace tessera {

using namespace row_pieces;

Method row_split::method(const Params& params) {
  return warp_a_row("row_split",
                    {.warps = static_cast<int>(params.integer("warps")),
                     .delivery = NonzeroDelivery::kWarpShuffles},
                    params.integer("columns"), params.integer("unroll"), 16);
}

namespace {

const Register<SpmmKernel> entry{{
    .name = "row_split",
    .summary = "CSR, one warp per row, nonzeros shuffled between its lanes (row-split, FP32)",
    .params = {columns_param(), unroll_param(0, {"0", "4", "8", "16"}), warps_param(8)},
    .make =
        [](const Params& params) {
          return std::make_unique<RowPiecesKernel>(row_split::method(params));
        },
}};

}  // namespace
}  // namespace tessera
