#include "kernels/device/median_time.hpp"

#include <algorithm>
#include <vector>

#include "formats/base/device_memory.hpp"

namespace tessera {
namespace {

class Event {
 public:
  Event() { cuda_check(cudaEventCreate(&event_), "creating an event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// The time of `launches` launches, in microseconds.
double time_us(const std::function<void()>& launch, int launches) {
  const Event begin, end;
  cuda_check(cudaEventRecord(begin.get()), "timing");
  for (int i = 0; i < launches; ++i) launch();
  cuda_check(cudaEventRecord(end.get()), "timing");
  cuda_check(cudaEventSynchronize(end.get()), "running a product");
  float ms = 0;
  cuda_check(cudaEventElapsedTime(&ms, begin.get(), end.get()), "timing");
  return 1e3 * ms;
}

}  // namespace

double median_us(const std::function<void()>& launch) {
  constexpr int kWarmUp = 3, kMostLaunches = 100;
  constexpr double kSampleUs = 500;
  time_us(launch, kWarmUp);
  const double once = std::max(1.0, time_us(launch, 1));
  const int launches = std::clamp(static_cast<int>(kSampleUs / once), 1, kMostLaunches);
  std::vector<double> samples;
  for (int i = 0; i < kTimeSamples; ++i) samples.push_back(time_us(launch, launches) / launches);
  std::ranges::nth_element(samples, samples.begin() + kTimeSamples / 2);
  return samples[kTimeSamples / 2];
}

int current_device() {
  int device = 0;
  cuda_check(cudaGetDevice(&device), "getting the current device");
  return device;
}

}  // namespace tessera
