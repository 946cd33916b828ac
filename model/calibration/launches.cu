// The costs of starting kernels in a stream and thread blocks in a grid, and the SM clock.
//
// launch_latency: kernels that keep every SM busy for a set number of cycles, longer than the host
// needs to launch one, run back to back. The line of time over cycles has the length of a cycle as
// its slope; its value at zero cycles is the time that a launch adds.
//
// host_round_trip: the host launches a kernel that writes to its memory, waits for that and
// launches the next. host_synchronisation: it waits for the stream instead.

#include <atomic>
#include <chrono>
#include <memory>

#include "model/calibration/gpu_timing.hpp"
#include "model/calibration/microbenchmark.hpp"

namespace tessera {
namespace {

constexpr int kThreads = 128;

__global__ void do_nothing() {}

/// Keeps every thread block busy for `cycles`.
__global__ void spin(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) continue;
}

__global__ void spin_on_the_clock(long long cycles, long long* taken, long long* nanoseconds) {
  long long began, ended;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(began));
  const long long start = clock64();
  while (clock64() - start < cycles) continue;
  const long long spent = clock64() - start;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ended));
  if (threadIdx.x != 0) return;
  taken[blockIdx.x] = spent;
  nanoseconds[blockIdx.x] = ended - began;
}

/// Every thread block sets its mark.
__global__ void __launch_bounds__(kThreads) mark(std::uint8_t* marks) {
  if (threadIdx.x == 0) marks[blockIdx.x] = 1;
}

/// Writes a number to the memory of the host.
__global__ void report(volatile std::uint32_t* to, std::uint32_t number) { *to = number; }

/// Microseconds of the host.
template <class Work>
double host_us(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

/// How the host waits for a launch.
enum class Wait { kReport, kStream };

Finding host_wait(Wait wait, const Effort& effort) {
  constexpr std::uint32_t kWaits = 200;
  std::uint32_t* on_host = nullptr;
  cuda_check(cudaMallocHost(&on_host, sizeof(*on_host)), "allocating pinned memory");
  const std::unique_ptr<std::uint32_t, decltype(&cudaFreeHost)> owner(on_host, &cudaFreeHost);
  const std::atomic_ref<std::uint32_t> reported(*on_host);
  std::vector<double> times;
  for (int run = -1; run < effort.repeats; ++run) {
    *on_host = 0;
    const double us = host_us([&] {
      for (std::uint32_t i = 1; i <= kWaits; ++i) {
        report<<<1, 1>>>(on_host, i);
        if (wait == Wait::kStream)
          cuda_check(cudaStreamSynchronize(nullptr), "waiting for a stream");
        else
          while (reported.load(std::memory_order_acquire) != i) continue;
      }
    });
    cuda_check(cudaDeviceSynchronize(), "waiting for reports");
    require(*on_host == kWaits, "a launch did not report to the host");
    if (run >= 0) times.push_back(us / kWaits);
  }
  return finding(wait == Wait::kReport ? "host_round_trip" : "host_synchronisation",
                 typical(std::move(times)), "200 launches, one by one");
}

Finding pool_allocation(const Effort& effort) {
  constexpr int kArrays = 200;
  constexpr std::size_t kBytes = 1 << 20;
  int device = 0;
  cuda_check(cudaGetDevice(&device), "querying the device");
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, device};
  cudaMemPool_t pool = nullptr;
  cuda_check(cudaMemPoolCreate(&pool, &properties), "creating a pool");
  std::uint64_t all = ~std::uint64_t{0};
  cuda_check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all),
             "keeping memory in a pool");
  std::vector<double> times;
  for (int i = -1; i < effort.repeats; ++i) {
    std::vector<void*> arrays(kArrays);
    const double us = host_us([&] {
      for (void*& array : arrays)
        cuda_check(cudaMallocFromPoolAsync(&array, kBytes, pool, nullptr), "allocating");
    });
    for (void* array : arrays) cuda_check(cudaFreeAsync(array, nullptr), "freeing");
    cuda_check(cudaDeviceSynchronize(), "freeing");
    if (i >= 0) times.push_back(us / kArrays);
  }
  cuda_check(cudaMemPoolDestroy(pool), "destroying a pool");
  return finding("pool_allocation", typical(std::move(times)), "200 arrays, time of the host");
}

std::vector<double> batch_times_us(int repeats, int launches, long long cycles) {
  std::vector<double> times = run_times_us(repeats, [&] {
    for (int i = 0; i < launches; ++i)
      spin<<<current_gpu().multiProcessorCount, kThreads>>>(cycles);
  });
  for (double& time : times) time /= launches;
  return times;
}

Finding launch_latency(const Effort& effort) {
  const std::vector<double> cycles{20e3, 40e3, 80e3, 160e3};
  std::vector<std::vector<double>> times;
  for (const double count : cycles)
    times.push_back(batch_times_us(effort.repeats, 64, static_cast<long long>(count)));
  std::vector<double> starts;
  for (std::size_t run = 0; run < times.front().size(); ++run) {
    std::vector<double> time;
    for (const std::vector<double>& runs : times) time.push_back(runs[run]);
    starts.push_back(fitted_start(cycles, time));
  }
  return finding("launch_latency", typical(std::move(starts)),
                 "64 launches of one thread block of 128 threads per SM, busy for 20,000 to "
                 "160,000 cycles, less these cycles");
}

Finding thread_block_rate(const Effort& effort) {
  constexpr unsigned kThreadBlocks = 1 << 20;
  DeviceArray<std::uint8_t> marks(kThreadBlocks);
  cuda_check(cudaMemset(marks.data(), 0, marks.size()), "clearing marks");
  const std::vector<double> times =
      run_times_us(effort.repeats, [&] { mark<<<kThreadBlocks, kThreads>>>(marks.data()); });
  for (const std::uint8_t mark : marks.download())
    require(mark == 1, "a thread block of {} did not run", kThreadBlocks);
  return finding(
      "thread_block_launch_interval", times, [](double us) { return kThreadBlocks / us; },
      "a grid of 2^20 that store a byte each");
}

Findings measure(const Effort& effort) {
  constexpr int kLaunches = 1000;
  const std::vector<double> empty = run_times_us(effort.repeats, [&] {
    for (int i = 0; i < kLaunches; ++i) do_nothing<<<1, kThreads>>>();
  });
  return {{finding("launch_overhead", empty, [](double us) { return us / kLaunches; }),
           launch_latency(effort), host_wait(Wait::kReport, effort),
           host_wait(Wait::kStream, effort), pool_allocation(effort), thread_block_rate(effort)},
          {}};
}

Findings measure_clock(const Effort& effort) {
  const int sms = current_gpu().multiProcessorCount;
  const long long cycles = effort.quick ? 2'000'000 : 20'000'000;
  DeviceArray<long long> taken(static_cast<std::size_t>(sms)),
      nanoseconds(static_cast<std::size_t>(sms));
  std::vector<double> mhz;
  for (int run = -1; run < effort.repeats; ++run) {
    spin_on_the_clock<<<sms, 1024>>>(cycles, taken.data(), nanoseconds.data());
    cuda_check(cudaGetLastError(), "reading the clock");
    const double count = static_cast<double>(taken.download()[0]);
    if (run >= 0) mhz.push_back(1e3 * count / static_cast<double>(nanoseconds.download()[0]));
  }
  return {{finding("clock", typical(std::move(mhz)), "cycles against the GPU's wall clock")}, {}};
}

const Register<Microbenchmark> entries[] = {
    Register(microbenchmark("launches", "kernels in a stream, thread blocks of a grid", measure)),
    Register(microbenchmark("clock", "the SM clock with all SMs busy", measure_clock)),
};

}  // namespace
}  // namespace tessera
