// tessera advise: which order and kernel to use for one matrix on a described device, and why.
//
// Orders that are looked at unless others are asked for: the two of the largest mean gain on an
// H200 that take no longer than some tenths of a microsecond a nonzero
// (experiments/results/reorder), and beyond twenty million nonzeros the one that takes least.

#include <algorithm>
#include <optional>
#include <set>

#include "experiments/run/advice.hpp"
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

using advisor::Origin;
using advisor::Ranked;

constexpr std::int64_t kManyNonzeros = 20'000'000;

/// One line on stderr that goes from one piece of work to the next.
class Telling {
 public:
  void operator()(const std::string& what, double share) {
    if (what != what_ || !progress_) progress_.emplace(what_ = what);
    progress_->tell(share);
  }

 private:
  std::string what_;
  std::optional<ShareProgress> progress_;
};

const char* origin_text(Origin origin) {
  switch (origin) {
    case Origin::kSimulated:
      return "simulated";
    case Origin::kModelled:
      return "modelled";
    case Origin::kBound:
      break;
  }
  return "bound";
}

/// A ranked way with what is worked out for its user.
struct Line {
  const Ranked* ranked;
  double preparation_s;
  std::optional<std::int64_t> pays_after;  // products; of an order, against the file's
  double total_s;                          // of all products, preparation included
};

class AdviseVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option("MATRIX", matrix_, "A: file, generator or name")->required();
    app.add_option("--n", n_, "columns of B (default 128)")->check(CLI::PositiveNumber);
    app.add_option("--device", device_, "described device (default h200)");
    app.add_option("--reorder", orders_,
                   "orders to look at beside none, as in best(apply=rows); all; or only none "
                   "(default: a few that are good for their time)");
    app.add_option("--kernel", kernels_, "kernels to look at (default: all but those in FP16)");
    app.add_option("--products", products_, "that preparation is for (default 1000)")
        ->check(CLI::PositiveNumber);
    app.add_flag("--cold", cold_, "B and C are not in the L2 from the product before");
    app.add_flag("--quick", quick_, "simulate nothing: by the roofline");
    app.add_flag("--json", json_, "as JSON");
  }

  int run() override {
    const Device& device = find_device(device_);
    for (const std::string& kernel : kernels_) Registry<SpmmKernel>::instance().find(kernel);
    std::vector<Variant> wanted;
    for (const std::string& order : orders_)
      if (order != "all" && order != "none") wanted.push_back(variant_of(order));
    const LoadedMatrix loaded = load_matrix(matrix_);
    const InterruptGuard guard;
    std::vector<std::string> without;  // orders that there are none of, with the reason
    std::vector<OfferedOrder> orders = find_orders(loaded, std::move(wanted), without);
    const MatrixAdvice advice = ask(loaded.matrix, std::move(orders));
    for (const std::string& text : excluded_texts(advice)) without.push_back(text);
    const std::vector<Line> lines = work_out(advice);
    if (json_)
      print(loaded, device, advice, lines, without);
    else
      tell(loaded, device, advice, lines, without);
    if (InterruptGuard::interrupted()) return kInterrupted;
    return lines.empty() ? kMissing : kOk;
  }

 private:
  static Variant variant_of(const std::string& text) {
    const Call call = parse_call(text);
    return {call.name, Registry<Reordering>::instance().resolve(call.name, call.given)};
  }

  /// What is looked at, the order of the file first.
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
                                        std::vector<std::string>& without) const {
    std::vector<OfferedOrder> orders;
    Telling telling;
    for (const Variant& variant : variants(loaded.matrix, std::move(wanted))) {
      if (InterruptGuard::interrupted()) {
        without.push_back(
            fmt::format("order {}: interrupted before it was looked for", variant.name));
        continue;
      }
      try {
        Watch watch(InterruptGuard::interrupted, [&](double share) {
          telling(fmt::format("{} by {}", loaded.source.name, variant.name), share);
        });
        orders.push_back({variant, find_order(loaded.matrix, loaded.content_hash, variant, watch)});
      } catch (const Unsupported& error) {
        without.push_back(fmt::format("order {}: {}", variant.name, error.what()));
      }
    }
    return orders;
  }

  MatrixAdvice ask(const CsrMatrix& matrix, std::vector<OfferedOrder> orders) const {
    Telling telling;
    const AdviceRequest request{
        .n = n_,
        .device = device_,
        .kernels = kernels_,
        .options = {.warm = !cold_,
                    .quick = quick_,
                    .tell = [&](const std::string& what, double share) { telling(what, share); },
                    .interrupted = InterruptGuard::interrupted}};
    return advise(matrix, std::move(orders), request);
  }

  /// A kernel with the same reason in every order is told once.
  static std::vector<std::string> excluded_texts(const MatrixAdvice& advice) {
    std::set<std::string> texts;
    for (const advisor::Excluded& one : advice.advice.excluded)
      texts.insert(
          fmt::format("kernel {}: {}", advice.ways[one.candidate].kernel.name, one.reason));
    return {texts.begin(), texts.end()};
  }

  std::vector<Line> work_out(const MatrixAdvice& advice) const {
    const Ranked* unordered = advice.advice.fastest_unordered(advice.candidates);
    std::vector<Line> lines;
    for (const Ranked& one : advice.advice.ranked) {
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

  /// The line that is done first, preparation included.
  static const Line* first_done(const std::vector<Line>& lines) {
    const Line* first = nullptr;
    for (const Line& line : lines)
      if (line.ranked->origin != Origin::kBound &&
          (first == nullptr || line.total_s < first->total_s))
        first = &line;
    return first;
  }

  /// Of the lines that tie with the fastest, the one that takes least preparation. There is one.
  static const Line* soonest_ready(const MatrixAdvice& advice, const std::vector<Line>& lines) {
    const Line* soonest = &lines.front();
    for (const Line& line : lines)
      if (advice.advice.ties_with_best(*line.ranked) && line.preparation_s < soonest->preparation_s)
        soonest = &line;
    return soonest;
  }

  Json line_json(const MatrixAdvice& advice, const Line& line) const {
    const Ranked& one = *line.ranked;
    const PreparedCandidate& way = advice.way(one);
    const OfferedOrder& order = advice.orders[way.order];
    return {{"reorder", to_text(order.reordering)},
            {"kernel", to_text(way.kernel)},
            {"format", to_text(way.format)},
            {"arithmetic", way.arithmetic},
            {"origin", origin_text(one.origin)},
            {"time_us", one.time_us},
            {"bound_by", one.bound_by},
            {"reason", one.reason},
            {"lower_bound_us", one.bound.time_us},
            {"as_fast_as_first", advice.advice.ties_with_best(one)},
            {"reorder_s", order.found.seconds},
            {"apply_s", way.apply_s},
            {"pack_s", way.pack_s},
            {"preparation_s", line.preparation_s},
            {"pays_after_products", line.pays_after ? Json(*line.pays_after) : Json()},
            {"total_s", line.total_s}};
  }

  void print(const LoadedMatrix& loaded, const Device& device, const MatrixAdvice& advice,
             const std::vector<Line>& lines, const std::vector<std::string>& without) const {
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
                {"left_out", without}});
  }

  void tell(const LoadedMatrix& loaded, const Device& device, const MatrixAdvice& advice,
            const std::vector<Line>& lines, const std::vector<std::string>& without) const {
    const CsrMatrix& a = loaded.matrix;
    fmt::print("{}, {} x {}, {} nonzeros; N = {}; {}, {} L2; {}\n", loaded.source.name, a.rows,
               a.cols, a.nnz(), n_, device.title, cold_ ? "cold" : "warm",
               quick_ ? "by the roofline" : "simulated");
    if (!lines.empty())
      fmt::print("{:>3}   {:>12}  {:16} {:14} {:10} {:10} {:>11}  {}\n", "", "predicted us",
                 "order", "kernel", "format", "arithmetic", "preparation", "pays after");
    int place = 0;
    for (const Line& line : lines) tell_line(++place, advice, line);
    for (const std::string& text : without) fmt::print("left out: {}\n", text);
    conclude(advice, lines);
  }

  static void tell_line(int place, const MatrixAdvice& advice, const Line& line) {
    const Ranked& one = *line.ranked;
    const PreparedCandidate& way = advice.way(one);
    const bool bound = one.origin == Origin::kBound;
    const std::string order = order_text(advice.orders[way.order].reordering);
    std::string pays = "never";
    if (order == "none")
      pays = "-";
    else if (bound)
      pays = "not known";
    else if (line.pays_after)
      pays = *line.pays_after == 0 ? "at once" : fmt::format("{} products", *line.pays_after);
    fmt::print("{:>3} {} {:>12}  {:16} {:14} {:10} {:10} {:>9.3f} s  {}\n", place,
               advice.advice.ties_with_best(one) ? '=' : ' ',
               fmt::format("{}{:.2f}", bound ? "over " : "", one.time_us), order, way.kernel.name,
               way.format.name, way.arithmetic, line.preparation_s, pays);
    fmt::print("      {}\n", one.reason);
  }

  void conclude(const MatrixAdvice& advice, const std::vector<Line>& lines) const {
    const Line* first = first_done(lines);
    if (first == nullptr) {
      fmt::print("nothing can be predicted on {}\n", device_);
      return;
    }
    const auto ties = std::ranges::count_if(
        lines, [&](const Line& line) { return advice.advice.ties_with_best(*line.ranked); });
    if (ties > 1)
      fmt::print("=: as fast as the first, as far as a prediction can tell ({:.0f} %)\n",
                 100 * advisor::kSimulatorError);
    const auto name = [&](const Line& line) { return way_text(advice, advice.way(*line.ranked)); };
    fmt::print("fastest product: {}\n", name(lines.front()));
    if (const Line& tied = *soonest_ready(advice, lines); &tied != &lines.front())
      fmt::print("as good, and ready sooner: {}\n", name(tied));
    fmt::print("fastest {} product{}, preparation included: {} ({:.3f} s)\n", products_,
               products_ == 1 ? "" : "s", name(*first), first->total_s);
  }

  std::string matrix_, device_ = "h200";
  std::vector<std::string> orders_, kernels_;
  std::int64_t n_ = 128;
  std::int64_t products_ = 1000;
  bool cold_ = false;
  bool quick_ = false;
  bool json_ = false;
};

const Register<Verb> entry{{
    .name = "advise",
    .summary = "which order and kernel to use for a matrix on a described device, and why",
    .make = [](const Params&) { return std::make_unique<AdviseVerb>(); },
}};

}  // namespace
}  // namespace tessera
