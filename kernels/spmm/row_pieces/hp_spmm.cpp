// HP-SpMM (Fan et al., IPDPS 2023): the nonzeros of the matrix are one stream, of which every warp
// takes an equal number, whatever rows they are in; FP32 on CUDA cores.
//
// A warp keeps a running sum while the row stays, and writes it where the row changes; how many
// nonzeros it takes follows from the matrix. They are staged in shared memory, 32 at a time.
// Departures: where rows end is read from a list of pieces instead of a row index with each nonzero
// (COO), a third less to read; only rows that several warps have parts of are added up, in their
// order by the last warp to arrive, unless combine = atomic, which is the paper's; only those rows,
// or the empty ones, are cleared.

#include "kernels/spmm/row_pieces/hp_spmm.hpp"

#include "formats/base/registry.hpp"
#include "kernels/spmm/row_pieces/row_pieces_kernel.hpp"

namespace tessera {

using namespace row_pieces;

Method hp_spmm::method(const Params& params) {
  const Shape shape{.unroll = static_cast<int>(params.integer("unroll")),
                    .warps = static_cast<int>(params.integer("warps")),
                    .reach = NonzeroDelivery::kShared,
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
    .summary = "CSR, as many nonzeros for every warp, running sums (HP-SpMM, FP32)",
    .params = {share_param("nonzeros", "nonzeros"), combine_param(), columns_param(),
               unroll_param(8, {"4", "8"}), warps_param(8)},
    .make =
        [](const Params& params) {
          return std::make_unique<RowPiecesKernel>(hp_spmm::method(params));
        },
}};

}  // namespace
}  // namespace tessera
