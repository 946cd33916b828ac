// The timer on a GPU against launches that cheat: each of them has a fault, and the same kernel
// without its cheat has none.
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <bit>
#include <chrono>
#include <memory>
#include <thread>

#include "experiments/backends/later_product.hpp"
#include "experiments/backends/launch_timer.hpp"
#include "experiments/backends/launch_watch.hpp"
#include "experiments/backends/measure_dense_product.hpp"
#include "formats/base/registry.hpp"
#include "tests/gpu_child.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kColumns = 128;

class Stream {
 public:
  Stream() { cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "streaming"); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A product that csr_spmm makes, in a way of its own.
class Cheat : public GpuMultiplication {
 public:
  explicit Cheat(std::unique_ptr<GpuMultiplication> honest) : honest_(std::move(honest)) {}
  void launch(int candidate, const Operands& operands, cudaStream_t stream) override {
    cheat([&](cudaStream_t on) { honest_->launch(candidate, operands, on); }, operands, stream);
    ++launches_;
  }

 protected:
  /// `compute` enqueues the product.
  virtual void cheat(const EnqueueLaunch& compute, const Operands& operands,
                     cudaStream_t stream) = 0;
  int launches_ = 0;

 private:
  std::unique_ptr<GpuMultiplication> honest_;
};

class Honest final : public Cheat {
 public:
  using Cheat::Cheat;
  void cheat(const EnqueueLaunch& compute, const Operands&, cudaStream_t stream) override {
    compute(stream);
  }
};

class ComputesOnce final : public Cheat {
 public:
  using Cheat::Cheat;
  void cheat(const EnqueueLaunch& compute, const Operands&, cudaStream_t stream) override {
    if (launches_ == 0) compute(stream);
  }
};

/// Keeps the first C, and copies it: its results are right as long as B stays.
class CopiesTheFirst final : public Cheat {
 public:
  CopiesTheFirst(std::unique_ptr<GpuMultiplication> honest, std::size_t size)
      : Cheat(std::move(honest)), kept_(size) {}
  void cheat(const EnqueueLaunch& compute, const Operands& operands, cudaStream_t stream) override {
    const std::size_t bytes = kept_.size() * sizeof(float);
    if (launches_ == 0) {
      compute(stream);
      cuda_check(cudaMemcpyAsync(kept_.data(), operands.c, bytes, cudaMemcpyDeviceToDevice, stream),
                 "keeping C");
    } else {
      cuda_check(cudaMemcpyAsync(operands.c, kept_.data(), bytes, cudaMemcpyDeviceToDevice, stream),
                 "copying C");
    }
  }

 private:
  DeviceArray<float> kept_;
};

/// Computes only where C does not hold a result yet: its results are always right.
class ComputesWhatIsPoisoned final : public Cheat {
 public:
  using Cheat::Cheat;
  void cheat(const EnqueueLaunch& compute, const Operands& operands, cudaStream_t stream) override {
    float first = 0;
    cuda_check(cudaMemcpyAsync(&first, operands.c, sizeof first, cudaMemcpyDeviceToHost, stream),
               "looking at C");
    cuda_check(cudaStreamSynchronize(stream), "looking at C");
    if (std::bit_cast<std::uint32_t>(first) == kPoison) compute(stream);
  }
};

class OnAnotherStream final : public Cheat {
 public:
  using Cheat::Cheat;
  void cheat(const EnqueueLaunch& compute, const Operands&, cudaStream_t) override {
    compute(other_.get());
  }

 private:
  Stream other_;
};

/// Returns early, and begins its work some time later.
class AfterTheStop final : public Cheat {
 public:
  using Cheat::Cheat;
  void cheat(const EnqueueLaunch& compute, const Operands&, cudaStream_t) override {
    const auto wait = [](void*) { std::this_thread::sleep_for(std::chrono::microseconds(100)); };
    cuda_check(cudaLaunchHostFunc(other_.get(), wait, nullptr), "waiting");
    compute(other_.get());
  }

 private:
  Stream other_;
};

/// Lets B persist in a part of the L2, which a flush by ordinary writes does not reach.
class KeepsTheL2 final : public Cheat {
 public:
  using Cheat::Cheat;
  /// The part set aside outlives the kernel: without this, later kernels of the process have it.
  ~KeepsTheL2() override {
    cudaCtxResetPersistingL2Cache();
    cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 0);
  }
  void cheat(const EnqueueLaunch& compute, const Operands& operands, cudaStream_t stream) override {
    cudaDeviceProp device;
    cuda_check(cudaGetDeviceProperties(&device, 0), "asking for the device's properties");
    cuda_check(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize,
                                  static_cast<std::size_t>(device.persistingL2CacheMaxSize)),
               "setting a part of the L2 aside");
    cudaStreamAttrValue attribute{};
    attribute.accessPolicyWindow.base_ptr = const_cast<void*>(operands.b);
    attribute.accessPolicyWindow.num_bytes = std::size_t{1} << 20;
    attribute.accessPolicyWindow.hitRatio = 1;
    attribute.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
    attribute.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
    cuda_check(
        cudaStreamSetAttribute(other_.get(), cudaStreamAttributeAccessPolicyWindow, &attribute),
        "making B persist");
    compute(other_.get());
    cuda_check(cudaStreamSynchronize(other_.get()), "running a kernel");
    (void)stream;
  }

 private:
  Stream other_;
};

/// Writes nothing: C is what an earlier run has left in the memory.
class TakesOldMemory final : public Cheat {
 public:
  using Cheat::Cheat;
  void cheat(const EnqueueLaunch&, const Operands&, cudaStream_t) override {}
};

/// A product of a matrix large enough for its time to be seen.
struct Setting {
  Setting() {
    point.backend = "gpu";
    point.task = DenseProduct{
        {}, kColumns, {}, {"csr_spmm", Registry<SpmmKernel>::instance().resolve("csr_spmm", {})}};
    point.measure.min_samples = point.measure.max_samples = 3;
    point.measure.warmup = 1;
  }

  /// Everything that is said against a measurement of csr_spmm in that way.
  template <class Way, class... More>
  std::string fault(More... more) const {
    Way gpu(Registry<GpuSpmm>::instance()
                .make("csr_spmm", dense_product(point).kernel.params)
                ->upload(*packed, kColumns),
            more...);
    const BackendResult result = measure_dense_product({point, *kernel, *packed, b, rows}, gpu);
    const auto reason = [&](const DenseMatrix& c) {
      return check_result(a, b, c, {*kernel, *packed, rows, result.generation}).reason;
    };
    std::string all = result.fault;
    add_reason(result.findings.time.value().disturbed.value_or(""), all);
    add_reason(launch_fault(result.unwritten, result.guards_intact, {}), all);
    add_reason(reason(*result.c), all);
    add_reason(later_product_fault(*result.c, *result.c_of_negated, reason), all);
    return all;
  }

  CsrMatrix a = random_sparse(3000, 3000, 0.1, 1);
  DenseMatrix b = random_dense(3000, kColumns, 2);
  std::unique_ptr<SpmmKernel> kernel = Registry<SpmmKernel>::instance().make("csr_spmm");
  std::unique_ptr<PackedMatrix> packed =
      Registry<Format>::instance().make(kernel->format())->pack(a);
  Permutation rows = Permutation::identity(3000);
  Point point;
};

bool mentions(const std::string& text, const char* part) {
  CAPTURE(text);
  return text.find(part) != std::string::npos;
}

TEST_CASE(
    "every cheat against the timer is caught on the GPU, and the same kernel without is not") {
  if (no_gpu()) return;
  Setting setting;

  CHECK(setting.fault<Honest>() == "");
  CHECK(mentions(setting.fault<ComputesOnce>(), "were never written"));
  CHECK(mentions(setting.fault<CopiesTheFirst>(std::size_t{3000 * kColumns}),
                 "after the timed launches, of a negated operand"));
  CHECK(mentions(setting.fault<ComputesWhatIsPoisoned>(),
                 "after its operand and its result have changed"));
  CHECK(mentions(setting.fault<OnAnotherStream>(), "part of it is on another stream"));
  CHECK(mentions(setting.fault<AfterTheStop>(), "part of it is on another stream"));
  CHECK(mentions(setting.fault<TakesOldMemory>(), "were never written"));
  setting.point.measure.l2 = "flush";
  CHECK(setting.fault<Honest>() == "");
  CHECK(mentions(setting.fault<KeepsTheL2>(), "bytes of the L2, which outlast its emptying"));
  CHECK(setting.fault<Honest>() == "");
  setting.point.measure.l2 = "warm";
  setting.point.measure.launch = "graph";
  CHECK(setting.fault<Honest>() == "");
  CHECK(mentions(setting.fault<TakesOldMemory>(), "were never written"));
}

class SlowClock final : public TimedGpu {
 public:
  using TimedGpu::TimedGpu;
  double stop_us() override { return 0.5 * TimedGpu::stop_us(); }
};

TEST_CASE("events that tell half of the time are caught by the host's clock") {
  if (no_gpu()) return;
  const Setting setting;
  const auto gpu = Registry<GpuSpmm>::instance()
                       .make("csr_spmm", dense_product(setting.point).kernel.params)
                       ->upload(*setting.packed, kColumns);
  const DeviceArray<float> b(setting.b.values);
  DeviceArray<float> c(std::size_t{3000 * kColumns});
  const EnqueueLaunch launch = [&](cudaStream_t s) { gpu->launch(0, {b.data(), c.data()}, s); };
  SlowClock slow(launch, nullptr, false, false);
  TimedGpu right(launch, nullptr, false, false);

  CHECK(mentions(time_launches(slow, setting.point.measure).fault, "by the device's clock and"));
  CHECK(time_launches(right, setting.point.measure).fault == "");
}

TEST_CASE("part: a launch that never ends" * doctest::skip()) {
  watch_launches(1, [](const std::string& reason) {
    fmt::print("{}\n", reason);
    std::fflush(nullptr);
    _exit(3);
  });
  MeasureRule rule;
  time_launches(
      [](cudaStream_t stream) {
        const auto hang = [](void*) { std::this_thread::sleep_for(std::chrono::hours(1)); };
        cuda_check(cudaLaunchHostFunc(stream, hang, nullptr), "hanging");
      },
      rule, nullptr);
}

TEST_CASE("a launch that hangs on the GPU is given up, and its process ends") {
  if (no_gpu()) return;
  const auto began = std::chrono::steady_clock::now();

  GpuChild child("part: a launch that never ends");
  const auto [said, code] = child.wait();

  CHECK(mentions(said, "a launch has not ended after 1 s"));
  CHECK(code == 3);
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(30));
}

TEST_CASE("part: another process on the GPU" * doctest::skip()) {
  const DeviceArray<std::byte> memory(1);
  fmt::print("ready\n");
  std::fflush(nullptr);
  std::this_thread::sleep_for(std::chrono::seconds(20));
}

TEST_CASE("another process on the GPU is counted while it is there") {
  if (no_gpu()) return;
  const DeviceArray<std::byte> memory(1);
  const auto alone = gpu_load().other_processes;
  if (!alone) {
    MESSAGE("skipped: the driver does not tell processes here");
    return;
  }

  GpuChild child("part: another process on the GPU");
  child.wait_for("ready");
  const auto shared = gpu_load().other_processes;
  child.kill();

  CHECK(shared == *alone + 1);
}

TEST_CASE("the driver counts the time in which it lowers the clocks") {
  if (no_gpu()) return;
  const GpuLoad load = gpu_load();
  for (const auto& [cause, ns] : load.held_back_ns) MESSAGE(cause << ": " << ns << " ns");
  MESSAGE("SM clock " << load.clocks.sm_mhz.value_or(0) << " MHz, reasons "
                      << load.clocks.throttle_reasons.value_or(0));
  CHECK(load.clocks.sm_mhz);
  CHECK(load.clocks.throttle_reasons);
}

}  // namespace
}  // namespace tessera
