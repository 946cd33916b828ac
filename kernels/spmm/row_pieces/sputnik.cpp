// Sputnik's SpMM (Gale et al., SC 2020): one-dimensional tiles, that is part of a warp owns a row
// and a strip of columns of C; FP32 on CUDA cores.
//
// As in the paper: loads of 16 bytes; nonzeros from a multiple of four on, whatever a row begins
// with, and the surplus masked (reverse offset memory alignment); rows handed out by length, the
// longest first (row swizzle). Departures: lanes load the nonzeros they need all at once instead of
// staging 32 in shared memory, so that there is no residue; rows are sorted as a whole, which also
// bundles rows of about one length in a warp; how many rows of B are in flight depends on the
// longest row.

#include "kernels/spmm/row_pieces/sputnik.hpp"

#include "formats/base/registry.hpp"
#include "kernels/spmm/row_pieces/row_pieces_kernel.hpp"

namespace tessera {

using namespace row_pieces;

Method sputnik::method(const Params& params) {
  const bool swizzle = params.text("swizzle") == "on";
  const Shape shape{.warps = static_cast<int>(params.integer("warps"))};
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
                Shape mine = shape;
                mine.unroll = rows_in_flight(a, unroll, 16);
                return lanes_for(n, columns, mine);
              }};
}

namespace {

const Register<SpmmKernel> entry{{
    .name = "sputnik",
    .summary = "CSR, part of a warp a row and a strip of columns, rows by length (Sputnik, FP32)",
    .params = {{"swizzle", std::string("on"), "rows by length, the longest first", {"on", "off"}},
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
