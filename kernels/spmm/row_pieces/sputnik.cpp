// Sputnik's SpMM (Gale et al., SC 2020): one-dimensional tiles (part of a warp computes a row for a
// strip of columns of C); FP32 on CUDA cores.
//
// As in the paper: loads of 16 bytes; loads of nonzeros begin at a multiple of four and mask the
// surplus (reverse offset memory alignment); thread blocks take the longest rows first (row
// swizzle). Departures: lanes load the nonzeros directly instead of staging 32 in shared memory, so
// that there is no residue; one sort of all rows also bundles rows of similar length in a warp; the
// number of rows of B in flight depends on the longest row.

#include "kernels/spmm/row_pieces/sputnik.hpp"

#include "formats/base/registry.hpp"
#include "kernels/spmm/row_pieces/row_pieces_kernel.hpp"

namespace tessera {

using namespace row_pieces;

Method sputnik::method(const Params& params) {
  const bool swizzle = params.text("swizzle") == "on";
  const UnitShape shape{.warps = static_cast<int>(params.integer("warps"))};
  const std::int64_t unroll = params.integer("unroll");
  const std::int64_t columns = params.integer("columns");
  return {.name = "sputnik",
          .version = 1,
          .atomic = false,
          .cut =
              [=](const CsrMatrix& a) {
                return make_plan(a, whole_rows(a, swizzle ? by_length(a) : natural_order(a)));
              },
          .shape =
              [=](const CsrMatrix& a, std::int64_t n) {
                UnitShape mine = shape;
                mine.unroll = rows_in_flight(a, unroll, 16);
                return lanes_for(n, columns, mine);
              }};
}

namespace {

const Register<SpmmKernel> entry{{
    .name = "sputnik",
    .summary =
        "CSR, part of a warp per row and strip of columns, longest rows first (Sputnik, FP32)",
    .params = {{"swizzle",
                std::string("on"),
                "order of the rows: by length, the longest first, or as in A",
                {"on", "off"}},
               columns_param(),
               unroll_param(0, {"0", "4", "8", "16"}),
               warps_param(4)},
    .make =
        [](const Params& params) {
          return std::make_unique<RowPiecesKernel>(sputnik::method(params));
        },
}};

}  // namespace
}  // namespace tessera
