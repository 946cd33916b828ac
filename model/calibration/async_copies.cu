// cp.async of 16 bytes a lane, past L1, from rows of 512 bytes that are in L2: what an SM's load
// unit takes for one, and what all SMs get by resident warps and by stages in flight.
//
// Every warp has a ring of stages of its own in shared memory and reads each before it is filled
// again, as the kernels do.

#include <algorithm>

#include "model/calibration/accesses.cuh"
#include "model/calibration/gpu_timing.hpp"
#include "model/calibration/microbenchmark.hpp"
#include "model/calibration/words.hpp"

namespace tessera {
namespace {

constexpr int kRowWords = 128;
constexpr std::uint32_t kRows = 1 << 15;  // 16 MiB, which every L2 at hand holds or nearly
constexpr int kIntervalRows = 1 << 10;    // 512 KiB: more than L1, and near every SM

__device__ void copy_async(std::uint32_t to, const std::uint32_t* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\ncp.async.commit_group;" ::"r"(to),
               "l"(from)
               : "memory");
#else
  __trap();  // the host does not launch it
#endif
}
template <int kGroups>
__device__ void wait_for_all_but() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
#endif
}

/// The row of the copy'th copy of a warp: rows in a random order.
constexpr std::uint32_t row_of_copy(std::uint32_t warp, std::uint32_t copy, std::uint32_t rows) {
  return mix_word(warp * 0x10001u + copy) % rows;
}

/// Each warp copies `copies` rows through its ring of kStages and sums up what it got.
template <int kStages>
__global__ void copy_rows(const std::uint32_t* words, std::uint32_t rows, int copies,
                          long long* cycles, std::uint32_t* sums) {
  extern __shared__ __align__(16) std::uint32_t stages[];  // [warps][kStages][kRowWords]
  const std::uint32_t own_warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const std::uint32_t warp = blockIdx.x * (blockDim.x / 32) + own_warp;
  const std::uint32_t ring = shared_address(stages + own_warp * kStages * kRowWords + lane * 4);
  const auto fetch = [&](int copy) {
    const std::uint32_t row = row_of_copy(warp, static_cast<std::uint32_t>(copy), rows);
    copy_async(ring + static_cast<std::uint32_t>(copy % kStages) * kRowWords * 4,
               words + row * kRowWords + lane * 4);
  };
  std::uint32_t sum = 0;
  __syncthreads();
  const long long start = clock64();
  for (int copy = 0; copy < kStages; ++copy) fetch(copy);
  for (int copy = 0; copy < copies; ++copy) {
    wait_for_all_but<kStages - 1>();
    sum +=
        sum_of(load_shared_wide(ring + static_cast<std::uint32_t>(copy % kStages) * kRowWords * 4));
    fetch(copy + kStages);
  }
  wait_for_all_but<0>();
  __syncthreads();
  if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - start;
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

template <int kStages>
class CopyRun {
 public:
  CopyRun(const DeviceArray<std::uint32_t>& words, std::uint32_t rows, int thread_blocks, int warps,
          int copies)
      : words_(words),
        rows_(rows),
        thread_blocks_(thread_blocks),
        warps_(warps),
        copies_(copies),
        shared_bytes_(static_cast<std::size_t>(warps) * kStages * kRowWords * 4),
        cycles_(static_cast<std::size_t>(thread_blocks)),
        sums_(static_cast<std::size_t>(thread_blocks * warps * 32)) {
    allow_shared_bytes(reinterpret_cast<const void*>(copy_rows<kStages>), shared_bytes_);
  }

  /// Cycles of the SM for each copy of a warp.
  std::vector<double> intervals(int repeats) {
    std::vector<double> cycles =
        run_cycles(repeats, thread_blocks_, [&](long long* to) { launch(to); });
    check();
    for (double& count : cycles) count /= static_cast<double>(copies_ + kStages) * warps_;
    return cycles;
  }
  /// GB/s of all SMs.
  double rate(int repeats) {
    const double us = typical(run_times_us(repeats, [&] { launch(cycles_.data()); })).median;
    check();
    return 1e-3 * (copies_ + kStages) * 512.0 * warps_ * thread_blocks_ / us;
  }

 private:
  void launch(long long* cycles) {
    copy_rows<kStages><<<thread_blocks_, warps_ * 32, shared_bytes_>>>(
        words_.data(), rows_, copies_, cycles, sums_.data());
  }
  void check() const {
    std::uint32_t expected = 0;
    for (int copy = 0; copy < copies_; ++copy)
      for (std::uint32_t word = 0; word < 4; ++word)
        expected +=
            word_at(row_of_copy(0, static_cast<std::uint32_t>(copy), rows_) * kRowWords + word);
    require(sums_.download()[0] == expected, "rows were not copied to shared memory right");
  }

  const DeviceArray<std::uint32_t>& words_;
  std::uint32_t rows_;
  int thread_blocks_, warps_, copies_;
  std::size_t shared_bytes_;
  DeviceArray<long long> cycles_;
  DeviceArray<std::uint32_t> sums_;
};

template <int... kStages>
void add_rows(const DeviceArray<std::uint32_t>& words, int warps_per_sm, const Effort& effort,
              Curve& curve) {
  const int sms = current_gpu().multiProcessorCount;
  (curve.rows.push_back(
       {double(warps_per_sm), double{kStages},
        CopyRun<kStages>(words, kRows, sms * warps_per_sm / 4, 4, effort.quick ? 64 : 2048)
            .rate(std::min(effort.repeats, 5))}),
   ...);
}

Findings measure(const Effort& effort) {
  require<Unsupported>(current_gpu().major >= 8, "{} has no cp.async", current_gpu().name);
  const DeviceArray<std::uint32_t> words = random_words(std::size_t{kRows} * kRowWords);
  Findings findings;
  findings.numbers.push_back(
      finding("async_copy_interval",
              typical(CopyRun<8>(words, kIntervalRows, 1, 16, 1024).intervals(effort.repeats)),
              "one SM alone, 16 warps with 8 stages each"));
  Curve curve{"async_copies", {"warps_per_sm", "stages", "gbps"}, {}};
  for (const int warps : {4, 8, 16, 32}) add_rows<1, 2, 3, 4, 6, 8>(words, warps, effort, curve);
  findings.curves.push_back(std::move(curve));
  return findings;
}

const Register<Microbenchmark> entry{
    microbenchmark("async_copies", "cp.async from L2 by resident warps and stages", measure)};

}  // namespace
}  // namespace tessera
