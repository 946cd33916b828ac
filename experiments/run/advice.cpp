#include "experiments/run/advice.hpp"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <set>
#include <utility>

#include "experiments/machine/machine.hpp"
#include "experiments/run/latest.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/format.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Variant default_variant(const auto& registry, const std::string& name) {
  return {name, registry.resolve(name, {})};
}

/// Every kernel whose operands keep the range of FP32. One that takes them as FP16 makes infinities
/// of large ones: it is looked at only by name.
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

/// Puts the matrix into one order after the other and packs it, when a candidate is described.
class Preparation {
 public:
  Preparation(const CsrMatrix& matrix, MatrixAdvice& advice, std::int64_t n)
      : matrix_(matrix), advice_(advice), n_(n) {}

  advisor::Described describe(std::size_t index) {
    PreparedCandidate& way = advice_.ways[index];
    const auto kernel = Registry<SpmmKernel>::instance().make(way.kernel.name, way.kernel.params);
    const CsrMatrix& ordered = in_order(way);
    const auto format = Registry<Format>::instance().make(way.format.name, way.format.params);
    const auto start = std::chrono::steady_clock::now();
    std::shared_ptr<const PackedMatrix> packed = format->pack(ordered);
    const double seconds = seconds_since(start);
    // The second packing, for the simulation, finds its memory at hand.
    way.pack_s = way.pack_s > 0 ? std::min(way.pack_s, seconds) : seconds;
    WorkDescription work = kernel->work(*packed, n_);
    way.arithmetic = work.mma_type.empty() ? "fp32" : work.mma_type;
    return {std::move(work), std::move(packed)};
  }

 private:
  const CsrMatrix& in_order(PreparedCandidate& way) {
    const Order& order = advice_.orders[way.order].found.order;
    if (order.rows.is_identity() && !order.cols) return matrix_;
    const Applied& applied = applied_.get(std::to_string(way.order), [&] {
      const auto start = std::chrono::steady_clock::now();
      Applied result{apply(matrix_, order), 0};
      result.seconds = seconds_since(start);
      return result;
    });
    way.apply_s = applied.seconds;
    return applied.matrix;
  }

  struct Applied {
    CsrMatrix matrix;
    double seconds;
  };

  const CsrMatrix& matrix_;
  MatrixAdvice& advice_;
  std::int64_t n_;
  LastValueCache<Applied> applied_;
};

/// A name's words, in small letters: "NVIDIA A100-SXM4-80GB" has nvidia, a100, sxm4 and 80gb.
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

double MatrixAdvice::preparation_s(const advisor::Ranked& one) const {
  const PreparedCandidate& found = way(one);
  return orders[found.order].found.seconds + found.apply_s + found.pack_s;
}

std::string order_text(const Variant& reordering) {
  const Params defaults = Registry<Reordering>::instance().resolve(reordering.name, {});
  return reordering.params.values() == defaults.values() ? reordering.name : to_text(reordering);
}

std::string way_text(const MatrixAdvice& advice, const PreparedCandidate& way) {
  return fmt::format("{}, order {}", way.kernel.name,
                     order_text(advice.orders[way.order].reordering));
}

MatrixAdvice advise(const CsrMatrix& matrix, std::vector<OfferedOrder> orders,
                    const AdviceRequest& request) {
  const auto& registry = Registry<SpmmKernel>::instance();
  const std::vector<std::string> kernels =
      request.kernels.empty() ? kernels_in_fp32_range() : request.kernels;
  MatrixAdvice result{std::move(orders), {}, {}, {}};
  Preparation preparation(matrix, result, request.n);
  for (std::size_t order = 0; order < result.orders.size(); ++order) {
    for (const std::string& name : kernels) {
      const Variant kernel = default_variant(registry, name);
      const std::string format = registry.make(name, kernel.params)->format();
      const std::size_t index = result.ways.size();
      result.ways.push_back({.order = order,
                             .kernel = kernel,
                             .format = default_variant(Registry<Format>::instance(), format),
                             .arithmetic = {}});
      result.candidates.push_back(
          {.name = way_text(result, result.ways.back()),
           .unordered = result.orders[order].reordering.name == "none",
           .describe = [&preparation, index] { return preparation.describe(index); }});
    }
  }
  result.advice = advisor::rank(result.candidates, find_device(request.device), request.options);
  // What they describe with ends here.
  for (advisor::Candidate& candidate : result.candidates) candidate.describe = {};
  return result;
}

KernelChoice choose_kernel(const CsrMatrix& ordered, const AdviceRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  const OfferedOrder as_it_is{default_variant(Registry<Reordering>::instance(), "none"),
                              {.order = {.rows = Permutation::identity(ordered.rows), .cols = {}},
                               .peak_bytes = {},
                               .peak_unknown = {}}};
  const MatrixAdvice found = advise(ordered, {as_it_is}, request);
  const auto& ranked = found.advice.ranked;
  if (ranked.empty()) {
    std::string reasons;
    for (const advisor::Excluded& one : found.advice.excluded)
      reasons += fmt::format("; {}: {}", found.ways[one.candidate].kernel.name, one.reason);
    throw Unsupported(fmt::format("no kernel can be predicted on {}{}", request.device, reasons));
  }
  const auto told = [&](const advisor::Ranked& one) -> Json {
    return {{"kernel", to_text(found.way(one).kernel)},
            {"format", to_text(found.way(one).format)},
            {"time_us", one.time_us},
            {"simulated", one.origin == advisor::Origin::kSimulated}};
  };
  KernelChoice choice{found.way(ranked.front()).kernel, found.way(ranked.front()).format,
                      told(ranked.front()), 0};
  choice.fields["device"] = request.device;
  choice.fields["reason"] = ranked.front().reason;
  choice.fields["runner_up"] = ranked.size() > 1 ? told(ranked[1]) : Json();
  choice.fields["tie"] = ranked.size() > 1 && found.advice.ties_with_best(ranked[1]);
  if (!request.remark.empty()) choice.fields["remark"] = request.remark;
  choice.seconds = seconds_since(start);
  return choice;
}

AdviceRequest advice_request(const Point& point) {
  AdviceRequest request{
      .n = dense_product(point).n,
      .device = point.device,
      .options = {.warm = point.measure.l2 == "warm", .tell = {}, .interrupted = {}}};
  if (backend_traits(point.backend).needs_device) return request;
  const std::string gpu =
      Registry<Probe>::instance().make("gpu")->look().value("name", "a GPU without a name");
  request.device = described_device(gpu);
  if (!request.device.empty()) return request;
  request.device = "h200";
  request.remark = gpu + " is not described: this is for an h200";
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
