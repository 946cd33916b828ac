// HP-SpMM (Fan et al., IPDPS 2023): the nonzeros of the matrix are one stream, of which every warp
// takes an equal number; FP32 on CUDA cores.
//
// A warp keeps a running sum while the row stays the same and writes it where the row changes. The
// number of nonzeros of a warp follows from the matrix. Shared memory holds 32 of them at a time.
// Departures: a list of row parts gives the ends of the rows instead of a row index with each
// nonzero (COO), which is a third less to read; the last warp to finish a split row adds its parts
// in their order, unless combine = atomic, which is the paper's; only empty rows, and with atomics
// split rows, are cleared.

#include "kernels/spmm/row_pieces/hp_spmm.hpp"

#include "formats/base/registry.hpp"
#include "kernels/spmm/row_pieces/row_pieces_kernel.hpp"

namespace tessera {

using namespace row_pieces;

Method hp_spmm::method(const Params& params) {
  const UnitShape shape{.unroll = static_cast<int>(params.integer("unroll")),
                        .warps = static_cast<int>(params.integer("warps")),
                        .delivery = NonzeroDelivery::kSharedMemory,
                        .streams = true};
  const std::int64_t columns = params.integer("columns"), nonzeros = params.integer("nonzeros");
  return {.name = "hp_spmm",
          .version = 1,
          .atomic = is_atomic(params),
          .cut = [=](const CsrMatrix& a) { return equal_shares(a, share_size(a.nnz(), nonzeros)); },
          .shape = [=](const CsrMatrix&, std::int64_t n) { return warp_for(n, columns, shape); }};
}

namespace {

const Register<SpmmKernel> entry{{
    .name = "hp_spmm",
    .summary = "CSR, equal numbers of nonzeros per warp, running sums (HP-SpMM, FP32)",
    .params = {share_param("nonzeros", "nonzeros"), combine_param(), columns_param(),
               unroll_param(8, {"4", "8"}), warps_param(8)},
    .make =
        [](const Params& params) {
          return std::make_unique<RowPiecesKernel>(hp_spmm::method(params));
        },
}};

}  // namespace
}  // namespace tessera
