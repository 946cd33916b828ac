// Reductions in global memory (red.add.f32, and four floats at once since compute capability 9.0),
// by the number of addresses that all SMs add to.
//
// Neighbouring threads add ones to neighbouring addresses, so that every address holds its number
// of additions, which FP32 holds exactly up to 2^24.

#include <cstdint>

#include "model/calibration/gpu_timing.hpp"
#include "model/calibration/microbenchmark.hpp"

namespace tessera {
namespace {

constexpr int kThreads = 256;
constexpr std::uint32_t kOperations = 1 << 23;  // per launch, at a single address
constexpr std::uint32_t kMany = 1 << 20;        // addresses that are "distinct"

struct Scalar {
  static constexpr int kFloats = 1;
  __device__ static void add(float* address) {
    asm volatile("red.global.add.f32 [%0], %1;" ::"l"(address), "f"(1.0f) : "memory");
  }
};
struct Vector {
  static constexpr int kFloats = 4;
  __device__ static void add(float* address) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("red.global.add.v4.f32 [%0], {%1, %1, %1, %1};" ::"l"(address), "f"(1.0f)
                 : "memory");
#else
    __trap();  // the host does not launch it
#endif
  }
};

/// Operation i adds to place i modulo the number of places, a power of two.
template <class Operation>
__global__ void __launch_bounds__(kThreads)
    reduce(float* sums, std::uint32_t places, std::uint32_t operations) {
  const std::uint32_t stride = gridDim.x * kThreads;
  for (std::uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < operations; i += stride)
    Operation::add(sums + std::size_t{i % places} * Operation::kFloats);
}

/// The rate of each run in 10^9 operations per second.
template <class Operation>
std::vector<double> rates(std::uint32_t places, int repeats) {
  const auto grid = static_cast<unsigned>(8 * current_gpu().multiProcessorCount);
  // With many addresses a launch needs more operations to be long enough.
  const std::uint32_t operations = places >= 1024 ? 8 * kOperations : kOperations;
  DeviceArray<float> sums(std::size_t{places} * Operation::kFloats);
  std::vector<double> rates = run_times_us(repeats, [&] {
    cuda_check(cudaMemsetAsync(sums.data(), 0, sums.size() * sizeof(float)), "clearing sums");
    reduce<Operation><<<grid, kThreads>>>(sums.data(), places, operations);
  });
  const std::vector<float> found = sums.download();
  for (const float sum : found)
    require(sum == static_cast<float>(operations / places), "{} ones were added up to {}",
            operations / places, sum);
  for (double& rate : rates) rate = 1e-3 * operations / rate;
  return rates;
}

Findings measure(const Effort& effort) {
  const bool has_vector = current_gpu().major >= 9;
  Findings findings;
  findings.numbers.push_back(finding("atomic_same", typical(rates<Scalar>(1, effort.repeats))));
  findings.numbers.push_back(
      finding("atomic_distinct", typical(rates<Scalar>(kMany, effort.repeats))));
  if (has_vector)
    findings.numbers.push_back(finding("atomic_vector", rates<Vector>(kMany / 4, effort.repeats),
                                       [](double rate) { return Vector::kFloats * rate; }));

  Curve curve{"atomics", {"floats", "scalar_gfloats", "vector_gfloats"}, {}};
  for (std::uint32_t floats = 4; floats <= (1u << 23); floats *= effort.quick ? 64 : 2) {
    curve.rows.push_back({double(floats), typical(rates<Scalar>(floats, 3)).median});
    if (has_vector)
      curve.rows.back().push_back(Vector::kFloats * typical(rates<Vector>(floats / 4, 3)).median);
  }
  if (!has_vector) curve.columns.pop_back();
  findings.curves.push_back(std::move(curve));
  return findings;
}

const Register<Microbenchmark> entry{
    microbenchmark("atomics", "red.add.f32, scalar and vector, by number of addresses", measure)};

}  // namespace
}  // namespace tessera
