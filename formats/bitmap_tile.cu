// The device half of bitmap tiles: the active groups of eight columns in windows of eight rows.

#include "formats/base/registry.hpp"
#include "formats/bitmap_tile.hpp"
#include "formats/gpu/bitmap_cells.cuh"

namespace tessera {
namespace {

constexpr int kSide = BitmapTile::kTileSide;

struct FillTileRow {
  const std::uint32_t* tile_offset;  // [tile rows + 1]
  std::int32_t* tile_row;
  std::int32_t* tile_col;
  Bitmap* bitmap;
  std::uint32_t* value_offset;
  float* values;

  template <int kThreads>
  __device__ void operator()(const Window<kThreads>& window) const {
    const std::int64_t first_tile = tile_offset[window.index];
    const int tiles = window.active();
    window.for_each(tiles, [&](std::int64_t t) {
      tile_row[first_tile + t] = static_cast<std::int32_t>(window.index);
      tile_col[first_tile + t] = window.col(static_cast<int>(t));
    });
    const DeviceCsr& a = window.all.matrix;
    place_by_bitmap<1>(
        window, tiles, bitmap + first_tile, value_offset + first_tile,
        [&](int row, int place, std::int64_t k) {
          return BitmapCell{place, row * kSide + a.col_indices[k] % kSide};
        },
        [&](std::uint32_t slot, int, std::int64_t k) { values[slot] = a.values[k]; });
  }
};

class GpuBitmapTile final : public GpuFormat {
 public:
  GpuPacked build(const DeviceCsr& matrix, const PackLimits& limits,
                  cudaStream_t stream) const override {
    limits.require_offset(BitmapTile::kFormat, "nonzeros", matrix.nnz);
    const GpuCondensed condensed(matrix, kSide, kSide, stream);
    const TileOffsets tiles = count_tiles(condensed.view(), 1, stream);
    GpuPacked packed;
    auto* const tile_row = packed.add<std::int32_t>("tile_row", tiles.tiles, stream);
    auto* const tile_col = packed.add<std::int32_t>("tile_col", tiles.tiles, stream);
    auto* const bitmap = packed.add<Bitmap>("bitmap", tiles.tiles, stream);
    auto* const offset = packed.add<std::uint32_t>("value_offset", tiles.tiles + 1, stream);
    auto* const values = packed.add<float>("values", matrix.nnz, stream);
    close_offsets(offset + tiles.tiles, matrix.nnz, stream);
    for_each_window(condensed.view(),
                    FillTileRow{tiles.data(), tile_row, tile_col, bitmap, offset, values}, stream);
    return packed;
  }
};

const Register<GpuFormat> entry{{
    .name = BitmapTile::kFormat,
    .summary = "device half of bitmap_tile",
    .make = [](const Params&) { return std::make_unique<GpuBitmapTile>(); },
}};

}  // namespace
}  // namespace tessera
