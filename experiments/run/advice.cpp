#include "experiments/run/advice.hpp"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <set>
#include <utility>

#include "experiments/machine/machine.hpp"
#include "experiments/run/latest.hpp"
#include "formats/base/check.hpp"
#include "formats/base/extents.hpp"
#include "formats/base/registry.hpp"
#include "formats/format.hpp"
#include "kernels/spmm_kernel.hpp"
#include "model/described_limits.hpp"

namespace tessera {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Variant default_variant(const auto& registry, const std::string& name) {
  return {name, registry.resolve(name, {})};
}

/// The kernels whose operands keep the range of FP32. A kernel that converts operands to FP16 turns
/// large ones into infinities: it is a candidate only when the request names it.
std::vector<std::string> kernels_in_fp32_range() {
  const auto& registry = Registry<SpmmKernel>::instance();
  std::vector<std::string> names = registry.names();
  std::erase_if(names, [&](const std::string& name) {
    const Arithmetic arithmetic = registry.make(name)->arithmetic();
    return arithmetic.sum == Arithmetic::Sum::kTensorCore &&
           operand_format(arithmetic.type).min_exponent > kFp32Format.min_exponent;
  });
  return names;
}

/// Puts the matrix into a candidate's order and packs it, whenever the candidate is described.
class Preparation {
 public:
  Preparation(const CsrMatrix& matrix, MatrixAdvice& advice, const AdviceRequest& request)
      : matrix_(matrix),
        advice_(advice),
        n_(request.n),
        gpu_(described_limits(find_device(request.device))) {}

  advisor::Described describe(std::size_t index) {
    PreparedCandidate& candidate = advice_.candidates[index];
    const auto kernel =
        Registry<SpmmKernel>::instance().make(candidate.kernel.name, candidate.kernel.params);
    kernel->set_gpu(gpu_);
    const CsrMatrix& ordered = in_order(candidate);
    const auto format =
        Registry<Format>::instance().make(candidate.format.name, candidate.format.params);
    const auto start = std::chrono::steady_clock::now();
    std::shared_ptr<const PackedMatrix> packed = format->pack(ordered);
    const double seconds = seconds_since(start);
    // The second packing, for the simulation, is faster: its memory is already mapped.
    candidate.pack_s = candidate.pack_s > 0 ? std::min(candidate.pack_s, seconds) : seconds;
    WorkDescription work = kernel->work(*packed, n_);
    candidate.arithmetic = work.mma_type.empty() ? "fp32" : work.mma_type;
    return {std::move(work), std::move(packed)};
  }

 private:
  const CsrMatrix& in_order(PreparedCandidate& candidate) {
    const Order& order = advice_.orders[candidate.order].found.order;
    if (order.rows.is_identity() && !order.cols) return matrix_;
    const Applied& applied = applied_.get(std::to_string(candidate.order), [&] {
      const auto start = std::chrono::steady_clock::now();
      Applied result{apply(matrix_, order), 0};
      result.seconds = seconds_since(start);
      return result;
    });
    candidate.apply_s = applied.seconds;
    return applied.matrix;
  }

  struct Applied {
    CsrMatrix matrix;
    double seconds;
  };

  const CsrMatrix& matrix_;
  MatrixAdvice& advice_;
  std::int64_t n_;
  GpuLimits gpu_;
  LastValueCache<Applied> applied_;
};

/// The words of a name in lower case: "NVIDIA A100-SXM4-80GB" has nvidia, a100, sxm4 and 80gb.
std::vector<std::string> words_of(const std::string& name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter))
      words.back() += static_cast<char>(std::tolower(letter));
    else if (!words.back().empty())
      words.emplace_back();
  }
  return words;
}

}  // namespace

double MatrixAdvice::preparation_s(const Rating& one) const {
  const PreparedCandidate& found = candidate(one);
  return orders[found.order].found.seconds + found.apply_s + found.pack_s;
}

std::vector<std::string> advised_kernels(const AdviceRequest& request) {
  return request.kernels.empty() ? kernels_in_fp32_range() : request.kernels;
}

std::string order_text(const Variant& reordering) {
  const Params defaults = Registry<Reordering>::instance().resolve(reordering.name, {});
  return reordering.params.values() == defaults.values() ? reordering.name : to_text(reordering);
}

std::string candidate_text(const MatrixAdvice& advice, const PreparedCandidate& candidate) {
  return fmt::format("{}, order {}", candidate.kernel.name,
                     order_text(advice.orders[candidate.order].reordering));
}

MatrixAdvice advise(const CsrMatrix& matrix, std::vector<OfferedOrder> orders,
                    const AdviceRequest& request) {
  element_count(std::max(matrix.rows, matrix.cols), request.n);  // B and C fit a memory
  const auto& registry = Registry<SpmmKernel>::instance();
  const std::vector<std::string> kernels = advised_kernels(request);
  MatrixAdvice result{
      .orders = std::move(orders), .candidates = {}, .alternatives = {}, .decision = {}};
  Preparation preparation(matrix, result, request);
  for (std::size_t order = 0; order < result.orders.size(); ++order) {
    for (const std::string& name : kernels) {
      const Variant kernel = default_variant(registry, name);
      const std::string format = registry.make(name, kernel.params)->format();
      const std::size_t index = result.candidates.size();
      result.candidates.push_back({.order = order,
                                   .kernel = kernel,
                                   .format = default_variant(Registry<Format>::instance(), format),
                                   .arithmetic = {}});
      result.alternatives.push_back(
          {.name = candidate_text(result, result.candidates.back()),
           .keeps_order = result.orders[order].reordering.name == "none",
           .describe = [&preparation, index] { return preparation.describe(index); }});
    }
  }
  result.decision =
      advisor::rank(result.alternatives, find_device(request.device), request.options);
  // `preparation`, to which they refer, ends here.
  for (advisor::Alternative& alternative : result.alternatives) alternative.describe = {};
  return result;
}

KernelChoice choose_kernel(const CsrMatrix& ordered, const AdviceRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  const OfferedOrder given_order{
      default_variant(Registry<Reordering>::instance(), "none"),
      {.order = {.rows = Permutation::identity(ordered.rows), .cols = {}},
       .peak_bytes = {},
       .peak_unknown = {}}};
  const MatrixAdvice found = advise(ordered, {given_order}, request);
  const std::vector<Rating>& ranked = found.decision.ranked;
  require<Unsupported>(!ranked.empty(), "no kernel can be predicted on {}{}", request.device,
                       found.decision.exclusions(
                           "; ", [&](std::size_t i) { return found.candidates[i].kernel.name; }));
  const auto fields_of = [&](const Rating& one) -> Json {
    return {{"kernel", to_text(found.candidate(one).kernel)},
            {"format", to_text(found.candidate(one).format)},
            {"time_us", one.time_us},
            {"simulated", one.origin == Origin::kSimulated}};
  };
  const Rating& chosen = found.decision.chosen();
  KernelChoice choice{found.candidate(chosen).kernel, found.candidate(chosen).format,
                      fields_of(chosen), 0};
  choice.fields["device"] = request.device;
  choice.fields["reason"] = chosen.reason;
  choice.fields["runner_up"] = ranked.size() > 1 ? fields_of(ranked[1]) : Json();
  choice.fields["tie"] = ranked.size() > 1 && found.decision.ties_with_chosen(ranked[1]);
  if (!request.remark.empty()) choice.fields["remark"] = request.remark;
  choice.seconds = seconds_since(start);
  return choice;
}

AdviceRequest advice_request(const Point& point) {
  AdviceRequest request{
      .n = dense_product(point).n,
      .device = point.device,
      .options = {.warm = point.measure.l2 == "warm", .progress = {}, .interrupted = {}}};
  if (backend_traits(point.backend).needs_device) return request;
  const std::string gpu =
      Registry<Probe>::instance().make("gpu")->look().value("name", "a GPU without a name");
  request.device = described_device(gpu);
  if (!request.device.empty()) return request;
  request.device = "h200";
  request.remark = gpu + " has no device description: the choice is the one for an h200";
  return request;
}

Json choice_versions() {
  const auto& registry = Registry<SpmmKernel>::instance();
  Json kernels = Json::object();
  for (const std::string& name : registry.names()) kernels[name] = registry.make(name)->version();
  return {{"advisor_version", advisor::kVersion}, {"kernel_versions", kernels}};
}

std::string described_device(const std::string& gpu_name) {
  const std::vector<std::string> gpu = words_of(gpu_name);
  const auto of_gpu = [&](const std::string& word) {
    return std::ranges::find(gpu, word) != gpu.end();
  };
  std::string by_model;
  for (const std::string& device : device_names()) {
    const std::vector<std::string> words = words_of(device);
    if (std::ranges::all_of(words, of_gpu)) return device;
    const auto model = std::ranges::find_if(words, [](const std::string& word) {
      return std::ranges::any_of(word, [](unsigned char c) { return std::isdigit(c) != 0; });
    });
    if (model != words.end() && of_gpu(*model)) by_model = device;
  }
  return by_model;
}

}  // namespace tessera
