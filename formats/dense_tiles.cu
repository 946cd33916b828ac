// The device half of dense tiles: zeros, then a warp for each row of A writes its nonzeros.

#include "formats/base/registry.hpp"
#include "formats/dense_tiles.hpp"
#include "formats/gpu/dense_cells.cuh"

namespace tessera {
namespace {

constexpr int kThreads = 256;

__global__ void scatter_rows(DeviceCsr a, std::int64_t col_tiles, DenseCells cells) {
  const std::int64_t row = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / 32;
  if (row >= a.rows) return;
  for (std::int64_t k = a.row_offsets[row] + threadIdx.x % 32; k < a.row_offsets[row + 1]; k += 32)
    cells.put(DenseTiles::cell(row, a.col_indices[k], col_tiles), a.values[k]);
}

class GpuDenseTiles final : public GpuFormat {
 public:
  explicit GpuDenseTiles(std::int64_t growth) : growth_(growth) {}

  GpuPacked build(const DeviceCsr& matrix, const PackLimits& limits,
                  cudaStream_t stream) const override {
    DenseTiles::require_room(matrix.rows, matrix.cols, matrix.nnz, growth_, limits);
    const ZeroList zeros(matrix, stream);
    const std::int64_t places = DenseTiles::places(matrix.rows, matrix.cols);
    GpuPacked packed;
    auto* const values = packed.add<float>("values", places, stream);
    if (places > 0) {
      cuda_check(
          cudaMemsetAsync(values, 0, sizeof(float) * static_cast<std::size_t>(places), stream),
          "clearing dense tiles");
      const auto blocks =
          static_cast<unsigned>((32 * std::int64_t{matrix.rows} + kThreads - 1) / kThreads);
      scatter_rows<<<blocks, kThreads, 0, stream>>>(matrix, DenseTiles::col_tiles_of(matrix.cols),
                                                    zeros.cells(values));
      cuda_check(cudaGetLastError(), "filling dense tiles");
    }
    zeros.add_to(packed, stream);
    return packed;
  }

 private:
  std::int64_t growth_;
};

const Register<GpuFormat> entry{{
    .name = DenseTiles::kFormat,
    .summary = "device half of dense_tiles",
    .make =
        [](const Params& params) {
          return std::make_unique<GpuDenseTiles>(params.integer("growth"));
        },
}};

}  // namespace
}  // namespace tessera
