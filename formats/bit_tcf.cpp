#include "formats/bit_tcf.hpp"

#include "formats/base/registry.hpp"
#include "formats/build_in_parts.hpp"
#include "formats/condense.hpp"
#include "formats/statistics/footprint_formula.hpp"
#include "formats/unpack_parts.hpp"

namespace tessera {
namespace {

constexpr int kTileRows = BitTcf::kTileRows;
constexpr int kTileCols = BitTcf::kTileCols;

class BitTcfFormat final : public Format {
 public:
  std::unique_ptr<PackedMatrix> build(const CsrMatrix& matrix,
                                      const PackLimits& limits) const override {
    // Every TC block holds a nonzero, so offsets of TC blocks fit when those of nonzeros do.
    limits.require_offset(BitTcf::kFormat, "nonzeros", matrix.nnz());
    return build_in_parts<BitTcf>(matrix, kTileRows, build_windows);
  }

 private:
  static std::unique_ptr<BitTcf> build_windows(const CsrMatrix& matrix) {
    auto packed = std::make_unique<BitTcf>(matrix.rows, matrix.cols, matrix.nnz());
    const Condensed condensed = condense(matrix, kTileRows);
    const Tiling tiling = tile(matrix, condensed, kTileCols);
    packed->row_window_offset.assign(tiling.tile_offsets.begin(), tiling.tile_offsets.end());
    packed->tc_offset.assign(tiling.nnz_offsets.begin(), tiling.nnz_offsets.end());
    packed->sparse_a_to_b = padded_columns(condensed, tiling, kTileCols);
    packed->tc_local_bit.assign(static_cast<std::size_t>(tiling.tiles()), 0);
    packed->values.resize(static_cast<std::size_t>(matrix.nnz()));
    for_each_cell(matrix, condensed, tiling, kTileCols, [&](const TileCell& cell) {
      packed->tc_local_bit[cell.tile] |= std::uint64_t{1} << (cell.row * kTileCols + cell.col);
      packed->values[cell.slot] = matrix.values[cell.nonzero];
    });
    return packed;
  }
};

const Register<Format> entry{{
    .name = BitTcf::kFormat,
    .summary = "8 x 8 TC blocks of condensed columns with 64-bit bitmaps (Acc-SpMM)",
    .make = [](const Params&) { return std::make_unique<BitTcfFormat>(); },
}};

// Acc-SpMM, section 3.3, gives the index: 4 (ceil(M / 8) + 11 TC blocks + 2) bytes.
const Register<FootprintFormula> footprint{
    footprint_formula(BitTcf::kFormat, [](const MatrixExtents& a) {
      const std::int64_t tc_blocks = a.tiles(kTileRows, kTileCols);
      return Footprint{4 * (a.windows(kTileRows) + 11 * tc_blocks + 2), 4 * a.nnz};
    })};

/// Visits the nonzeros of a window, for unpack.hpp.
auto nonzeros_of(const BitTcf& a) {
  return [&a](std::int64_t window, auto visit) {
    for (std::int64_t b = a.row_window_offset[window]; b < a.row_window_offset[window + 1]; ++b) {
      std::int64_t k = a.tc_offset[b];
      for (std::uint64_t rest = a.tc_local_bit[b]; rest != 0; rest &= rest - 1, ++k) {
        const int bit = std::countr_zero(rest);
        visit(window * kTileRows + bit / kTileCols,
              a.sparse_a_to_b[b * kTileCols + bit % kTileCols], a.values[k]);
      }
    }
  };
}

const Register<PartsUnpacker> parts{parts_unpacker<BitTcf>(
    kTileRows,
    [](const BitTcf& a, std::int64_t window) {
      return std::int64_t{a.tc_offset[a.row_window_offset[window]]};
    },
    [](const BitTcf& a) { return nonzeros_of(a); })};

}  // namespace

CsrMatrix BitTcf::unpack() const {
  return unpack_windows(*this, num_row_windows(), nonzeros_of(*this));
}

std::vector<ArrayInfo> BitTcf::arrays() const {
  return {array_info("row_window_offset", row_window_offset), array_info("tc_offset", tc_offset),
          array_info("sparse_a_to_b", sparse_a_to_b), array_info("tc_local_bit", tc_local_bit),
          array_info("values", values, true)};
}

TileInfo BitTcf::tiles() const { return {kTileRows, kTileCols, num_tc_blocks(), nnz()}; }

std::string BitTcf::locate(std::int32_t row) const {
  const int window = row / kTileRows, first_bit = row % kTileRows * kTileCols;
  return locate_in_tiles(
      row, {"TC block", kTileRows, row_window_offset[window], row_window_offset[window + 1]},
      [&](std::int64_t block) { return (tc_local_bit[block] >> first_bit & 0xff) != 0; });
}

}  // namespace tessera
