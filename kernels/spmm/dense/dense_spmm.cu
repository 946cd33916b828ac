// Device half of dense_spmm: A as its MMAs read it, and the launches. The kernel is kernel.cuh.

#include "formats/base/registry.hpp"
#include "kernels/device/limits_of_gpu.hpp"
#include "kernels/device/overlapped_launch.cuh"
#include "kernels/gpu_spmm.hpp"
#include "kernels/packed_on_gpu.hpp"
#include "kernels/spmm/dense/dense_spmm.hpp"
#include "kernels/spmm/dense/kernel.cuh"
#include "kernels/spmm/dense/tensor_map.hpp"

namespace tessera {
namespace {

using namespace dense_spmm;

constexpr int kThreads = 256;
constexpr std::int64_t kMaxGridX = 0x7fffffff, kMaxGridY = 65535;  // CUDA's limits of a grid

/// Rounds A for the MMAs, in its place.
__global__ void round_values(const float* from, std::int64_t count, std::uint32_t* to) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * kThreads)
    to[i] = round_to_tf32_even(from[i]);
}

/// Rounds A to 16 bits: two tiles side by side, of eight columns each, become one step of 16, whose
/// core matrices have eight columns.
template <class Packed>
__global__ void round_values(const float* from, std::int64_t count, std::uint16_t* to) {
  constexpr int kStep = 16 * DenseTiles::kTileRows;  // values
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * kThreads) {
    const int in_step = static_cast<int>(i % kStep);
    const int row = in_step / 128 * 8 + in_step % 64 / 8,
              col = in_step % 128 / 64 * 8 + in_step % 8;
    to[i] = static_cast<std::uint16_t>(
        Packed::pair(from[i - in_step + DenseTiles::cell(row, col, 2)], 0.0f));
  }
}

class DenseMultiplication final : public GpuMultiplication {
 public:
  DenseMultiplication(const DeviceArray<float>& values, std::int64_t rows, std::int64_t cols,
                      std::int64_t n, const DenseSpmmOptions& options)
      : schedule_(options.schedule(rows, cols, n)),
        aligned_(kernel<true>(options.storage().b)),
        any_(kernel<false>(options.storage().b)),
        a_(values.size() * bytes_of(options.storage().b)),
        grid_x_(schedule_.row_tiles(rows) * schedule_.parts()),
        grid_y_(schedule_.column_tiles(n)),
        arguments_{.a = a_.data(),
                   .rows = static_cast<int>(rows),
                   .cols = static_cast<int>(cols),
                   .n = static_cast<int>(n),
                   .stages = static_cast<int>(schedule_.stages(cols)),
                   .parts_log2 = schedule_.parts_log2,
                   .b = nullptr,
                   .c = nullptr,
                   .c_in_16_bits = options.storage().c != ElementType::kFp32,
                   .scaling = {},
                   .places = nullptr} {
    require<Unsupported>(grid_x_ <= kMaxGridX && grid_y_ <= kMaxGridY,
                         "dense_spmm takes at most {} columns of B, not {}",
                         kMaxGridY * schedule_.columns(), n);
    round(values, options.storage().b);
    allow_shared_memory(schedule_.shared_bytes(), aligned_, any_);
    load_now(aligned_, any_);
  }

  std::vector<int> registers() const override { return {registers_of(aligned_)}; }
  bool place_rows(const std::int32_t* places) override {
    arguments_.places = places;
    return true;
  }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    if (grid_x_ == 0 || grid_y_ == 0) return;
    arguments_.b = operands.b, arguments_.c = operands.c, arguments_.scaling = operands.scaling;
    const bool aligned = arguments_.cols > 0 &&
                         aligned_to_16_bytes(arguments_.n, operands,
                                             static_cast<std::size_t>(schedule_.element_bytes));
    if (aligned && operands.b != mapped_) {
      map_ = tensor_map(operands.b, arguments_.cols, arguments_.n, schedule_);
      mapped_ = operands.b;
    }
    cudaLaunchAttribute attributes[2] = {overlapping()};
    attributes[1].id = cudaLaunchAttributeClusterDimension;
    attributes[1].val.clusterDim = {static_cast<unsigned>(schedule_.parts()), 1, 1};
    cudaLaunchConfig_t config{
        .gridDim = {static_cast<unsigned>(grid_x_), static_cast<unsigned>(grid_y_)},
        .blockDim = static_cast<unsigned>(schedule_.threads()),
        .dynamicSmemBytes = static_cast<std::size_t>(schedule_.shared_bytes()),
        .stream = stream,
        .attrs = attributes,
        .numAttrs = 2};
    cuda_check(cudaLaunchKernelEx(&config, aligned ? aligned_ : any_, arguments_, map_),
               "launching dense_spmm");
  }

 private:
  using Kernel = void (*)(Arguments, CUtensorMap);

  template <bool kAligned>
  Kernel kernel(ElementType b) const {
    if (b == ElementType::kFp16) return of_groups<HalfNumbers<PackedFp16>, kAligned>();
    if (b == ElementType::kBf16) return of_groups<HalfNumbers<PackedBf16>, kAligned>();
    return of_groups<Fp32Numbers, kAligned>();
  }
  template <class Numbers, bool kAligned>
  Kernel of_groups() const {
    return schedule_.groups == 1 ? multiply<Numbers, 1, kAligned> : multiply<Numbers, 2, kAligned>;
  }

  void round(const DeviceArray<float>& values, ElementType type) {
    const auto count = static_cast<std::int64_t>(values.size());
    if (count == 0) return;
    const auto blocks = static_cast<unsigned>(
        std::min<std::int64_t>((count + kThreads - 1) / kThreads, std::int64_t{1} << 16));
    auto* const halves = reinterpret_cast<std::uint16_t*>(a_.data());
    if (type == ElementType::kFp32)
      round_values<<<blocks, kThreads>>>(values.data(), count,
                                         reinterpret_cast<std::uint32_t*>(a_.data()));
    else if (type == ElementType::kFp16)
      round_values<PackedFp16><<<blocks, kThreads>>>(values.data(), count, halves);
    else
      round_values<PackedBf16><<<blocks, kThreads>>>(values.data(), count, halves);
    cuda_check(cudaGetLastError(), "rounding A");
    cuda_check(cudaDeviceSynchronize(), "rounding A");
  }

  Schedule schedule_;
  Kernel aligned_, any_;
  DeviceArray<unsigned char> a_;
  std::int64_t grid_x_, grid_y_;
  Arguments arguments_;
  CUtensorMap map_ = {};
  const void* mapped_ = nullptr;  // the B of that map
};

class GpuDenseSpmm final : public GpuSpmm {
 public:
  explicit GpuDenseSpmm(const DenseSpmmOptions& options) : options_(options) {}

  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    const auto& a = packed_as<DenseTiles>(packed);
    require_wgmma("dense_spmm");
    return std::make_unique<DenseMultiplication>(DeviceArray<float>(a.values), a.rows(), a.cols(),
                                                 n, options_);
  }
  std::unique_ptr<GpuMultiplication> adopt(const PackedOnGpu& a, std::int64_t n) const override {
    require_wgmma("dense_spmm");
    return std::make_unique<DenseMultiplication>(a.copy<float>("values"), a.rows, a.cols, n,
                                                 options_);
  }

 private:
  DenseSpmmOptions options_;
};

const Register<GpuSpmm> entry{{
    .name = "dense_spmm",
    .summary = "device half of dense_spmm",
    .make =
        [](const Params& params) {
          return std::make_unique<GpuDenseSpmm>(DenseSpmmOptions(params));
        },
}};

}  // namespace
}  // namespace tessera
