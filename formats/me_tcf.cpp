#include "formats/me_tcf.hpp"

#include <algorithm>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/condense.hpp"
#include "formats/statistics/footprint_formula.hpp"
#include "formats/unpack.hpp"

namespace tessera {
namespace {

constexpr int kTileCols = MeTcf::kTileCols;

class MeTcfFormat final : public Format {
 public:
  explicit MeTcfFormat(int window_rows) : window_rows_(window_rows) {}

  std::unique_ptr<PackedMatrix> build(const CsrMatrix& matrix,
                                      const PackLimits& limits) const override {
    // Every TC block holds a nonzero, so offsets of TC blocks fit when those of nonzeros do.
    limits.require_offset(MeTcf::kFormat, "nonzeros", matrix.nnz());
    const Condensed condensed = condense(matrix, window_rows_);
    const Tiling tiling = tile(matrix, condensed, kTileCols);
    auto packed = std::make_unique<MeTcf>(matrix.rows, matrix.cols, matrix.nnz());
    packed->window_rows = window_rows_;
    packed->row_window_offset.assign(tiling.tile_offsets.begin(), tiling.tile_offsets.end());
    packed->tc_offset.assign(tiling.nnz_offsets.begin(), tiling.nnz_offsets.end());
    packed->sparse_a_to_b = padded_columns(condensed, tiling, kTileCols);
    packed->tc_local_id.resize(static_cast<std::size_t>(matrix.nnz()));
    packed->values.resize(static_cast<std::size_t>(matrix.nnz()));
    for_each_cell(matrix, condensed, tiling, kTileCols, [&](const TileCell& cell) {
      packed->tc_local_id[cell.slot] = static_cast<std::uint8_t>(cell.row * kTileCols + cell.col);
      packed->values[cell.slot] = matrix.values[cell.nonzero];
    });
    return packed;
  }

 private:
  int window_rows_;
};

const Register<Format> entry{{
    .name = MeTcf::kFormat,
    .summary = "TC blocks of condensed columns, one byte per nonzero (DTC-SpMM)",
    .params = {{"window_rows", std::int64_t{16}, "rows of a row window", {"8", "16"}}},
    .make =
        [](const Params& params) {
          return std::make_unique<MeTcfFormat>(static_cast<int>(params.integer("window_rows")));
        },
}};

Footprint footprint_for(int window_rows, const MatrixExtents& a) {
  const std::int64_t tc_blocks = a.tiles(window_rows, kTileCols);
  const std::int64_t offsets = a.windows(window_rows) + 1 + tc_blocks + 1;
  return {4 * (offsets + kTileCols * tc_blocks) + a.nnz, 4 * a.nnz};
}

const Register<FootprintFormula> footprint{
    footprint_formula(MeTcf::kFormat, [](const MatrixExtents& a) { return footprint_for(16, a); })};
const Register<FootprintFormula> footprint_8x8{
    footprint_formula("me_tcf_8x8", [](const MatrixExtents& a) { return footprint_for(8, a); })};

}  // namespace

CsrMatrix MeTcf::unpack() const {
  return unpack_windows(*this, num_row_windows(), [&](std::int64_t window, auto visit) {
    for (std::int64_t b = row_window_offset[window]; b < row_window_offset[window + 1]; ++b)
      for (std::int64_t k = tc_offset[b]; k < tc_offset[b + 1]; ++k)
        visit(window * window_rows + tc_local_id[k] / kTileCols,
              sparse_a_to_b[b * kTileCols + tc_local_id[k] % kTileCols], values[k]);
  });
}

std::unique_ptr<BitTcf> to_bit_tcf(const MeTcf& a) {
  require(a.window_rows == BitTcf::kTileRows,
          "TC blocks with bitmaps have {} rows, these of ME-TCF have {}: set its window_rows = {}",
          BitTcf::kTileRows, a.window_rows, BitTcf::kTileRows);
  auto tiles = std::make_unique<BitTcf>(a.rows(), a.cols(), a.nnz());
  tiles->row_window_offset = a.row_window_offset;
  tiles->tc_offset = a.tc_offset;
  tiles->sparse_a_to_b = a.sparse_a_to_b;
  tiles->values = a.values;
  tiles->tc_local_bit.resize(static_cast<std::size_t>(a.num_tc_blocks()), 0);
  for (std::int64_t block = 0; block < a.num_tc_blocks(); ++block)
    for (std::int64_t k = a.tc_offset[block]; k < a.tc_offset[block + 1]; ++k)
      tiles->tc_local_bit[block] |= std::uint64_t{1} << a.tc_local_id[k];
  return tiles;
}

std::vector<ArrayInfo> MeTcf::arrays() const {
  return {array_info("row_window_offset", row_window_offset), array_info("tc_offset", tc_offset),
          array_info("sparse_a_to_b", sparse_a_to_b), array_info("tc_local_id", tc_local_id),
          array_info("values", values, true)};
}

TileInfo MeTcf::tiles() const { return {window_rows, kTileCols, num_tc_blocks(), nnz()}; }

std::string MeTcf::locate(std::int32_t row) const {
  const int window = row / window_rows, row_in_window = row % window_rows;
  return locate_in_tiles(
      row, {"TC block", window_rows, row_window_offset[window], row_window_offset[window + 1]},
      [&](std::int64_t block) {
        return std::any_of(tc_local_id.begin() + tc_offset[block],
                           tc_local_id.begin() + tc_offset[block + 1],
                           [&](int id) { return id / kTileCols == row_in_window; });
      });
}

}  // namespace tessera
