// The device half of Blocked-ELL, whose width is that of the fullest block row.

#include "formats/base/registry.hpp"
#include "formats/blocked_ell.hpp"
#include "formats/gpu/dense_cells.cuh"

namespace tessera {
namespace {

struct FillBlockRow {
  int block;
  std::int64_t ell_blocks;
  std::int32_t* block_col;
  DenseCells cells;

  template <int kThreads>
  __device__ void operator()(const Window<kThreads>& window) const {
    window.write_padded_columns(block_col + window.index * ell_blocks, ell_blocks);
    const std::int64_t width = ell_blocks * block, first = window.index * block * width;
    window.for_each(block * width, [&](std::int64_t i) { cells.values[first + i] = 0; });
    __syncthreads();
    const DeviceCsr& a = window.all.matrix;
    window.for_each_nonzero([&](int row, int place, std::int64_t k) {
      const std::int64_t col = std::int64_t{place} * block + a.col_indices[k] % block;
      cells.put(first + row * width + col, a.values[k]);
    });
  }
};

class GpuBlockedEll final : public GpuFormat {
 public:
  explicit GpuBlockedEll(int block) : block_(block) {}

  GpuPacked build(const DeviceCsr& matrix, const PackLimits& limits,
                  cudaStream_t stream) const override {
    const GpuCondensed condensed(matrix, block_, block_, stream);
    const std::int64_t block_rows = condensed.view().windows;
    const std::int64_t ell_blocks = most_active(condensed.view(), stream);
    limits.require_bytes(BlockedEll::kFormat, 4.0 * (1.0 + static_cast<double>(block_) * block_) *
                                                  static_cast<double>(block_rows) *
                                                  static_cast<double>(ell_blocks));
    const ZeroList zeros(matrix, stream);
    GpuPacked packed;
    auto* const block_col = packed.add<std::int32_t>("block_col", block_rows * ell_blocks, stream);
    auto* const values = packed.add<float>(
        "values", block_rows * ell_blocks * std::int64_t{block_} * block_, stream);
    for_each_window(condensed.view(),
                    FillBlockRow{block_, ell_blocks, block_col, zeros.cells(values)}, stream);
    zeros.add_to(packed, stream);
    return packed;
  }

 private:
  int block_;
};

const Register<GpuFormat> entry{{
    .name = BlockedEll::kFormat,
    .summary = "device half of blocked_ell",
    .make =
        [](const Params& params) {
          return std::make_unique<GpuBlockedEll>(static_cast<int>(params.integer("block")));
        },
}};

}  // namespace
}  // namespace tessera
