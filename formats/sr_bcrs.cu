// The device half of SR-BCRS.

#include "formats/base/registry.hpp"
#include "formats/gpu/dense_cells.cuh"
#include "formats/sr_bcrs.hpp"

namespace tessera {
namespace {

struct FillWindow {
  const std::uint32_t* tc_block_offset;  // [windows + 1]
  int vector_rows;
  int stride;
  std::uint32_t* row_begin;
  std::uint32_t* row_end;
  std::int32_t* col_indices;
  DenseCells cells;

  template <int kThreads>
  __device__ void operator()(const Window<kThreads>& window) const {
    const std::int64_t first = tc_block_offset[window.index];
    const std::int64_t blocks = tc_block_offset[window.index + 1] - first;
    if (threadIdx.x == 0) {
      row_begin[window.index] = static_cast<std::uint32_t>(first * stride);
      row_end[window.index] = static_cast<std::uint32_t>(first * stride + window.active());
    }
    window.write_padded_columns(col_indices + first * stride, blocks * stride);
    const std::int64_t size = std::int64_t{vector_rows} * stride;
    window.for_each(blocks * size, [&](std::int64_t i) { cells.values[first * size + i] = 0; });
    __syncthreads();
    window.for_each_nonzero([&](int row, int place, std::int64_t k) {
      const std::int64_t block = first + place / stride;
      cells.put((block * vector_rows + row) * stride + place % stride, window.all.matrix.values[k]);
    });
  }
};

class GpuSrBcrs final : public GpuFormat {
 public:
  GpuSrBcrs(int vector_rows, int stride) : vector_rows_(vector_rows), stride_(stride) {}

  GpuPacked build(const DeviceCsr& matrix, const PackLimits& limits,
                  cudaStream_t stream) const override {
    const GpuCondensed condensed(matrix, vector_rows_, 1, stream);
    const TileOffsets blocks = count_tiles(condensed.view(), stride_, stream);
    const std::int64_t windows = condensed.view().windows, vectors = blocks.tiles * stride_;
    limits.require_offset(SrBcrs::kFormat, "vectors", vectors);
    limits.require_bytes(SrBcrs::kFormat, 4 * (2.0 * static_cast<double>(windows) +
                                               static_cast<double>(vectors) * (1 + vector_rows_)));
    const ZeroList zeros(matrix, stream);
    GpuPacked packed;
    auto* const row_begin = packed.add<std::uint32_t>("row_begin", windows, stream);
    auto* const row_end = packed.add<std::uint32_t>("row_end", windows, stream);
    auto* const cols = packed.add<std::int32_t>("col_indices", vectors, stream);
    auto* const values = packed.add<float>("values", vectors * vector_rows_, stream);
    for_each_window(condensed.view(),
                    FillWindow{blocks.data(), vector_rows_, stride_, row_begin, row_end, cols,
                               zeros.cells(values)},
                    stream);
    zeros.add_to(packed, stream);
    return packed;
  }

 private:
  int vector_rows_, stride_;
};

const Register<GpuFormat> entry{{
    .name = SrBcrs::kFormat,
    .summary = "device half of sr_bcrs",
    .make =
        [](const Params& params) {
          return std::make_unique<GpuSrBcrs>(static_cast<int>(params.integer("vector_rows")),
                                             static_cast<int>(params.integer("stride")));
        },
}};

}  // namespace
}  // namespace tessera
