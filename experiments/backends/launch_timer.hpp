// The time of a launch on the GPU, by CUDA events: the one place where GPU time is measured.
//
// How often is launched, and what makes a time one that can be trusted, is in timed_launches.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "experiments/backends/poisoned_output.hpp"
#include "experiments/backends/timed_launches.hpp"
#include "formats/base/device_event.hpp"
#include "formats/base/device_memory.hpp"
#include "kernels/device/rewrite.hpp"

namespace tessera {

/// Enqueues everything one multiplication needs on the stream.
using EnqueueLaunch = std::function<void(cudaStream_t)>;

/// A buffer of twice the size of the L2, which is written before a launch that starts cold.
class L2Flush {
 public:
  L2Flush();
  /// Lines that a kernel has made persist become ordinary ones before.
  void overwrite(cudaStream_t stream);

 private:
  DeviceArray<std::byte> buffer_;
};

/// Launches as a CUDA graph, which the host submits at once.
class LaunchGraph {
 public:
  /// Throws Unsupported where the launches cannot be captured: a host wait is among them.
  LaunchGraph(const EnqueueLaunch& launch, std::int64_t count);
  ~LaunchGraph();
  LaunchGraph(const LaunchGraph&) = delete;
  LaunchGraph& operator=(const LaunchGraph&) = delete;

  void enqueue(cudaStream_t stream) const;

 private:
  cudaGraphExec_t graph_ = nullptr;
};

/// The GPU at hand.
class TimedGpu : public TimedDevice {
 public:
  /// Launches are submitted one by one, or, with `replays`, as a graph.
  TimedGpu(EnqueueLaunch launch, cudaStream_t stream, bool empties_l2, bool replays);

  void empty_l2() override;
  void start() override;
  void prepare(std::int64_t count) override;
  void launch(std::int64_t count) override;
  double stop_us() override;
  void finish() override;
  double host_us() override;
  std::int64_t take_back_l2() override;
  GpuLoad load() override;

 private:
  EnqueueLaunch launch_;
  cudaStream_t stream_;
  bool replays_;
  std::map<std::int64_t, LaunchGraph> graphs_;  // by their number of launches
  std::optional<L2Flush> flush_;
  DeviceEvent start_, stop_;
};

LaunchTimes time_launches(const EnqueueLaunch& launch, const MeasureRule& rule,
                          cudaStream_t stream);

/// Launches whose operand, of `elements`, is negated in place and whose output is poisoned again.
class RepeatedLaunches final : public RepeatedProduct {
 public:
  RepeatedLaunches(ElementType type, void* operand, std::int64_t elements, PoisonedOutput& output,
                   EnqueueLaunch launch, cudaStream_t stream);

  void rewrite() override;
  void change() override;
  double launch_us() override;

  /// Leaves in the output what a launch with the operand negated writes.
  void launch_negated();
  /// Gives the operand its sign back.
  void restore();

 private:
  ElementType type_;
  void* operand_;
  std::int64_t elements_;
  PoisonedOutput& output_;
  EnqueueLaunch launch_;
  cudaStream_t stream_;
  DeviceEvent start_, stop_;
  bool negated_ = false;
};

}  // namespace tessera
