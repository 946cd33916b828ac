// cp.async of 16 bytes per lane, bypassing L1, from rows of 512 bytes in L2: the cycles of an SM's
// load unit per copy, and the rate of all SMs by resident warps and stages in flight.
//
// Every warp has its own ring of stages in shared memory. It reads each stage before refilling it,
// as the kernels do, except where the copy itself is timed, since reading occupies the unit as
// well.

#include <algorithm>

#include "model/calibration/accesses.cuh"
#include "model/calibration/gpu_timing.hpp"
#include "model/calibration/microbenchmark.hpp"
#include "model/calibration/words.hpp"

namespace tessera {
namespace {

constexpr int kRowWords = 128;
constexpr int kRowBits = 15;      // 16 MiB, at most about the capacity of every L2 in use
constexpr int kNearRowBits = 10;  // 512 KiB: more than L1, and near every SM

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

/// The row of a draw, out of 2^row_bits.
constexpr std::uint32_t row_of_draw(std::uint32_t draw, int row_bits) {
  return draw >> (32 - row_bits);
}

/// Each warp copies `copies` + kStages rows through its ring. It sums the first `copies` of them,
/// or only the last kStages when it does not read in the loop.
template <int kStages, bool kReads>
__global__ void copy_rows(const std::uint32_t* words, int row_bits, int copies, long long* cycles,
                          std::uint32_t* sums) {
  extern __shared__ __align__(16) std::uint32_t stages[];  // [warps][kStages][kRowWords]
  const std::uint32_t own_warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const std::uint32_t warp = blockIdx.x * (blockDim.x / 32) + own_warp;
  const std::uint32_t ring = shared_address(stages + own_warp * kStages * kRowWords + lane * 4);
  std::uint32_t draw = mix_word(warp);
  const auto stage_of = [&](int copy) {
    return ring + static_cast<std::uint32_t>(copy % kStages) * kRowWords * 4;
  };
  const auto fetch = [&](int copy) {
    copy_async(stage_of(copy), words + row_of_draw(draw, row_bits) * kRowWords + lane * 4);
    draw = next_draw(draw);
  };
  std::uint32_t sum = 0;
  __syncthreads();
  const long long start = clock64();
  for (int copy = 0; copy < kStages; ++copy) fetch(copy);
#pragma unroll kStages
  for (int copy = 0; copy < copies; ++copy) {
    wait_for_all_but<kStages - 1>();
    if (kReads) sum += sum_of(load_shared_wide(stage_of(copy)));
    fetch(copy + kStages);
  }
  wait_for_all_but<0>();
  __syncthreads();
  if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - start;
  if (!kReads)
    for (int stage = 0; stage < kStages; ++stage) sum += sum_of(load_shared_wide(stage_of(stage)));
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

template <int kStages, bool kReads>
class CopyRun {
 public:
  CopyRun(const DeviceArray<std::uint32_t>& words, int row_bits, int thread_blocks, int warps,
          int copies)
      : words_(words),
        row_bits_(row_bits),
        thread_blocks_(thread_blocks),
        warps_(warps),
        copies_(copies),
        shared_bytes_(static_cast<std::size_t>(warps) * kStages * kRowWords * 4),
        cycles_(static_cast<std::size_t>(thread_blocks)),
        sums_(static_cast<std::size_t>(thread_blocks * warps * 32)) {
    allow_shared_bytes(reinterpret_cast<const void*>(copy_rows<kStages, kReads>), shared_bytes_);
  }

  /// Cycles of the SM per copy of a warp. [repeats]
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
    copy_rows<kStages, kReads><<<thread_blocks_, warps_ * 32, shared_bytes_>>>(
        words_.data(), row_bits_, copies_, cycles, sums_.data());
  }
  void check() const {
    std::uint32_t expected = 0, draw = mix_word(0);
    for (int copy = 0; copy < copies_ + kStages; ++copy, draw = next_draw(draw)) {
      if ((copy < copies_) != kReads) continue;
      for (std::uint32_t word = 0; word < 4; ++word)
        expected += word_at(row_of_draw(draw, row_bits_) * kRowWords + word);
    }
    require(sums_.download()[0] == expected, "rows were not copied to shared memory right");
  }

  const DeviceArray<std::uint32_t>& words_;
  int row_bits_, thread_blocks_, warps_, copies_;
  std::size_t shared_bytes_;
  DeviceArray<long long> cycles_;
  DeviceArray<std::uint32_t> sums_;
};

/// The curve of all SMs, with thread blocks of four warps.
template <int... kStages>
void add_rates(const DeviceArray<std::uint32_t>& words, int warps_per_sm, const Effort& effort,
               Curve& curve) {
  const int sms = current_gpu().multiProcessorCount;
  (curve.rows.push_back(
       {double(warps_per_sm), double{kStages},
        CopyRun<kStages, true>(words, kRowBits, sms * warps_per_sm / 4, 4, effort.quick ? 64 : 2048)
            .rate(std::min(effort.repeats, 5))}),
   ...);
}

/// The shortest interval of one SM alone.
template <int... kStages>
void add_intervals(const DeviceArray<std::uint32_t>& words, int warps, const Effort& effort,
                   Curve& curve) {
  (curve.rows.push_back({double(warps), double{kStages},
                         typical(CopyRun<kStages, false>(words, kNearRowBits, 1, warps, 1024)
                                     .intervals(std::min(effort.repeats, 5)))
                             .median}),
   ...);
}

Findings measure(const Effort& effort) {
  require<Unsupported>(current_gpu().major >= 8, "{} has no cp.async", current_gpu().name);
  const DeviceArray<std::uint32_t> words = random_words((std::size_t{1} << kRowBits) * kRowWords);
  Curve rates{"async_copies", {"warps_per_sm", "stages", "gbps"}, {}};
  for (const int warps : {4, 8, 16, 32}) add_rates<1, 2, 3, 4, 6, 8>(words, warps, effort, rates);
  Curve intervals{"async_copies_one_sm", {"warps", "stages", "cycles"}, {}};
  for (const int warps : {4, 8, 16, 24, 32})
    add_intervals<1, 2, 4, 6>(words, warps, effort, intervals);

  const std::vector<double> best =
      *std::ranges::min_element(intervals.rows, {}, [](const auto& row) { return row[2]; });
  return {{{"async_copy_interval", best[2],
            fmt::format("one SM alone, {} warps with {} stages each", best[0], best[1])}},
          {std::move(rates), std::move(intervals)}};
}

const Register<Microbenchmark> entry{
    microbenchmark("async_copies", "cp.async from L2 by resident warps and stages", measure)};

}  // namespace
}  // namespace tessera
