// The device half of Mosaic: atomic ORs build the bitmaps; the rank of a bit is its value's index.

#include <algorithm>
#include <vector>

#include "formats/base/read_back.hpp"
#include "formats/base/registry.hpp"
#include "formats/gpu/bitmap_cells.cuh"
#include "formats/mosaic.hpp"

namespace tessera {
namespace {

constexpr int kTileCols = Mosaic::kTileCols;
constexpr int kWords = 2;  // of 64 bits, of a tile's bitmap

/// Of a matrix of so few row windows, each sums up the tiles of those before it itself: a launch
/// that does it, its memory and the wait for its result would take longer.
constexpr std::int64_t kFewWindows = 1024;
/// Of more nonzeros the bound of tiles, for which there is room then, would take too much memory.
constexpr std::int64_t kFewNonzeros = std::int64_t{1} << 20;

template <bool kFew>
struct FillWindow {
  std::uint32_t* window_offset;  // of few windows written, else read
  std::uint32_t* tiles_on_host;  // of few windows
  std::uint32_t* tile_offset;
  std::int32_t* tile_cols;
  Bitmap* bitmaps;  // [tiles * kWords]
  float* values;

  template <int kThreads>
  __device__ void operator()(const Window<kThreads>& window) const {
    const std::int64_t first = first_tile(window);
    const std::int64_t tiles = tiles_of(window.all, window.index);
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

 private:
  __device__ static std::uint32_t tiles_of(const WindowView& all, std::int64_t window) {
    return (static_cast<std::uint32_t>(all.active[window]) + kTileCols - 1) / kTileCols;
  }

  template <int kThreads>
  __device__ std::int64_t first_tile(const Window<kThreads>& window) const {
    if constexpr (!kFew) {
      return window_offset[window.index];
    } else {
      const std::int64_t first = window.sum(
          window.index, [&](std::int64_t before) { return tiles_of(window.all, before); });
      if (threadIdx.x == 0) {
        window_offset[window.index] = static_cast<std::uint32_t>(first);
        if (window.index + 1 == window.all.windows)
          *tiles_on_host = window_offset[window.index + 1] =
              static_cast<std::uint32_t>(first) + tiles_of(window.all, window.index);
      }
      return first;
    }
  }
};

class GpuMosaic final : public GpuFormat {
 public:
  GpuPacked build(const DeviceCsr& matrix, const PackLimits& limits,
                  cudaStream_t stream) const override {
    limits.require_offset(Mosaic::kFormat, "nonzeros", matrix.nnz);
    const GpuCondensed condensed(matrix, Mosaic::kWindowRows, 1, stream);
    const WindowView& windows = condensed.view();
    if (windows.windows > 0 && windows.windows <= kFewWindows && matrix.nnz <= kFewNonzeros)
      return build_few(windows, stream);
    TileOffsets counted = count_tiles(windows, kTileCols, stream);
    const std::int64_t tiles = counted.tiles;
    auto* const window_offset = counted.offsets.as<std::uint32_t>();
    GpuPacked packed;
    packed.add("window_offset", std::move(counted.offsets));
    packed.reserve(bytes_of(tiles, matrix.nnz), stream);
    const Arrays arrays(packed, tiles, matrix.nnz, stream);
    if (windows.windows == 0) close_offsets(arrays.tile_offset, 0, stream);
    for_each_window(windows, arrays.fill<false>(window_offset, nullptr), stream);
    return packed;
  }

 private:
  /// The arrays behind the windows' first tiles.
  struct Arrays {
    std::uint32_t* tile_offset;
    std::int32_t* cols;
    Bitmap* bitmaps;
    float* values;

    Arrays(GpuPacked& packed, std::int64_t tiles, std::int64_t nnz, cudaStream_t stream)
        : tile_offset(packed.add<std::uint32_t>("tile_offset", tiles + 1, stream)),
          cols(packed.add<std::int32_t>("tile_cols", tiles * kTileCols, stream)),
          bitmaps(packed.add<Bitmap>("bitmaps", tiles * kWords, stream)),
          values(packed.add<float>("values", nnz, stream)) {}

    template <bool kFew>
    FillWindow<kFew> fill(std::uint32_t* window_offset, std::uint32_t* tiles_on_host) const {
      return {window_offset, tiles_on_host, tile_offset, cols, bitmaps, values};
    }
  };
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
    const Arrays arrays(packed, most, nnz, stream);
    // Pinned memory has one address on both sides.
    for_each_window(windows,
                    arrays.fill<true>(window_offset, const_cast<std::uint32_t*>(&*tiles_on_host)),
                    stream);
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
