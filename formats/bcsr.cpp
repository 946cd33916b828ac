#include "formats/bcsr.hpp"

#include "formats/base/registry.hpp"
#include "formats/condense.hpp"
#include "formats/explicit_zeros.hpp"
#include "formats/unpack.hpp"

namespace tessera {
namespace {

class BcsrFormat final : public Format {
 public:
  BcsrFormat(int block_rows, int block_cols) : block_rows_(block_rows), block_cols_(block_cols) {}

  std::unique_ptr<PackedMatrix> build(const CsrMatrix& matrix,
                                      const PackLimits& limits) const override {
    Condensed condensed = condense(matrix, block_rows_, block_cols_);
    require_room(condensed, limits);
    auto packed = std::make_unique<Bcsr>(matrix.rows, matrix.cols, matrix.nnz());
    packed->block_rows = block_rows_;
    packed->block_cols = block_cols_;
    packed->block_row_offset.assign(condensed.offsets.begin(), condensed.offsets.end());
    packed->values.resize(condensed.cols.size() * block_rows_ * block_cols_);
    ExplicitZeros zeros(matrix);
    const Tiling tiling = tile(matrix, condensed, 1);
    for_each_cell(matrix, condensed, tiling, 1, [&](const TileCell& cell) {
      const std::int64_t place = packed->cell(cell.tile, cell.row, cell.col);
      packed->values[place] = matrix.values[cell.nonzero];
      if (matrix.values[cell.nonzero] == 0) zeros.place(cell.nonzero, place);
    });
    packed->block_col = std::move(condensed.cols);
    packed->explicit_zeros = zeros.take_cells();
    return packed;
  }

 private:
  void require_room(const Condensed& condensed, const PackLimits& limits) const {
    const std::int64_t blocks = condensed.offsets.back();
    limits.require_offset(Bcsr::kFormat, "blocks", blocks);
    limits.require_bytes(Bcsr::kFormat,
                         4.0 * static_cast<double>(condensed.windows() + 1 + blocks) +
                             4.0 * static_cast<double>(blocks) * block_rows_ * block_cols_);
  }

  int block_rows_, block_cols_;
};

constexpr double kMaxSide = 0x1p31 - 1;

const Register<Format> entry{{
    .name = Bcsr::kFormat,
    .summary = "blocks of a regular grid, stored whole (BSR; SMaT)",
    .params = {{"block_rows", std::int64_t{16}, "rows of a block", {}, 1, kMaxSide},
               {"block_cols", std::int64_t{16}, "columns of a block", {}, 1, kMaxSide}},
    .make =
        [](const Params& params) {
          return std::make_unique<BcsrFormat>(static_cast<int>(params.integer("block_rows")),
                                              static_cast<int>(params.integer("block_cols")));
        },
}};

}  // namespace

CsrMatrix Bcsr::unpack() const {
  return unpack_windows(*this, num_block_rows(), [&](std::int64_t block_row, auto visit) {
    for (std::int64_t b = block_row_offset[block_row]; b < block_row_offset[block_row + 1]; ++b)
      for (std::int64_t r = 0; r < block_rows; ++r)
        for (std::int64_t c = 0; c < block_cols; ++c)
          if (holds_nonzero(values, explicit_zeros, cell(b, r, c)))
            visit(block_row * block_rows + r,
                  static_cast<std::int32_t>(std::int64_t{block_col[b]} * block_cols + c),
                  values[cell(b, r, c)]);
  });
}

std::vector<ArrayInfo> Bcsr::arrays() const {
  std::vector<ArrayInfo> arrays{array_info("block_row_offset", block_row_offset),
                                array_info("block_col", block_col),
                                array_info("values", values, true)};
  if (!explicit_zeros.empty()) arrays.push_back(array_info("explicit_zeros", explicit_zeros));
  return arrays;
}

TileInfo Bcsr::tiles() const { return {block_rows, block_cols, num_blocks(), std::ssize(values)}; }

std::string Bcsr::locate(std::int32_t row) const {
  const std::int32_t block_row = row / block_rows, row_in_block = row % block_rows;
  return locate_in_tiles(
      row, {"block", block_rows, block_row_offset[block_row], block_row_offset[block_row + 1]},
      [&](std::int64_t block) {
        for (std::int64_t c = 0; c < block_cols; ++c)
          if (holds_nonzero(values, explicit_zeros, cell(block, row_in_block, c))) return true;
        return false;
      });
}

}  // namespace tessera
