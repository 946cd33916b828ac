// tessera analyse: what the papers' analytic models say of one matrix.

#include <cmath>

#include "experiments/backends/find_order.hpp"
#include "experiments/run/analysis.hpp"
#include "experiments/run/interrupt.hpp"
#include "experiments/run/progress.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/amounts.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/call_syntax.hpp"
#include "formats/io/source.hpp"

namespace tessera {
namespace {

class AnalyseVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option("MATRIX", matrix_, "A: a file, a generator or a name")->required();
    app.add_option("--n", n_, "columns of B")->check(CLI::PositiveNumber);
    app.add_option("--device", device_, "described device");
    app.add_option("--reorder", reordering_,
                   "reordering applied to A first, as in rcm(apply=rows)");
    app.add_flag("--no-square", no_square_, "skip the count of A A, often the slowest part");
    app.add_flag("--json", json_, "print JSON");
    app.example("tessera analyse 'rmat(scale=12)' --n 128 --device h200",
                "intensity, blocks, balance and the floor of one product");
  }

  int run() override {
    const Device& device = find_device(device_);
    const Call call = parse_call(reordering_);
    const Variant variant{call.name,
                          Registry<Reordering>::instance().resolve(call.name, call.given)};
    const LoadedMatrix loaded = load_matrix(matrix_);
    const InterruptGuard guard;
    const auto figures =
        analyse(count_for_models(ordered(loaded, variant), !no_square_), n_, device);
    if (json_) {
      print_json({{"matrix", loaded.source.name},
                  {"reorder", to_text(variant)},
                  {"n", n_},
                  {"device", device.name},
                  {"analysis", to_json(applicable(figures))}});
    } else {
      tell(loaded, variant, device, figures);
    }
    return InterruptGuard::interrupted() ? kInterrupted : kOk;
  }

 private:
  /// Ctrl-C ends the search with the best order so far.
  static CsrMatrix ordered(const LoadedMatrix& loaded, const Variant& variant) {
    ShareProgress progress(fmt::format("{} by {}", loaded.source.name, variant.name));
    Watch watch(InterruptGuard::interrupted, [&](double share) { progress.tell(share); });
    return apply(loaded.matrix,
                 find_order(loaded.matrix, loaded.content_hash, variant, watch).order);
  }

  /// For people: six significant digits, a dash for what does not apply.
  static std::string short_text(const ParamValue& value) {
    const double* number = std::get_if<double>(&value);
    if (number == nullptr) return to_text(value);
    return std::isnan(*number) ? "-" : fmt::format("{:.6g}", *number);
  }

  void tell(const LoadedMatrix& loaded, const Variant& variant, const Device& device,
            const std::vector<NamedValue>& figures) const {
    const CsrMatrix& a = loaded.matrix;
    fmt::print("{}, {} x {}, {}, order: {}; N = {}; {}\n", loaded.source.name, a.rows, a.cols,
               counted(a.nnz(), "nonzero"), to_text(variant), n_, device.title);
    std::string group;
    for (const NamedValue& figure : figures) {
      if (figure.group != group) fmt::print("{}\n", group = figure.group);
      fmt::print("  {:28} {:>12}  {}\n", figure.name, short_text(figure.value), figure.meaning);
    }
  }

  std::string matrix_, device_ = "h200", reordering_ = "none";
  std::int64_t n_ = 128;
  bool no_square_ = false;
  bool json_ = false;
};

const Register<Verb> entry{{
    .name = "analyse",
    .summary = "evaluate the papers' analytic models for a matrix",
    .make = [](const Params&) { return std::make_unique<AnalyseVerb>(); },
}};

}  // namespace
}  // namespace tessera
