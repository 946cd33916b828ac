// The device half of TCF, which needs only condensing.

#include <algorithm>
#include <limits>

#include "formats/base/registry.hpp"
#include "formats/gpu/entry_rows.cuh"
#include "formats/tcf.hpp"

namespace tessera {
namespace {

struct CountBlocks {
  int tile_cols;
  std::int32_t* block_partition;

  template <int kThreads>
  __device__ void operator()(const Window<kThreads>& window) const {
    if (threadIdx.x == 0)
      block_partition[window.index] = (window.active() + tile_cols - 1) / tile_cols;
  }
};

class GpuTcf final : public GpuFormat {
 public:
  GpuTcf(int window_rows, int tile_cols) : window_rows_(window_rows), tile_cols_(tile_cols) {}

  GpuPacked build(const DeviceCsr& matrix, const PackLimits& limits,
                  cudaStream_t stream) const override {
    constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
    PackLimits{std::min(limits.offset, kLargest), limits.bytes}.require_offset(
        Tcf::kFormat, "nonzeros, with a sign,", matrix.nnz);
    const GpuCondensed condensed(matrix, window_rows_, 1, stream);
    const WindowView& windows = condensed.view();
    GpuPacked packed;
    narrow_offsets(matrix,
                   packed.add<std::int32_t>("row_offsets", std::int64_t{matrix.rows} + 1, stream),
                   stream);
    packed.add_copy("col_indices", matrix.col_indices, matrix.nnz, stream);
    packed.add_copy("edge_to_column", windows.places, matrix.nnz, stream);
    write_rows(matrix, packed.add<std::int32_t>("edge_to_row", matrix.nnz, stream), stream);
    for_each_window(windows,
                    CountBlocks{tile_cols_, packed.add<std::int32_t>("block_partition",
                                                                     windows.windows, stream)},
                    stream);
    packed.add_copy("values", matrix.values, matrix.nnz, stream);
    return packed;
  }

 private:
  int window_rows_, tile_cols_;
};

const Register<GpuFormat> entry{{
    .name = Tcf::kFormat,
    .summary = "device half of tcf",
    .make =
        [](const Params& params) {
          return std::make_unique<GpuTcf>(static_cast<int>(params.integer("window_rows")),
                                          static_cast<int>(params.integer("tile_cols")));
        },
}};

}  // namespace
}  // namespace tessera
