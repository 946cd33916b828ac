// The cycles of an SM's load unit per load instruction of a warp: by width, by the lines that it
// touches in L1, by its conflicts in shared memory; and the rate of one SM alone from L2.
//
// 32 warps issue loads back to back, so the time per load is the time that it occupies the unit.
// The lanes that share a line read neighbouring words, and no two lanes of a load the same bank.

#include <numeric>
#include <string>

#include "model/calibration/accesses.cuh"
#include "model/calibration/gpu_timing.hpp"
#include "model/calibration/microbenchmark.hpp"
#include "model/calibration/words.hpp"

namespace tessera {
namespace {

constexpr int kThreads = 1024, kWarps = kThreads / 32;
constexpr double kWideBytes = 512;           // of a warp that loads 16 bytes a lane
constexpr int kUnroll = 8;                   // independent loads of a thread
constexpr int kSharedWords = 8192;           // of a thread block
constexpr int kSharedSpan = 1024;            // words from one load of a thread to the next
constexpr std::uint32_t kL2Words = 1 << 20;  // 4 MiB, far more than an L1

struct Narrow {
  __device__ static std::uint32_t global(const std::uint32_t* address) { return load_l1(address); }
  __device__ static std::uint32_t shared(std::uint32_t address) { return load_shared(address); }
};
struct Wide {
  __device__ static std::uint32_t global(const std::uint32_t* address) {
    return sum_of(load_l1_wide(address));
  }
  __device__ static std::uint32_t shared(std::uint32_t address) {
    return sum_of(load_shared_wide(address));
  }
};

/// The first word of a lane when a load of 32-bit words touches `lines` lines.
constexpr int word_of_lane(int lane, int lines) { return lane / (32 / lines) * 32 + lane; }

/// Lane l repeatedly reads kUnroll places from lane_words[l] on, kSpan words apart. `step` is 0,
/// which the compiler cannot know; otherwise it would move the loads out of the loop.
template <class Load, int kSpan>
__global__ void __launch_bounds__(kThreads)
    load_from_l1(const std::uint32_t* words, const int* lane_words, int iterations, int step,
                 long long* cycles, std::uint32_t* sums) {
  const std::uint32_t* address = words + lane_words[threadIdx.x % 32];
  std::uint32_t sum = 0;
  __syncthreads();
  const long long start = clock64();
  for (int i = 0; i < iterations; ++i, address += step)
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) sum += Load::global(address + k * kSpan);
  __syncthreads();
  if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - start;
  sums[blockIdx.x * kThreads + threadIdx.x] = sum;
}

template <class Load>
__global__ void __launch_bounds__(kThreads)
    load_from_shared(const std::uint32_t* words, const int* lane_words, int iterations, int step,
                     long long* cycles, std::uint32_t* sums) {
  __shared__ __align__(16) std::uint32_t copy[kSharedWords];
  for (int i = threadIdx.x; i < kSharedWords; i += kThreads) copy[i] = words[i];
  std::uint32_t address = shared_address(copy + lane_words[threadIdx.x % 32]);
  std::uint32_t sum = 0;
  __syncthreads();
  const long long start = clock64();
  for (int i = 0; i < iterations; ++i, address += step)
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) sum += Load::shared(address + k * kSharedSpan * 4);
  __syncthreads();
  if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - start;
  sums[blockIdx.x * kThreads + threadIdx.x] = sum;
}

/// One thread block reads kL2Words, a warp 512 bytes at a time.
__global__ void __launch_bounds__(kThreads, 1)
    load_from_l2(const std::uint32_t* words, int passes, long long* cycles, std::uint32_t* sums) {
  const std::uint32_t stride = 4 * blockDim.x;
  std::uint32_t sum = 0;
  __syncthreads();
  const long long start = clock64();
  for (int pass = 0; pass < passes; ++pass)
    for (std::uint32_t at = threadIdx.x * 4; at < kL2Words; at += kUnroll * stride) {
      uint4 quads[kUnroll];  // all on their way before the first is waited for
#pragma unroll
      for (std::uint32_t k = 0; k < kUnroll; ++k) quads[k] = load_l2_wide(words + at + k * stride);
#pragma unroll
      for (const uint4 quad : quads) sum += sum_of(quad);
    }
  __syncthreads();
  if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - start;
  sums[threadIdx.x] = sum;
}

/// Checks the sums of one of the two kernels above.
void check_sums(const std::vector<std::uint32_t>& sums, const std::vector<int>& lane_words,
                int width, int span, int iterations) {
  for (std::size_t thread = 0; thread < sums.size(); ++thread) {
    std::uint32_t once = 0;
    for (int k = 0; k < kUnroll; ++k)
      for (int w = 0; w < width; ++w)
        once += word_at(static_cast<std::uint32_t>(lane_words[thread % 32] + k * span + w));
    require(sums[thread] == once * static_cast<std::uint32_t>(iterations),
            "thread {} summed up {:#x}, {:#x} is right", thread, sums[thread],
            once * static_cast<std::uint32_t>(iterations));
  }
}

struct LoadRun {
  Effort effort;
  DeviceArray<std::uint32_t> words = random_words(kL2Words);
  int iterations = 256;
  int thread_blocks = current_gpu().multiProcessorCount;
  DeviceArray<std::uint32_t> sums =
      DeviceArray<std::uint32_t>(static_cast<std::size_t>(thread_blocks) * kThreads);

  /// The cycles per load of a warp, with all SMs active. [repeats]
  template <class Kernel>
  std::vector<double> intervals(Kernel kernel, const std::vector<int>& lane_words, int width,
                                int span) {
    const DeviceArray<int> lanes(lane_words);
    std::vector<double> cycles = run_cycles(effort.repeats, thread_blocks, [&](long long* to) {
      kernel<<<thread_blocks, kThreads>>>(words.data(), lanes.data(), iterations, 0, to,
                                          sums.data());
    });
    check_sums(sums.download(), lane_words, width, span, iterations);
    for (double& count : cycles) count /= static_cast<double>(iterations) * kUnroll * kWarps;
    return cycles;
  }

  template <int kLines>
  std::vector<double> touching() {
    std::vector<int> lane_words;
    for (int lane = 0; lane < 32; ++lane) lane_words.push_back(word_of_lane(lane, kLines));
    return intervals(load_from_l1<Narrow, kLines * 32>, lane_words, 1, kLines * 32);
  }
  std::vector<double> conflicting(int ways) {
    std::vector<int> lane_words;
    for (int lane = 0; lane < 32; ++lane) lane_words.push_back(lane * ways);
    return intervals(load_from_shared<Narrow>, lane_words, 1, kSharedSpan);
  }
};

std::vector<int> adjacent_quads() {
  std::vector<int> lane_words;
  for (int lane = 0; lane < 32; ++lane) lane_words.push_back(4 * lane);
  return lane_words;
}

void measure_l1(LoadRun& run, Findings& findings) {
  const std::vector<std::vector<double>> samples{run.touching<1>(),  run.touching<2>(),
                                                 run.touching<4>(),  run.touching<8>(),
                                                 run.touching<16>(), run.touching<32>()};
  std::vector<double> lines, cycles;
  Curve curve{"load_lines", {"lines", "cycles"}, {}};
  for (std::size_t i = 0; i < samples.size(); ++i) {
    lines.push_back(static_cast<double>(1 << i));
    cycles.push_back(typical(samples[i]).median);
    curve.rows.push_back({lines.back(), cycles.back()});
  }
  findings.curves.push_back(std::move(curve));
  findings.numbers.push_back(finding("load_interval", typical(samples[0])));
  findings.numbers.push_back(
      {"load_line_interval",
       fitted_slope({lines.end() - 3, lines.end()}, {cycles.end() - 3, cycles.end()}),
       "slope over loads of 8, 16 and 32 lines"});

  const std::vector<double> wide = run.intervals(load_from_l1<Wide, 128>, adjacent_quads(), 4, 128);
  findings.numbers.push_back(finding("load_wide_interval", typical(wide)));
  findings.numbers.push_back(finding(
      "l1_bandwidth", wide, [](double interval) { return kWideBytes / interval; },
      "16 bytes a lane"));
}

void measure_shared(LoadRun& run, Findings& findings) {
  Curve curve{"shared_conflicts", {"ways", "cycles"}, {}};
  for (int ways = 1; ways <= 32; ways *= 2)
    curve.rows.push_back({static_cast<double>(ways), typical(run.conflicting(ways)).median});
  findings.curves.push_back(std::move(curve));

  findings.numbers.push_back(finding(
      "shared_bandwidth", run.intervals(load_from_shared<Wide>, adjacent_quads(), 4, kSharedSpan),
      [](double interval) { return kWideBytes / interval; }, "16 bytes a lane"));
}

/// The bytes per cycle of each run on one SM alone.
std::vector<double> l2_rates(LoadRun& run, int warps) {
  constexpr int kPasses = 2;
  std::vector<double> rates = run_cycles(run.effort.repeats, 1, [&](long long* to) {
    load_from_l2<<<1, 32 * warps>>>(run.words.data(), kPasses, to, run.sums.data());
  });
  const std::vector<std::uint32_t> sums = run.sums.download();
  const auto sum = std::accumulate(sums.begin(), sums.begin() + 32 * warps, std::uint32_t{0});
  std::uint32_t expected = 0;
  for (std::uint32_t i = 0; i < kL2Words; ++i) expected += kPasses * word_at(i);
  require(sum == expected, "an SM summed up {:#x} from L2, {:#x} is right", sum, expected);
  for (double& rate : rates) rate = 4.0 * kPasses * kL2Words / rate;
  return rates;
}

void measure_l2(LoadRun& run, Findings& findings) {
  Curve curve{"l2_one_sm", {"warps", "bytes_per_cycle"}, {}};
  for (int warps = 1; warps <= kWarps; warps *= 2)
    curve.rows.push_back({static_cast<double>(warps), typical(l2_rates(run, warps)).median});
  findings.curves.push_back(std::move(curve));
  findings.numbers.push_back(finding("l2_sm_bandwidth", typical(l2_rates(run, kWarps)),
                                     "32 warps with 8 loads of 512 bytes each, from 4 MiB"));
}

Findings measure(const Effort& effort) {
  LoadRun run{effort};
  Findings findings;
  measure_l1(run, findings);
  measure_shared(run, findings);
  measure_l2(run, findings);
  return findings;
}

const Register<Microbenchmark> entry{microbenchmark(
    "loads", "cycles of a load by width, lines and conflicts; bandwidth of one SM", measure)};

}  // namespace
}  // namespace tessera
