// The device half of Mosaic: a sample of the rows decides the height, atomic ORs build the bitmaps,
// then all arrays are written.

#include "formats/base/registry.hpp"
#include "formats/gpu/bitmap_cells.cuh"
#include "formats/gpu/running_sum.cuh"
#include "formats/mosaic.hpp"

namespace tessera {
namespace {

constexpr int kBrickRows = Mosaic::kBrickRows;
constexpr int kStepCols = Mosaic::kStepCols;
constexpr std::int64_t kSampleRows = 64;

__host__ __device__ std::uint32_t round_up(std::int64_t count, std::int64_t multiple) {
  return static_cast<std::uint32_t>((count + multiple - 1) / multiple * multiple);
}

/// The number of nonzeros in a sampled group of rows.
struct NonzerosOfGroup {
  DeviceCsr matrix;
  std::int64_t stride;
  __host__ __device__ std::int64_t operator()(std::int64_t group) const {
    const std::int64_t first = group * stride, end = first + kSampleRows;
    return matrix.row_offsets[end < matrix.rows ? end : matrix.rows] - matrix.row_offsets[first];
  }
};

HeightSample sample(const DeviceCsr& matrix, cudaStream_t stream) {
  const std::int64_t stride = kSampleRows * sample_stride(matrix.rows);
  const StreamBuffer sums(sizeof(HeightSample), stream);
  auto* const on_device = sums.as<HeightSample>();
  for (int i = 0; i < 4; ++i)
    sum_sampled(matrix, 8 << i, {kSampleRows, stride}, &on_device->active_cols[i], stream);
  const auto groups = thrust::make_transform_iterator(thrust::counting_iterator<std::int64_t>(0),
                                                      NonzerosOfGroup{matrix, stride});
  total(groups, &on_device->nonzeros, (matrix.rows + stride - 1) / stride, stream);
  return read_back(on_device, stream);
}

/// Writes the bitmaps of all bricks, empty ones included, and the padded number of bricks of each
/// window.
struct MarkBricks {
  const std::uint32_t* window_offset;
  int per_step;
  Bitmap* all;            // [steps * per_step]
  std::uint32_t* bricks;  // [windows]

  template <int kThreads>
  __device__ void operator()(const Window<kThreads>& window) const {
    const std::int64_t first = window_offset[window.index];
    const std::int64_t count = (window_offset[window.index + 1] - first) * per_step;
    Bitmap* const bitmaps = all + first * per_step;
    window.for_each(count, [&](std::int64_t i) { bitmaps[i] = 0; });
    __syncthreads();
    window.for_each_nonzero([&](int row, int place, std::int64_t) {
      const int bit = row % kBrickRows * kStepCols + place % kStepCols;
      atomicOr(&bitmaps[place / kStepCols * per_step + row / kBrickRows], Bitmap{1} << bit);
    });
    __syncthreads();
    const std::int64_t filled =
        window.sum(count, [&](std::int64_t i) { return bitmaps[i] != 0 ? 1u : 0u; });
    if (threadIdx.x == 0) bricks[window.index] = round_up(filled, Mosaic::kBrickAlign);
  }
};

struct Padded {
  const std::uint32_t* bricks;
  std::int64_t windows;
  __host__ __device__ std::uint32_t operator()(std::int64_t window) const {
    return window < windows ? bricks[window] : 0;
  }
};

struct PaddedValues {
  DeviceCsr matrix;
  int height;
  std::int64_t windows;
  __host__ __device__ std::uint32_t operator()(std::int64_t window) const {
    if (window >= windows) return 0;
    const std::int64_t end = (window + 1) * height;
    return round_up(matrix.row_offsets[end < matrix.rows ? end : matrix.rows] -
                        matrix.row_offsets[window * height],
                    Mosaic::kValueAlign);
  }
};

struct FillWindow {
  const std::uint32_t* window_offset;
  int per_step;
  const Bitmap* all;                 // [steps * per_step]
  const std::uint32_t* first_brick;  // [windows + 1]
  const std::uint32_t* first_value;  // [windows + 1]
  std::int32_t* step_cols;
  Mosaic::Step* steps;
  Bitmap* bitmaps;
  float* values;

  template <int kThreads>
  __device__ void operator()(const Window<kThreads>& window) const {
    const std::int64_t first_step = window_offset[window.index];
    const std::int64_t count = window_offset[window.index + 1] - first_step;
    const Bitmap* const from = all + first_step * per_step;
    Mosaic::Step* const to = steps + first_step;
    window.write_padded_columns(step_cols + first_step * kStepCols, count * kStepCols);
    window.for_each(count, [&](std::int64_t s) {
      std::uint32_t mask = 0, nonzeros = 0;
      for (int r = 0; r < per_step; ++r) {
        const Bitmap bitmap = from[s * per_step + r];
        mask |= static_cast<std::uint32_t>(bitmap != 0) << r;
        nonzeros += __popcll(bitmap);
      }
      to[s] = {0, 0, mask, nonzeros};
    });
    __syncthreads();
    window.running_sum(
        count, first_brick[window.index],
        [&](std::int64_t s) { return static_cast<std::uint32_t>(__popc(to[s].brick_mask)); },
        [&](std::int64_t s, std::int64_t sum) {
          to[s].first_brick = static_cast<std::uint32_t>(sum);
        });
    window.running_sum(
        count, first_value[window.index], [&](std::int64_t s) { return to[s].nonzeros; },
        [&](std::int64_t s, std::int64_t sum) {
          to[s].first_value = static_cast<std::uint32_t>(sum);
        });
    __syncthreads();
    write_bricks(window, from, to, count);
    write_values(window, from, to);
  }

 private:
  template <int kThreads>
  __device__ void write_bricks(const Window<kThreads>& window, const Bitmap* from,
                               const Mosaic::Step* to, std::int64_t count) const {
    window.for_each(count * per_step, [&](std::int64_t i) {
      const Mosaic::Step& step = to[i / per_step];
      const int r = static_cast<int>(i % per_step);
      if (from[i] != 0)
        bitmaps[step.first_brick + __popc(step.brick_mask & ((1u << r) - 1))] = from[i];
    });
    if (threadIdx.x != 0 || count == 0) return;
    const Mosaic::Step& last = to[count - 1];
    const std::uint32_t end = first_brick[window.index + 1];
    for (std::uint32_t i = last.first_brick + __popc(last.brick_mask); i < end; ++i) bitmaps[i] = 0;
  }

  template <int kThreads>
  __device__ void write_values(const Window<kThreads>& window, const Bitmap* from,
                               const Mosaic::Step* to) const {
    window.for_each_nonzero([&](int row, int place, std::int64_t k) {
      const int s = place / kStepCols, brick = row / kBrickRows;
      const int bit = row % kBrickRows * kStepCols + place % kStepCols;
      std::uint32_t at = to[s].first_value;
      for (int r = 0; r < brick; ++r) at += __popcll(from[s * per_step + r]);
      at += __popcll(from[s * per_step + brick] & ((Bitmap{1} << bit) - 1));
      values[at] = window.all.matrix.values[k];
    });
    if (threadIdx.x != 0) return;
    const std::int64_t nonzeros = window.last_nonzero - window.first_nonzero;
    for (std::int64_t i = first_value[window.index] + nonzeros; i < first_value[window.index + 1];
         ++i)
      values[i] = 0;
  }
};

class GpuMosaic final : public GpuFormat {
 public:
  explicit GpuMosaic(int height) : height_(height) {}

  GpuPacked build(const DeviceCsr& matrix, const PackLimits& limits,
                  cudaStream_t stream) const override {
    const int height = height_ > 0      ? height_
                       : matrix.nnz > 0 ? choose_height(sample(matrix, stream))
                                        : choose_height({});
    const GpuCondensed condensed(matrix, height, 1, stream);
    const WindowView& windows = condensed.view();
    limits.require_offset(Mosaic::kFormat, "nonzeros with their padding",
                          matrix.nnz + 3 * windows.windows);
    TileOffsets steps = count_tiles(windows, kStepCols, stream);
    const std::uint32_t* const window_offset = steps.data();
    GpuPacked packed;
    packed.add("window_offset", std::move(steps.offsets));
    const int per_step = height / kBrickRows;
    const StreamBuffer all(steps.tiles * per_step * static_cast<std::int64_t>(sizeof(Bitmap)),
                           stream);
    const StreamBuffer bricks(4 * windows.windows, stream);
    const StreamBuffer first_brick(4 * (windows.windows + 1), stream);
    const StreamBuffer first_value(4 * (windows.windows + 1), stream);
    for_each_window(
        windows, MarkBricks{window_offset, per_step, all.as<Bitmap>(), bricks.as<std::uint32_t>()},
        stream);
    const thrust::counting_iterator<std::int64_t> window(0);
    running_sum(thrust::make_transform_iterator(
                    window, Padded{bricks.as<std::uint32_t>(), windows.windows}),
                first_brick.as<std::uint32_t>(), windows.windows + 1, stream);
    running_sum(
        thrust::make_transform_iterator(window, PaddedValues{matrix, height, windows.windows}),
        first_value.as<std::uint32_t>(), windows.windows + 1, stream);

    const std::int64_t num_bitmaps =
        read_back(first_brick.as<std::uint32_t>() + windows.windows, stream);
    const std::int64_t num_values =
        read_back(first_value.as<std::uint32_t>() + windows.windows, stream);
    limits.require_bytes(Mosaic::kFormat,
                         mosaic_bytes(windows.windows, steps.tiles, num_bitmaps, num_values));
    auto* const step_cols = packed.add<std::int32_t>("step_cols", steps.tiles * kStepCols, stream);
    auto* const headers = packed.add<Mosaic::Step>("steps", steps.tiles, stream);
    auto* const bitmaps = packed.add<Bitmap>("bitmaps", num_bitmaps, stream);
    auto* const values = packed.add<float>("values", num_values, stream);
    for_each_window(
        windows,
        FillWindow{window_offset, per_step, all.as<Bitmap>(), first_brick.as<std::uint32_t>(),
                   first_value.as<std::uint32_t>(), step_cols, headers, bitmaps, values},
        stream);
    return packed;
  }

 private:
  int height_;  // rows of a window; 0: chosen for the matrix
};

const Register<GpuFormat> entry{{
    .name = Mosaic::kFormat,
    .summary = "device half of mosaic",
    .make =
        [](const Params& params) {
          const std::string& height = params.text("height");
          return std::make_unique<GpuMosaic>(height == "auto" ? 0 : std::stoi(height));
        },
}};

}  // namespace
}  // namespace tessera
