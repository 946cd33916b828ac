// mma.sync by resident warps and independent accumulators, for each shape.
//
// The interval is the time between MMAs of one sub-core, the shortest over all combinations; the
// latency is that of one warp per SM in which every MMA adds to the previous result. All SMs run
// the same code, a quarter of the warps on each sub-core.
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>

#include "kernels/tensor_core/mma.cuh"
#include "model/calibration/gpu_timing.hpp"
#include "model/calibration/microbenchmark.hpp"
#include "model/calibration/words.hpp"

namespace tessera {
namespace {

constexpr int kSubCores = 4;

__device__ std::uint32_t tf32_operand(std::uint32_t i) { return round_to_tf32(float_at(i)); }
__device__ std::uint32_t fp16_operand(std::uint32_t i) {
  const __half2 pair = __floats2half2_rn(float_at(2 * i), float_at(2 * i + 1));
  return reinterpret_cast<const std::uint32_t&>(pair);
}

template <int kDepth, int kA, int kB, auto kMultiplyTiles, auto kOperand>
struct MmaUnderTest {
  static constexpr int kK = kDepth;
  static constexpr int kRegistersA = kA, kRegistersB = kB;
  __device__ static void multiply(float (&d)[4], const std::uint32_t (&a)[kA],
                                  const std::uint32_t (&b)[kB]) {
    kMultiplyTiles(d, a, b);
  }
  __device__ static std::uint32_t operand(std::uint32_t i) { return kOperand(i); }
};
using Tf32K4 = MmaUnderTest<4, 2, 1, mma_m16n8k4_tf32, tf32_operand>;
using Tf32K8 = MmaUnderTest<8, 4, 2, mma_m16n8k8_tf32, tf32_operand>;
using Fp16K8 = MmaUnderTest<8, 2, 1, mma_m16n8k8_fp16, fp16_operand>;
using Fp16K16 = MmaUnderTest<16, 4, 2, mma_m16n8k16_fp16, fp16_operand>;

/// Every warp repeatedly adds the product of its tiles to each of its accumulators.
template <class Mma, int kAccumulators>
__global__ void __launch_bounds__(1024)
    multiply_repeatedly(int iterations, long long* cycles, float* results) {
  std::uint32_t a[Mma::kRegistersA], b[Mma::kRegistersB];
  for (int r = 0; r < Mma::kRegistersA; ++r) a[r] = Mma::operand(threadIdx.x * 8 + r);
  for (int r = 0; r < Mma::kRegistersB; ++r) b[r] = Mma::operand(threadIdx.x * 8 + 4 + r);
  float d[kAccumulators][4] = {};
  __syncthreads();
  const long long start = clock64();
#pragma unroll 4
  for (int i = 0; i < iterations; ++i)
#pragma unroll
    for (int own = 0; own < kAccumulators; ++own) Mma::multiply(d[own], a, b);
  __syncthreads();
  if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - start;
  float sum = 0;
  for (int own = 0; own < kAccumulators; ++own)
    for (int value = 0; value < 4; ++value) sum += d[own][value];
  results[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

template <class Mma, int kAccumulators>
class MmaRun {
 public:
  MmaRun(int warps, int iterations)
      : warps_(warps),
        iterations_(iterations),
        thread_blocks_(current_gpu().multiProcessorCount),
        cycles_(static_cast<std::size_t>(thread_blocks_)),
        results_(static_cast<std::size_t>(thread_blocks_ * warps * 32)) {}

  /// Cycles of a sub-core per MMA.
  Typical interval(int repeats) {
    std::vector<double> cycles =
        run_cycles(repeats, thread_blocks_, [&](long long* to) { launch(iterations_, to); });
    check();
    const int warps_of_sub_core = std::max(warps_ / kSubCores, 1);
    for (double& count : cycles)
      count /= static_cast<double>(iterations_) * kAccumulators * warps_of_sub_core;
    return typical(std::move(cycles));
  }

  /// The rate of all SMs in TFLOP/s, with the SM clock during the run.
  Finding rate(const std::string& quantity, int repeats) {
    const std::vector<double> times =
        run_times_us(repeats, [&] { launch(iterations_, cycles_.data()); });
    const std::vector<long long> cycles = cycles_.download();
    check();
    const double flops =
        2.0 * 16 * 8 * Mma::kK * iterations_ * kAccumulators * warps_ * thread_blocks_;
    const double mhz = typical({cycles.begin(), cycles.end()}).median / typical(times).median;
    return finding(
        quantity, times, [&](double us) { return 1e-6 * flops / us; },
        fmt::format("{} warps of an SM with {} independent accumulators, {:.0f} cycles in a "
                    "microsecond",
                    warps_, kAccumulators, mhz));
  }

 private:
  void launch(int iterations, long long* cycles) {
    multiply_repeatedly<Mma, kAccumulators>
        <<<thread_blocks_, warps_ * 32>>>(iterations, cycles, results_.data());
  }

  /// Requires that the sums have grown in proportion to the iterations.
  void check() {
    const std::vector<float> all = results_.download();
    launch(1, cycles_.data());
    const std::vector<float> once = results_.download();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double expected = static_cast<double>(once[i]) * iterations_;
      require(std::abs(all[i] - expected) <= 0.02 * iterations_ * kAccumulators,
              "{} MMAs gave {}, one gave {}", iterations_, all[i], once[i]);
    }
  }

  int warps_, iterations_, thread_blocks_;
  DeviceArray<long long> cycles_;
  DeviceArray<float> results_;
};

template <class Mma, int... kAccumulators>
void add_rows(double input_bits, const Effort& effort, Curve& curve) {
  for (const int warps : {4, 8, 12, 16, 24, 32})
    (curve.rows.push_back(
         {input_bits, double{Mma::kK}, double(warps), double{kAccumulators},
          MmaRun<Mma, kAccumulators>(warps, 512).interval(std::min(effort.repeats, 5)).median}),
     ...);
}

template <class Mma>
void measure_shape(const std::string& name, double input_bits, const Effort& effort,
                   Findings& findings) {
  Curve& curve = findings.curves.front();
  const std::size_t first = curve.rows.size();
  add_rows<Mma, 1, 2, 4, 8>(input_bits, effort, curve);
  std::vector<double> best = curve.rows[first];
  for (std::size_t row = first; row < curve.rows.size(); ++row)
    if (curve.rows[row].back() < best.back()) best = curve.rows[row];
  findings.numbers.push_back(
      {name + "_interval", best.back(),
       fmt::format("{} warps of an SM with {} independent accumulators", best[2], best[3])});
  findings.numbers.push_back(
      finding(name + "_latency", MmaRun<Mma, 1>(1, 512).interval(effort.repeats)));
}

Findings measure(const Effort& effort) {
  Findings findings;
  findings.curves = {
      {"mma", {"input_bits", "k", "warps_per_sm", "accumulators", "interval_cycles"}, {}}};
  measure_shape<Tf32K4>("tf32_m16n8k4", 32, effort, findings);
  measure_shape<Tf32K8>("tf32_m16n8k8", 32, effort, findings);
  measure_shape<Fp16K8>("fp16_m16n8k8", 16, effort, findings);
  measure_shape<Fp16K16>("fp16_m16n8k16", 16, effort, findings);
  const int iterations = effort.quick ? 256 : 4096;
  findings.numbers.push_back(MmaRun<Tf32K8, 8>(32, iterations).rate("tf32_mma", effort.repeats));
  findings.numbers.push_back(MmaRun<Fp16K16, 8>(32, iterations).rate("fp16_mma", effort.repeats));
  return findings;
}

const Register<Microbenchmark> entry{
    microbenchmark("tensor_cores", "mma.sync: interval, latency and rate of every shape", measure)};

}  // namespace
}  // namespace tessera
