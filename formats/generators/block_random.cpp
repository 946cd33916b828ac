// block_random: square blocks at random places, the best case of tiled formats.
//
// The matrix is cut by a grid of block x block cells; each block row has `per_block_row` blocks in
// an equally likely set of block columns. A cell of a block is nonzero with probability `fill`. The
// last block row and column are cut off where the size is no multiple of the block.

#include <algorithm>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/generators/assemble.hpp"

namespace tessera {
namespace {

struct BlockShape {
  std::int64_t rows, cols, block, per_block_row;
  double fill;
};

CsrMatrix block_random(const BlockShape& shape, std::int64_t seed) {
  const std::int32_t rows = matrix_extent({shape.rows});
  const std::int32_t cols = shape.cols > 0 ? matrix_extent({shape.cols}) : rows;
  const std::int64_t block_cols = (cols + shape.block - 1) / shape.block;
  require(rows == 0 || shape.per_block_row <= block_cols,
          "block_random: {} blocks do not fit into a block row of {}", shape.per_block_row,
          block_cols);
  const std::uint64_t pattern = stream_seed(seed, 0), values = stream_seed(seed, 1);
  const std::uint64_t holes = stream_seed(seed, 2);
  return assemble_rows(rows, cols, [=](std::int64_t row, std::vector<Nonzero>& out) {
    RandomSequence random(random_bits(pattern, row / shape.block));  // one per block row
    for (const std::int64_t place : distinct_cols(random, shape.per_block_row, block_cols)) {
      const std::int64_t end = std::min<std::int64_t>(cols, (place + 1) * shape.block);
      for (std::int64_t col = place * shape.block; col < end; ++col) {
        const auto cell = (static_cast<std::uint64_t>(row) << 32) | static_cast<std::uint64_t>(col);
        if (random_unit(holes, cell) < shape.fill)
          out.push_back({static_cast<std::int32_t>(col), cell_value(values, row, col)});
      }
    }
  });
}

const Register<Generator> entry{{
    .name = "block_random",
    .summary = "dense (or partly filled) square blocks at random places of a grid",
    .params =
        {{"rows", std::int64_t{4096}, "rows", {}, 0, kMaxSizeParameter},
         {"cols", std::int64_t{0}, "columns; 0: the number of rows", {}, 0, kMaxSizeParameter},
         {"block", std::int64_t{16}, "rows and columns of a block", {}, 1, 4096},
         {"per_block_row", std::int64_t{4}, "blocks in each block row", {}, 0, 0x1p31},
         {"fill", 1.0, "probability of a cell of a block", {}, 0, 1},
         {"seed", std::int64_t{1}, "seed of places and values"}},
    .make =
        [](const Params& p) {
          return make_generator([p] {
            return block_random({p.integer("rows"), p.integer("cols"), p.integer("block"),
                                 p.integer("per_block_row"), p.real("fill")},
                                p.integer("seed"));
          });
        },
}};

}  // namespace
}  // namespace tessera
