// Device half of cutespmm: a team of warps per row panel and 128 columns. See
// kernels/spmm/cutespmm/cutespmm.cpp.

#include <climits>

#include "formats/base/registry.hpp"
#include "kernels/device/limits_of_gpu.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/cutespmm/bricks.cuh"
#include "kernels/spmm/cutespmm/stages.cuh"

namespace tessera {
namespace {

using namespace cutespmm;

/// The ways to write four neighbouring elements of a row of C.
enum class CWrite { kWide, kSingle, kAtomicAdd };

/// Stores a lane's four sums of a row of C, or adds them to it, as far as there are columns.
template <CWrite kWrite>
__device__ void write_four(float* to, float4 sums, std::int64_t cols, Scaling scaling,
                           bool aligned) {
  if constexpr (kWrite == CWrite::kAtomicAdd)
    add_16_bytes(to, sums, cols, scaling.alpha, aligned);
  else
    store_16_bytes<kWrite == CWrite::kWide>(to, sums, cols, scaling);
}

/// Writes the columns of the warp in the row panel, from first_col on.
template <class V, CWrite kWrite>
__device__ void write_panel(const KernelArguments& product, const Task& task, float* c,
                            Scaling scaling, std::int64_t first_col, int lane, bool aligned,
                            const Sums<V>& sums) {
#pragma unroll
  for (int r = 0; r < 2 * V::kBricks; ++r) {
    const std::int64_t row =
        std::int64_t{task.panel} * (V::kBricks * kBrickRows) + 8 * r + lane / 4;
    if (row >= product.rows) return;
    float* to = c + row * product.n;
#pragma unroll
    for (int chunk = 0; chunk < V::kChunks; ++chunk) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const auto& of = sums[r / 2];
        const int value = 2 * (r % 2) + i, mma = 4 * chunk;
        const std::int64_t col =
            first_col + chunk * kChunkCols + 4 * place_of_piece(2 * (lane % 4) + i);
        write_four<kWrite>(
            to + col, {of[mma][value], of[mma + 1][value], of[mma + 2][value], of[mma + 3][value]},
            product.n - col, scaling, aligned);
      }
    }
  }
}

template <class V>
__global__ void __launch_bounds__(V::kMaxThreads, V::kMinBlocks)
    multiply_panels(KernelArguments product, const float* __restrict__ b, float* __restrict__ c,
                    Scaling scaling, bool aligned) {
  extern __shared__ __align__(32) unsigned char shared[];
  const Geometry& geometry = product.geometry;
  const int team = static_cast<int>(threadIdx.x) / V::kThreads;
  const int thread = static_cast<int>(threadIdx.x) % V::kThreads, lane = thread % 32;
  const std::uint32_t groups = count_groups(product.num_tasks, geometry.teams);
  const std::uint32_t id = task_of(blockIdx.x, team, groups, geometry.teams);
  if (id >= product.num_tasks) return;
  const Task task = product.tasks[id];
  const std::int64_t first_col =
      chunk_of(blockIdx.x, groups) * std::int64_t{V::kWarpCols * V::kWarps};
  unsigned char* stages = shared + team * geometry.team_bytes();
  auto* index = reinterpret_cast<std::int32_t*>(stages + geometry.stages * geometry.stage_bytes()) +
                thread / 32 * kMaxTileCols;

  Sums<V> sums = {};
  const int warp_col = thread / 32 * V::kWarpCols;
  if (task.first < task.last) {
    const Copier<V> copier(product, b, first_col, aligned, thread, index);
    Pipeline<V> pipeline(product, copier, task, stages, team);
    for (std::uint32_t block = task.first; block < task.last; ++block) {
      pipeline.advance();
      multiply_block<V>(pipeline.bytes(), pipeline.rows() + warp_col, product.tile_cols, lane,
                        sums);
    }
  }
  const std::int64_t col = first_col + warp_col;
  if (task.is_part != 0)
    write_panel<V, CWrite::kAtomicAdd>(product, task, c, scaling, col, lane, aligned, sums);
  else if (aligned)
    write_panel<V, CWrite::kWide>(product, task, c, scaling, col, lane, aligned, sums);
  else
    write_panel<V, CWrite::kSingle>(product, task, c, scaling, col, lane, aligned, sums);
}

/// Writes beta C in the row panels that several tasks add to: a thread block for each.
__global__ void __launch_bounds__(kClearThreads)
    clear_panels(const std::uint32_t* panels, int tile_rows, std::int64_t rows, std::int64_t n,
                 float* c, Scaling scaling) {
  const std::int64_t first = std::int64_t{panels[blockIdx.x]} * tile_rows;
  const std::int64_t end = min(first + tile_rows, rows) * n;
  begin_adding(c, first * n + threadIdx.x, end, scaling);
}

using Kernel = void (*)(KernelArguments, const float*, float*, Scaling, bool);

/// The kernel of one row of kTeamShapes in one row of kModes.
template <std::size_t kShapeIndex, std::size_t kModeIndex>
constexpr Kernel kernel_at() {
  constexpr TeamShape kShape = kTeamShapes[kShapeIndex];
  constexpr Mode kMode = kModes[kModeIndex];
  return multiply_panels<
      Variant<kMode.depth, kShape.warp_cols, kShape.warps, kMode.bricks, kMode.precision>>;
}

template <std::size_t... i>
Kernel find_kernel(std::size_t index, std::index_sequence<i...>) {
  static const std::array<Kernel, sizeof...(i)> kernels{
      kernel_at<i / kModes.size(), i % kModes.size()>()...};
  return kernels.at(index);
}

/// The kernel of a thread block's shape and a mode that check_blocks admits.
Kernel kernel_for(const Geometry& geometry, const CuteSpmmOptions& options, int tile_rows) {
  const std::size_t shape = find_team_shape(geometry.warp_cols, geometry.warps);
  return find_kernel(shape * kModes.size() + mode_of(options, tile_rows),
                     std::make_index_sequence<kTeamShapes.size() * kModes.size()>());
}

class CuteMultiplication final : public GpuMultiplication {
 public:
  CuteMultiplication(const Hrpb& a, std::int64_t n, const CuteSpmmOptions& options)
      : rows_(a.rows()),
        n_(n),
        tile_rows_(a.tile_rows),
        tile_cols_(a.tile_cols),
        geometry_(geometry(a, n, options)),
        kernel_(kernel_for(geometry_, options, a.tile_rows)),
        packed_blocks_(a.packed_blocks),
        active_cols_(a.active_cols),
        size_ptr_(a.size_ptr) {
    require<Unsupported>(n <= INT_MAX / 4, "cutespmm takes at most {} columns of B, not {}",
                         INT_MAX / 4, n);
    const std::vector<Task> tasks = plan_tasks(a, n, options);
    tasks_ = DeviceArray<Task>(tasks);
    split_ = DeviceArray<std::uint32_t>(split_panels(tasks));
    const auto groups = (std::ssize(tasks) + geometry_.teams - 1) / geometry_.teams;
    thread_blocks_ = groups * geometry_.num_chunks(n);
    require<Unsupported>(thread_blocks_ <= INT_MAX,
                         "cutespmm needs {} thread blocks; a grid has at most {}", thread_blocks_,
                         INT_MAX);
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
          split_.data(), tile_rows_, rows_, n_, operands.c_fp32(), operands.scaling);
    const KernelArguments arguments{rows_,
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
        arguments, operands.b_fp32(), operands.c_fp32(), operands.scaling,
        aligned_to_16_bytes(n_, operands));
    cuda_check(cudaGetLastError(), "launching cutespmm");
  }

 private:
  void allow_shared_memory() const {
    int device = 0, most = 0;
    cuda_check(cudaGetDevice(&device), "querying the device");
    cuda_check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
               "querying its shared memory");
    require<Unsupported>(geometry_.shared_bytes() <= most,
                         "cutespmm needs {} bytes of shared memory; a thread block has at most {}",
                         geometry_.shared_bytes(), most);
    tessera::allow_shared_memory(geometry_.shared_bytes(), kernel_);
    cuda_check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel_),
                                    cudaFuncAttributePreferredSharedMemoryCarveout,
                                    cudaSharedmemCarveoutMaxShared),
               "reserving shared memory");
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
  explicit GpuCuteSpmm(const CuteSpmmOptions& options) : options_(options) {}
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    CuteSpmmOptions options = options_;
    options.gpu = limits_of_gpu();
    return std::make_unique<CuteMultiplication>(packed_as<Hrpb>(packed), n, options);
  }

 private:
  CuteSpmmOptions options_;
};

const Register<GpuSpmm> entry{{
    .name = "cutespmm",
    .summary = "device half of cutespmm",
    .make =
        [](const Params& params) { return std::make_unique<GpuCuteSpmm>(read_options(params)); },
}};

}  // namespace
}  // namespace tessera
