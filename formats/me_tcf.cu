// The device half of ME-TCF: a TC block's bitmap, which the format does not keep, ranks its
// nonzeros.

#include "formats/base/registry.hpp"
#include "formats/gpu/bitmap_cells.cuh"
#include "formats/me_tcf.hpp"

namespace tessera {
namespace {

constexpr int kTileCols = MeTcf::kTileCols;
constexpr int kWords = 2;  // bits of a 16 x 8 TC block; the second is empty for 8 x 8

struct FillWindow {
  const std::uint32_t* row_window_offset;
  Bitmap* bitmaps;  // [tc_blocks * kWords]
  std::uint32_t* tc_offset;
  std::int32_t* sparse_a_to_b;
  std::uint8_t* tc_local_id;
  float* values;

  template <int kThreads>
  __device__ void operator()(const Window<kThreads>& window) const {
    const std::int64_t first_tile = row_window_offset[window.index];
    const std::int64_t tiles = row_window_offset[window.index + 1] - first_tile;
    window.write_padded_columns(sparse_a_to_b + first_tile * kTileCols, tiles * kTileCols);
    place_by_bitmap<kWords>(
        window, tiles, bitmaps + first_tile * kWords, tc_offset + first_tile,
        [](int row, int place, std::int64_t) {
          return BitmapCell{place / kTileCols, row * kTileCols + place % kTileCols};
        },
        [&](std::uint32_t slot, int bit, std::int64_t k) {
          tc_local_id[slot] = static_cast<std::uint8_t>(bit);
          values[slot] = window.all.matrix.values[k];
        });
  }
};

class GpuMeTcf final : public GpuFormat {
 public:
  explicit GpuMeTcf(int window_rows) : window_rows_(window_rows) {}

  GpuPacked build(const DeviceCsr& matrix, const PackLimits& limits,
                  cudaStream_t stream) const override {
    limits.require_offset(MeTcf::kFormat, "nonzeros", matrix.nnz);
    const GpuCondensed condensed(matrix, window_rows_, 1, stream);
    TileOffsets tiles = count_tiles(condensed.view(), kTileCols, stream);
    const StreamBuffer bitmaps(tiles.tiles * kWords * 8, stream);
    const std::uint32_t* const window_offset = tiles.data();
    GpuPacked packed;
    packed.add("row_window_offset", std::move(tiles.offsets));
    auto* const tc_offset = packed.add<std::uint32_t>("tc_offset", tiles.tiles + 1, stream);
    auto* const cols = packed.add<std::int32_t>("sparse_a_to_b", tiles.tiles * kTileCols, stream);
    auto* const ids = packed.add<std::uint8_t>("tc_local_id", matrix.nnz, stream);
    auto* const values = packed.add<float>("values", matrix.nnz, stream);
    close_offsets(tc_offset + tiles.tiles, matrix.nnz, stream);
    for_each_window(condensed.view(),
                    FillWindow{window_offset, bitmaps.as<Bitmap>(), tc_offset, cols, ids, values},
                    stream);
    return packed;
  }

 private:
  int window_rows_;
};

const Register<GpuFormat> entry{{
    .name = MeTcf::kFormat,
    .summary = "device half of me_tcf",
    .make =
        [](const Params& params) {
          return std::make_unique<GpuMeTcf>(static_cast<int>(params.integer("window_rows")));
        },
}};

}  // namespace
}  // namespace tessera
