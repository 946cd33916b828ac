// A plan chooses by time (kernels/device/measured_choice.hpp). For few products it chooses by the
// policy "model" of formats/base/choice.hpp, and packs what it has chosen. For more, an order found
// on the GPU may be one candidate more (order_choice.hpp).

#include "kernels/spmm/plan/plan_choice.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

#include "formats/base/choice.hpp"
#include "kernels/device/limits_of_gpu.hpp"
#include "kernels/device/measured_choice.hpp"
#include "kernels/device/median_time.hpp"
#include "kernels/spmm/plan/worth_timing.hpp"
#include "kernels/spmm/product_counts.hpp"

namespace tessera {
namespace {

/// B [cols x n] and C [rows x n] of the timed products. B's values are near 0.01 (1 in FP16), like
/// those of a user: power, and with it the clock, depends on them.
struct TimedOperands {
  DeviceArray<std::byte> b, c;

  TimedOperands(std::int64_t rows, std::int64_t cols, std::int64_t n, const Storage& storage)
      : b(static_cast<std::size_t>(cols * n) * bytes_of(storage.b)),
        c(static_cast<std::size_t>(rows * n) * bytes_of(storage.c)) {
    cuda_check(cudaMemset(b.data(), 0x3c, b.size()), "filling B");
  }
};

/// The parameters of a candidate, with the types of B and C where they name none.
Params::Given with_storage(const SpmmCandidate& given, const Storage& storage) {
  Params::Given params = given.params;
  if (storage == Storage{} || params.contains("storage")) return params;
  params["storage"] = std::string(name_of(storage.b));
  if (storage.c != storage.b) params["storage_c"] = std::string(name_of(storage.c));
  return params;
}

/// Finds the order that the candidate names, and packs A in it and keeps it, all on the device.
void upload_in_order(const CsrMatrix& a, std::int64_t n, const Params& params, const Params& format,
                     Uploaded& made) {
  const auto begin = std::chrono::steady_clock::now();
  made.a = std::make_unique<MatrixOnDevice>(a);
  made.order = made.a->order(made.candidate.order);
  const PackedOnGpu packed = made.a->packed(made.order, made.kernel->format(), format);
  made.packed_bytes = packed.bytes();
  made.gpu = Registry<GpuSpmm>::instance().make(made.candidate.kernel, params)->adopt(packed, n);
  require<Unsupported>(made.gpu->place_rows(made.order.as<std::int32_t>()),
                       "{} writes rows of C only in the order of A's rows", made.candidate.kernel);
  cuda_check(cudaDeviceSynchronize(), "packing A in its order");
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  made.preparation_us = took.count();
}

Uploaded upload(const CsrMatrix& a, std::int64_t n, const SpmmPlanOptions& options,
                const SpmmCandidate& given) {
  const Storage& storage = options.storage;
  const auto& kernels = Registry<SpmmKernel>::instance();
  const Params params = kernels.resolve(given.kernel, with_storage(given, storage));
  Uploaded made;
  made.kernel = kernels.make(given.kernel, params);
  const Storage has = made.kernel->arithmetic().storage;
  require<Unsupported>(has == storage, "it has B in {} and C in {}, not {} and {}", name_of(has.b),
                       name_of(has.c), name_of(storage.b), name_of(storage.c));
  made.kernel->set_gpu(limits_of_gpu());
  const auto& formats = Registry<Format>::instance();
  const Params format = formats.resolve(made.kernel->format(), given.format);
  const auto& device_halves = Registry<GpuSpmm>::instance();
  require<Unsupported>(device_halves.contains(given.kernel), "it has no device half");
  made.candidate = {given.kernel,
                    {params.values().begin(), params.values().end()},
                    {format.values().begin(), format.values().end()},
                    given.order,
                    given.least_uses,
                    given.most_predicted};
  const bool reorders = options.rows.size() > 0;
  if (given.order.empty()) {
    made.packed = formats.make(made.kernel->format(), format)->pack(a);
    made.packed_bytes = stats(*made.packed).bytes;
    made.gpu = device_halves.make(given.kernel, params)->upload(*made.packed, n);
    require<Unsupported>(
        !reorders || storage.c == ElementType::kFp32 || made.gpu->place_rows(nullptr),
        "an order of rows needs C in fp32, not in {}", name_of(storage.c));
  } else {
    require<Unsupported>(!reorders, "A's rows have an order already");
    try {
      upload_in_order(a, n, params, format, made);
    } catch (const OutOfMemory& error) {  // which A's own order may have
      cudaGetLastError();
      throw Unsupported(error.what());
    }
  }
  require<Unsupported>(!options.sets_values || a.nnz() == 0 || made.gpu->values() != nullptr,
                       "{} keeps A's values in a form of its own, and they cannot be replaced",
                       given.kernel);
  return made;
}

/// Times candidates, and the algorithms of a library among each other. A single algorithm of a
/// single candidate is not timed.
class Timer {
 public:
  Timer(const CsrMatrix& a, std::int64_t n, const Storage& storage, std::size_t candidates)
      : a_(a), n_(n), storage_(storage), candidates_(candidates) {}

  void operator()(Uploaded& uploaded, SpmmTiming& timing) {
    timing.preparation_us = uploaded.preparation_us;
    const std::vector<std::string> names = uploaded.gpu->candidates();
    if (names.size() == 1 && candidates_ == 1) return;
    if (!operands_) operands_ = std::make_unique<TimedOperands>(a_.rows, a_.cols, n_, storage_);
    const Operands operands{operands_->b.data(), operands_->c.data()};
    cuda_check(cudaDeviceSynchronize(), "uploading A");
    int best = -1;
    for (int i = 0; i < static_cast<int>(names.size()); ++i) {
      try {
        uploaded.gpu->prepare(i, operands, nullptr);
      } catch (const Unsupported&) {
        continue;
      }
      const double us = median_us([&] { uploaded.gpu->launch(i, operands, nullptr); });
      if (best < 0 || us < uploaded.us) best = i, uploaded.us = us;
    }
    require<Unsupported>(best >= 0, "none of the library's algorithms takes this case");
    uploaded.gpu->prepare(best, operands, nullptr);
    uploaded.algorithm = best;
    timing.algorithm = names[best];
  }

 private:
  const CsrMatrix& a_;
  std::int64_t n_;
  Storage storage_;
  std::size_t candidates_;
  std::unique_ptr<TimedOperands> operands_;  // on the device from the first timing on
};

/// The candidates with the counts that their formulas read.
std::vector<CountedKernel> counted_kernels(const CsrMatrix& a, std::int64_t n,
                                           const SpmmPlanOptions& options) {
  const WorkCounts counts = product_counts(a, n);
  std::vector<CountedKernel> counted;
  for (const SpmmCandidate& candidate : options.candidates)
    counted.push_back({candidate.kernel,
                       Registry<SpmmKernel>::instance().resolve(
                           candidate.kernel, with_storage(candidate, options.storage)),
                       counts});
  return counted;
}

/// The candidate with the least predicted time, on the device; nothing where one has no formula, or
/// an order of its own.
std::optional<Uploaded> choose_by_model(const CsrMatrix& a, std::int64_t n,
                                        const SpmmPlanOptions& options,
                                        std::vector<SpmmTiming>& timings) {
  std::vector<Candidate> named;
  for (const SpmmCandidate& candidate : options.candidates) {
    if (!candidate.order.empty() || !Registry<CostModel>::instance().contains(candidate.kernel))
      return {};
    named.push_back({.name = candidate.kernel});
  }
  const std::vector<CountedKernel> counted = counted_kernels(a, n, options);
  // The formulas are those of an H200 whatever the GPU is: a ratio of two times is asked for.
  CostModelPolicy policy(counted, "h200");
  const Decision decision = decide(named, policy);
  if (!decision.excluded.empty()) return {};
  for (const SpmmCandidate& candidate : options.candidates)
    timings.push_back({.candidate = candidate});
  for (const Rating& one : decision.ranked) timings[one.candidate].predicted_us = one.time_us;
  for (const Rating& one : decision.ranked) {
    SpmmTiming& timing = timings[one.candidate];
    try {
      Uploaded chosen = upload(a, n, options, timing.candidate);
      timing.candidate = chosen.candidate;
      return chosen;
    } catch (const Unsupported& error) {
      timing.problem = error.what();
    }
  }
  timings.clear();
  return {};
}

/// Whether an order of A's rows is to be one candidate more.
SpmmPreparation prepare(const CsrMatrix& a, std::int64_t n, const SpmmPlanOptions& options) {
  for (const SpmmCandidate& candidate : options.candidates)
    if (!candidate.order.empty()) return {.reason = "a candidate names an order"};
  if (options.expected_products <= kFewProducts) return choose_order({}, options.expected_products);
  if (options.rows.size() > 0) return {.reason = "the order of A's rows is given"};
  if (options.candidates.size() == 1)
    return {.reason = "one kernel is named, and all plans of it compute the same bits"};
  return choose_order(counted_kernels(a, n, options), options.expected_products);
}

/// What the candidates' times say about an order that one of them has.
void conclude(const std::vector<SpmmTiming>& timings, const Uploaded& chosen,
              SpmmPreparation& preparation) {
  preparation.order = chosen.candidate.order;
  const auto ordered = std::ranges::find_if(
      timings, [](const SpmmTiming& timing) { return !timing.candidate.order.empty(); });
  if (ordered == timings.end() || !chosen.candidate.order.empty()) return;
  const std::string& order = ordered->candidate.order;
  preparation.reason +=
      ordered->problem.empty()
          ? fmt::format(
                "; a product takes {:.1f} us in the order {}, and {:.1f} us in A's, which "
                "is kept",
                ordered->us, order, chosen.us)
          : fmt::format("; the order {} cannot be used: {}", order, ordered->problem);
}

/// Why `least_uses` leaves a candidate out; empty where it does not.
std::string reason_to_omit(const SpmmCandidate& candidate, const CsrMatrix& a, std::int64_t n,
                           const Storage& storage) {
  constexpr std::int64_t kLeastCols = 64;
  if (candidate.least_uses <= 0) return "";
  if (storage != Storage{})
    return candidate.params.contains("precision") ? "it narrows a B in fp32" : "";
  if (n < kLeastCols)
    return fmt::format("B has {} columns, and narrowing it pays from {} on", n, kLeastCols);
  const double uses = static_cast<double>(a.nnz()) / std::max(a.cols, 1);
  if (uses >= candidate.least_uses) return "";
  return fmt::format(
      "a row of B is used {:.1f} times on average, and narrowing B pays from {:.0f} on", uses,
      candidate.least_uses);
}

/// The chosen candidate, on the device: by the policy "model" for few products, else by time.
Uploaded choose(const CsrMatrix& a, std::int64_t n, const SpmmPlanOptions& options,
                std::vector<SpmmTiming>& timings, SpmmPreparation& preparation) {
  preparation = prepare(a, n, options);
  const bool is_seldom = options.expected_products > 0 && options.expected_products <= kFewProducts;
  if (is_seldom && options.candidates.size() > 1)
    if (std::optional<Uploaded> chosen = choose_by_model(a, n, options, timings))
      return std::move(*chosen);
  std::vector<SpmmCandidate> candidates = options.candidates;
  if (!preparation.order.empty()) {
    candidates.push_back(
        *std::ranges::find(options.candidates, kOrderedKernel, &SpmmCandidate::kernel));
    candidates.back().order = preparation.order;
  }
  Uploaded chosen = choose_by_time<Uploaded>(
      candidates, timings, [&](const SpmmCandidate& given) { return upload(a, n, options, given); },
      Timer(a, n, options.storage, candidates.size()));
  conclude(timings, chosen, preparation);
  return chosen;
}

}  // namespace

Uploaded choose_of_useful(const CsrMatrix& a, std::int64_t n, const SpmmPlanOptions& given,
                          std::vector<SpmmTiming>& timings, SpmmPreparation& preparation) {
  SpmmPlanOptions options = given;
  options.candidates.clear();
  std::vector<SpmmTiming> omitted;
  std::vector<CountedKernel> counted;  // where a formula is asked
  if (std::ranges::any_of(given.candidates, [](const auto& one) { return one.most_predicted > 0; }))
    counted = counted_kernels(a, n, given);
  for (std::size_t i = 0; i < given.candidates.size(); ++i) {
    const SpmmCandidate& candidate = given.candidates[i];
    std::string reason = reason_to_omit(candidate, a, n, given.storage);
    if (reason.empty() && candidate.most_predicted > 0)
      reason = too_slow(counted, i, candidate.most_predicted);
    if (reason.empty())
      options.candidates.push_back(candidate);
    else
      omitted.push_back({.candidate = candidate, .problem = std::move(reason)});
  }
  require<Unsupported>(!options.candidates.empty(), "all candidates are left out: {}",
                       omitted.empty() ? "none is named" : omitted.front().problem);
  Uploaded chosen = choose(a, n, options, timings, preparation);
  timings.insert(timings.end(), omitted.begin(), omitted.end());
  return chosen;
}

}  // namespace tessera
