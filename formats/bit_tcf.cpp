#include "formats/bit_tcf.hpp"

#include <numeric>

#include "formats/base/registry.hpp"
#include "formats/condense.hpp"

namespace tessera {
namespace {

constexpr int kTileRows = BitTcf::kTileRows;
constexpr int kTileCols = BitTcf::kTileCols;

class BitTcfFormat final : public Format {
 public:
  std::unique_ptr<PackedMatrix> build(const CsrMatrix& matrix,
                                      const PackLimits& limits) const override {
    // Every TC block holds a nonzero: their offsets fit where these do.
    limits.require_offset(BitTcf::kFormat, "nonzeros", matrix.nnz());
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

}  // namespace

CsrMatrix BitTcf::unpack() const {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(rows()) + 1, 0);
  const auto for_each_nonzero = [&](std::int64_t window, auto visit) {
    for (std::int64_t b = row_window_offset[window]; b < row_window_offset[window + 1]; ++b) {
      std::int64_t k = tc_offset[b];
      for (std::uint64_t rest = tc_local_bit[b]; rest != 0; rest &= rest - 1, ++k) {
        const int bit = std::countr_zero(rest);
        visit(window * kTileRows + bit / kTileCols, sparse_a_to_b[b * kTileCols + bit % kTileCols],
              values[k]);
      }
    }
  };
  for (std::int64_t w = 0; w < num_row_windows(); ++w)
    for_each_nonzero(w, [&](std::int64_t row, std::int32_t, float) { ++offsets[row + 1]; });
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());

  // TC blocks follow ascending columns, so each row fills in ascending order.
  std::vector<std::int64_t> next(offsets.begin(), offsets.end() - 1);
  std::vector<std::int32_t> cols_of(values.size());
  std::vector<float> values_of(values.size());
  for (std::int64_t w = 0; w < num_row_windows(); ++w) {
    for_each_nonzero(w, [&](std::int64_t row, std::int32_t col, float value) {
      cols_of[next[row]] = col;
      values_of[next[row]++] = value;
    });
  }
  return {rows(), cols(), std::move(offsets), std::move(cols_of), std::move(values_of)};
}

std::vector<ArrayInfo> BitTcf::arrays() const {
  return {array_info("row_window_offset", row_window_offset), array_info("tc_offset", tc_offset),
          array_info("sparse_a_to_b", sparse_a_to_b), array_info("tc_local_bit", tc_local_bit),
          array_info("values", values, true)};
}

TileInfo BitTcf::tiles() const { return {kTileRows, kTileCols, num_tc_blocks(), nnz()}; }

std::string BitTcf::locate(std::int32_t row) const {
  const int window = row / kTileRows, row_in_window = row % kTileRows;
  const std::uint32_t begin = row_window_offset[window], end = row_window_offset[window + 1];
  std::uint32_t first = begin;  // TC block where the row's sum begins
  while (first < end && (tc_local_bit[first] >> (row_in_window * kTileCols) & 0xff) == 0) ++first;
  const std::string sum = first == end ? "none with a nonzero of the row"
                                       : fmt::format(
                                             "first nonzero of the row in TC block {}, "
                                             "MMA step {} of the window",
                                             first, first - begin);
  return fmt::format("row window {} (row {} of it), TC blocks {} to {}, {}", window, row_in_window,
                     begin, end, sum);
}

}  // namespace tessera
