// Merge-path SpMM (Merrill and Garland, SC 2016, for vectors; Yang, Buluc, Owens, Euro-Par 2018):
// the nonzeros and the ends of rows are one list of items, of which every unit (part of a warp)
// takes an equal number; FP32 on CUDA cores.
//
// Neither long rows nor many short or empty ones unbalance it. Departures: the host cuts the shares
// once per matrix, instead of a search in the launch; the end of a row stays with its last nonzero,
// so that no share has the end alone; the last share to finish a split row adds its parts (the
// carry-outs) in the order of the row, unless combine = atomic.

#include "kernels/spmm/row_pieces/merge_spmm.hpp"

#include <algorithm>

#include "formats/base/registry.hpp"
#include "kernels/spmm/row_pieces/row_pieces_kernel.hpp"

namespace tessera {

using namespace row_pieces;

namespace {

Plan cut(const CsrMatrix& a, std::int64_t items) {
  require_countable(a);
  std::vector<RowPart> row_parts;
  std::vector<std::uint32_t> shares{0};
  std::int64_t left = items;
  const auto close_share = [&] {
    shares.push_back(static_cast<std::uint32_t>(row_parts.size()));
    left = items;
  };
  for (std::uint32_t row = 0; row < static_cast<std::uint32_t>(a.rows); ++row) {
    const std::int64_t end = a.row_offsets[row + 1];
    for (std::int64_t first = a.row_offsets[row];;) {
      const std::int64_t last = std::min(first + left, end);
      row_parts.push_back(
          {row, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last), 0});
      left -= last - first + (last == end ? 1 : 0);
      if (left <= 0) close_share();
      if (last == end) break;
      first = last;
    }
  }
  if (left < items) close_share();
  return make_plan(a, std::move(row_parts), std::move(shares));
}

}  // namespace

Method merge_spmm::method(const Params& params) {
  const UnitShape shape{.unroll = static_cast<int>(params.integer("unroll")),
                        .warps = static_cast<int>(params.integer("warps")),
                        .streams = true};
  const std::int64_t columns = params.integer("columns"), items = params.integer("items");
  return {.name = "merge_spmm",
          .version = 1,
          .atomic = is_atomic(params),
          .cut = [=](const CsrMatrix& a) { return cut(a, share_size(a.nnz() + a.rows, items)); },
          .shape = [=](const CsrMatrix&, std::int64_t n) { return lanes_for(n, columns, shape); }};
}

namespace {

const Register<SpmmKernel> entry{{
    .name = "merge_spmm",
    .summary = "CSR, equal numbers of nonzeros and rows per unit (merge-path, FP32)",
    .params = {share_param("items", "nonzeros and rows"), combine_param(), columns_param(),
               unroll_param(8, {"4", "8"}), warps_param(8)},
    .make =
        [](const Params& params) {
          return std::make_unique<RowPiecesKernel>(merge_spmm::method(params));
        },
}};

}  // namespace
}  // namespace tessera
