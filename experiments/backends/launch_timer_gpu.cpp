#include "experiments/backends/launch_timer.hpp"

#include <chrono>

#include "experiments/backends/launch_watch.hpp"

namespace tessera {
namespace {

std::size_t twice_the_l2() {
  int device = 0, l2_bytes = 0;
  cuda_check(cudaGetDevice(&device), "asking for the device");
  cuda_check(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device),
             "asking for the L2 size");
  return 2 * static_cast<std::size_t>(l2_bytes);
}

}  // namespace

L2Flush::L2Flush() : buffer_(twice_the_l2()) {}

void L2Flush::overwrite(cudaStream_t stream) {
  // A device that has no persisting lines says so, and has none to reset.
  if (cudaCtxResetPersistingL2Cache() != cudaSuccess) cudaGetLastError();
  cuda_check(cudaMemsetAsync(buffer_.data(), 0xa5, buffer_.size(), stream), "flushing");
}

LaunchGraph::LaunchGraph(const EnqueueLaunch& launch, std::int64_t count) {
  cudaStream_t stream = nullptr;  // the default one cannot be captured
  cudaGraph_t graph = nullptr;
  cuda_check(cudaStreamCreate(&stream), "creating a stream");
  std::string fault;
  cudaError_t error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  if (error == cudaSuccess) {
    try {
      for (std::int64_t i = 0; i < count; ++i) launch(stream);
    } catch (const Error& refused) {
      fault = refused.what();
    }
    error = cudaStreamEndCapture(stream, &graph);
  }
  if (error == cudaSuccess && fault.empty()) error = cudaGraphInstantiate(&graph_, graph, 0);
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  if (fault.empty() && error != cudaSuccess) fault = cudaGetErrorString(error);
  if (fault.empty()) return;
  cudaGetLastError();
  throw Unsupported(fmt::format("its launches cannot be a CUDA graph: {}", fault));
}

LaunchGraph::~LaunchGraph() { cudaGraphExecDestroy(graph_); }

void LaunchGraph::enqueue(cudaStream_t stream) const {
  cuda_check(cudaGraphLaunch(graph_, stream), "launching a graph");
}

TimedGpu::TimedGpu(EnqueueLaunch launch, cudaStream_t stream, bool empties_l2, bool replays)
    : launch_(std::move(launch)), stream_(stream), replays_(replays) {
  if (empties_l2) flush_.emplace();
}

void TimedGpu::empty_l2() { flush_.value().overwrite(stream_); }

void TimedGpu::start() { start_.record(stream_); }

void TimedGpu::prepare(std::int64_t count) {
  if (replays_) graphs_.try_emplace(count, launch_, count);
}

void TimedGpu::launch(std::int64_t count) {
  if (replays_) return graphs_.at(count).enqueue(stream_);
  for (std::int64_t i = 0; i < count; ++i) launch_(stream_);
}

double TimedGpu::stop_us() {
  stop_.record(stream_);
  return stop_.us_since(start_);
}

void TimedGpu::finish() { cuda_check(cudaDeviceSynchronize(), "waiting for all streams"); }

double TimedGpu::host_us() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(now).count();
}

std::int64_t TimedGpu::take_back_l2() {
  std::size_t bytes = 0;
  if (cudaDeviceGetLimit(&bytes, cudaLimitPersistingL2CacheSize) != cudaSuccess) {
    cudaGetLastError();  // this device has no such limit
    return 0;
  }
  if (bytes > 0)
    cuda_check(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 0),
               "taking the L2 back from a kernel");
  return static_cast<std::int64_t>(bytes);
}

GpuLoad TimedGpu::load() { return gpu_load(); }

LaunchTimes time_launches(const EnqueueLaunch& launch, const MeasureRule& rule,
                          cudaStream_t stream) {
  TimedGpu gpu(launch, stream, rule.l2 == "flush", replays(rule));
  return time_launches(gpu, rule);
}

RepeatedLaunches::RepeatedLaunches(ElementType type, void* operand, std::int64_t elements,
                                   PoisonedOutput& output, EnqueueLaunch launch,
                                   cudaStream_t stream)
    : type_(type),
      operand_(operand),
      elements_(elements),
      output_(output),
      launch_(std::move(launch)),
      stream_(stream) {}

void RepeatedLaunches::rewrite() {
  tessera::rewrite(type_, operand_, elements_, Rewrite::kSame, stream_);
  output_.rewrite(Rewrite::kSame, stream_);
}

void RepeatedLaunches::change() {
  tessera::rewrite(type_, operand_, elements_, Rewrite::kNegate, stream_);
  output_.rewrite(Rewrite::kPoison, stream_);
  negated_ = !negated_;
}

double RepeatedLaunches::launch_us() {
  const WatchedLaunch watched;
  start_.record(stream_);
  launch_(stream_);
  stop_.record(stream_);
  return stop_.us_since(start_);
}

void RepeatedLaunches::launch_negated() {
  if (negated_) return;
  change();
  launch_us();
}

void RepeatedLaunches::restore() {
  if (!negated_) return;
  tessera::rewrite(type_, operand_, elements_, Rewrite::kNegate, stream_);
  negated_ = false;
}

}  // namespace tessera
