// Load latency by footprint: one thread follows a chain of pointers through lines in random order
// (Saavedra-Barrera 1992; the single loads timed as in Wong et al. 2010, by storing each result to
// shared memory before the clock is read again).
//
// Up to 1.5 times the L2 the chain runs through every line of the footprint and is followed once
// before timing, in the same kernel, since a new kernel finds an empty L1. For larger footprints it
// has only the lines that are read, and the L2 is flushed before, so that every line comes from
// DRAM. The mean is that of an uninterrupted walk; the quantiles are those of single loads, less
// the cost of timing, which hits in L1 show.

#include <algorithm>

#include "formats/base/random.hpp"
#include "model/calibration/accesses.cuh"
#include "model/calibration/gpu_timing.hpp"
#include "model/calibration/microbenchmark.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kLineBytes = 128;
constexpr int kTimed = 4096;           // single loads timed
constexpr int kWalked = 1 << 16;       // loads of an uninterrupted walk, at most
constexpr double kFarOverNear = 1.15;  // L2 hits that are slower than this come from a far part

__device__ const void* follow(const void* pointer) {
  const void* next;
  asm volatile("ld.global.ca.u64 %0, [%1];" : "=l"(next) : "l"(pointer) : "memory");
  return next;
}

/// Line order[i] points to line order[i + 1], the last to the first.
__global__ void link(char* lines, const std::int64_t* order, std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const std::int64_t next = order[i + 1 == count ? 0 : i + 1];
  *reinterpret_cast<const void**>(lines + order[i] * kLineBytes) = lines + next * kLineBytes;
}

struct Walk {
  const void* end;
  long long cycles;
};

/// Follows `untimed` pointers, then `steps` more.
__global__ void walk(const void* start, std::int64_t untimed, std::int64_t steps, Walk* found) {
  const void* at = start;
#pragma unroll 8
  for (std::int64_t i = 0; i < untimed; ++i) at = follow(at);
  if (at == nullptr) return;  // never true; forces a wait for the last load
  const long long began = clock64();
#pragma unroll 8
  for (std::int64_t i = 0; i < steps; ++i) at = follow(at);
  found->end = at;  // waits for the last load
  asm volatile("" ::: "memory");
  found->cycles = clock64() - began;
}

__global__ void time_single_loads(const void* start, std::int64_t untimed, std::uint16_t* cycles,
                                  const void** end) {
  __shared__ std::uint32_t taken[kTimed], reached[kTimed];
  const void* at = start;
  for (std::int64_t i = 0; i < untimed; ++i) at = follow(at);
  for (int i = 0; i < kTimed; ++i) {
    const std::uint32_t before = static_cast<std::uint32_t>(clock64());
    at = follow(at);
    // A volatile store: it has to wait for the load, and the clock is read after it.
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(shared_address(&reached[i])),
                 "r"(static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(at)))
                 : "memory");
    taken[i] = static_cast<std::uint32_t>(clock64()) - before;
  }
  for (int i = 0; i < kTimed; ++i)
    cycles[i] = static_cast<std::uint16_t>(taken[i] < 0xffff ? taken[i] : 0xffff);
  *end = at;
}

__global__ void walk_shared(int steps, std::uint32_t stride, Walk* found) {
  __shared__ std::uint32_t places[1024];
  for (std::uint32_t i = 0; i < 1024; ++i) places[i] = shared_address(&places[(i + stride) % 1024]);
  std::uint32_t at = shared_address(&places[0]);
  const long long began = clock64();
#pragma unroll 8
  for (int i = 0; i < steps; ++i) asm volatile("ld.shared.u32 %0, [%0];" : "+r"(at) : : "memory");
  found->end = reinterpret_cast<const void*>(std::uintptr_t{at - shared_address(&places[0])});
  asm volatile("" ::: "memory");
  found->cycles = clock64() - began;
}

/// Follows `untimed` pointers, then `steps` more, each by a copy to shared memory that is waited
/// for and read there.
__global__ void walk_by_copies(const void* start, std::int64_t untimed, std::int64_t steps,
                               Walk* found) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  __shared__ __align__(16) std::uint64_t copied[2];
  const std::uint32_t place = shared_address(copied);
  const void* at = start;
  for (std::int64_t i = 0; i < untimed; ++i) at = follow(at);
  if (at == nullptr) return;  // never true; forces a wait for the last load
  const long long began = clock64();
  for (std::int64_t i = 0; i < steps; ++i)
    asm volatile(
        "cp.async.cg.shared.global [%1], [%0], 16;\n"
        "cp.async.commit_group;\n"
        "cp.async.wait_group 0;\n"
        "ld.shared.u64 %0, [%1];"
        : "+l"(at)
        : "r"(place)
        : "memory");
  found->end = at;
  asm volatile("" ::: "memory");
  found->cycles = clock64() - began;
#else
  __trap();  // the host does not launch it
#endif
}

/// `count` different lines out of `lines`, in random order.
std::vector<std::int64_t> random_lines(std::int64_t lines, std::int64_t count, std::uint64_t seed) {
  RandomSequence random(seed);
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  // One line out of each of `count` equal stretches, so that none comes twice.
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t from = lines * i / count, to = lines * (i + 1) / count;
    order[static_cast<std::size_t>(i)] =
        from + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(to - from)));
  }
  random.shuffle(order);
  return order;
}

struct Latency {
  double footprint = 0;               // bytes
  double mean = 0;                    // cycles, of a walk
  std::vector<double> single_cycles;  // [kTimed] ascending, with what timing them costs
  double quantile(double share) const {
    return single_cycles[static_cast<std::size_t>(share * (kTimed - 1))];
  }
};

class Chain {
 public:
  Chain(std::int64_t footprint, bool from_dram)
      : lines_(static_cast<std::size_t>(footprint)),
        order_(random_lines(footprint / kLineBytes,
                            from_dram ? kWalked + kTimed : footprint / kLineBytes, 7)),
        from_dram_(from_dram) {
    const DeviceArray<std::int64_t> order(order_);
    link<<<static_cast<unsigned>(order_.size() / 256 + 1), 256>>>(
        lines_.data(), order.data(), static_cast<std::int64_t>(order_.size()));
    cuda_check(cudaGetLastError(), "linking a chain");
  }

  Latency measure() {
    const auto lines = static_cast<std::int64_t>(order_.size());
    const std::int64_t untimed = from_dram_ ? 0 : lines;
    const std::int64_t steps = from_dram_ ? kWalked : std::min<std::int64_t>(kWalked, 4 * lines);
    if (from_dram_) flush_l2();
    Latency latency;
    latency.footprint = static_cast<double>(lines_.size());
    latency.mean = mean_of_walk(untimed, steps);
    latency.single_cycles = single_loads(untimed + steps, std::min<std::int64_t>(untimed, kTimed));
    return latency;
  }

  /// Cycles of a step by a copy to shared memory; for a chain in the L2.
  double mean_of_copies() {
    const auto lines = static_cast<std::int64_t>(order_.size());
    walk_by_copies<<<1, 1>>>(place(0), lines, kWalked, walk_.data());
    cuda_check(cudaGetLastError(), "following a chain of pointers by copies");
    return mean_of_steps(lines, kWalked);
  }

 private:
  const void* place(std::int64_t step) const {
    return lines_.data() + order_[static_cast<std::size_t>(step) % order_.size()] * kLineBytes;
  }
  double mean_of_walk(std::int64_t untimed, std::int64_t steps) {
    walk<<<1, 1>>>(place(0), untimed, steps, walk_.data());
    cuda_check(cudaGetLastError(), "following a chain of pointers");
    return mean_of_steps(untimed, steps);
  }
  double mean_of_steps(std::int64_t untimed, std::int64_t steps) const {
    const Walk found = walk_.download()[0];
    require(found.end == place(untimed + steps), "a chain of pointers led elsewhere");
    return static_cast<double>(found.cycles) / static_cast<double>(steps);
  }
  std::vector<double> single_loads(std::int64_t from, std::int64_t untimed) {
    DeviceArray<std::uint16_t> cycles(kTimed);
    // Else the runtime makes room for many thread blocks with that much shared memory.
    cuda_check(
        cudaFuncSetAttribute(time_single_loads, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxL1),
        "requesting a large L1");
    time_single_loads<<<1, 1>>>(place(from), untimed, cycles.data(), end_.data());
    cuda_check(cudaGetLastError(), "timing single loads");
    require(end_.download()[0] == place(from + untimed + kTimed),
            "a chain of pointers led elsewhere");
    const std::vector<std::uint16_t> found = cycles.download();
    std::vector<double> sorted(found.begin(), found.end());
    std::ranges::sort(sorted);
    return sorted;
  }

  DeviceArray<char> lines_;
  std::vector<std::int64_t> order_;
  bool from_dram_;
  DeviceArray<Walk> walk_{1};
  DeviceArray<const void*> end_{1};
};

/// The run with the median mean; the placement of lines in near and far parts is the same in all.
Latency latency_of(std::int64_t footprint, const Effort& effort) {
  Chain chain(footprint, footprint > 3 * std::int64_t{current_gpu().l2CacheSize} / 2);
  std::vector<Latency> runs;
  for (int run = 0; run < std::min(effort.repeats, 5); ++run) runs.push_back(chain.measure());
  std::ranges::sort(runs, {}, &Latency::mean);
  return runs[runs.size() / 2];
}

double shared_latency() {
  constexpr int kSteps = 4099, kStride = 37;
  DeviceArray<Walk> found(1);
  walk_shared<<<1, 1>>>(kSteps, kStride, found.data());
  cuda_check(cudaGetLastError(), "following a chain through shared memory");
  const Walk walk = found.download()[0];
  require(reinterpret_cast<std::uintptr_t>(walk.end) == 4ull * (kSteps * kStride % 1024),
          "a chain through shared memory led elsewhere");
  return static_cast<double>(walk.cycles) / kSteps;
}

/// Footprints of the curve: a third of an octave apart up to twice the L2, then octaves.
std::vector<std::int64_t> footprints(bool quick) {
  const auto l2 = static_cast<double>(current_gpu().l2CacheSize);
  std::vector<std::int64_t> sizes;
  for (double size = 1 << 15; size < 2e9; size *= size < 2 * l2 && !quick ? 1.2599 : 2)
    sizes.push_back(static_cast<std::int64_t>(size) / kLineBytes * kLineBytes);
  return sizes;
}

/// The far latency, or 0 when all loads are near. In 7/10 of the L2, more than one half of it,
/// lines of the far half are hits there, and some of the near half may be lost to copies of them:
/// the first quartile of what is slower than near hits is a far hit.
double far_latency(const Latency& most_of_l2, double timing, double near) {
  std::vector<double> slower;
  for (const double cycles : most_of_l2.single_cycles)
    if (cycles - timing > kFarOverNear * near) slower.push_back(cycles - timing);
  return slower.size() < kTimed / 5 ? 0 : slower[slower.size() / 4];
}

Findings measure(const Effort& effort) {
  const std::int64_t l2 = current_gpu().l2CacheSize;
  const Latency in_l1 = latency_of(1 << 15, effort), near = latency_of(l2 / 16, effort),
                most_of_l2 = latency_of(l2 / 10 * 7 / kLineBytes * kLineBytes, effort),
                dram = latency_of(4 * l2, effort);
  const double timing = in_l1.quantile(0.5) - in_l1.mean, shared = shared_latency();
  const double far = far_latency(most_of_l2, timing, near.mean);

  Findings findings;
  findings.numbers = {
      {"l1_latency", in_l1.mean, "mean of a walk through 32 KiB"},
      {"l2_latency", near.mean, "mean of a walk through a sixteenth of the L2"},
      {"dram_latency", dram.mean, "mean of a walk through four times the L2, flushed"},
      {"shared_latency", shared, "mean of a walk through 4 KiB"},
      {"l2_partitions", far > 0 ? 2.0 : 1.0, "latencies of single loads from 7/10 of the L2"}};
  if (far > 0)
    findings.numbers.push_back(
        {"l2_far_latency", far, "first quartile of what is slower than near, in 7/10 of the L2"});

  if (current_gpu().major >= 8)
    findings.numbers.push_back({"async_copy_latency",
                                Chain(l2 / 16, false).mean_of_copies() - shared,
                                "mean of a walk by copies through a sixteenth of the L2, less "
                                "their reads in shared memory"});

  Curve curve{"latency",
              {"footprint_bytes", "mean_cycles", "p5_cycles", "p25_cycles", "median_cycles",
               "p75_cycles", "p95_cycles"},
              {}};
  for (const std::int64_t footprint : footprints(effort.quick)) {
    const Latency found = latency_of(footprint, {1, effort.quick});
    std::vector<double> row{found.footprint, found.mean};
    for (const double share : {0.05, 0.25, 0.5, 0.75, 0.95})
      row.push_back(found.quantile(share) - timing);
    curve.rows.push_back(std::move(row));
  }
  findings.curves.push_back(std::move(curve));
  return findings;
}

const Register<Microbenchmark> entry{microbenchmark(
    "latency", "pointer chase through shared memory, L1, near and far L2, DRAM", measure)};

}  // namespace
}  // namespace tessera
