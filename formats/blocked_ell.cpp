#include "formats/blocked_ell.hpp"

#include <algorithm>

#include "formats/base/registry.hpp"
#include "formats/condense.hpp"
#include "formats/explicit_zeros.hpp"
#include "formats/unpack.hpp"

namespace tessera {
namespace {

class BlockedEllFormat final : public Format {
 public:
  explicit BlockedEllFormat(int block) : block_(block) {}

  std::unique_ptr<PackedMatrix> build(const CsrMatrix& matrix,
                                      const PackLimits& limits) const override {
    const Condensed condensed = condense(matrix, block_, block_);
    auto packed = std::make_unique<BlockedEll>(matrix.rows, matrix.cols, matrix.nnz());
    packed->block = block_;
    for (std::int64_t w = 0; w < condensed.windows(); ++w)
      packed->ell_blocks = std::max(packed->ell_blocks, condensed.active_cols(w));
    limits.require_bytes(BlockedEll::kFormat, 4.0 * (1.0 + static_cast<double>(block_) * block_) *
                                                  static_cast<double>(condensed.windows()) *
                                                  static_cast<double>(packed->ell_blocks));
    fill_columns(condensed, *packed);
    fill_values(matrix, condensed, *packed);
    return packed;
  }

 private:
  static void fill_columns(const Condensed& condensed, BlockedEll& packed) {
    packed.block_col.assign(static_cast<std::size_t>(condensed.windows() * packed.ell_blocks),
                            kNoColumn);
    for (std::int64_t w = 0; w < condensed.windows(); ++w)
      std::copy(condensed.cols.begin() + condensed.offsets[w],
                condensed.cols.begin() + condensed.offsets[w + 1],
                packed.block_col.begin() + w * packed.ell_blocks);
  }

  static void fill_values(const CsrMatrix& matrix, const Condensed& condensed, BlockedEll& packed) {
    packed.values.resize(static_cast<std::size_t>(packed.padded_rows() * packed.ell_cols()));
    ExplicitZeros zeros(matrix);
    const Tiling tiling = tile(matrix, condensed, 1);
    for_each_cell(matrix, condensed, tiling, 1, [&](const TileCell& cell) {
      const std::int64_t row = cell.window * packed.block + cell.row;
      const std::int64_t place =
          packed.cell(row, cell.tile - condensed.offsets[cell.window], cell.col);
      packed.values[place] = matrix.values[cell.nonzero];
      if (matrix.values[cell.nonzero] == 0) zeros.place(cell.nonzero, place);
    });
    packed.explicit_zeros = zeros.take_cells();
  }

  int block_;
};

const Register<Format> entry{{
    .name = BlockedEll::kFormat,
    .summary = "every block row with the number of blocks of the fullest (cuSPARSE's Blocked-ELL)",
    .params = {{"block", std::int64_t{16}, "rows and columns of a block", {}, 1, 0x1p31 - 1}},
    .make =
        [](const Params& params) {
          return std::make_unique<BlockedEllFormat>(static_cast<int>(params.integer("block")));
        },
}};

}  // namespace

CsrMatrix BlockedEll::unpack() const {
  return unpack_windows(*this, num_block_rows(), [&](std::int64_t block_row, auto visit) {
    for (std::int64_t place = 0; place < ell_blocks; ++place) {
      const std::int32_t block_column = block_col[block_row * ell_blocks + place];
      if (block_column == kNoColumn) break;
      const std::int64_t end = std::min<std::int64_t>(rows(), (block_row + 1) * block);
      for (std::int64_t row = block_row * block; row < end; ++row)
        for (std::int64_t c = 0; c < block; ++c)
          if (holds_nonzero(values, explicit_zeros, cell(row, place, c)))
            visit(row, static_cast<std::int32_t>(std::int64_t{block_column} * block + c),
                  values[cell(row, place, c)]);
    }
  });
}

std::vector<ArrayInfo> BlockedEll::arrays() const {
  std::vector<ArrayInfo> arrays{array_info("block_col", block_col),
                                array_info("values", values, true)};
  if (!explicit_zeros.empty()) arrays.push_back(array_info("explicit_zeros", explicit_zeros));
  return arrays;
}

TileInfo BlockedEll::tiles() const {
  return {block, block, std::ssize(block_col), std::ssize(values)};
}

std::string BlockedEll::locate(std::int32_t row) const {
  const std::int64_t first = std::int64_t{row / block} * ell_blocks;
  return locate_in_tiles(row, {"block", block, first, first + ell_blocks}, [&](std::int64_t b) {
    for (std::int64_t c = 0; c < block; ++c)
      if (holds_nonzero(values, explicit_zeros, cell(row, b - first, c))) return true;
    return false;
  });
}

}  // namespace tessera
