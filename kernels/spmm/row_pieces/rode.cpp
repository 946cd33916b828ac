// RoDe (Pang et al., PPoPP 2024): rows are decomposed into a regular part, whose nonzeros are a
// multiple of `segment`, and a residue of fewer; FP32 on CUDA cores.
//
// Regular parts are cut into blocks of at most `block` nonzeros, which balances long rows. One
// launch has all blocks first and then all residues, so that the units of a warp and of a thread
// block have similar lengths. Part of a warp takes a block or a residue with loads of 16 bytes.
// Departures: rows of B go straight to registers and column indices run a group ahead of them,
// instead of the paper's pipeline of sub-blocks; the last part of a row to finish adds all parts in
// their order, unless combine = atomic, which is the paper's; a row of one part is stored.

#include "kernels/spmm/row_pieces/rode.hpp"

#include <algorithm>

#include "formats/base/registry.hpp"
#include "kernels/spmm/row_pieces/row_pieces_kernel.hpp"

namespace tessera {

using namespace row_pieces;

namespace {

Plan cut(const CsrMatrix& a, std::int64_t segment, std::int64_t block) {
  require_countable(a);
  std::vector<RowPart> blocks, residues;
  for (std::uint32_t row = 0; row < static_cast<std::uint32_t>(a.rows); ++row) {
    const std::int64_t begin = a.row_offsets[row], length = a.row_length(row);
    const std::int64_t regular = length / segment * segment;
    const auto row_part = [&](std::int64_t first, std::int64_t last) {
      return RowPart{row, static_cast<std::uint32_t>(begin + first),
                     static_cast<std::uint32_t>(begin + last), 0};
    };
    for (std::int64_t first = 0; first < regular; first += block)
      blocks.push_back(row_part(first, std::min(first + block, regular)));
    if (regular < length || length == 0) residues.push_back(row_part(regular, length));
  }
  blocks.insert(blocks.end(), residues.begin(), residues.end());
  return make_plan(a, std::move(blocks));
}

const std::vector<ParamSpec> kParams = {
    {"segment",
     std::int64_t{32},
     "nonzeros of a segment; the regular part of a row has whole segments",
     {},
     1,
     1 << 20},
    {"block",
     std::int64_t{128},
     "most nonzeros of a block of a regular part, rounded down to whole segments",
     {},
     1,
     1 << 20},
    combine_param(),
    columns_param(),
    unroll_param(4, {"4", "8"}),
    warps_param(8)};

}  // namespace

Method rode::method(const Params& params) {
  const std::int64_t segment = params.integer("segment");
  const std::int64_t block = std::max(params.integer("block") / segment, std::int64_t{1}) * segment;
  const UnitShape shape{.unroll = static_cast<int>(params.integer("unroll")),
                        .warps = static_cast<int>(params.integer("warps"))};
  const std::int64_t columns = params.integer("columns");
  return {.name = "rode",
          .version = 1,
          .atomic = is_atomic(params),
          .cut = [=](const CsrMatrix& a) { return cut(a, segment, block); },
          .shape = [=](const CsrMatrix&, std::int64_t n) { return lanes_for(n, columns, shape); }};
}

namespace {

const Register<SpmmKernel> entry{{
    .name = "rode",
    .summary = "CSR, rows cut into blocks and residues on CUDA cores (RoDe, FP32)",
    .params = kParams,
    .make =
        [](const Params& params) {
          return std::make_unique<RowPiecesKernel>(rode::method(params));
        },
}};

}  // namespace
}  // namespace tessera
