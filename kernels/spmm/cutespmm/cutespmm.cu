// Device half of cutespmm: a team of warps per row panel and 128 columns. See
// kernels/spmm/cutespmm/cutespmm.cpp.

#include <climits>

#include "formats/base/registry.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/cutespmm/bricks.cuh"
#include "kernels/spmm/cutespmm/stages.cuh"

namespace tessera {
namespace {

using namespace cutespmm;

enum class Put { kPieces, kElements, kAdd };

/// A lane's four sums of a row of C, stored or added to it as far as there are columns.
template <Put kPut>
__device__ void put(float* to, float4 sums, std::int64_t cols, Scaling scaling, bool aligned) {
  if constexpr (kPut == Put::kAdd)
    add_16_bytes(to, sums, cols, scaling.alpha, aligned);
  else
    store_16_bytes<kPut == Put::kPieces>(to, sums, cols, scaling);
}

/// The warp's columns of the panel's C, from first_col on.
template <class V, Put kPut>
__device__ void put_panel(const View& view, const Task& task, float* c, Scaling scaling,
                          std::int64_t first_col, int lane, bool aligned, const Sums<V>& sums) {
#pragma unroll
  for (int r = 0; r < 2 * V::kBricks; ++r) {
    const std::int64_t row =
        std::int64_t{task.panel} * (V::kBricks * kBrickRows) + 8 * r + lane / 4;
    if (row >= view.rows) return;
    float* to = c + row * view.n;
#pragma unroll
    for (int chunk = 0; chunk < V::kChunks; ++chunk) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const auto& of = sums[r / 2];
        const int value = 2 * (r % 2) + i, mma = 4 * chunk;
        const std::int64_t col =
            first_col + chunk * kChunkCols + 4 * place_of_piece(2 * (lane % 4) + i);
        put<kPut>(to + col,
                  {of[mma][value], of[mma + 1][value], of[mma + 2][value], of[mma + 3][value]},
                  view.n - col, scaling, aligned);
      }
    }
  }
}

template <class V>
__global__ void __launch_bounds__(V::kMaxThreads, V::kMinBlocks)
    multiply_panels(View view, const float* __restrict__ b, float* __restrict__ c, Scaling scaling,
                    bool aligned) {
  extern __shared__ __align__(32) unsigned char shared[];
  const Geometry& geometry = view.geometry;
  const int team = static_cast<int>(threadIdx.x) / V::kThreads;
  const int thread = static_cast<int>(threadIdx.x) % V::kThreads, lane = thread % 32;
  const std::uint32_t groups = (view.num_tasks - 1) / geometry.teams + 1;
  const std::uint32_t id = blockIdx.x % groups * geometry.teams + team;
  if (id >= view.num_tasks) return;
  const Task task = view.tasks[id];
  const std::int64_t first_col = blockIdx.x / groups * std::int64_t{V::kWarpCols * V::kWarps};
  unsigned char* stages = shared + team * geometry.team_bytes();
  auto* index = reinterpret_cast<std::int32_t*>(stages + geometry.stages * geometry.stage_bytes()) +
                thread / 32 * kMaxTileCols;

  Sums<V> sums = {};
  const int warp_col = thread / 32 * V::kWarpCols;
  if (task.first < task.last) {
    const Copier<V> copier(view, b, first_col, aligned, thread, index);
    Pipeline<V> pipeline(view, copier, task, stages, team);
    for (std::uint32_t block = task.first; block < task.last; ++block) {
      pipeline.advance();
      multiply_block<V>(pipeline.bytes(), pipeline.rows() + warp_col, view.tile_cols, lane, sums);
    }
  }
  const std::int64_t col = first_col + warp_col;
  if (task.is_part != 0)
    put_panel<V, Put::kAdd>(view, task, c, scaling, col, lane, aligned, sums);
  else if (aligned)
    put_panel<V, Put::kPieces>(view, task, c, scaling, col, lane, aligned, sums);
  else
    put_panel<V, Put::kElements>(view, task, c, scaling, col, lane, aligned, sums);
}

/// beta C in the row panels that several tasks add to, a thread block for each.
__global__ void __launch_bounds__(kClearThreads)
    clear_panels(const std::uint32_t* panels, int tile_rows, std::int64_t rows, std::int64_t n,
                 float* c, Scaling scaling) {
  const std::int64_t first = std::int64_t{panels[blockIdx.x]} * tile_rows;
  const std::int64_t end = min(first + tile_rows, rows) * n;
  begin_adding(c, first * n + threadIdx.x, end, scaling);
}

using Kernel = void (*)(View, const float*, float*, Scaling, bool);

template <int kDepth, int kBricks, Tf32Precision kPrecision>
Kernel instance(int warp_cols, int warps) {
  if (warp_cols == 128) return multiply_panels<Variant<kDepth, 128, 1, kBricks, kPrecision>>;
  if (warp_cols == 64)
    return warps == 1 ? multiply_panels<Variant<kDepth, 64, 1, kBricks, kPrecision>>
                      : multiply_panels<Variant<kDepth, 64, 2, kBricks, kPrecision>>;
  if (warps == 1) return multiply_panels<Variant<kDepth, 32, 1, kBricks, kPrecision>>;
  return warps == 2 ? multiply_panels<Variant<kDepth, 32, 2, kBricks, kPrecision>>
                    : multiply_panels<Variant<kDepth, 32, 4, kBricks, kPrecision>>;
}

template <int kDepth, int kBricks>
Kernel instance(const Geometry& geometry, Tf32Precision precision) {
  using enum Tf32Precision;
  return precision == kRounded
             ? instance<kDepth, kBricks, kRounded>(geometry.warp_cols, geometry.warps)
             : instance<kDepth, kBricks, kRaw>(geometry.warp_cols, geometry.warps);
}

Kernel instance(const Geometry& geometry, const Options& options, int tile_rows) {
  if (options.precision == Tf32Precision::kSplit)
    return instance<8, 1, Tf32Precision::kSplit>(geometry.warp_cols, geometry.warps);
  if (tile_rows == kBrickRows)
    return options.depth == 4 ? instance<4, 1>(geometry, options.precision)
                              : instance<8, 1>(geometry, options.precision);
  return options.depth == 4 ? instance<4, 2>(geometry, options.precision)
                            : instance<8, 2>(geometry, options.precision);
}

class CuteMultiplication final : public GpuMultiplication {
 public:
  CuteMultiplication(const Hrpb& a, std::int64_t n, const Options& options)
      : rows_(a.rows()),
        n_(n),
        tile_rows_(a.tile_rows),
        tile_cols_(a.tile_cols),
        geometry_(geometry(a, n, options)),
        kernel_(instance(geometry_, options, a.tile_rows)),
        packed_blocks_(a.packed_blocks),
        active_cols_(a.active_cols),
        size_ptr_(a.size_ptr) {
    require<Unsupported>(n <= INT_MAX / 4, "{} columns of B are more than cutespmm counts", n);
    const std::vector<Task> tasks = plan_tasks(a, n, options);
    tasks_ = DeviceArray<Task>(tasks);
    split_ = DeviceArray<std::uint32_t>(split_panels(tasks));
    const auto groups = (std::ssize(tasks) + geometry_.teams - 1) / geometry_.teams;
    thread_blocks_ = groups * geometry_.num_chunks(n);
    require<Unsupported>(thread_blocks_ <= INT_MAX, "{} thread blocks are more than a grid holds",
                         thread_blocks_);
    load_now(clear_panels, kernel_);
    allow_shared_memory();
  }

  std::vector<int> registers() const override {
    std::vector<int> of_launches;
    if (split_.size() > 0) of_launches.push_back(registers_of(clear_panels));
    of_launches.push_back(registers_of(kernel_));
    return of_launches;
  }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    if (thread_blocks_ == 0) return;
    if (split_.size() > 0)
      clear_panels<<<static_cast<unsigned>(split_.size()), kClearThreads, 0, stream>>>(
          split_.data(), tile_rows_, rows_, n_, operands.c, operands.scaling);
    const View view{rows_,
                    n_,
                    tile_cols_,
                    static_cast<std::uint32_t>(tasks_.size()),
                    tasks_.data(),
                    packed_blocks_.data(),
                    active_cols_.data(),
                    size_ptr_.data(),
                    geometry_};
    kernel_<<<static_cast<unsigned>(thread_blocks_), static_cast<unsigned>(geometry_.threads()),
              static_cast<std::size_t>(geometry_.shared_bytes()), stream>>>(
        view, operands.b, operands.c, operands.scaling, aligned_to_16_bytes(n_, operands));
    cuda_check(cudaGetLastError(), "launching cutespmm");
  }

 private:
  void allow_shared_memory() const {
    int device = 0, most = 0;
    cuda_check(cudaGetDevice(&device), "asking for the device");
    cuda_check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
               "asking for its shared memory");
    require<Unsupported>(geometry_.shared_bytes() <= most,
                         "cutespmm: {} bytes of shared memory, where a thread block has {} at most",
                         geometry_.shared_bytes(), most);
    tessera::allow_shared_memory(geometry_.shared_bytes(), kernel_);
    cuda_check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel_),
                                    cudaFuncAttributePreferredSharedMemoryCarveout,
                                    cudaSharedmemCarveoutMaxShared),
               "asking for shared memory");
  }

  std::int64_t rows_, n_;
  int tile_rows_, tile_cols_;
  Geometry geometry_;
  Kernel kernel_;
  DeviceArray<std::uint8_t> packed_blocks_;
  DeviceArray<std::int32_t> active_cols_;
  DeviceArray<std::uint32_t> size_ptr_;
  DeviceArray<Task> tasks_;
  DeviceArray<std::uint32_t> split_;
  std::int64_t thread_blocks_ = 0;
};

class GpuCuteSpmm final : public GpuSpmm {
 public:
  explicit GpuCuteSpmm(const Options& options) : options_(options) {}
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    return std::make_unique<CuteMultiplication>(packed_as<Hrpb>(packed), n, options_);
  }

 private:
  Options options_;
};

const Register<GpuSpmm> entry{{
    .name = "cutespmm",
    .summary = "device half of cutespmm",
    .make =
        [](const Params& params) { return std::make_unique<GpuCuteSpmm>(read_options(params)); },
}};

}  // namespace
}  // namespace tessera
