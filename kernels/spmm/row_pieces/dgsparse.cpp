// dgSPARSE's grid of SpMM kernels (Huang et al., "Efficient sparse matrix kernels based on adaptive
// workload-balancing and parallel-reduction", 2021): three ways to sum a row, times two ways to
// balance the work; FP32 on CUDA cores.
//
// reduce = sequential: lanes are columns of C and take the nonzeros one after another; caching: the
// same with nonzeros staged in shared memory; parallel: groups of lanes take the nonzeros of a row
// in turn and add their sums by shuffles, which suits a narrow C. balance = row: a unit has a row;
// nnz: a unit has `nonzeros` nonzeros of any rows. Departures: a lane has up to four neighbouring
// columns; with parallel and nnz a warp takes the part of one row in one share, instead of a
// segmented scan over all; the last part of a row to finish adds all parts in their order, unless
// combine = atomic.

#include "kernels/spmm/row_pieces/dgsparse.hpp"

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spmm/row_pieces/row_pieces_kernel.hpp"

namespace tessera {

using namespace row_pieces;

namespace {

constexpr std::int64_t kLanesOfWarp = 32;

/// `shape` with groups of lanes for 4 to 32 columns of C.
UnitShape groups_for(std::int64_t n, std::int64_t columns, UnitShape shape) {
  if (columns == 0) columns = n <= 4 ? 4 : n <= 8 ? 8 : n <= 16 ? 16 : 32;
  shape.values = 4;
  shape.lanes = static_cast<int>(columns / 4);
  shape.groups = 32 / shape.lanes;
  shape.unroll = 4;
  return shape;
}

Plan cut(const CsrMatrix& a, bool by_rows, bool one_by_one, std::int64_t nonzeros) {
  if (by_rows) return make_plan(a, whole_rows(a, natural_order(a)));
  Plan plan = equal_shares(a, share_size(a.nnz(), nonzeros));
  if (one_by_one) plan.shares.clear();
  return plan;
}

}  // namespace

Method dgsparse::method(const Params& params) {
  const std::string& reduce = params.text("reduce");
  const bool parallel = reduce == "parallel", caching = reduce == "caching";
  const std::int64_t columns = params.integer("columns"), nonzeros = params.integer("nonzeros");
  require(columns == 0 || (parallel ? columns <= kLanesOfWarp : columns >= kLanesOfWarp),
          "dgsparse with reduce = {} needs columns {} {}, not {}", reduce,
          parallel ? "<=" : ">=", kLanesOfWarp, columns);
  const bool by_rows = params.text("balance") == "row";
  const UnitShape shape{.unroll = by_rows ? 4 : 8,
                        .warps = static_cast<int>(params.integer("warps")),
                        .delivery = parallel  ? NonzeroDelivery::kLoadsPerGroup
                                    : caching ? NonzeroDelivery::kSharedMemory
                                              : NonzeroDelivery::kBroadcastLoads,
                        .streams = !parallel && !by_rows};
  return {.name = "dgsparse",
          .version = 1,
          .atomic = is_atomic(params),
          .cut = [=](const CsrMatrix& a) { return cut(a, by_rows, parallel, nonzeros); },
          .shape =
              [=](const CsrMatrix&, std::int64_t n) {
                if (parallel) return groups_for(n, columns, shape);
                return caching ? warp_for(n, columns, shape) : lanes_for(n, columns, shape);
              }};
}

namespace {

const Register<SpmmKernel> entry{{
    .name = "dgsparse",
    .summary = "CSR, sequential or parallel sums or row caching, by rows or nonzeros (FP32)",
    .params =
        {{"reduce",
          std::string("caching"),
          "sum of a row: sequential, nonzeros one after another; parallel, by groups of lanes; "
          "caching, one after another from shared memory",
          {"sequential", "parallel", "caching"}},
         {"balance",
          std::string("row"),
          "work of a unit: a row, or an equal number of nonzeros",
          {"row", "nnz"}},
         share_param("nonzeros", "nonzeros"),
         combine_param(),
         {"columns",
          std::int64_t{0},
          "columns of C of a unit; a row's nonzeros are read once for each: 32 and more, or "
          "with reduce = parallel up to 32; 0: by the width of C",
          {"0", "4", "8", "16", "32", "64", "128"}},
         warps_param(8)},
    .make =
        [](const Params& params) {
          return std::make_unique<RowPiecesKernel>(dgsparse::method(params));
        },
}};

}  // namespace
}  // namespace tessera
