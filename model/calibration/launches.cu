// The costs of starting kernels in a stream and thread blocks in a grid, and the SM clock.
//
// launch_latency: kernels that keep every SM busy for a set number of cycles, longer than the host
// needs to launch one, run back to back. The line of time over cycles has the length of a cycle as
// its slope; its value at zero cycles is the time that a launch adds.

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
           launch_latency(effort), thread_block_rate(effort)},
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
