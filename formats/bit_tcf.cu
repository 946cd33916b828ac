// The device half of BitTCF: atomic ORs build the bitmaps; the rank of a bit is its value's index.

#include "formats/base/registry.hpp"
#include "formats/bit_tcf.hpp"
#include "formats/gpu/bitmap_cells.cuh"

namespace tessera {
namespace {

constexpr int kTileRows = BitTcf::kTileRows;
constexpr int kTileCols = BitTcf::kTileCols;

struct FillWindow {
  const std::uint32_t* row_window_offset;
  std::uint32_t* tc_offset;
  std::int32_t* sparse_a_to_b;
  Bitmap* tc_local_bit;
  float* values;

  template <int kThreads>
  __device__ void operator()(const Window<kThreads>& window) const {
    const std::int64_t first_tile = row_window_offset[window.index];
    const std::int64_t tiles = row_window_offset[window.index + 1] - first_tile;
    window.write_padded_columns(sparse_a_to_b + first_tile * kTileCols, tiles * kTileCols);
    place_by_bitmap<1>(
        window, tiles, tc_local_bit + first_tile, tc_offset + first_tile,
        [](int row, int place, std::int64_t) {
          return BitmapCell{place / kTileCols, row * kTileCols + place % kTileCols};
        },
        [&](std::uint32_t slot, int, std::int64_t k) {
          values[slot] = window.all.matrix.values[k];
        });
  }
};

class GpuBitTcf final : public GpuFormat {
 public:
  GpuPacked build(const DeviceCsr& matrix, const PackLimits& limits,
                  cudaStream_t stream) const override {
    limits.require_offset(BitTcf::kFormat, "nonzeros", matrix.nnz);
    const GpuCondensed condensed(matrix, kTileRows, 1, stream);
    TileOffsets tiles = count_tiles(condensed.view(), kTileCols, stream);
    const std::uint32_t* const window_offset = tiles.data();
    GpuPacked packed;
    packed.add("row_window_offset", std::move(tiles.offsets));
    auto* const tc_offset = packed.add<std::uint32_t>("tc_offset", tiles.tiles + 1, stream);
    auto* const cols = packed.add<std::int32_t>("sparse_a_to_b", tiles.tiles * kTileCols, stream);
    auto* const bits = packed.add<Bitmap>("tc_local_bit", tiles.tiles, stream);
    auto* const values = packed.add<float>("values", matrix.nnz, stream);
    close_offsets(tc_offset + tiles.tiles, matrix.nnz, stream);
    for_each_window(condensed.view(), FillWindow{window_offset, tc_offset, cols, bits, values},
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
