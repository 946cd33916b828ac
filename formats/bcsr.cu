// The device half of BCSR: the active groups of columns of a block row are its blocks.

#include "formats/base/registry.hpp"
#include "formats/bcsr.hpp"
#include "formats/gpu/dense_cells.cuh"

namespace tessera {
namespace {

struct FillBlockRow {
  const std::uint32_t* block_row_offset;
  int block_rows;
  int block_cols;
  std::int32_t* block_col;
  DenseCells cells;

  template <int kThreads>
  __device__ void operator()(const Window<kThreads>& window) const {
    const std::int64_t first = block_row_offset[window.index];
    const int blocks = window.active();
    window.write_padded_columns(block_col + first, blocks);
    const std::int64_t size = std::int64_t{block_rows} * block_cols;
    window.for_each(blocks * size, [&](std::int64_t i) { cells.values[first * size + i] = 0; });
    __syncthreads();
    const DeviceCsr& a = window.all.matrix;
    window.for_each_nonzero([&](int row, int place, std::int64_t k) {
      const std::int64_t cell =
          (first + place) * size + std::int64_t{row} * block_cols + a.col_indices[k] % block_cols;
      cells.put(cell, a.values[k]);
    });
  }
};

class GpuBcsr final : public GpuFormat {
 public:
  GpuBcsr(int block_rows, int block_cols) : block_rows_(block_rows), block_cols_(block_cols) {}

  GpuPacked build(const DeviceCsr& matrix, const PackLimits& limits,
                  cudaStream_t stream) const override {
    const GpuCondensed condensed(matrix, block_rows_, block_cols_, stream);
    TileOffsets blocks = count_tiles(condensed.view(), 1, stream);
    limits.require_offset(Bcsr::kFormat, "blocks", blocks.tiles);
    const std::int64_t cells = blocks.tiles * block_rows_ * block_cols_;
    limits.require_bytes(Bcsr::kFormat, 4.0 * static_cast<double>(cells));
    const ZeroList zeros(matrix, stream);
    const std::uint32_t* const offset = blocks.data();
    GpuPacked packed;
    packed.add("block_row_offset", std::move(blocks.offsets));
    auto* const block_col = packed.add<std::int32_t>("block_col", blocks.tiles, stream);
    auto* const values = packed.add<float>("values", cells, stream);
    for_each_window(condensed.view(),
                    FillBlockRow{offset, block_rows_, block_cols_, block_col, zeros.cells(values)},
                    stream);
    zeros.add_to(packed, stream);
    return packed;
  }

 private:
  int block_rows_, block_cols_;
};

const Register<GpuFormat> entry{{
    .name = Bcsr::kFormat,
    .summary = "device half of bcsr",
    .make =
        [](const Params& params) {
          return std::make_unique<GpuBcsr>(static_cast<int>(params.integer("block_rows")),
                                           static_cast<int>(params.integer("block_cols")));
        },
}};

}  // namespace
}  // namespace tessera
