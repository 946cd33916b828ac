// All ranks have as many runs in a sample, since each run of one waits for those of the others:
// rank 0 decides by a run of its own.
#include <cuda_runtime_api.h>

#include "formats/base/device_memory.hpp"
#include "kernels/spmm/distributed/group_timer.hpp"

namespace tessera {
namespace {

constexpr int kMostRuns = 1024;

class Timer {
 public:
  explicit Timer(DeviceCommunicator& comm)
      : comm_(comm), of_ranks_(static_cast<std::size_t>(comm.size())) {
    for (cudaEvent_t* event : {&begin_, &end_})
      cuda_check(cudaEventCreate(event), "creating an event");
  }
  ~Timer() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// The time of one of `runs` runs that follow each other.
  double time(const std::function<void()>& work, int runs) {
    of_rank_0(0);  // no rank begins before all are here
    cuda_check(cudaEventRecord(begin_), "timing");
    for (int i = 0; i < runs; ++i) work();
    cuda_check(cudaEventRecord(end_), "timing");
    comm_.wait(nullptr);
    float ms = 0;
    cuda_check(cudaEventElapsedTime(&ms, begin_, end_), "timing");
    return 1e3 * static_cast<double>(ms) / runs;
  }

  /// Rank 0's value, on every rank.
  double of_rank_0(double own) {
    std::vector<double> values(of_ranks_.size());
    values[static_cast<std::size_t>(comm_.rank())] = own;
    of_ranks_.upload(values);
    comm_.all_gather(std::vector<std::int64_t>(values.size(), sizeof(double)), of_ranks_.data(),
                     nullptr);
    comm_.wait(nullptr);
    return of_ranks_.download()[0];
  }

 private:
  DeviceCommunicator& comm_;
  DeviceArray<double> of_ranks_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace

std::vector<double> time_together(DeviceCommunicator& comm, const std::function<void()>& work,
                                  const GroupTiming& timing) {
  Timer timer(comm);
  for (int i = 0; i < timing.warming; ++i) work();
  const double once = timer.of_rank_0(timer.time(work, 1));
  int runs = 1;
  while (runs * once < timing.sample_us && runs < kMostRuns) runs *= 2;
  std::vector<double> samples;
  for (int i = 0; i < timing.samples; ++i) samples.push_back(timer.time(work, runs));
  return samples;
}

}  // namespace tessera
