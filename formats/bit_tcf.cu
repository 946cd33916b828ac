// Device half of BitTCF: bitmaps by atomic or, values to their rank in the bitmap.

#include "formats/base/registry.hpp"
#include "formats/bit_tcf.hpp"
#include "formats/window_kernel.cuh"

namespace tessera {
namespace {

constexpr int kTileRows = BitTcf::kTileRows;
constexpr int kTileCols = BitTcf::kTileCols;

struct FillWindow {
  const std::uint32_t* row_window_offset;
  std::uint32_t* tc_offset;
  std::int32_t* sparse_a_to_b;
  unsigned long long* tc_local_bit;  // std::uint64_t to everyone but atomicOr
  float* values;

  template <int kThreads>
  __device__ void operator()(const Window<kThreads>& window) const {
    const std::int64_t first_tile = row_window_offset[window.index];
    const std::int64_t tiles = row_window_offset[window.index + 1] - first_tile;
    const int active = window.active();
    std::int32_t* const cols = sparse_a_to_b + first_tile * kTileCols;
    window.for_each(tiles * kTileCols, [&](std::int64_t i) {
      cols[i] = i < active ? window.col(static_cast<int>(i)) : kNoColumn;
    });

    unsigned long long* const bitmaps = tc_local_bit + first_tile;
    window.for_each(tiles, [&](std::int64_t t) { bitmaps[t] = 0; });
    __syncthreads();
    window.for_each_nonzero([&](int row, int place, std::int64_t) {
      atomicOr(&bitmaps[place / kTileCols], 1ull << (row * kTileCols + place % kTileCols));
    });
    __syncthreads();
    std::uint32_t* const offsets = tc_offset + first_tile;
    window.running_sum(
        tiles, window.first_nonzero,
        [&](std::int64_t t) { return static_cast<std::uint32_t>(__popcll(bitmaps[t])); },
        [&](std::int64_t t, std::int64_t sum) { offsets[t] = static_cast<std::uint32_t>(sum); });
    __syncthreads();
    window.for_each_nonzero([&](int row, int place, std::int64_t k) {
      const int tile = place / kTileCols, bit = row * kTileCols + place % kTileCols;
      const int rank = __popcll(bitmaps[tile] & ((1ull << bit) - 1));
      values[offsets[tile] + rank] = window.all.matrix.values[k];
    });
  }
};

class GpuBitTcf final : public GpuFormat {
 public:
  GpuPacked build(const DeviceCsr& matrix, const PackLimits& limits,
                  cudaStream_t stream) const override {
    limits.require_offset(BitTcf::kFormat, "nonzeros", matrix.nnz);
    const GpuCondensed condensed(matrix, kTileRows, 1, stream);
    GpuPacked packed;
    const TileOffsets tiles =
        add_tile_offsets(packed, "row_window_offset", condensed.view(), kTileCols, stream);
    auto* const tc_offset = packed.add<std::uint32_t>("tc_offset", tiles.tiles + 1, stream);
    auto* const cols = packed.add<std::int32_t>("sparse_a_to_b", tiles.tiles * kTileCols, stream);
    auto* const bits = packed.add<unsigned long long>("tc_local_bit", tiles.tiles, stream);
    auto* const values = packed.add<float>("values", matrix.nnz, stream);
    const auto nnz = static_cast<std::uint32_t>(matrix.nnz);
    cuda_check(
        cudaMemcpyAsync(tc_offset + tiles.tiles, &nnz, sizeof(nnz), cudaMemcpyHostToDevice, stream),
        "closing the offsets");
    for_each_window(condensed.view(), FillWindow{tiles.offsets, tc_offset, cols, bits, values},
                    stream);
    return packed;
  }
};

const Register<GpuFormat> entry{{
    .name = BitTcf::kFormat,
    .summary = "device half of bit_tcf",
    .make = [](const Params&) { return std::make_unique<GpuBitTcf>(); },
}};

}  // namespace
}  // namespace tessera
