#include "kernels/spmm/plan/spmm_plan.hpp"

#include <algorithm>
#include <functional>

#include "formats/base/device_memory.hpp"
#include "formats/base/registry.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/tensor_core/gpu_generation.hpp"

namespace tessera {
namespace {

int current_device() {
  int device = 0;
  cuda_check(cudaGetDevice(&device), "asking for the device");
  return device;
}

class Event {
 public:
  Event() { cuda_check(cudaEventCreate(&event_), "making an event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Microseconds of `launches` launches.
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

/// The median of some samples, each long enough for the clock.
double median_us(const std::function<void()>& launch) {
  constexpr int kWarming = 3, kSamples = 7, kMostLaunches = 100;
  constexpr double kSampleUs = 500;
  time_us(launch, kWarming);
  const double once = std::max(1.0, time_us(launch, 1));
  const int launches = std::clamp(static_cast<int>(kSampleUs / once), 1, kMostLaunches);
  std::vector<double> samples;
  for (int i = 0; i < kSamples; ++i) samples.push_back(time_us(launch, launches) / launches);
  std::ranges::nth_element(samples, samples.begin() + kSamples / 2);
  return samples[kSamples / 2];
}

/// B and C of the timed products. B's values are numbers like 0.01: power depends on them.
struct TimedOperands {
  DeviceArray<float> b, c;

  TimedOperands(std::int64_t rows, std::int64_t cols, std::int64_t n)
      : b(static_cast<std::size_t>(cols * n)), c(static_cast<std::size_t>(rows * n)) {
    cuda_check(cudaMemset(b.data(), 0x3c, b.size() * sizeof(float)), "filling B");
  }
};

/// A candidate on the device.
struct Uploaded {
  SpmmCandidate candidate;  // every parameter filled in
  std::unique_ptr<SpmmKernel> kernel;
  std::unique_ptr<PackedMatrix> packed;
  std::unique_ptr<GpuMultiplication> gpu;
  int algorithm = 0;
  double us = 0;
};

Uploaded upload(const CsrMatrix& a, std::int64_t n, const SpmmCandidate& given) {
  const auto& kernels = Registry<SpmmKernel>::instance();
  const Params params = kernels.resolve(given.kernel, given.params);
  Uploaded made;
  made.kernel = kernels.make(given.kernel, params);
  const auto& formats = Registry<Format>::instance();
  const Params format = formats.resolve(made.kernel->format(), given.format);
  const auto& device_halves = Registry<GpuSpmm>::instance();
  require<Unsupported>(device_halves.contains(given.kernel), "it has no device half");
  made.candidate = {given.kernel,
                    {params.values().begin(), params.values().end()},
                    {format.values().begin(), format.values().end()}};
  made.packed = formats.make(made.kernel->format(), format)->pack(a);
  made.gpu = device_halves.make(given.kernel, params)->upload(*made.packed, n);
  return made;
}

/// Chooses among the algorithms of a library; with `must_time`, times where there is no choice.
void tune(Uploaded& uploaded, const std::function<TimedOperands&()>& operands, bool must_time,
          SpmmTiming& timing) {
  const std::vector<std::string> names = uploaded.gpu->candidates();
  if (names.size() == 1 && !must_time) return;
  TimedOperands& of = operands();
  cuda_check(cudaDeviceSynchronize(), "uploading A");
  int best = -1;
  for (int i = 0; i < static_cast<int>(names.size()); ++i) {
    try {
      uploaded.gpu->prepare(i, of.b.data(), of.c.data(), nullptr);
    } catch (const Unsupported&) {
      continue;
    }
    const double us = median_us([&] {
      uploaded.gpu->launch(i, {of.b.data(), of.c.data()}, nullptr);
    });
    if (best < 0 || us < uploaded.us) best = i, uploaded.us = us;
  }
  require<Unsupported>(best >= 0, "none of the library's algorithms takes this case");
  uploaded.gpu->prepare(best, of.b.data(), of.c.data(), nullptr);
  uploaded.algorithm = best;
  timing.algorithm = names[best];
  timing.us = uploaded.us;
}

/// The fastest of the candidates; no more than two are on the device at a time.
Uploaded choose(const CsrMatrix& a, std::int64_t n, const std::vector<SpmmCandidate>& candidates,
                std::vector<SpmmTiming>& timings) {
  std::unique_ptr<TimedOperands> made;
  const auto operands = [&]() -> TimedOperands& {
    if (!made) made = std::make_unique<TimedOperands>(a.rows, a.cols, n);
    return *made;
  };
  Uploaded best;
  std::string problems;
  for (const SpmmCandidate& candidate : candidates) {
    SpmmTiming& timing = timings.emplace_back(SpmmTiming{.candidate = candidate});
    try {
      Uploaded next = upload(a, n, candidate);
      timing.candidate = next.candidate;
      tune(next, operands, candidates.size() > 1, timing);
      if (!best.gpu || next.us < best.us) best = std::move(next);
    } catch (const Unsupported& error) {
      timing.problem = error.what();
      problems += fmt::format("\n  {}: {}", candidate.kernel, error.what());
    }
  }
  require<Unsupported>(best.gpu != nullptr, "no kernel takes this product:{}", problems);
  return best;
}

/// Addresses from the first to beyond the last element.
struct Extent {
  std::uintptr_t first, last;

  Extent(const float* data, const Strides& strides, std::int64_t rows, std::int64_t cols)
      : first(reinterpret_cast<std::uintptr_t>(data)),
        last(first + sizeof(float) * static_cast<std::uint64_t>((rows - 1) * strides.row +
                                                                (cols - 1) * strides.col + 1)) {}
  bool meets(const Extent& other) const { return first < other.last && other.first < last; }
};

bool has_gaps(const Extent& extent, std::int64_t rows, std::int64_t cols) {
  return extent.last - extent.first > sizeof(float) * static_cast<std::uint64_t>(rows * cols);
}

}  // namespace

struct SpmmPlan::State {
  int device;
  std::int64_t rows, cols, n;
  Permutation old_of_new;  // rows of A as they are packed; empty: as they were
  std::vector<SpmmTiming> timings;
  Uploaded uploaded;
  DeviceArray<std::int32_t> new_of_old;  // [rows] where they are in another order
  DeviceArray<float> b;                  // [cols x n] where B may have to be converted
  DeviceArray<float> c;                  // [rows x n] where C may have to be

  State(const CsrMatrix& a, std::int64_t width, const SpmmPlanOptions& options)
      : device(current_device()), rows(a.rows), cols(a.cols), n(width) {
    const bool reorders = options.rows.size() > 0 && !options.rows.is_identity();
    if (reorders) {
      old_of_new = options.rows;
      uploaded = choose(permute_rows(a, old_of_new), n, options.candidates, timings);
      new_of_old = DeviceArray<std::int32_t>(old_of_new.inverse().old_of_new());
    } else {
      uploaded = choose(a, n, options.candidates, timings);
    }
    if (options.converts_b) b = DeviceArray<float>(static_cast<std::size_t>(cols * n));
    if (options.converts_c || reorders) c = DeviceArray<float>(static_cast<std::size_t>(rows * n));
    load_convert_layout();
    // Copies to the device may still be on their way, and not every stream waits for them.
    cuda_check(cudaDeviceSynchronize(), "uploading A");
  }

  void run(const ConstDeviceMatrix& from, const DeviceMatrix& to, Scaling scaling,
           cudaStream_t stream);
  void check_apart(const ConstDeviceMatrix& from, const Strides& of_from, const DeviceMatrix& to,
                   const Strides& of_to) const;
};

void SpmmPlan::State::check_apart(const ConstDeviceMatrix& from, const Strides& of_from,
                                  const DeviceMatrix& to, const Strides& of_to) const {
  if (rows == 0 || cols == 0) return;
  const Extent b_extent(from.data, of_from, cols, n), c_extent(to.data, of_to, rows, n);
  const bool gaps = has_gaps(b_extent, cols, n) || has_gaps(c_extent, rows, n);
  require(!b_extent.meets(c_extent) || (gaps && from.data != to.data),
          "B (at {}, {} bytes) and C (at {}, {} bytes) overlap",
          static_cast<const void*>(from.data), b_extent.last - b_extent.first,
          static_cast<const void*>(to.data), c_extent.last - c_extent.first);
}

void SpmmPlan::State::run(const ConstDeviceMatrix& from, const DeviceMatrix& to, Scaling scaling,
                          cudaStream_t stream) {
  const int current = current_device();
  require(current == device, "the plan is for device {}, the current one is {}", device, current);
  require(from.data != nullptr || cols == 0, "B is a null pointer");
  require(to.data != nullptr || rows == 0, "C is a null pointer");
  const Strides of_b = Strides::of("B", from.order, from.ld, cols, n);
  const Strides of_c = Strides::of("C", to.order, to.ld, rows, n);
  const Strides plain{n, 1};
  check_apart(from, of_b, to, of_c);
  const bool plain_b = of_b.plain(cols, n), plain_c = of_c.plain(rows, n);
  const bool reorders = new_of_old.size() > 0;
  require(plain_b || b.size() > 0 || cols == 0,
          "B is not row-major without gaps: the plan has to be made with converts_b");
  require(plain_c || c.size() > 0 || rows == 0,
          "C is not row-major without gaps: the plan has to be made with converts_c");

  if (!plain_b) convert_layout(from.data, of_b, nullptr, b.data(), plain, cols, n, {}, stream);
  const float* b_data = plain_b ? from.data : b.data();
  if (plain_c && !reorders) {
    uploaded.gpu->launch(uploaded.algorithm, {b_data, to.data, scaling}, stream);
    return;
  }
  uploaded.gpu->launch(uploaded.algorithm, {b_data, c.data()}, stream);
  convert_layout(c.data(), plain, new_of_old.data(), to.data, of_c, rows, n, scaling, stream);
}

SpmmPlan::SpmmPlan(const CsrMatrix& a, std::int64_t n, const SpmmPlanOptions& options) {
  validate(a);
  require(n >= 1, "B has {} columns, and needs one at least", n);
  require(!options.candidates.empty(), "no kernel is named: a plan needs one at least");
  require(options.rows.size() == 0 || options.rows.size() == a.rows,
          "the order is one of {} rows, but A has {}", options.rows.size(), a.rows);
  state_ = std::make_unique<State>(a, n, options);
}
SpmmPlan::~SpmmPlan() = default;
SpmmPlan::SpmmPlan(SpmmPlan&&) noexcept = default;
SpmmPlan& SpmmPlan::operator=(SpmmPlan&&) noexcept = default;

void SpmmPlan::run(const ConstDeviceMatrix& b, const DeviceMatrix& c, Scaling scaling,
                   cudaStream_t stream) {
  state_->run(b, c, scaling, stream);
}

DenseMatrix SpmmPlan::emulate(const DenseMatrix& b) const {
  const State& s = *state_;
  require(b.rows == s.cols && b.cols == s.n, "B is {} x {}, and has to be {} x {}", b.rows, b.cols,
          s.cols, s.n);
  DenseMatrix c =
      s.uploaded.kernel->emulate(*s.uploaded.packed, b, find_generation(gpu_generation()));
  return s.old_of_new.size() == 0 ? c : permute_rows(c, s.old_of_new.inverse());
}

std::int64_t SpmmPlan::rows() const { return state_->rows; }
std::int64_t SpmmPlan::cols() const { return state_->cols; }
std::int64_t SpmmPlan::n() const { return state_->n; }
const SpmmCandidate& SpmmPlan::kernel() const { return state_->uploaded.candidate; }
const std::vector<SpmmTiming>& SpmmPlan::timings() const { return state_->timings; }
std::int64_t SpmmPlan::packed_bytes() const { return stats(*state_->uploaded.packed).bytes; }
std::int64_t SpmmPlan::workspace_bytes() const {
  return static_cast<std::int64_t>((state_->b.size() + state_->c.size()) * sizeof(float) +
                                   state_->new_of_old.size() * sizeof(std::int32_t));
}

}  // namespace tessera
