// The device half of the tall tiles: the nonzeros of a row in a tile follow each other in CSR and
// in the tile, so a nonzero's index is its index in CSR plus a shift that these have in common.

#include "formats/base/registry.hpp"
#include "formats/gpu/bitmap_cells.cuh"
#include "formats/tall_tiles.hpp"

namespace tessera {
namespace {

constexpr int kRows = TallTiles::kWindowRows;
constexpr int kTileCols = TallTiles::kTileCols;

/// The nonzeros of a row in a tile, by their indices in CSR; all zero for none.
struct Run {
  std::uint32_t begin, end;
};

struct FillWindow {
  const std::uint32_t* window_offset;
  Run* runs;  // [tiles * kRows], scratch memory
  std::uint32_t* tile_offset;
  std::int32_t* tile_cols;
  std::uint16_t* places;
  float* values;

  template <int kThreads>
  __device__ void operator()(const Window<kThreads>& window) const {
    const std::int64_t first = window_offset[window.index];
    const std::int64_t tiles = window_offset[window.index + 1] - first;
    window.write_padded_columns(tile_cols + first * kTileCols, tiles * kTileCols);

    Run* const run = runs + first * kRows;
    window.for_each(tiles * kRows, [&](std::int64_t i) { run[i] = {0, 0}; });
    __syncthreads();
    const std::int64_t* const row_offsets =
        window.all.matrix.row_offsets + window.index * window.all.height;
    const std::int32_t* const in_window = window.all.places;
    window.for_each_nonzero([&](int row, int place, std::int64_t k) {
      const int tile = place / kTileCols;
      Run& own = run[std::int64_t{tile} * kRows + row];
      if (k == row_offsets[row] || in_window[k - 1] / kTileCols != tile)
        own.begin = static_cast<std::uint32_t>(k);
      if (k + 1 == row_offsets[row + 1] || in_window[k + 1] / kTileCols != tile)
        own.end = static_cast<std::uint32_t>(k + 1);
    });
    __syncthreads();
    // A run's begin becomes the shift of its nonzeros, modulo 2^32.
    std::uint32_t* const offsets = tile_offset + first;
    window.running_sum(
        tiles * kRows, window.first_nonzero,
        [&](std::int64_t i) { return run[i].end - run[i].begin; },
        [&](std::int64_t i, std::int64_t sum) {
          const auto slot = static_cast<std::uint32_t>(sum);
          if (i % kRows == 0) offsets[i / kRows] = slot;
          run[i].begin = slot - run[i].begin;
        });
    __syncthreads();
    window.for_each_nonzero([&](int row, int place, std::int64_t k) {
      const std::int64_t i = std::int64_t{place / kTileCols} * kRows + row;
      const std::uint32_t slot = run[i].begin + static_cast<std::uint32_t>(k);
      places[slot] = static_cast<std::uint16_t>(TallTiles::place_of(row, place % kTileCols));
      values[slot] = window.all.matrix.values[k];
    });
  }
};

class GpuTallTiles final : public GpuFormat {
 public:
  GpuPacked build(const DeviceCsr& matrix, const PackLimits& limits,
                  cudaStream_t stream) const override {
    limits.require_offset(TallTiles::kFormat, "nonzeros", matrix.nnz);
    const GpuCondensed condensed(matrix, kRows, 1, stream);
    TileOffsets tiles = count_tiles(condensed.view(), kTileCols, stream);
    const StreamBuffer runs(tiles.tiles * kRows * std::int64_t{sizeof(Run)}, stream);
    const std::uint32_t* const window_offset = tiles.data();
    GpuPacked packed;
    packed.add("window_offset", std::move(tiles.offsets));
    packed.reserve(
        {4 * (tiles.tiles + 1), 4 * tiles.tiles * kTileCols, 2 * matrix.nnz, 4 * matrix.nnz},
        stream);
    auto* const tile_offset = packed.add<std::uint32_t>("tile_offset", tiles.tiles + 1, stream);
    auto* const cols = packed.add<std::int32_t>("tile_cols", tiles.tiles * kTileCols, stream);
    auto* const places = packed.add<std::uint16_t>("places", matrix.nnz, stream);
    auto* const values = packed.add<float>("values", matrix.nnz, stream);
    close_offsets(tile_offset + tiles.tiles, matrix.nnz, stream);
    for_each_window(condensed.view(),
                    FillWindow{window_offset, runs.as<Run>(), tile_offset, cols, places, values},
                    stream);
    return packed;
  }
};

const Register<GpuFormat> entry{{
    .name = TallTiles::kFormat,
    .summary = "device half of tall_tiles",
    .make = [](const Params&) { return std::make_unique<GpuTallTiles>(); },
}};

}  // namespace
}  // namespace tessera
