// The device half of ME-BCRS.

#include "formats/base/registry.hpp"
#include "formats/gpu/dense_cells.cuh"
#include "formats/me_bcrs.hpp"

namespace tessera {
namespace {

struct FillWindow {
  const std::uint32_t* row_window_offset;
  int vector_rows;
  int tile_cols;
  std::int32_t* col_indices;
  DenseCells cells;

  template <int kThreads>
  __device__ void operator()(const Window<kThreads>& window) const {
    const std::int64_t first = row_window_offset[window.index];
    const int vectors = window.active();
    window.write_padded_columns(col_indices + first, vectors);
    const std::int64_t size = std::int64_t{vectors} * vector_rows;
    window.for_each(size, [&](std::int64_t i) { cells.values[first * vector_rows + i] = 0; });
    __syncthreads();
    window.for_each_nonzero([&](int row, int place, std::int64_t k) {
      const int begin = place / tile_cols * tile_cols;
      const int width = min(tile_cols, vectors - begin);  // of the TC block
      cells.put((first + begin) * vector_rows + std::int64_t{row} * width + (place - begin),
                window.all.matrix.values[k]);
    });
  }
};

class GpuMeBcrs final : public GpuFormat {
 public:
  GpuMeBcrs(int vector_rows, int tile_cols) : vector_rows_(vector_rows), tile_cols_(tile_cols) {}

  GpuPacked build(const DeviceCsr& matrix, const PackLimits& limits,
                  cudaStream_t stream) const override {
    const GpuCondensed condensed(matrix, vector_rows_, 1, stream);
    TileOffsets vectors = count_tiles(condensed.view(), 1, stream);
    limits.require_offset(MeBcrs::kFormat, "vectors", vectors.tiles);
    limits.require_bytes(MeBcrs::kFormat,
                         4 * (static_cast<double>(condensed.view().windows + 1) +
                              static_cast<double>(vectors.tiles) * (1 + vector_rows_)));
    const ZeroList zeros(matrix, stream);
    const std::uint32_t* const offset = vectors.data();
    GpuPacked packed;
    packed.add("row_window_offset", std::move(vectors.offsets));
    auto* const cols = packed.add<std::int32_t>("col_indices", vectors.tiles, stream);
    auto* const values = packed.add<float>("values", vectors.tiles * vector_rows_, stream);
    for_each_window(condensed.view(),
                    FillWindow{offset, vector_rows_, tile_cols_, cols, zeros.cells(values)},
                    stream);
    zeros.add_to(packed, stream);
    return packed;
  }

 private:
  int vector_rows_, tile_cols_;
};

const Register<GpuFormat> entry{{
    .name = MeBcrs::kFormat,
    .summary = "device half of me_bcrs",
    .make =
        [](const Params& params) {
          return std::make_unique<GpuMeBcrs>(static_cast<int>(params.integer("vector_rows")),
                                             static_cast<int>(params.integer("tile_cols")));
        },
}};

}  // namespace
}  // namespace tessera
