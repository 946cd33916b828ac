#include "formats/tcf.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "formats/base/registry.hpp"
#include "formats/condense.hpp"
#include "formats/entry_rows.hpp"
#include "formats/statistics/footprint_formula.hpp"

namespace tessera {
namespace {

class TcfFormat final : public Format {
 public:
  TcfFormat(int window_rows, int tile_cols) : window_rows_(window_rows), tile_cols_(tile_cols) {}

  std::unique_ptr<PackedMatrix> build(const CsrMatrix& matrix,
                                      const PackLimits& limits) const override {
    // Offsets are signed, and there are at most as many TC blocks as nonzeros.
    constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
    const PackLimits signed_limits{std::min(limits.offset, kLargest), limits.bytes};
    signed_limits.require_offset(Tcf::kFormat, "nonzeros, with a sign,", matrix.nnz());

    Condensed condensed = condense(matrix, window_rows_);
    auto packed = std::make_unique<Tcf>(matrix.rows, matrix.cols, matrix.nnz());
    packed->window_rows = window_rows_;
    packed->tile_cols = tile_cols_;
    packed->row_offsets.assign(matrix.row_offsets.begin(), matrix.row_offsets.end());
    packed->col_indices = matrix.col_indices;
    packed->edge_to_row = entry_rows(matrix);
    packed->block_partition.resize(static_cast<std::size_t>(condensed.windows()));
    for (std::int64_t w = 0; w < condensed.windows(); ++w)
      packed->block_partition[w] =
          static_cast<std::int32_t>((condensed.active_cols(w) + tile_cols_ - 1) / tile_cols_);
    packed->edge_to_column = std::move(condensed.places);
    packed->values = matrix.values;
    return packed;
  }

 private:
  int window_rows_, tile_cols_;
};

constexpr double kMaxSide = 128;  // of a tile that one warp or thread block multiplies

const Register<Format> entry{{
    .name = Tcf::kFormat,
    .summary = "CSR with the row and the condensed column of every nonzero (TC-GNN)",
    .params = {{"window_rows", std::int64_t{16}, "rows of a row window", {}, 1, kMaxSide},
               {"tile_cols", std::int64_t{8}, "columns of a TC block", {}, 1, kMaxSide}},
    .make =
        [](const Params& params) {
          return std::make_unique<TcfFormat>(static_cast<int>(params.integer("window_rows")),
                                             static_cast<int>(params.integer("tile_cols")));
        },
}};

const Register<FootprintFormula> footprint{
    footprint_formula(Tcf::kFormat, [](const MatrixExtents& a) {
      return Footprint{4 * (a.rows + 1 + 3 * a.nnz + a.windows(16)), 4 * a.nnz};
    })};

}  // namespace

std::int64_t Tcf::first_tc_block(std::int64_t window) const {
  return std::accumulate(block_partition.begin(), block_partition.begin() + window,
                         std::int64_t{0});
}

CsrMatrix Tcf::unpack() const {
  return {rows(), cols(), std::vector<std::int64_t>(row_offsets.begin(), row_offsets.end()),
          col_indices, values};
}

std::vector<ArrayInfo> Tcf::arrays() const {
  return {array_info("row_offsets", row_offsets),         array_info("col_indices", col_indices),
          array_info("edge_to_column", edge_to_column),   array_info("edge_to_row", edge_to_row),
          array_info("block_partition", block_partition), array_info("values", values, true)};
}

TileInfo Tcf::tiles() const {
  return {window_rows, tile_cols, first_tc_block(num_row_windows()), nnz()};
}

std::string Tcf::locate(std::int32_t row) const {
  const std::int32_t window = row / window_rows;
  const std::int64_t begin = first_tc_block(window);
  const auto first = edge_to_column.begin() + row_offsets[row];
  const auto last = edge_to_column.begin() + row_offsets[row + 1];
  return locate_in_tiles(row, {"TC block", window_rows, begin, begin + block_partition[window]},
                         [&](std::int64_t block) {
                           return std::any_of(first, last, [&](std::int32_t col) {
                             return begin + col / tile_cols == block;
                           });
                         });
}

}  // namespace tessera
