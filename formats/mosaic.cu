// The device half of Mosaic: atomic ORs build the bitmaps; the rank of a bit is its value's index.

#include "formats/base/registry.hpp"
#include "formats/gpu/bitmap_cells.cuh"
#include "formats/mosaic.hpp"

namespace tessera {
namespace {

constexpr int kTileCols = Mosaic::kTileCols;
constexpr int kWords = 2;  // of 64 bits, of a tile's bitmap

struct FillWindow {
  const std::uint32_t* window_offset;
  std::uint32_t* tile_offset;
  std::int32_t* tile_cols;
  Bitmap* bitmaps;  // [tiles * kWords]
  float* values;

  template <int kThreads>
  __device__ void operator()(const Window<kThreads>& window) const {
    const std::int64_t first = window_offset[window.index];
    const std::int64_t tiles = window_offset[window.index + 1] - first;
    window.write_padded_columns(tile_cols + first * kTileCols, tiles * kTileCols);
    if (window.index + 1 == window.all.windows && threadIdx.x == 0)
      tile_offset[first + tiles] = static_cast<std::uint32_t>(window.all.matrix.nnz);
    place_by_bitmap<kWords>(
        window, tiles, bitmaps + first * kWords, tile_offset + first,
        [](int row, int place, std::int64_t) {
          return BitmapCell{place / kTileCols, Mosaic::bit_of(row, place % kTileCols)};
        },
        [&](std::uint32_t slot, int, std::int64_t k) {
          values[slot] = window.all.matrix.values[k];
        });
  }
};

class GpuMosaic final : public GpuFormat {
 public:
  GpuPacked build(const DeviceCsr& matrix, const PackLimits& limits,
                  cudaStream_t stream) const override {
    limits.require_offset(Mosaic::kFormat, "nonzeros", matrix.nnz);
    const GpuCondensed condensed(matrix, Mosaic::kWindowRows, 1, stream);
    TileCount count(condensed.view(), kTileCols, stream);
    const std::int64_t most = count.most_tiles();
    const std::uint32_t* const window_offset = count.offsets();
    GpuPacked packed;
    packed.reserve({4 * (most + 1), 4 * most * kTileCols,
                    std::int64_t{sizeof(Bitmap)} * most * kWords, 4 * matrix.nnz},
                   stream);
    packed.add("window_offset", count.take_offsets());
    auto* const tile_offset = packed.add<std::uint32_t>("tile_offset", most + 1, stream);
    auto* const cols = packed.add<std::int32_t>("tile_cols", most * kTileCols, stream);
    auto* const bitmaps = packed.add<Bitmap>("bitmaps", most * kWords, stream);
    auto* const values = packed.add<float>("values", matrix.nnz, stream);
    if (condensed.view().windows == 0) close_offsets(tile_offset, 0, stream);
    for_each_window(condensed.view(), FillWindow{window_offset, tile_offset, cols, bitmaps, values},
                    stream);
    const std::int64_t tiles = count.tiles();
    packed.shorten<std::uint32_t>("tile_offset", tiles + 1);
    packed.shorten<std::int32_t>("tile_cols", tiles * kTileCols);
    packed.shorten<Bitmap>("bitmaps", tiles * kWords);
    return packed;
  }
};

const Register<GpuFormat> entry{{
    .name = Mosaic::kFormat,
    .summary = "device half of mosaic",
    .make = [](const Params&) { return std::make_unique<GpuMosaic>(); },
}};

}  // namespace
}  // namespace tessera
