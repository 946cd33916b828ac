#include "formats/hrpb.hpp"

#include <algorithm>
#include <bit>

#include "formats/base/registry.hpp"
#include "formats/condense.hpp"
#include "formats/unpack.hpp"

namespace tessera {
namespace {

constexpr int kBrickRows = Hrpb::kBrickRows;
constexpr int kBrickCols = Hrpb::kBrickCols;
constexpr std::int64_t kBlockGrain = 1024;

/// The contents of the blocks before they are written. With tiles one brick column wide, the
/// nonzeros of a tile by row and column are those of its bricks in turn, so slots are already in
/// the order of the stream.
struct BrickColumns {
  Tiling tiling;
  int per_col;                          // bricks of a brick column, empty ones included
  std::vector<std::uint64_t> patterns;  // [brick columns * per_col]
  std::vector<float> values;            // [nnz] in slots
};

BrickColumns brick_columns(const CsrMatrix& matrix, const Condensed& condensed) {
  BrickColumns all{tile(matrix, condensed, kBrickCols), condensed.height / kBrickRows, {}, {}};
  all.patterns.resize(static_cast<std::size_t>(all.tiling.tiles() * all.per_col));
  all.values.resize(static_cast<std::size_t>(matrix.nnz()));
  for_each_cell(matrix, condensed, all.tiling, kBrickCols, [&](const TileCell& cell) {
    const int bit = cell.row % kBrickRows * kBrickCols + cell.col;
    all.patterns[cell.tile * all.per_col + cell.row / kBrickRows] |= std::uint64_t{1} << bit;
    all.values[cell.slot] = matrix.values[cell.nonzero];
  });
  return all;
}

/// The extent of one block.
struct Piece {
  std::int64_t begin = 0, end = 0;  // brick columns
  std::int64_t bricks = 0;          // nonempty bricks
};

/// Cuts the brick columns of every row panel into blocks. [block_offsets.back()]
std::vector<Piece> cut(const BrickColumns& all, const std::vector<std::int64_t>& block_offsets,
                       int cols_per_block) {
  std::vector<Piece> pieces(static_cast<std::size_t>(block_offsets.back()));
  const std::vector<std::int64_t>& cols = all.tiling.tile_offsets;
  parallel_for(std::ssize(cols) - 1, kWindowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      std::int64_t col = cols[panel];
      for (std::int64_t b = block_offsets[panel]; b < block_offsets[panel + 1]; ++b) {
        const std::int64_t last = std::min(col + cols_per_block, cols[panel + 1]);
        const auto first_pattern = all.patterns.begin() + col * all.per_col;
        const auto last_pattern = all.patterns.begin() + last * all.per_col;
        pieces[b] = {col, last,
                     last_pattern - first_pattern - std::count(first_pattern, last_pattern, 0u)};
        col = last;
      }
    }
  });
  return pieces;
}

Hrpb::Layout layout_of(const BrickColumns& all, const Piece& piece, int tile_cols) {
  const std::vector<std::int64_t>& nonzeros = all.tiling.nnz_offsets;
  return {tile_cols, piece.bricks, nonzeros[piece.end] - nonzeros[piece.begin]};
}

template <class T>
void store(std::uint8_t* at, T element) {
  std::memcpy(at, &element, sizeof(T));
}

/// Writes the block to `bytes`, which is all zero.
void write(const BrickColumns& all, const Piece& piece, const Hrpb::Layout& layout,
           std::uint8_t* bytes) {
  std::uint32_t brick = 0;
  const int brick_cols = layout.tile_cols / kBrickCols;
  for (int c = 0; c < brick_cols; ++c) {
    store(bytes + 4 * c, brick);
    if (piece.begin + c >= piece.end) continue;
    for (int r = 0; r < all.per_col; ++r) {
      const std::uint64_t pattern = all.patterns[(piece.begin + c) * all.per_col + r];
      if (pattern == 0) continue;
      store(bytes + layout.patterns() + 8 * brick, pattern);
      store(bytes + layout.rows() + 4 * brick, static_cast<std::uint32_t>(r));
      ++brick;
    }
  }
  store(bytes + 4 * brick_cols, brick);
  std::memcpy(bytes + layout.values(), all.values.data() + all.tiling.nnz_offsets[piece.begin],
              static_cast<std::size_t>(4 * layout.nonzeros));
}

class HrpbFormat final : public Format {
 public:
  HrpbFormat(int tile_rows, int tile_cols) : tile_rows_(tile_rows), tile_cols_(tile_cols) {}

  std::unique_ptr<PackedMatrix> build(const CsrMatrix& matrix,
                                      const PackLimits& limits) const override {
    const Condensed condensed = condense(matrix, tile_rows_);
    const BrickColumns all = brick_columns(matrix, condensed);
    const std::vector<std::int64_t> block_offsets = tile_offsets(condensed, tile_cols_);
    const std::vector<Piece> pieces = cut(all, block_offsets, tile_cols_ / kBrickCols);
    std::vector<std::int64_t> first_byte{0};
    first_byte.reserve(pieces.size() + 1);
    for (const Piece& piece : pieces)
      first_byte.push_back(first_byte.back() + layout_of(all, piece, tile_cols_).size());
    limits.require_offset(Hrpb::kFormat, "bytes of blocks", first_byte.back());

    auto packed = std::make_unique<Hrpb>(matrix.rows, matrix.cols, matrix.nnz());
    packed->tile_rows = tile_rows_;
    packed->tile_cols = tile_cols_;
    for (const Piece& piece : pieces) packed->num_bricks += piece.bricks;
    packed->blocked_row_ptr.assign(block_offsets.begin(), block_offsets.end());
    packed->active_cols = padded_columns(condensed, block_offsets, tile_cols_);
    packed->size_ptr.assign(first_byte.begin(), first_byte.end());
    packed->packed_blocks.resize(static_cast<std::size_t>(first_byte.back()));
    parallel_for(std::ssize(pieces), kBlockGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b)
        write(all, pieces[b], layout_of(all, pieces[b], tile_cols_),
              packed->packed_blocks.data() + first_byte[b]);
    });
    return packed;
  }

 private:
  int tile_rows_, tile_cols_;
};

constexpr double kMaxSide = 128;  // a block fits the shared memory of a thread block

const Register<Format> entry{{
    .name = Hrpb::kFormat,
    .summary = "blocks of 16 x 4 bricks with 64-bit patterns in one stream of bytes (cuTeSpMM)",
    .params = {{"tile_rows",
                std::int64_t{16},
                "TM, rows of a block: a multiple of 16",
                {},
                kBrickRows,
                kMaxSide},
               {"tile_cols",
                std::int64_t{16},
                "TK, columns of a block: a multiple of 4",
                {},
                kBrickCols,
                kMaxSide}},
    .make =
        [](const Params& params) {
          const auto rows = static_cast<int>(params.integer("tile_rows"));
          const auto cols = static_cast<int>(params.integer("tile_cols"));
          require(rows % kBrickRows == 0 && cols % kBrickCols == 0,
                  "hrpb: blocks of {} x {} do not consist of bricks of {} x {}", rows, cols,
                  kBrickRows, kBrickCols);
          return std::make_unique<HrpbFormat>(rows, cols);
        },
}};

}  // namespace

CsrMatrix Hrpb::unpack() const {
  const int brick_cols = tile_cols / kBrickCols;
  return unpack_windows(*this, num_row_panels(), [&](std::int64_t panel, auto visit) {
    for (std::int64_t b = blocked_row_ptr[panel]; b < blocked_row_ptr[panel + 1]; ++b) {
      const Block from = block(b);
      std::int64_t k = 0;
      for (int c = 0; c < brick_cols; ++c) {
        const std::int32_t* const cols = active_cols.data() + b * tile_cols + c * kBrickCols;
        for (std::int64_t brick = from.col_ptr(c); brick < from.col_ptr(c + 1); ++brick) {
          const std::int64_t first_row = panel * tile_rows + from.row(brick) * kBrickRows;
          for (std::uint64_t rest = from.pattern(brick); rest != 0; rest &= rest - 1, ++k) {
            const int bit = std::countr_zero(rest);
            visit(first_row + bit / kBrickCols, cols[bit % kBrickCols], from.value(k));
          }
        }
      }
    }
  });
}

std::vector<ArrayInfo> Hrpb::arrays() const {
  ArrayInfo blocks = array_info("packed_blocks", packed_blocks);
  blocks.value_bytes = nnz() * static_cast<std::int64_t>(sizeof(float));
  return {blocks, array_info("blocked_row_ptr", blocked_row_ptr),
          array_info("active_cols", active_cols), array_info("size_ptr", size_ptr)};
}

TileInfo Hrpb::tiles() const { return {kBrickRows, kBrickCols, num_bricks, nnz()}; }

std::string Hrpb::locate(std::int32_t row) const {
  const int brick_cols = tile_cols / kBrickCols;
  const std::int32_t panel = row / tile_rows, row_in_panel = row % tile_rows;
  const std::int64_t begin = blocked_row_ptr[panel], end = blocked_row_ptr[panel + 1];
  const std::uint64_t of_row = 0xfull << (row_in_panel % kBrickRows * kBrickCols);
  const std::string sum = locate_in_tiles(
      row, {"brick column", tile_rows, begin * brick_cols, end * brick_cols},
      [&](std::int64_t col) {
        const Block from = block(col / brick_cols);
        const int c = static_cast<int>(col % brick_cols);
        for (std::int64_t brick = from.col_ptr(c); brick < from.col_ptr(c + 1); ++brick)
          if (from.row(brick) == row_in_panel / kBrickRows && (from.pattern(brick) & of_row) != 0)
            return true;
        return false;
      });
  return fmt::format("{}; blocks {} to {}, bytes {} to {}", sum, begin, end, size_ptr[begin],
                     size_ptr[end]);
}

}  // namespace tessera
