// tessera advise: which order and kernel to use for one matrix on a described device, and why.

#include <algorithm>

#include "experiments/run/advice_answer.hpp"
#include "experiments/run/advice_progress.hpp"
#include "experiments/run/interrupt.hpp"
#include "experiments/run/progress.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/source.hpp"

namespace tessera {
namespace {

class AdviseVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option("MATRIX", matrix_, "A: a file, a generator or a name")->required();
    app.add_option("--n", question_.n, "columns of B (default 128)")->check(CLI::PositiveNumber);
    app.add_option("--device", question_.device,
                   "the described device to predict for (default h200)");
    app.add_option("--reorder", question_.orders,
                   "reorderings to compare with the order of the file, such as rcm(apply=rows); "
                   "all for every reordering; none for no reordering (default: the one or two with "
                   "the largest gain for their time)");
    app.add_option("--kernel", question_.kernels,
                   "kernels to compare (default: all whose operands keep the range of FP32)");
    app.add_option("--products", question_.products,
                   "the number of products that share one preparation (default 1000)")
        ->check(CLI::PositiveNumber);
    app.add_option("--max-seconds", question_.max_seconds,
                   "answer after this time with what is known by then");
    app.add_flag("--cold", question_.cold, "predict for an L2 that holds nothing of B and C");
    app.add_flag("--quick", question_.quick, "rank by the roofline, without simulating");
    app.add_flag("--json", json_, "print JSON");
    app.example("tessera advise 'rmat(scale=12)' --n 128 --device h200",
                "orders and kernels, the fastest first");
  }

  int run() override {
    check(question_);
    const LoadedMatrix loaded = load_matrix(matrix_);
    const InterruptGuard guard;
    AdviceProgress progress;
    question_.interrupted = InterruptGuard::interrupted;
    question_.progress = &progress;
    const AdviceAnswer found =
        answer(loaded.matrix, loaded.source.name, loaded.content_hash, question_);
    if (json_)
      print_json(to_json(found, loaded.source.name, question_));
    else
      print_as_text(loaded, found);
    if (InterruptGuard::interrupted()) return kInterrupted;
    return found.lines.empty() && found.not_considered.empty() ? kMissing : kOk;
  }

 private:
  /// The line with the least preparation among those that tie with the fastest. `lines` is not
  /// empty.
  static const AdviceLine& soonest_ready(const AdviceAnswer& found) {
    const AdviceLine* soonest = &found.lines.front();
    for (const AdviceLine& line : found.lines)
      if (found.advice.decision.ties_with_chosen(line.rating) &&
          line.preparation_s < soonest->preparation_s)
        soonest = &line;
    return *soonest;
  }

  void print_as_text(const LoadedMatrix& loaded, const AdviceAnswer& found) const {
    const CsrMatrix& a = loaded.matrix;
    fmt::print("{}, {} x {}, {} nonzeros; N = {}; {}, {} L2; {}\n", loaded.source.name, a.rows,
               a.cols, a.nnz(), question_.n, find_device(question_.device).title,
               question_.cold ? "cold" : "warm", question_.quick ? "roofline" : "simulated");
    if (!found.lines.empty())
      fmt::print("{:>3}   {:>12}  {:16} {:14} {:10} {:10} {:>11}  {}\n", "", "predicted us",
                 "order", "kernel", "format", "arithmetic", "preparation", "pays after");
    int place = 0;
    for (const AdviceLine& line : found.lines) print_line(++place, found.advice, line);
    for (const std::string& text : found.left_out) fmt::print("left out: {}\n", text);
    for (const std::string& name : found.not_considered) fmt::print("not considered: {}\n", name);
    if (!found.not_considered.empty())
      fmt::print("CUT SHORT {}: {} candidate{} could still be faster\n",
                 InterruptGuard::interrupted()
                     ? "by an interrupt"
                     : fmt::format("after {}", duration_text(question_.max_seconds)),
                 found.not_considered.size(), found.not_considered.size() == 1 ? "" : "s");
    print_conclusion(found);
  }

  static void print_line(int place, const MatrixAdvice& advice, const AdviceLine& line) {
    const Rating& one = line.rating;
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

  void print_conclusion(const AdviceAnswer& found) const {
    const AdviceLine* first = found.first_done();
    if (first == nullptr && !found.not_considered.empty()) {
      fmt::print("nothing was predicted in this time\n");
      return;
    }
    if (first == nullptr) {
      fmt::print("nothing can be predicted on {}\n", question_.device);
      return;
    }
    const auto ties = std::ranges::count_if(found.lines, [&](const AdviceLine& line) {
      return found.advice.decision.ties_with_chosen(line.rating);
    });
    if (ties > 1)
      fmt::print("=: within the error of the prediction ({:.0f} %) of the fastest\n",
                 100 * advisor::kSimulatorError);
    const auto name = [&](const AdviceLine& line) {
      return candidate_text(found.advice, found.advice.candidate(line.rating));
    };
    fmt::print("fastest product: {}\n", name(found.lines.front()));
    if (const AdviceLine& tied = soonest_ready(found); &tied != &found.lines.front())
      fmt::print("equally fast within that error, with less preparation: {}\n", name(tied));
    fmt::print("fastest {} product{}, preparation included: {} ({:.3f} s)\n", question_.products,
               question_.products == 1 ? "" : "s", name(*first), first->total_s);
  }

  std::string matrix_;
  AdviceQuestion question_;
  bool json_ = false;
};

const Register<Verb> entry{{
    .name = "advise",
    .summary = "ranks orders and kernels for a matrix on a described device, with reasons",
    .make = [](const Params&) { return std::make_unique<AdviseVerb>(); },
}};

}  // namespace
}  // namespace tessera
