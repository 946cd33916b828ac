// The device half of Mosaic: atomic ORs build the bitmaps; the rank of a bit is its value's index.

#include <algorithm>
#include <vector>

#include "formats/base/registry.hpp"
#include "formats/gpu/bitmap_cells.cuh"
#include "formats/gpu/few_windows.cuh"
#include "formats/mosaic.hpp"

namespace tessera {
namespace {

constexpr int kTileCols = Mosaic::kTileCols;
constexpr int kWords = 2;  // of 64 bits, of a tile's bitmap

/// Fills the arrays behind the windows' first tiles.
struct FillWindow {
  std::uint32_t* tile_offset;
  std::int32_t* tile_cols;
  Bitmap* bitmaps;  // [tiles * kWords]
  float* values;

  template <class AnyWindow>
  __device__ void operator()(const AnyWindow& window, std::int64_t first,
                             std::int64_t tiles) const {
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

/// The same where the first tiles are known.
struct FillAtOffset {
  const std::uint32_t* window_offset;
  FillWindow fill;

  template <int kThreads>
  __device__ void operator()(const Window<kThreads>& window) const {
    const std::int64_t tiles =
        (static_cast<std::uint32_t>(window.active()) + kTileCols - 1) / kTileCols;
    fill(window, window_offset[window.index], tiles);
  }
};

/// The same where they are found in this launch, which writes them, and their number to the host.
struct FillAndTell {
  std::uint32_t* window_offset;
  std::uint32_t* tiles_on_host;
  FillWindow fill;

  template <class AnyWindow>
  __device__ void operator()(const AnyWindow& window, std::int64_t first,
                             std::int64_t tiles) const {
    if (threadIdx.x == 0) {
      window_offset[window.index] = static_cast<std::uint32_t>(first);
      if (window.index + 1 == window.all.windows)
        *tiles_on_host = window_offset[window.index + 1] =
            static_cast<std::uint32_t>(first + tiles);
    }
    fill(window, first, tiles);
  }
};

class GpuMosaic final : public GpuFormat {
 public:
  GpuPacked build(const DeviceCsr& matrix, const PackLimits& limits,
                  cudaStream_t stream) const override {
    limits.require_offset(Mosaic::kFormat, "nonzeros", matrix.nnz);
    const WindowView few{
        .matrix = matrix,
        .height = Mosaic::kWindowRows,
        .windows = (std::int64_t{matrix.rows} + Mosaic::kWindowRows - 1) / Mosaic::kWindowRows};
    if (are_few_windows(few)) return build_few(few, stream);
    const GpuCondensed condensed(matrix, Mosaic::kWindowRows, 1, stream);
    const WindowView& windows = condensed.view();
    TileOffsets counted = count_tiles(windows, kTileCols, stream);
    const std::int64_t tiles = counted.tiles;
    auto* const window_offset = counted.offsets.as<std::uint32_t>();
    GpuPacked packed;
    packed.add("window_offset", std::move(counted.offsets));
    packed.reserve(bytes_of(tiles, matrix.nnz), stream);
    const FillWindow fill = add_arrays(packed, tiles, matrix.nnz, stream);
    if (windows.windows == 0) close_offsets(fill.tile_offset, 0, stream);
    for_each_window(windows, FillAtOffset{window_offset, fill}, stream);
    return packed;
  }

 private:
  static FillWindow add_arrays(GpuPacked& packed, std::int64_t tiles, std::int64_t nnz,
                               cudaStream_t stream) {
    return {packed.add<std::uint32_t>("tile_offset", tiles + 1, stream),
            packed.add<std::int32_t>("tile_cols", tiles * kTileCols, stream),
            packed.add<Bitmap>("bitmaps", tiles * kWords, stream),
            packed.add<float>("values", nnz, stream)};
  }
  static std::vector<std::int64_t> bytes_of(std::int64_t tiles, std::int64_t nnz) {
    return {4 * (tiles + 1), 4 * tiles * kTileCols, std::int64_t{sizeof(Bitmap)} * tiles * kWords,
            4 * nnz};
  }

  /// Has room for a bound of tiles, whose number the last window leaves on the host.
  static GpuPacked build_few(const WindowView& windows, cudaStream_t stream) {
    static thread_local ReadBack<std::uint32_t> tiles_on_host;
    const std::int64_t nnz = windows.matrix.nnz;
    // A window has less than a tile besides those that its columns fill.
    const std::int64_t most = std::min(nnz, nnz / kTileCols + windows.windows);
    GpuPacked packed;
    std::vector<std::int64_t> bytes = bytes_of(most, nnz);
    bytes.push_back(4 * (windows.windows + 1));
    packed.reserve(bytes, stream);
    auto* const window_offset =
        packed.add<std::uint32_t>("window_offset", windows.windows + 1, stream);
    const FillWindow fill = add_arrays(packed, most, nnz, stream);
    // Pinned memory has one address on both sides.
    auto* const on_host = const_cast<std::uint32_t*>(&*tiles_on_host);
    for_each_few_windows(windows, kTileCols, FillAndTell{window_offset, on_host, fill}, stream);
    const std::int64_t tiles = tiles_on_host.wait(stream);
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
