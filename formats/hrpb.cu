// The device half of HRPB: the patterns of all bricks, which determine the sizes of the blocks,
// then the byte stream.

#include "formats/base/registry.hpp"
#include "formats/gpu/bitmap_cells.cuh"
#include "formats/gpu/running_sum.cuh"
#include "formats/hrpb.hpp"

namespace tessera {
namespace {

constexpr int kBrickRows = Hrpb::kBrickRows;
constexpr int kBrickCols = Hrpb::kBrickCols;

/// The bricks of all blocks, empty ones included: brick row r of brick column c of a block has
/// index c * per_col + r.
struct Blocks {
  const std::uint32_t* blocked_row_ptr;  // [row panels + 1]
  int tile_cols;
  int per_col;
  Bitmap* patterns;  // [blocks * bricks()]

  __host__ __device__ int bricks() const { return tile_cols / kBrickCols * per_col; }
  __device__ int brick(int row, int col) const {
    return col / kBrickCols * per_col + row / kBrickRows;
  }
  static __device__ int bit(int row, int col) {
    return row % kBrickRows * kBrickCols + col % kBrickCols;
  }

  /// The layout of the first `bricks` bricks of a block.
  __device__ Hrpb::Layout layout(const Bitmap* block, int bricks) const {
    Hrpb::Layout layout{tile_cols, 0, 0};
    for (int i = 0; i < bricks; ++i) {
      layout.bricks += block[i] != 0;
      layout.nonzeros += __popcll(block[i]);
    }
    return layout;
  }
};

struct MarkPanel {
  Blocks blocks;
  std::int64_t* sizes;  // [blocks] in bytes

  template <int kThreads>
  __device__ void operator()(const Window<kThreads>& window) const {
    const std::int64_t first = blocks.blocked_row_ptr[window.index];
    const std::int64_t count = blocks.blocked_row_ptr[window.index + 1] - first;
    const int bricks = blocks.bricks();
    Bitmap* const patterns = blocks.patterns + first * bricks;
    window.for_each(count * bricks, [&](std::int64_t i) { patterns[i] = 0; });
    __syncthreads();
    window.for_each_nonzero([&](int row, int place, std::int64_t) {
      const int block = place / blocks.tile_cols, col = place % blocks.tile_cols;
      atomicOr(&patterns[std::int64_t{block} * bricks + blocks.brick(row, col)],
               Bitmap{1} << Blocks::bit(row, col));
    });
    __syncthreads();
    window.for_each(count, [&](std::int64_t b) {
      sizes[first + b] = blocks.layout(patterns + b * bricks, bricks).size();
    });
  }
};

struct FillPanel {
  Blocks blocks;
  const std::uint32_t* size_ptr;
  std::int32_t* active_cols;
  std::uint8_t* packed_blocks;  // all zero

  template <int kThreads>
  __device__ void operator()(const Window<kThreads>& window) const {
    const std::int64_t first = blocks.blocked_row_ptr[window.index];
    const std::int64_t count = blocks.blocked_row_ptr[window.index + 1] - first;
    const int bricks = blocks.bricks(), tile_cols = blocks.tile_cols;
    window.write_padded_columns(active_cols + first * tile_cols, count * tile_cols);
    window.for_each(count, [&](std::int64_t b) { write_head(first + b); });
    window.for_each_nonzero([&](int row, int place, std::int64_t k) {
      const std::int64_t block = first + place / tile_cols;
      const int col = place % tile_cols, brick = blocks.brick(row, col);
      const Bitmap* const patterns = blocks.patterns + block * bricks;
      const Bitmap below = (Bitmap{1} << Blocks::bit(row, col)) - 1;
      const std::int64_t rank =
          blocks.layout(patterns, brick).nonzeros + __popcll(patterns[brick] & below);
      auto* const values = reinterpret_cast<float*>(packed_blocks + size_ptr[block] +
                                                    blocks.layout(patterns, bricks).values());
      values[rank] = window.all.matrix.values[k];
    });
  }

 private:
  /// Writes a block except for its values.
  __device__ void write_head(std::int64_t block) const {
    const Bitmap* const from = blocks.patterns + block * blocks.bricks();
    const Hrpb::Layout layout = blocks.layout(from, blocks.bricks());
    std::uint8_t* const bytes = packed_blocks + size_ptr[block];
    auto* const col_ptr = reinterpret_cast<std::uint32_t*>(bytes);
    auto* const patterns = reinterpret_cast<Bitmap*>(bytes + layout.patterns());
    auto* const rows = reinterpret_cast<std::uint32_t*>(bytes + layout.rows());
    std::uint32_t brick = 0;
    for (int c = 0; c < blocks.tile_cols / kBrickCols; ++c) {
      col_ptr[c] = brick;
      for (int r = 0; r < blocks.per_col; ++r) {
        const Bitmap pattern = from[c * blocks.per_col + r];
        if (pattern == 0) continue;
        patterns[brick] = pattern;
        rows[brick++] = static_cast<std::uint32_t>(r);
      }
    }
    col_ptr[blocks.tile_cols / kBrickCols] = brick;
  }
};

/// The bytes of a block; 0 behind the last block.
struct SizeOf {
  const std::int64_t* sizes;
  std::int64_t blocks;
  __host__ __device__ std::uint32_t operator()(std::int64_t block) const {
    return block < blocks ? static_cast<std::uint32_t>(sizes[block]) : 0;
  }
};

class GpuHrpb final : public GpuFormat {
 public:
  GpuHrpb(int tile_rows, int tile_cols) : tile_rows_(tile_rows), tile_cols_(tile_cols) {}

  GpuPacked build(const DeviceCsr& matrix, const PackLimits& limits,
                  cudaStream_t stream) const override {
    const GpuCondensed condensed(matrix, tile_rows_, 1, stream);
    TileOffsets tiles = count_tiles(condensed.view(), tile_cols_, stream);
    Blocks blocks{tiles.data(), tile_cols_, tile_rows_ / kBrickRows, nullptr};
    const StreamBuffer patterns(tiles.tiles * blocks.bricks() * 8, stream);
    const StreamBuffer sizes(8 * tiles.tiles, stream), sum(8, stream);
    blocks.patterns = patterns.as<Bitmap>();
    for_each_window(condensed.view(), MarkPanel{blocks, sizes.as<std::int64_t>()}, stream);
    total(sizes.as<std::int64_t>(), sum.as<std::int64_t>(), tiles.tiles, stream);
    const std::int64_t bytes = read_back(sum.as<std::int64_t>(), stream);
    limits.require_offset(Hrpb::kFormat, "bytes of blocks", bytes);

    GpuPacked packed;
    auto* const stream_of_blocks = packed.add<std::uint8_t>("packed_blocks", bytes, stream);
    if (bytes > 0)
      cuda_check(cudaMemsetAsync(stream_of_blocks, 0, static_cast<std::size_t>(bytes), stream),
                 "clearing the blocks");
    packed.add("blocked_row_ptr", std::move(tiles.offsets));
    auto* const cols = packed.add<std::int32_t>("active_cols", tiles.tiles * tile_cols_, stream);
    auto* const size_ptr = packed.add<std::uint32_t>("size_ptr", tiles.tiles + 1, stream);
    running_sum(thrust::make_transform_iterator(thrust::counting_iterator<std::int64_t>(0),
                                                SizeOf{sizes.as<std::int64_t>(), tiles.tiles}),
                size_ptr, tiles.tiles + 1, stream);
    for_each_window(condensed.view(), FillPanel{blocks, size_ptr, cols, stream_of_blocks}, stream);
    return packed;
  }

 private:
  int tile_rows_, tile_cols_;
};

const Register<GpuFormat> entry{{
    .name = Hrpb::kFormat,
    .summary = "device half of hrpb",
    .make =
        [](const Params& params) {
          return std::make_unique<GpuHrpb>(static_cast<int>(params.integer("tile_rows")),
                                           static_cast<int>(params.integer("tile_cols")));
        },
}};

}  // namespace
}  // namespace tessera
