// tessera advise: which order and kernel to use for one matrix on a described device, and why.
//
// The orders that are candidates by default are the two with the largest mean gain on an H200 among
// those that take at most some tenths of a microsecond per nonzero (experiments/results/reorder);
// beyond twenty million nonzeros, the one that takes the least time.

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <set>

#include "experiments/run/advice.hpp"
#include "experiments/run/advice_progress.hpp"
#include "experiments/run/interrupt.hpp"
#include "experiments/run/progress.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/call_syntax.hpp"
#include "formats/io/source.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kManyNonzeros = 20'000'000;

/// The share of --max-seconds that finding orders may take: an order alone is no advice.
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

/// A ranked candidate with its cost for the user's number of products.
struct Line {
  const Rating* rating;
  double preparation_s;
  std::optional<std::int64_t> pays_after;  // products, relative to the order of the file
  double total_s;                          // of all products, preparation included
};

/// The orders, kernels and candidates that the ranking lacks.
struct Omissions {
  std::vector<std::string> left_out;        // orders and kernels that are no candidates: reasons
  std::vector<std::string> not_considered;  // candidates, because the time was up
};

class AdviseVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option("MATRIX", matrix_, "A: a file, a generator or a name")->required();
    app.add_option("--n", n_, "columns of B (default 128)")->check(CLI::PositiveNumber);
    app.add_option("--device", device_, "the described device to predict for (default h200)");
    app.add_option("--reorder", orders_,
                   "reorderings to compare with the order of the file, such as best(apply=rows); "
                   "all for every reordering; none for no reordering (default: the one or two with "
                   "the largest gain for their time)");
    app.add_option("--kernel", kernels_,
                   "kernels to compare (default: all whose operands keep the range of FP32)");
    app.add_option("--products", products_,
                   "the number of products that share one preparation (default 1000)")
        ->check(CLI::PositiveNumber);
    app.add_option("--max-seconds", max_seconds_,
                   "answer after this time with what is known by then");
    app.add_flag("--cold", cold_, "predict for an L2 that holds nothing of B and C");
    app.add_flag("--quick", quick_, "rank by the roofline, without simulating");
    app.add_flag("--json", json_, "print JSON");
    app.example("tessera advise 'rmat(scale=12)' --n 128 --device h200",
                "orders and kernels, the fastest first");
  }

  int run() override {
    require(max_seconds_ >= 0, "--max-seconds takes 0 or more, not {}", max_seconds_);
    const Device& device = find_device(device_);
    for (const std::string& kernel : kernels_) Registry<SpmmKernel>::instance().find(kernel);
    std::vector<Variant> wanted;
    for (const std::string& order : orders_)
      if (order != "all" && order != "none") wanted.push_back(variant_of(order));
    const LoadedMatrix loaded = load_matrix(matrix_);
    const InterruptGuard guard;
    Omissions omitted;
    std::vector<OfferedOrder> orders = find_orders(loaded, std::move(wanted), omitted);
    const MatrixAdvice advice = advise_on(loaded.matrix, std::move(orders));
    for (const std::string& text : excluded_texts(advice)) omitted.left_out.push_back(text);
    for (const std::size_t one : advisor::not_considered(advice.decision, advice.alternatives))
      omitted.not_considered.push_back(advice.alternatives[one].name);
    const std::vector<Line> lines = make_lines(advice);
    if (json_)
      print_as_json(loaded, device, advice, lines, omitted);
    else
      print_as_text(loaded, device, advice, lines, omitted);
    if (InterruptGuard::interrupted()) return kInterrupted;
    return lines.empty() && omitted.not_considered.empty() ? kMissing : kOk;
  }

 private:
  static Variant variant_of(const std::string& text) {
    const Call call = parse_call(text);
    return {call.name, Registry<Reordering>::instance().resolve(call.name, call.given)};
  }

  /// The reorderings to compare, that of the file first.
  std::vector<Variant> variants(const CsrMatrix& matrix, std::vector<Variant> wanted) const {
    std::vector<Variant> all{variant_of("none")};
    std::ranges::move(wanted, std::back_inserter(all));
    std::vector<std::string> names;
    if (std::ranges::find(orders_, "all") != orders_.end())
      names = Registry<Reordering>::instance().names();
    else if (orders_.empty() && matrix.nnz() <= kManyNonzeros)
      names = {"best", "louvain"};
    else if (orders_.empty())
      names = {"rabbit"};
    for (const std::string& name : names)
      if (name != "none") all.push_back(variant_of(name));
    return all;
  }

  std::vector<OfferedOrder> find_orders(const LoadedMatrix& loaded, std::vector<Variant> wanted,
                                        Omissions& omitted) const {
    std::vector<OfferedOrder> orders;
    AdviceProgress progress;
    for (const Variant& variant : variants(loaded.matrix, std::move(wanted))) {
      try {
        Watch watch([&] { return time_is_up(kShareOfOrders); },
                    [&](double share) {
                      progress.find_order(fmt::format("{} by {}", loaded.source.name, variant.name),
                                          share);
                    });
        // The order of the file costs nothing.
        const bool starts = variant.name == "none" || !time_is_up(kShareOfOrders);
        if (starts)
          orders.push_back(
              {variant, find_order(loaded.matrix, loaded.content_hash, variant, watch)});
        if (starts && !watch.stopped()) continue;
        if (starts) orders.pop_back();  // cut short it is another order
        for (const std::string& kernel : advised_kernels({.kernels = kernels_}))
          omitted.not_considered.push_back(
              fmt::format("{}, order {}", kernel, order_text(variant)));
      } catch (const Unsupported& error) {
        omitted.left_out.push_back(fmt::format("order {}: {}", variant.name, error.what()));
      }
    }
    return orders;
  }

  /// True after Ctrl-C, and when that share of --max-seconds has passed.
  bool time_is_up(double share) const {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
    return InterruptGuard::interrupted() || passed.count() >= share * max_seconds_;
  }

  MatrixAdvice advise_on(const CsrMatrix& matrix, std::vector<OfferedOrder> orders) const {
    AdviceProgress progress;
    AdviceRequest request{
        .n = n_,
        .device = device_,
        .kernels = kernels_,
        .options = {.warm = !cold_,
                    .quick = quick_,
                    .progress = [&](const std::string& what,
                                    double share) { progress.work_on(what, share); },
                    .rated = [&](const advisor::Alternative& one,
                                 const Rating& rating) { progress.rated(one, rating); },
                    .interrupted = [&] { return time_is_up(1); }}};
    progress.start(orders.size() * advised_kernels(request).size());
    return advise(matrix, std::move(orders), request);
  }

  /// The excluded kernels with their reasons. A kernel with the same reason in every order is
  /// listed once.
  static std::vector<std::string> excluded_texts(const MatrixAdvice& advice) {
    std::set<std::string> texts;
    for (const Excluded& one : advice.decision.excluded)
      texts.insert(
          fmt::format("kernel {}: {}", advice.candidates[one.candidate].kernel.name, one.reason));
    return {texts.begin(), texts.end()};
  }

  std::vector<Line> make_lines(const MatrixAdvice& advice) const {
    const Rating* unordered = advisor::fastest_in_given_order(advice.decision, advice.alternatives);
    std::vector<Line> lines;
    for (const Rating& one : advice.decision.ranked) {
      const double preparation_s = advice.preparation_s(one);
      Line line{&one, preparation_s, {}, 1e-6 * one.time_us * static_cast<double>(products_)};
      line.total_s += preparation_s;
      if (unordered != nullptr && one.origin != Origin::kBound)
        line.pays_after = advisor::products_until_paid(
            preparation_s - advice.preparation_s(*unordered), unordered->time_us - one.time_us);
      lines.push_back(line);
    }
    return lines;
  }

  /// The line that finishes all products first, preparation included; null when all are bounds.
  static const Line* first_done(const std::vector<Line>& lines) {
    const Line* first = nullptr;
    for (const Line& line : lines)
      if (line.rating->origin != Origin::kBound &&
          (first == nullptr || line.total_s < first->total_s))
        first = &line;
    return first;
  }

  /// The line with the least preparation among those that tie with the fastest. `lines` is not
  /// empty.
  static const Line* soonest_ready(const MatrixAdvice& advice, const std::vector<Line>& lines) {
    const Line* soonest = &lines.front();
    for (const Line& line : lines)
      if (advice.decision.ties_with_chosen(*line.rating) &&
          line.preparation_s < soonest->preparation_s)
        soonest = &line;
    return soonest;
  }

  Json line_json(const MatrixAdvice& advice, const Line& line) const {
    const Rating& one = *line.rating;
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

  void print_as_json(const LoadedMatrix& loaded, const Device& device, const MatrixAdvice& advice,
                     const std::vector<Line>& lines, const Omissions& omitted) const {
    Json ranked = Json::array();
    for (const Line& line : lines) ranked.push_back(line_json(advice, line));
    const Line* first = first_done(lines);
    print_json({{"matrix", loaded.source.name},
                {"n", n_},
                {"device", device.name},
                {"l2", cold_ ? "flush" : "warm"},
                {"simulator_error", advisor::kSimulatorError},
                {"ranked", ranked},
                {"products", products_},
                {"for_products", first == nullptr ? Json() : line_json(advice, *first)},
                {"left_out", omitted.left_out},
                {"complete", omitted.not_considered.empty()},
                {"not_considered", omitted.not_considered}});
  }

  void print_as_text(const LoadedMatrix& loaded, const Device& device, const MatrixAdvice& advice,
                     const std::vector<Line>& lines, const Omissions& omitted) const {
    const CsrMatrix& a = loaded.matrix;
    fmt::print("{}, {} x {}, {} nonzeros; N = {}; {}, {} L2; {}\n", loaded.source.name, a.rows,
               a.cols, a.nnz(), n_, device.title, cold_ ? "cold" : "warm",
               quick_ ? "roofline" : "simulated");
    if (!lines.empty())
      fmt::print("{:>3}   {:>12}  {:16} {:14} {:10} {:10} {:>11}  {}\n", "", "predicted us",
                 "order", "kernel", "format", "arithmetic", "preparation", "pays after");
    int place = 0;
    for (const Line& line : lines) print_line(++place, advice, line);
    for (const std::string& text : omitted.left_out) fmt::print("left out: {}\n", text);
    for (const std::string& name : omitted.not_considered) fmt::print("not considered: {}\n", name);
    if (!omitted.not_considered.empty())
      fmt::print("CUT SHORT {}: {} candidate{} could still be faster\n",
                 InterruptGuard::interrupted()
                     ? "by an interrupt"
                     : fmt::format("after {}", duration_text(max_seconds_)),
                 omitted.not_considered.size(), omitted.not_considered.size() == 1 ? "" : "s");
    print_conclusion(advice, lines, omitted);
  }

  static void print_line(int place, const MatrixAdvice& advice, const Line& line) {
    const Rating& one = *line.rating;
    const PreparedCandidate& candidate = advice.candidate(one);
    const bool bound = one.origin == Origin::kBound;
    const std::string order = order_text(advice.orders[candidate.order].reordering);
    std::string pays = "never";
    if (order == "none")
      pays = "-";
    else if (bound)
      pays = "unknown";
    else if (line.pays_after)
      pays = *line.pays_after == 0 ? "at once" : fmt::format("{} products", *line.pays_after);
    fmt::print("{:>3} {} {:>12}  {:16} {:14} {:10} {:10} {:>9.3f} s  {}\n", place,
               advice.decision.ties_with_chosen(one) ? '=' : ' ',
               fmt::format("{}{:.2f}", bound ? "over " : "", one.time_us), order,
               candidate.kernel.name, candidate.format.name, candidate.arithmetic,
               line.preparation_s, pays);
    fmt::print("      {}\n", one.reason);
  }

  void print_conclusion(const MatrixAdvice& advice, const std::vector<Line>& lines,
                        const Omissions& omitted) const {
    const Line* first = first_done(lines);
    if (first == nullptr && !omitted.not_considered.empty()) {
      fmt::print("nothing was predicted in this time\n");
      return;
    }
    if (first == nullptr) {
      fmt::print("nothing can be predicted on {}\n", device_);
      return;
    }
    const auto ties = std::ranges::count_if(
        lines, [&](const Line& line) { return advice.decision.ties_with_chosen(*line.rating); });
    if (ties > 1)
      fmt::print("=: within the error of the prediction ({:.0f} %) of the fastest\n",
                 100 * advisor::kSimulatorError);
    const auto name = [&](const Line& line) {
      return candidate_text(advice, advice.candidate(*line.rating));
    };
    fmt::print("fastest product: {}\n", name(lines.front()));
    if (const Line& tied = *soonest_ready(advice, lines); &tied != &lines.front())
      fmt::print("equally fast within that error, with less preparation: {}\n", name(tied));
    fmt::print("fastest {} product{}, preparation included: {} ({:.3f} s)\n", products_,
               products_ == 1 ? "" : "s", name(*first), first->total_s);
  }

  std::string matrix_, device_ = "h200";
  std::vector<std::string> orders_, kernels_;
  std::int64_t n_ = 128;
  std::int64_t products_ = 1000;
  double max_seconds_ = std::numeric_limits<double>::infinity();
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  bool cold_ = false;
  bool quick_ = false;
  bool json_ = false;
};

const Register<Verb> entry{{
    .name = "advise",
    .summary = "ranks orders and kernels for a matrix on a described device, with reasons",
    .make = [](const Params&) { return std::make_unique<AdviseVerb>(); },
}};

}  // namespace
}  // namespace tessera
