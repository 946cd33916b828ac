// A plan chooses by time (kernels/device/measured_choice.hpp).

#include <algorithm>

#include "formats/base/choice.hpp"
#include "formats/base/extents.hpp"
#include "formats/base/registry.hpp"
#include "kernels/device/measured_choice.hpp"
#include "kernels/device/median_time.hpp"
#include "kernels/sddmm/plan/sddmm_plan.hpp"
#include "kernels/sddmm_kernel.hpp"
#include "kernels/tensor_core/gpu_generation.hpp"

namespace tessera {
namespace {

using Bytes = DeviceArray<std::byte>;

/// X, Y and S of the timed products. The values of X and Y are near 0.01 in FP32 and near one in
/// FP16: power, and with it the clock, depends on them.
struct TimedOperands {
  Bytes x, y, s;

  TimedOperands(const CsrMatrix& a, std::int64_t k, const SddmmPlanOptions& options)
      : x(static_cast<std::size_t>(a.rows * k) * bytes_of(options.operands)),
        y(static_cast<std::size_t>(a.cols * k) * bytes_of(options.operands)),
        s(static_cast<std::size_t>(a.nnz()) * bytes_of(options.result)) {
    for (Bytes* operand : {&x, &y})
      cuda_check(cudaMemset(operand->data(), 0x3c, operand->size()), "filling X and Y");
  }
  SddmmOperands operands() { return {x.data(), y.data(), s.data()}; }
};

/// A packed A with its kernel, on the device.
struct Uploaded {
  SddmmCandidate candidate;  // every parameter filled in
  std::unique_ptr<SddmmKernel> kernel;
  std::unique_ptr<PackedMatrix> packed;
  std::unique_ptr<GpuSampledProduct> gpu;
  double us = 0;  // median time of a product; 0 when it was not timed
};

/// The parameters of a candidate with those that follow from the options.
Params::Given with_options(const SddmmCandidate& candidate, const SddmmPlanOptions& options) {
  const auto& specs = Registry<SddmmKernel>::instance().find(candidate.kernel).params;
  const auto has = [&](const char* name) {
    return std::ranges::find(specs, name, &ParamSpec::name) != specs.end();
  };
  const bool has_factor = has("factor"), has_storage = has("storage");
  require<Unsupported>(has_storage || options.operands == ElementType::kFp32,
                       "{} has no operands in {}", candidate.kernel, name_of(options.operands));
  require<Unsupported>(has_factor || !options.scales_by_a,
                       "{} does not multiply by the values of A", candidate.kernel);
  Params::Given params = candidate.params;
  for (const char* name : {"storage", "result", "factor"})
    require(!params.contains(name), "{}: the options of a plan set {}", candidate.kernel, name);
  if (has_storage) {
    params["storage"] = std::string(name_of(options.operands));
    params["result"] = std::string(options.result == ElementType::kFp32 ? "fp32" : "as_x");
  }
  if (has_factor) params["factor"] = std::string(options.scales_by_a ? "values" : "ones");
  return params;
}

Uploaded upload(const CsrMatrix& a, std::int64_t k, const SddmmCandidate& given,
                const SddmmPlanOptions& options) {
  const auto& kernels = Registry<SddmmKernel>::instance();
  const auto& device_halves = Registry<GpuSddmm>::instance();
  const Params params = kernels.resolve(given.kernel, with_options(given, options));
  require<Unsupported>(device_halves.contains(given.kernel), "it has no device half");
  Uploaded made;
  made.kernel = kernels.make(given.kernel, params);
  made.candidate = {given.kernel, {params.values().begin(), params.values().end()}};
  made.packed = Registry<Format>::instance().make(made.kernel->format())->pack(a);
  made.gpu = device_halves.make(given.kernel, params)->upload(*made.packed, k);
  return made;
}

/// Prepares a candidate's launches and times them, but for a single candidate.
class Timer {
 public:
  Timer(const CsrMatrix& a, std::int64_t k, const SddmmPlanOptions& options)
      : a_(a), k_(k), options_(options) {}

  void operator()(Uploaded& uploaded, SddmmTiming&) {
    if (!operands_) operands_ = std::make_unique<TimedOperands>(a_, k_, options_);
    const SddmmOperands operands = operands_->operands();
    cuda_check(cudaDeviceSynchronize(), "uploading A");
    uploaded.gpu->prepare(operands, nullptr);
    if (options_.candidates.size() > 1)
      uploaded.us = median_us([&] { uploaded.gpu->launch(operands, nullptr); });
  }

 private:
  const CsrMatrix& a_;
  std::int64_t k_;
  const SddmmPlanOptions& options_;
  std::unique_ptr<TimedOperands> operands_;  // on the device from the first candidate on
};

/// Times the candidates and keeps the fastest on the device.
Uploaded choose(const CsrMatrix& a, std::int64_t k, const SddmmPlanOptions& options,
                std::vector<SddmmTiming>& timings) {
  Uploaded chosen = choose_by_time<Uploaded>(
      options.candidates, timings,
      [&](const SddmmCandidate& given) { return upload(a, k, given, options); },
      Timer(a, k, options));
  // Copies to the device may still be in flight, and not every stream waits for them.
  cuda_check(cudaDeviceSynchronize(), "uploading A");
  return chosen;
}

/// An operand's bytes in memory.
struct Extent {
  std::uintptr_t first, last;

  Extent(const void* data, std::int64_t elements, ElementType type)
      : first(reinterpret_cast<std::uintptr_t>(data)),
        last(first + static_cast<std::size_t>(elements) * bytes_of(type)) {}
  bool meets(const Extent& other) const { return first < other.last && other.first < last; }
};

}  // namespace

struct SddmmPlan::State {
  int device;
  std::int64_t rows, cols, nnz, k;
  ElementType operands, result;
  bool scales_by_a;
  std::vector<SddmmTiming> timings;
  Uploaded uploaded;

  State(const CsrMatrix& a, std::int64_t width, const SddmmPlanOptions& options)
      : device(current_device()),
        rows(a.rows),
        cols(a.cols),
        nnz(a.nnz()),
        k(width),
        operands(options.operands),
        result(options.result),
        scales_by_a(options.scales_by_a),
        uploaded(choose(a, width, options, timings)) {}

  void check_device() const {
    const int current = current_device();
    require(current == device, "the plan belongs to device {}, but the current device is {}",
            device, current);
  }
};

SddmmPlan::SddmmPlan(const CsrMatrix& a, std::int64_t k, const SddmmPlanOptions& options) {
  validate(a);
  require(k >= 1, "X and Y have {} columns; they need at least one", k);
  element_count(std::max(a.rows, a.cols), k);  // X and Y fit a memory
  require(!options.candidates.empty(), "no kernel is named; a plan needs at least one");
  require(options.result == ElementType::kFp32 || options.result == options.operands,
          "S cannot be {} where X and Y are {}", name_of(options.result),
          name_of(options.operands));
  state_ = std::make_unique<State>(a, k, options);
}
SddmmPlan::~SddmmPlan() = default;
SddmmPlan::SddmmPlan(SddmmPlan&&) noexcept = default;
SddmmPlan& SddmmPlan::operator=(SddmmPlan&&) noexcept = default;

void SddmmPlan::run(const SddmmOperands& operands, cudaStream_t stream) {
  const State& s = *state_;
  s.check_device();
  if (s.nnz == 0) return;
  require(operands.x != nullptr, "X is a null pointer");
  require(operands.y != nullptr, "Y is a null pointer");
  require(operands.s != nullptr, "S is a null pointer");
  const Extent of_s(operands.s, s.nnz, s.result);
  require(!of_s.meets({operands.x, s.rows * s.k, s.operands}), "S overlaps X");
  require(!of_s.meets({operands.y, s.cols * s.k, s.operands}), "S overlaps Y");
  s.uploaded.gpu->launch(operands, stream);
}

void SddmmPlan::set_values(const float* values, cudaStream_t stream) {
  const State& s = *state_;
  s.check_device();
  require(s.scales_by_a, "S is not multiplied by the values of A: they are not kept");
  require(values != nullptr || s.nnz == 0, "the values of A are a null pointer");
  s.uploaded.gpu->set_values(values, stream);
}

std::vector<float> SddmmPlan::emulate(const DenseMatrix& x, const DenseMatrix& y) const {
  const State& s = *state_;
  require(x.cols == s.k, "X has {} columns, but has to have {}", x.cols, s.k);
  return s.uploaded.kernel->emulate(*s.uploaded.packed, x, y, find_generation(gpu_generation()));
}

std::int64_t SddmmPlan::rows() const { return state_->rows; }
std::int64_t SddmmPlan::cols() const { return state_->cols; }
std::int64_t SddmmPlan::k() const { return state_->k; }
std::int64_t SddmmPlan::nnz() const { return state_->nnz; }
const SddmmCandidate& SddmmPlan::kernel() const { return state_->uploaded.candidate; }
const std::vector<SddmmTiming>& SddmmPlan::timings() const { return state_->timings; }
std::int64_t SddmmPlan::packed_bytes() const { return stats(*state_->uploaded.packed).bytes; }

}  // namespace tessera
