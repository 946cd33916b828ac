// The issue rates and latencies of an SM: FP32 multiply-adds in a chain and at full rate, integer
// additions alternating with them, and barriers.
//
// The host does the same arithmetic, so that every result is compared bit for bit.

#include <cmath>
#include <functional>

#include "model/calibration/gpu_timing.hpp"
#include "model/calibration/microbenchmark.hpp"
#include "model/calibration/words.hpp"

namespace tessera {
namespace {

constexpr int kThreads = 1024, kWarps = kThreads / 32;
constexpr int kUnroll = 16;

/// The state of a thread; its integers are a Fibonacci sequence, which the compiler cannot
/// simplify.
struct State {
  float x;
  std::uint32_t last, before_last;
};
constexpr State state_at(std::uint32_t i) { return {float_at(i), word_at(i), word_at(i + 1)}; }

/// Shared by all chains of a thread: separate operands would make multiply-adds wait for registers.
constexpr float kFactor = 0.5f, kAddend = 0.3f;

__device__ void multiply_add(State& state, float factor, float addend) {
  asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(state.x) : "f"(factor), "f"(addend));
}
__device__ void add(State& state) {
  std::uint32_t sum;
  asm volatile("add.u32 %0, %1, %2;" : "=r"(sum) : "r"(state.last), "r"(state.before_last));
  state.before_last = state.last;
  state.last = sum;
}

/// Advances kChains independent states of a thread, kUnroll multiply-adds (and additions) of each.
template <int kChains, bool kWithIntegers>
__global__ void __launch_bounds__(kThreads)
    compute(int iterations, float factor, float addend, long long* cycles, float* floats,
            std::uint32_t* integers) {
  State states[kChains];
  for (int chain = 0; chain < kChains; ++chain)
    states[chain] = state_at(threadIdx.x * kChains + chain);
  __syncthreads();
  const long long start = clock64();
  for (int i = 0; i < iterations; ++i)
#pragma unroll
    for (int k = 0; k < kUnroll; ++k)
#pragma unroll
      for (int chain = 0; chain < kChains; ++chain) {
        multiply_add(states[chain], factor, addend);
        if (kWithIntegers) add(states[chain]);
      }
  __syncthreads();
  if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - start;
  float sum = 0;
  std::uint32_t bits = 0;
  for (int chain = 0; chain < kChains; ++chain) {
    sum += states[chain].x;
    bits ^= states[chain].last;
  }
  floats[blockIdx.x * blockDim.x + threadIdx.x] = sum;
  integers[blockIdx.x * blockDim.x + threadIdx.x] = bits;
}

__global__ void wait_repeatedly(int iterations, long long* cycles) {
  __syncthreads();
  const long long start = clock64();
#pragma unroll 8
  for (int i = 0; i < iterations; ++i) __syncthreads();
  if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - start;
}

template <int kChains, bool kWithIntegers>
class ComputeRun {
 public:
  ComputeRun(int threads, int iterations)
      : threads_(threads),
        iterations_(iterations),
        cycles_(static_cast<std::size_t>(thread_blocks_)),
        floats_(static_cast<std::size_t>(thread_blocks_ * threads)),
        integers_(static_cast<std::size_t>(thread_blocks_ * threads)) {}

  std::vector<double> cycles(int repeats) {
    std::vector<double> cycles =
        run_cycles(repeats, thread_blocks_, [&](long long* to) { launch(to); });
    check();
    return cycles;
  }
  std::vector<double> times_us(int repeats) {
    std::vector<double> times = run_times_us(repeats, [&] { launch(cycles_.data()); });
    check();
    return times;
  }
  int thread_blocks() const { return thread_blocks_; }

 private:
  void launch(long long* cycles) {
    compute<kChains, kWithIntegers><<<thread_blocks_, threads_>>>(
        iterations_, kFactor, kAddend, cycles, floats_.data(), integers_.data());
  }

  void check() const {
    const std::vector<float> floats = floats_.download();
    const std::vector<std::uint32_t> integers = integers_.download();
    float sum = 0;
    std::uint32_t bits = 0;
    for (std::uint32_t chain = 0; chain < kChains; ++chain) {
      State state = state_at(chain);
      for (int i = 0; i < iterations_ * kUnroll; ++i) {
        state.x = std::fma(state.x, kFactor, kAddend);
        if (kWithIntegers)
          state.before_last = std::exchange(state.last, state.last + state.before_last);
      }
      sum += state.x;
      bits ^= state.last;
    }
    require(floats[0] == sum && integers[0] == bits,
            "a thread computed {} and {:#x}, {} and {:#x} are right", floats[0], integers[0], sum,
            bits);
  }

  int thread_blocks_ = current_gpu().multiProcessorCount;
  int threads_, iterations_;
  DeviceArray<long long> cycles_;
  DeviceArray<float> floats_;
  DeviceArray<std::uint32_t> integers_;
};

Finding fp32_rate(const Effort& effort) {
  const int iterations = effort.quick ? 256 : 4096;
  ComputeRun<8, false> run(kThreads, iterations);
  const double flops = 2.0 * 8 * kUnroll * iterations * kThreads * run.thread_blocks();
  return finding(
      "fp32", run.times_us(effort.repeats), [&](double us) { return 1e-6 * flops / us; },
      "32 warps of an SM with 8 independent chains");
}

Findings measure(const Effort& effort) {
  constexpr int kIterations = 256, kBarriers = 1024;
  Findings findings;
  findings.numbers.push_back(finding(
      "fma_latency", ComputeRun<1, false>(32, kIterations).cycles(effort.repeats),
      [](double cycles) { return cycles / (kIterations * kUnroll); }, "one warp of an SM"));
  findings.numbers.push_back(finding(
      "issue_rate", ComputeRun<4, true>(kThreads, kIterations).cycles(effort.repeats),
      [](double cycles) { return 2.0 * 4 * kUnroll * kIterations * kWarps / cycles; },
      "32 warps of an SM with 4 independent chains of each"));
  findings.numbers.push_back(fp32_rate(effort));

  const int thread_blocks = current_gpu().multiProcessorCount;
  findings.numbers.push_back(finding(
      "barrier_latency",
      run_cycles(effort.repeats, thread_blocks,
                 [&](long long* to) { wait_repeatedly<<<thread_blocks, 128>>>(kBarriers, to); }),
      [](double cycles) { return cycles / kBarriers; }));
  return findings;
}

const Register<Microbenchmark> entry{microbenchmark(
    "pipelines", "FP32 multiply-adds, instruction issue, barriers of one SM", measure)};

}  // namespace
}  // namespace tessera
