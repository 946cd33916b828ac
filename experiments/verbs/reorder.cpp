// tessera reorder: one reordering, what it costs and what it gains; with --gpu, found on the GPU as
// well, and held against the host's order.
//
// Ctrl-C and a reordering's own time limit end it with the best order so far, which is printed and
// written like any other, marked as cut short.

#include <charconv>
#include <cmath>

#include "experiments/backends/backend.hpp"
#include "experiments/backends/find_order.hpp"
#include "experiments/machine/terminal.hpp"
#include "experiments/run/interrupt.hpp"
#include "experiments/run/progress.hpp"
#include "experiments/verbs/permutation_file.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/amounts.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/matrix_file.hpp"
#include "formats/io/source.hpp"
#include "formats/statistics/named_statistics.hpp"

namespace tessera {
namespace {

/// The figures that judge a reordering.
const std::vector<std::string> kFigures{"mean_nnz_tc_8x8", "mean_nnz_tc_16x8", "tiles_8x8",
                                        "tiles_16x8",      "tiles_16x16",      "bricks",
                                        "synergy_alpha",   "bandwidth",        "profile"};

Json figures_of(const CsrMatrix& matrix) {
  Json json = Json::object();
  const auto values = named_values(statistics(matrix));
  for (const std::string& figure : kFigures)
    for (const NamedValue& found : values)
      if (found.name == figure)
        std::visit([&](const auto& value) { json[figure] = value; }, found.value);
  return json;
}

/// "5ms" is 0.005.
double seconds_of(const std::string& time) {
  double number = 0;
  const auto [end, error] = std::from_chars(time.data(), time.data() + time.size(), number);
  const std::string_view unit(end, time.data() + time.size());
  const double seconds = number * (unit == "ms" ? 1e-3 : unit == "s" ? 1 : unit == "min" ? 60 : 0);
  require(error == std::errc{} && seconds > 0 && std::isfinite(seconds),
          "--time-limit {}: not a time; write it as in 500ms, 2s or 1min", time);
  return seconds;
}

class ReorderVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option("MATRIX", matrix_, "the matrix: a file, a generator or a name")->required();
    app.add_option("--with", reordering_, "reordering (`tessera list reorderings`)");
    app.add_option("--set", sets_,
                   "parameter of the reordering, as in apply=rows or time_limit_s=60")
        ->allow_extra_args(false)
        ->takes("NAME=VALUE");
    app.add_option("--time-limit", time_limit_,
                   "end with the best order that this time buys, such as 500ms, 2s or 1min (the "
                   "parameter time_limit_s)")
        ->takes("TIME");
    app.add_option("--out", out_,
                   "write old_of_new of the rows to .txt (one index a line) or .npy, or the "
                   "reordered matrix to any matrix file, such as .mtx or .npz")
        ->takes("FILE");
    app.add_option("--out-cols", out_cols_,
                   "write old_of_new of the columns, when they move, to .txt or .npy")
        ->takes("FILE");
    app.add_flag("--fresh-orders", fresh_, "compute the order, and do not take it from the cache");
    app.add_flag("--gpu", gpu_, "also find it on this machine's GPU, and compare the orders");
    app.add_flag("--json", json_, "print JSON");
    app.example("tessera reorder 'shuffle(of=poisson2d(nx=64, ny=64))' --with rcm",
                "what reverse Cuthill-McKee makes of a shuffled mesh");
    app.example("tessera reorder graph.mtx --out ordered.mtx", "the matrix in its best order");
  }

  int run() override {
    const BackendChoice gpu = gpu_ ? find_backend("reorder_gpu") : BackendChoice{};
    if (!gpu.missing.empty()) {
      say_error(gpu.missing);
      return kMissing;
    }
    Params::Given given = given_params(sets_);
    if (!time_limit_.empty())
      require(given.emplace("time_limit_s", seconds_of(time_limit_)).second,
              "--time-limit and --set time_limit_s both limit the time; give one of them");
    const Variant variant{reordering_,
                          Registry<Reordering>::instance().resolve(reordering_, given)};
    require(out_.empty() || is_permutation_file_name(out_) || is_matrix_file_name(out_),
            "--out {}: its name ends neither like a permutation (.txt, .npy) nor like a matrix "
            "(`tessera list files`)",
            out_);
    require(out_cols_.empty() || is_permutation_file_name(out_cols_),
            "--out-cols {}: a permutation is written to .txt or .npy", out_cols_);
    const LoadedMatrix loaded = load_matrix(matrix_);
    const InterruptGuard guard;
    const FoundOrder found = find(variant, loaded);
    const Order& order = found.order;
    std::optional<OrderingResult> on_gpu;
    if (gpu.backend) {
      const Point point{.reorder = variant, .task = Ordering{}};
      Watch watch(InterruptGuard::interrupted);
      const auto reordering = Registry<Reordering>::instance().make(variant.name, variant.params);
      on_gpu = gpu.backend->reorder({point, *reordering, loaded.matrix, watch});
    }
    if (!out_cols_.empty()) {
      require(order.cols.has_value(), "{} does not move columns", reordering_);
      write_permutation(out_cols_, *order.cols);
    }
    const CsrMatrix reordered = apply(loaded.matrix, order);
    if (is_permutation_file_name(out_))
      write_permutation(out_, order.rows);
    else if (!out_.empty())
      write_matrix(reordered, out_);
    const Json before = figures_of(loaded.matrix), after = figures_of(reordered);
    if (json_) {
      PreparationPart prep;
      add_order(found, prep);
      Json json = to_json(prep);
      json.update({{"matrix", loaded.source.name},
                   {"reordering", to_text(variant)},
                   {"moves_columns", order.cols.has_value()},
                   {"before", before},
                   {"after", after}});
      if (on_gpu) json["gpu"] = {{"reorder_s", on_gpu->found.seconds}, {"fault", on_gpu->fault}};
      print_json(json);
    } else {
      tell(loaded.source.name, found, before, after);
      if (on_gpu) tell_gpu(loaded.matrix.nnz(), *on_gpu);
    }
    if (on_gpu && !on_gpu->fault.empty()) return kWrong;
    return InterruptGuard::interrupted() ? kInterrupted : kOk;
  }

 private:
  FoundOrder find(const Variant& variant, const LoadedMatrix& loaded) const {
    ShareProgress progress(fmt::format("{} by {}", loaded.source.name, reordering_));
    Watch watch(InterruptGuard::interrupted, [&](double share) { progress.tell(share); });
    return find_order(loaded.matrix, loaded.content_hash, variant, watch, fresh_);
  }

  void tell(const std::string& matrix, const FoundOrder& found, const Json& before,
            const Json& after) const {
    fmt::print("{} by {}: {} with up to {}, {}{}{}\n", matrix, reordering_,
               time_text(1e6 * found.seconds), counted(found.threads, "thread"),
               found.peak_bytes
                   ? bytes_text(static_cast<double>(*found.peak_bytes)) + " beyond the matrix, "
                   : "",
               found.order.cols ? "rows and columns" : "rows only",
               found.from_cache ? ", kept from when it was computed" : "");
    if (found.cut_short) fmt::print("cut short: this is the best order so far\n");
    if (!found.order.chosen.empty()) fmt::print("chosen: {}\n", found.order.chosen);
    fmt::print("{:20} {:>14} {:>14}\n", "", "before", "after");
    for (const auto& [name, value] : before.items())
      fmt::print("{:20} {:>14.6g} {:>14.6g}\n", name, value.get<double>(),
                 after[name].get<double>());
  }

  static void tell_gpu(std::int64_t nnz, const OrderingResult& found) {
    fmt::print("on the GPU: {}, {:.4g} million nonzeros a second, {}\n", time_text(found.time_us),
               static_cast<double>(nnz) / found.time_us,
               found.fault.empty() ? "the same order" : found.fault);
  }

  std::string matrix_, reordering_ = "best", out_, out_cols_, time_limit_;
  std::vector<std::string> sets_;
  bool fresh_ = false;
  bool gpu_ = false;
  bool json_ = false;
};

const Register<Verb> entry{{
    .name = "reorder",
    .summary = "reorder one matrix: time, memory, tiles and bandwidth before and after",
    .make = [](const Params&) { return std::make_unique<ReorderVerb>(); },
}};

}  // namespace
}  // namespace tessera
