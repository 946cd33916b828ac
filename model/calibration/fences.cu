// Fences of the whole GPU, and atomics whose results are waited for: what parts of a row that meet
// execute (CUDA C++ Programming Guide, "Memory Fence Functions").
//
// Every warp of two thread blocks an SM fences again and again, with nothing to wait for; then each
// adds to a word of its own after each fence, and tells the result to its lanes. The difference is
// the atomic's. A fence that has something to wait for takes that time more.

#include <cstdint>

#include "model/calibration/gpu_timing.hpp"
#include "model/calibration/microbenchmark.hpp"

namespace tessera {
namespace {

constexpr int kThreads = 256, kBlocksPerSm = 2, kFences = 128;
constexpr int kWordsApart = 8;  // a sector

template <bool kAdds>
__global__ void __launch_bounds__(kThreads) fence(std::uint32_t* words, long long* cycles) {
  std::uint32_t* mine =
      words + (blockIdx.x * (kThreads / 32) + threadIdx.x / 32) * std::size_t{kWordsApart};
  std::uint32_t number = 0;
  const long long start = clock64();
  for (int i = 0; i < kFences; ++i) {
    __threadfence();
    if constexpr (kAdds) {
      if (threadIdx.x % 32 == 0) number = atomicAdd(mine, 1u + (number >> 31));
      number = __shfl_sync(~0u, number, 0);
    }
    __syncwarp();
  }
  if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - start;
  if (!kAdds || number + 1 != kFences) return;
  if (threadIdx.x % 32 == 1) mine[1] = 1;  // the last result was right
}

template <bool kAdds>
Typical cycles_of(const Effort& effort) {
  const int thread_blocks = kBlocksPerSm * current_gpu().multiProcessorCount;
  DeviceArray<std::uint32_t> words(std::size_t{kWordsApart} * thread_blocks * (kThreads / 32));
  std::vector<double> cycles = run_cycles(effort.repeats, thread_blocks, [&](long long* to) {
    cuda_check(cudaMemsetAsync(words.data(), 0, words.size() * sizeof(std::uint32_t)),
               "clearing words");
    fence<kAdds><<<thread_blocks, kThreads>>>(words.data(), to);
  });
  const std::vector<std::uint32_t> found = words.download();
  for (std::size_t i = 0; kAdds && i < found.size(); i += kWordsApart)
    require(found[i] == kFences && found[i + 1] == 1, "{} ones were added up to {}", kFences,
            found[i]);
  for (double& count : cycles) count /= kFences;
  return typical(std::move(cycles));
}

Findings measure(const Effort& effort) {
  const Typical alone = cycles_of<false>(effort);
  Typical exchanges = cycles_of<true>(effort);
  exchanges.median -= alone.median;
  return {{finding("fence_latency", alone, "8 warps of each of two thread blocks an SM"),
           finding("exchange_latency", exchanges, "with a fence before each, less the fence")},
          {}};
}

const Register<Microbenchmark> entry{microbenchmark(
    "fences", "fences of the GPU and atomics whose results are waited for", measure)};

}  // namespace
}  // namespace tessera
