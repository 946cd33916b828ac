// tessera reorder: one reordering, what it costs and what it gains.

#include <sys/resource.h>

#include <chrono>

#include "experiments/permutation_file.hpp"
#include "experiments/verb.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/source.hpp"
#include "formats/named_statistics.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

/// What a reordering is judged by.
const std::vector<std::string> kFigures{"mean_nnz_tc_8x8", "mean_nnz_tc_16x8", "tiles_8x8",
                                        "tiles_16x8",      "tiles_16x16",      "bandwidth",
                                        "profile"};

Json figures_of(const CsrMatrix& matrix) {
  Json json = Json::object();
  const auto values = named_values(statistics(matrix));
  for (const std::string& figure : kFigures)
    for (const NamedValue& found : values)
      if (found.name == figure)
        std::visit([&](const auto& value) { json[figure] = value; }, found.value);
  return json;
}

class ReorderVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option("MATRIX", matrix_, "file, generator or name")->required();
    app.add_option("--with", reordering_, "see `tessera list reorderings`")->required();
    app.add_option("--set", sets_, "parameter of it, as in apply=rows")->allow_extra_args(false);
    app.add_option("--out", out_, "write old_of_new of the rows: .txt (one index a line) or .npy");
    app.add_option("--out-cols", out_cols_, "the same of the columns, when they move");
    app.add_flag("--json", json_, "as JSON");
  }

  int run() override {
    const auto reordering = Registry<Reordering>::instance().make(reordering_, given_params(sets_));
    const LoadedMatrix loaded = load_matrix(matrix_);
    const auto start = std::chrono::steady_clock::now();
    const Order order = reordering->order(loaded.matrix);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);

    const Json before = figures_of(loaded.matrix), after = figures_of(apply(loaded.matrix, order));
    if (!out_.empty()) write_permutation(out_, order.rows);
    if (!out_cols_.empty()) {
      require(order.cols.has_value(), "{} does not move columns", reordering_);
      write_permutation(out_cols_, *order.cols);
    }
    const double peak_mb = static_cast<double>(usage.ru_maxrss) / 1024;
    if (json_) {
      print_json({{"matrix", loaded.source.name},
                  {"reordering", reordering_},
                  {"reorder_s", elapsed.count()},
                  {"peak_memory_mb", peak_mb},
                  {"moves_columns", order.cols.has_value()},
                  {"before", before},
                  {"after", after}});
      return kOk;
    }
    fmt::print("{} by {}: {:.3f} s, peak memory of the process {:.0f} MB{}\n", loaded.source.name,
               reordering_, elapsed.count(), peak_mb,
               order.cols ? ", rows and columns" : ", rows only");
    fmt::print("{:20} {:>14} {:>14}\n", "", "before", "after");
    for (const auto& [name, value] : before.items())
      fmt::print("{:20} {:>14.6g} {:>14.6g}\n", name, value.get<double>(),
                 after[name].get<double>());
    return kOk;
  }

 private:
  std::string matrix_, reordering_, out_, out_cols_;
  std::vector<std::string> sets_;
  bool json_ = false;
};

const Register<Verb> entry{{
    .name = "reorder",
    .summary = "one reordering: time, tiles and bandwidth before and after",
    .make = [](const Params&) { return std::make_unique<ReorderVerb>(); },
}};

}  // namespace
}  // namespace tessera
