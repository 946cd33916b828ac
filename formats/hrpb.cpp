#include "formats/hrpb.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>

#include "formats/base/registry.hpp"
#include "formats/condense.hpp"
#include "formats/unpack.hpp"

namespace tessera {
namespace {

constexpr int kBrickRows = Hrpb::kBrickRows;
constexpr int kBrickCols = Hrpb::kBrickCols;
/// The patterns of all places for bricks in the row panels, zero where there is no brick.
struct BrickPlaces {
  int per_col;                            // brick rows of a row panel
  std::vector<std::int64_t> col_offsets;  // [row panels + 1] first brick column of a row panel
  std::vector<std::uint64_t> patterns;    // [brick columns * per_col] by column, then by row

  std::int64_t first(std::int64_t panel) const { return col_offsets[panel] * per_col; }
};

/// Calls visit(place of its brick in the row panel, bit of the pattern, nonzero) for the nonzeros
/// of a row panel, those of a brick by ascending bit.
template <class Visit>
void for_each_nonzero(const CsrMatrix& matrix, const Condensed& condensed, std::int64_t panel,
                      Visit visit) {
  const std::int64_t first_row = panel * condensed.height;
  const std::int64_t rows = std::min<std::int64_t>(condensed.height, matrix.rows - first_row);
  const std::int64_t per_col = condensed.height / kBrickRows;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto bits = static_cast<int>(r % kBrickRows * kBrickCols);
    const std::int64_t end = matrix.row_offsets[first_row + r + 1];
    for (std::int64_t k = matrix.row_offsets[first_row + r]; k < end; ++k) {
      const auto col = static_cast<std::uint32_t>(condensed.places[k]);
      visit(col / kBrickCols * per_col + r / kBrickRows, bits + static_cast<int>(col % kBrickCols),
            k);
    }
  }
}

BrickPlaces find_bricks(const CsrMatrix& matrix, const Condensed& condensed) {
  BrickPlaces all{condensed.height / kBrickRows, tile_offsets(condensed, kBrickCols), {}};
  all.patterns.resize(static_cast<std::size_t>(all.first(condensed.windows())));
  parallel_for(condensed.windows(), kWindowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      std::uint64_t* const patterns = all.patterns.data() + all.first(panel);
      for_each_nonzero(matrix, condensed, panel, [&](std::int64_t place, int bit, std::int64_t) {
        patterns[place] |= std::uint64_t{1} << bit;
      });
    }
  });
  return all;
}

/// The blocks of all row panels: their places for bricks, and their extents.
struct Blocks {
  std::vector<std::int64_t> offsets;     // [row panels + 1] first block of a row panel
  std::vector<std::int64_t> bricks;      // [blocks] nonempty ones
  std::vector<std::int64_t> first_byte;  // [blocks + 1]
  std::int64_t places;                   // of a block; the last of a row panel has fewer
};

/// The patterns of a block, where `local` counts the blocks of its row panel.
std::span<const std::uint64_t> patterns_of(const BrickPlaces& all, const Blocks& blocks,
                                           std::int64_t panel, std::int64_t local) {
  const std::int64_t first = all.first(panel) + local * blocks.places;
  const std::int64_t last = std::min(first + blocks.places, all.first(panel + 1));
  return {all.patterns.data() + first, static_cast<std::size_t>(last - first)};
}

Blocks measure_blocks(const BrickPlaces& all, const Condensed& condensed, int tile_cols) {
  Blocks blocks{tile_offsets(condensed, tile_cols), {}, {}, tile_cols / kBrickCols * all.per_col};
  blocks.bricks.resize(static_cast<std::size_t>(blocks.offsets.back()));
  blocks.first_byte.assign(blocks.bricks.size() + 1, 0);
  parallel_for(condensed.windows(), kWindowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      for (std::int64_t b = blocks.offsets[panel]; b < blocks.offsets[panel + 1]; ++b) {
        Hrpb::Layout layout{tile_cols, 0, 0};
        for (const std::uint64_t pattern :
             patterns_of(all, blocks, panel, b - blocks.offsets[panel])) {
          layout.bricks += pattern != 0;
          layout.nonzeros += std::popcount(pattern);
        }
        blocks.bricks[b] = layout.bricks;
        blocks.first_byte[b + 1] = layout.size();
      }
    }
  });
  std::partial_sum(blocks.first_byte.begin(), blocks.first_byte.end(), blocks.first_byte.begin());
  return blocks;
}

template <class T>
void store(std::uint8_t* at, T element) {
  std::memcpy(at, &element, sizeof(T));
}

/// Writes a block but for its values to `bytes`, which is all zero. `to` gets where the values of
/// each of its places begin.
void write_bricks(std::span<const std::uint64_t> patterns, int per_col, const Hrpb::Layout& layout,
                  std::uint8_t* bytes, std::uint8_t** to) {
  std::uint32_t brick = 0;
  std::uint8_t* values = bytes + layout.values();
  for (std::size_t place = 0; place < patterns.size(); ++place) {
    const std::size_t col = place / per_col, row = place % per_col;
    if (row == 0) store(bytes + 4 * col, brick);
    to[place] = values;
    if (patterns[place] == 0) continue;
    store(bytes + layout.patterns() + 8 * brick, patterns[place]);
    store(bytes + layout.rows() + 4 * brick, static_cast<std::uint32_t>(row));
    values += 4 * std::popcount(patterns[place]);
    ++brick;
  }
  const int brick_cols = layout.tile_cols / kBrickCols;
  for (int col = static_cast<int>(patterns.size()) / per_col; col <= brick_cols; ++col)
    store(bytes + 4 * col, brick);
}

/// Writes the blocks of all row panels to `bytes`, which is all zero.
void write_blocks(const CsrMatrix& matrix, const Condensed& condensed, const BrickPlaces& all,
                  const Blocks& blocks, int tile_cols, std::uint8_t* bytes) {
  parallel_for(condensed.windows(), kWindowGrain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::uint8_t*> to;  // [places of the row panel] where its next value goes
    for (std::int64_t panel = begin; panel < end; ++panel) {
      to.resize(static_cast<std::size_t>(all.first(panel + 1) - all.first(panel)));
      for (std::int64_t b = blocks.offsets[panel]; b < blocks.offsets[panel + 1]; ++b) {
        const std::int64_t local = b - blocks.offsets[panel];
        write_bricks(patterns_of(all, blocks, panel, local), all.per_col,
                     {tile_cols, blocks.bricks[b], 0}, bytes + blocks.first_byte[b],
                     to.data() + local * blocks.places);
      }
      for_each_nonzero(matrix, condensed, panel, [&](std::int64_t place, int, std::int64_t k) {
        store(to[place], matrix.values[k]);
        to[place] += sizeof(float);
      });
    }
  });
}

class HrpbFormat final : public Format {
 public:
  HrpbFormat(int tile_rows, int tile_cols) : tile_rows_(tile_rows), tile_cols_(tile_cols) {}

  std::unique_ptr<PackedMatrix> build(const CsrMatrix& matrix,
                                      const PackLimits& limits) const override {
    const Condensed condensed = condense(matrix, tile_rows_);
    const BrickPlaces all = find_bricks(matrix, condensed);
    const Blocks blocks = measure_blocks(all, condensed, tile_cols_);
    limits.require_offset(Hrpb::kFormat, "bytes of blocks", blocks.first_byte.back());

    auto packed = std::make_unique<Hrpb>(matrix.rows, matrix.cols, matrix.nnz());
    packed->tile_rows = tile_rows_;
    packed->tile_cols = tile_cols_;
    packed->num_bricks =
        std::accumulate(blocks.bricks.begin(), blocks.bricks.end(), std::int64_t{0});
    packed->blocked_row_ptr.assign(blocks.offsets.begin(), blocks.offsets.end());
    packed->active_cols = padded_columns(condensed, blocks.offsets, tile_cols_);
    packed->size_ptr.assign(blocks.first_byte.begin(), blocks.first_byte.end());
    packed->packed_blocks.resize(static_cast<std::size_t>(blocks.first_byte.back()));
    write_blocks(matrix, condensed, all, blocks, tile_cols_, packed->packed_blocks.data());
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
