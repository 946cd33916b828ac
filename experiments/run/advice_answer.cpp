// The orders that are candidates by default are the two with the largest mean gain on an H200 among
// those that take at most some tenths of a microsecond per nonzero (experiments/results/reorder);
// beyond twenty million nonzeros, the one that takes the least time.
#include "experiments/run/advice_answer.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>

#include "experiments/run/advice_progress.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/call_syntax.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kManyNonzeros = 20'000'000;

/// The share of the time that finding orders may take: an order alone is no advice.
constexpr double kShareOfOrders = 0.5;

const char* origin_text(Origin origin) {
  switch (origin) {
    case Origin::kMeasured:
      return "measured";
    case Origin::kSimulated:
      return "simulated";
    case Origin::kModelled:
      return "modelled";
    case Origin::kBound:
      break;
  }
  return "bound";
}

/// The excluded kernels with their reasons. A kernel with the same reason in every order is listed
/// once.
std::set<std::string> excluded_texts(const MatrixAdvice& advice) {
  std::set<std::string> texts;
  for (const Excluded& one : advice.decision.excluded)
    texts.insert(
        fmt::format("kernel {}: {}", advice.candidates[one.candidate].kernel.name, one.reason));
  return texts;
}

/// One question while it is worked on.
class Search {
 public:
  Search(const CsrMatrix& matrix, const std::string& name, const std::string& content_hash,
         const AdviceQuestion& question)
      : matrix_(matrix), name_(name), content_hash_(content_hash), question_(question) {}

  AdviceAnswer run() {
    std::vector<OfferedOrder> orders = find_orders();
    answer_.advice = advise_on(std::move(orders));
    const MatrixAdvice& advice = answer_.advice;
    std::ranges::copy(excluded_texts(advice), std::back_inserter(answer_.left_out));
    for (const std::size_t one : advisor::not_considered(advice.decision, advice.alternatives))
      answer_.not_considered.push_back(advice.alternatives[one].name);
    add_lines();
    return std::move(answer_);
  }

 private:
  /// The reorderings to compare, that of the file first.
  std::vector<Variant> variants() const {
    std::vector<Variant> all{reordering_of("none")};
    for (const std::string& order : question_.orders)
      if (order != "all" && order != "none") all.push_back(reordering_of(order));
    std::vector<std::string> names;
    if (std::ranges::find(question_.orders, "all") != question_.orders.end())
      names = Registry<Reordering>::instance().names();
    else if (question_.orders.empty() && matrix_.nnz() <= kManyNonzeros)
      names = {"best", "louvain"};
    else if (question_.orders.empty())
      names = {"rabbit"};
    for (const std::string& name : names)
      if (name != "none") all.push_back(reordering_of(name));
    return all;
  }

  std::vector<OfferedOrder> find_orders() {
    std::vector<OfferedOrder> orders;
    for (const Variant& variant : variants()) {
      try {
        Watch watch([&] { return time_is_up(kShareOfOrders); },
                    [&](double share) {
                      if (question_.progress != nullptr)
                        question_.progress->find_order(fmt::format("{} by {}", name_, variant.name),
                                                       share);
                    });
        // The order of the file costs nothing.
        const bool starts = variant.name == "none" || !time_is_up(kShareOfOrders);
        if (starts) orders.push_back({variant, find_order(matrix_, content_hash_, variant, watch)});
        if (starts && !watch.stopped()) continue;
        if (starts) orders.pop_back();  // cut short it is another order
        for (const std::string& kernel : advised_kernels({.kernels = question_.kernels}))
          answer_.not_considered.push_back(
              fmt::format("{}, order {}", kernel, order_text(variant)));
      } catch (const Unsupported& error) {
        answer_.left_out.push_back(fmt::format("order {}: {}", variant.name, error.what()));
      }
    }
    return orders;
  }

  /// True after an interrupt, and when that share of the time has passed.
  bool time_is_up(double share) const {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - question_.start;
    return (question_.interrupted && question_.interrupted()) ||
           passed.count() >= share * question_.max_seconds;
  }

  MatrixAdvice advise_on(std::vector<OfferedOrder> orders) const {
    AdviceProgress* progress = question_.progress;
    AdviceRequest request{
        .n = question_.n,
        .device = question_.device,
        .kernels = question_.kernels,
        .options = {.warm = !question_.cold,
                    .quick = question_.quick,
                    .progress =
                        [&](const std::string& what, double share) {
                          if (progress != nullptr) progress->work_on(what, share);
                        },
                    .rated =
                        [&](const advisor::Alternative& one, const Rating& rating) {
                          if (progress != nullptr) progress->rated(one, rating);
                        },
                    .interrupted = [&] { return time_is_up(1); }}};
    if (progress != nullptr) progress->start(orders.size() * advised_kernels(request).size());
    return advise(matrix_, std::move(orders), request);
  }

  void add_lines() {
    const MatrixAdvice& advice = answer_.advice;
    const Rating* unordered = advisor::fastest_in_given_order(advice.decision, advice.alternatives);
    for (const Rating& one : advice.decision.ranked) {
      const double preparation_s = advice.preparation_s(one);
      AdviceLine line{
          one, preparation_s, {}, 1e-6 * one.time_us * static_cast<double>(question_.products)};
      line.total_s += preparation_s;
      if (unordered != nullptr && one.origin != Origin::kBound)
        line.pays_after = advisor::products_until_paid(
            preparation_s - advice.preparation_s(*unordered), unordered->time_us - one.time_us);
      answer_.lines.push_back(line);
    }
  }

  const CsrMatrix& matrix_;
  const std::string& name_;
  const std::string& content_hash_;
  const AdviceQuestion& question_;
  AdviceAnswer answer_;
};

Json line_json(const MatrixAdvice& advice, const AdviceLine& line) {
  const Rating& one = line.rating;
  const PreparedCandidate& candidate = advice.candidate(one);
  const OfferedOrder& order = advice.orders[candidate.order];
  return {{"reorder", to_text(order.reordering)},
          {"kernel", to_text(candidate.kernel)},
          {"format", to_text(candidate.format)},
          {"arithmetic", candidate.arithmetic},
          {"origin", origin_text(one.origin)},
          {"time_us", one.time_us},
          {"bound_by", one.bound_by},
          {"reason", one.reason},
          {"lower_bound_us", one.bound.time_us},
          {"as_fast_as_first", advice.decision.ties_with_chosen(one)},
          {"reorder_s", order.found.seconds},
          {"apply_s", candidate.apply_s},
          {"pack_s", candidate.pack_s},
          {"preparation_s", line.preparation_s},
          {"pays_after_products", line.pays_after ? Json(*line.pays_after) : Json()},
          {"total_s", line.total_s}};
}

}  // namespace

const AdviceLine* AdviceAnswer::first_done() const {
  const AdviceLine* first = nullptr;
  for (const AdviceLine& line : lines)
    if (line.rating.origin != Origin::kBound && (first == nullptr || line.total_s < first->total_s))
      first = &line;
  return first;
}

Variant reordering_of(const std::string& text) {
  const Call call = parse_call(text);
  return {call.name, Registry<Reordering>::instance().resolve(call.name, call.given)};
}

void check(const AdviceQuestion& question) {
  require(question.n >= 1, "B has {} columns; it needs at least one", question.n);
  require(question.products >= 1, "{} products cannot share a preparation", question.products);
  require(question.max_seconds >= 0, "--max-seconds takes 0 or more, not {}", question.max_seconds);
  find_device(question.device);
  for (const std::string& kernel : question.kernels) Registry<SpmmKernel>::instance().find(kernel);
  for (const std::string& order : question.orders)
    if (order != "all" && order != "none") reordering_of(order);
}

AdviceAnswer answer(const CsrMatrix& matrix, const std::string& name,
                    const std::string& content_hash, const AdviceQuestion& question) {
  check(question);
  return Search(matrix, name, content_hash, question).run();
}

Json to_json(const AdviceAnswer& answer, const std::string& name, const AdviceQuestion& question) {
  Json ranked = Json::array();
  for (const AdviceLine& line : answer.lines) ranked.push_back(line_json(answer.advice, line));
  const AdviceLine* first = answer.first_done();
  return {{"matrix", name},
          {"n", question.n},
          {"device", find_device(question.device).name},
          {"l2", question.cold ? "flush" : "warm"},
          {"simulator_error", advisor::kSimulatorError},
          {"ranked", ranked},
          {"products", question.products},
          {"for_products", first == nullptr ? Json() : line_json(answer.advice, *first)},
          {"left_out", answer.left_out},
          {"complete", answer.not_considered.empty()},
          {"not_considered", answer.not_considered}};
}

}  // namespace tessera
