// tessera sweep: products from the command line, without a config: matrices x orders x widths x
// kernels, as records, a table and a figure.
//
// It writes the config that describes the points into the folder of the records, loads it, and runs
// it as `tessera run` would.

#include <algorithm>
#include <filesystem>
#include <map>

#include "experiments/backends/missing_backend.hpp"
#include "experiments/config/write_config.hpp"
#include "experiments/points/any_kernel.hpp"
#include "experiments/run/runner.hpp"
#include "experiments/tables/draw_figures.hpp"
#include "experiments/tables/pivot.hpp"
#include "experiments/tables/report.hpp"
#include "experiments/tables/table.hpp"
#include "experiments/tables/write_file.hpp"
#include "experiments/verbs/run_options.hpp"
#include "experiments/verbs/value_lists.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/base/suggest.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kSections{"check", "counters", "experiment", "measure", "simulate"};

class SweepVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option("MATRIX", matrices_, "matrices: files, generators, names, or sets (@by_formula)")
        ->required();
    app.add_option("--kernel", kernels_,
                   "kernels, with parameters as in 'acc_spmm(balance=none)', or patterns as 'cu*' "
                   "(default: cusparse on a GPU, csr_spmm elsewhere; sputnik, acc_spmm, cutespmm)")
        ->allow_extra_args(false);
    app.add_option("--n", n_,
                   "columns of dense operands: numbers and ranges, 32:512:*2 or 32:128:+32 "
                   "(default 128)");
    app.add_option("--right", right_, "sparse B: self (default), transpose, or matrices")
        ->allow_extra_args(false);
    app.add_option("--reorder", reorder_, "reorderings (`tessera list reorderings`; default none)")
        ->allow_extra_args(false);
    app.add_option("--format", format_, "formats of A, of kernels that read several")
        ->allow_extra_args(false);
    app.add_option("--values", values_, "value families of A and B (`tessera list values`)")
        ->allow_extra_args(false);
    app.add_option("--backend", backends_,
                   "gpu, simulate, model or emulate (default: gpu where there is one, else "
                   "simulate)")
        ->delimiter(',');
    app.add_option("--device", device_, "described devices, of every backend but gpu")
        ->allow_extra_args(false);
    app.add_option("--model", model_, "models, of backend model")->allow_extra_args(false);
    app.add_option("--set", sets_,
                   "NAME=VALUE[,VALUE...]: a parameter of kernels, orders or formats "
                   "(precision=tf32,fp16), or a key of a config's section (measure.l2=flush)")
        ->allow_extra_args(false);
    app.add_option("--skip", skips_,
                   "leave out the points that match, as in 'kernel=csr_spmm,n=256,512'")
        ->allow_extra_args(false);
    app.add_option("--measure", measures_,
                   "column to show, or several (`tessera list columns`; default gflops, or "
                   "smape_pct of emulations)")
        ->delimiter(',');
    app.add_option("--baseline", baseline_, "kernel whose speed the others are divided by");
    app.add_option("--out", out_, "folder of the records (default: out/sweep-HASH)");
    app.add_option("--save", save_, "write the config of this sweep, for `tessera run`");
    app.add_option("--figure", figure_, "draw the table into this file (.pdf, .png, .svg)");
    app.add_option("--csv", csv_, "write a line for each product to this file");
    declare_run_options(app, options_);
    app.add_flag("--dry-run", dry_run_, "count the points that would run, and run none");
    app.add_flag("--json", json_, "print the table as JSON");
    app.example("tessera sweep cage8 rmat14 --n 32:512:*2 --figure speed.png",
                "two matrices at five widths, drawn");
    app.example(
        "tessera sweep @by_formula --kernel 'acc_spmm,acc_spmm(balance=none)' --reorder none,rcm",
        "two variants of a kernel in two orders");
    app.example(
        "tessera sweep cage8 --kernel acc_spmm --set precision=tf32,tf32x3 --backend emulate",
        "the errors of two precisions");
    app.example("tessera sweep cage8 --kernel 'cu*,acc_spmm' --baseline cusparse --save my.toml",
                "speed over cuSPARSE, and the config that gives it again");
    app.footer("The same command continues an interrupted sweep.");
  }

  int run() override {
    check_figure_name();
    const SweepRequest request = read_request();
    const WrittenConfig written = write_config(request);
    options_.out = records_folder(out_, written.id);
    const std::string path = options_.out + "/sweep.toml";
    write_file(path, written.text);
    const Config config = load_config(path);
    const Plan plan = make_plan(config);
    for (const std::string& measure : request.measures)
      check_column(measure, {}, config, "--measure");
    if (!save_.empty()) write_file(save_, written.text);
    for (const std::string& note : plan.notes) fmt::print(stderr, "note: {}\n", note);
    if (dry_run_) return tell_plan(plan);

    options_.experiment = config.id;
    options_.config_hash = config.hash;
    options_.timeout_s = config.timeout_s;
    options_.launch_timeout_s = config.launch_timeout_s;
    const RunSummary summary = run_plan(plan, options_);
    const Report report = read_report(config, options_.out);
    if (json_)
      print_json(to_json(request, written, report, summary));
    else
      tell(request, written, report);
    if (!csv_.empty()) write_file(csv_, csv_table(report.rows, csv_columns(request, written)));
    tell_summary(report, summary);
    if (summary.interrupted) return kInterrupted;
    if (!figure_.empty()) draw(report);
    return code_of(summary);
  }

 private:
  // The request

  void check_figure_name() const {
    const std::string ending = fs::path(figure_).extension().string();
    const bool known = !ending.empty() &&
                       std::ranges::find(kFigureFormats, ending.substr(1)) != kFigureFormats.end();
    require(figure_.empty() || known, "--figure {}: the name has to end in .{}", figure_,
            fmt::join(kFigureFormats, ", ."));
  }

  SweepRequest read_request() {
    SweepRequest request;
    request.backends = backends_.empty() ? std::vector{default_backend()} : backends_;
    for (const std::string& backend : request.backends)
      require(backend_traits(backend).activity == Activity::kMultiply,
              "--backend {}: a sweep multiplies; `tessera pack`, `tessera reorder` and configs do "
              "the rest",
              backend);
    const bool on_gpu = std::ranges::find(request.backends, "gpu") != request.backends.end();
    const std::vector<std::string> usual{on_gpu ? "cusparse" : "csr_spmm", "sputnik", "acc_spmm",
                                         "cutespmm"};
    request.kernels =
        requested_kernels(kernels_.empty() ? usual : split_values("--kernel", kernels_));
    add_axes(request);
    for (const std::string& set : sets_) add_set(set, request);
    for (const std::string& skip : skips_) request.skips.push_back(read_skip(skip));
    request.measures = measures_;
    if (measures_.empty())
      request.measures = {request.backends == std::vector<std::string>{"emulate"} ? "smape_pct"
                                                                                  : "gflops"};
    request.baseline = baseline_label(request);
    return request;
  }

  static std::string default_backend() {
    const std::string& missing = missing_backend("gpu");
    if (!missing.empty()) fmt::print(stderr, "note: times are simulated: {}\n", missing);
    return missing.empty() ? "gpu" : "simulate";
  }

  void add_axes(SweepRequest& request) {
    const auto sparse = [](const RequestedKernel& kernel) {
      return is_sparse_product(kernel.name);
    };
    const bool any_sparse = std::ranges::any_of(request.kernels, sparse);
    const bool all_sparse = std::ranges::all_of(request.kernels, sparse);
    RequestedAxis& matrix = request.axes.emplace_back(RequestedAxis{"matrix", {}});
    for (const std::string& name : matrices_) matrix.values.emplace_back(matrix_name(name));
    require(right_.empty() || any_sparse,
            "--right is of a sparse B, and none of the kernels takes one");
    require(n_.empty() || !all_sparse, "--n is of a dense B, and none of the kernels takes one");
    if (!all_sparse) {
      RequestedAxis& n = request.axes.emplace_back(RequestedAxis{"n", {}});
      for (const std::int64_t columns : integer_values("--n", n_.empty() ? "128" : n_))
        n.values.emplace_back(columns);
    }
    for (const auto& [axis, option, texts] : {std::tuple("reorder", "--reorder", &reorder_),
                                              {"values", "--values", &values_},
                                              {"model", "--model", &model_}}) {
      if (texts->empty()) continue;
      RequestedAxis& added = request.axes.emplace_back(RequestedAxis{axis, {}});
      for (const std::string& text : split_values(option, *texts))
        added.values.push_back(requested_variant(axis, text));
    }
    for (const auto& [axis, option, texts] :
         {std::tuple("right", "--right", &right_), {"device", "--device", &device_}}) {
      if (texts->empty()) continue;
      RequestedAxis& added = request.axes.emplace_back(RequestedAxis{axis, {}});
      for (const std::string& text : split_values(option, *texts)) added.values.emplace_back(text);
    }
    if (!format_.empty())
      require(vary_parameter("format", split_values("--format", format_), request.kernels),
              "--format: none of the kernels reads several formats");
  }

  /// A file is named by its path from the root, so that the config may lie elsewhere.
  static std::string matrix_name(const std::string& name) {
    return fs::is_regular_file(name) ? fs::absolute(name).lexically_normal().string() : name;
  }

  void add_set(const std::string& set, SweepRequest& request) const {
    const std::size_t equals = set.find('=');
    require(equals != std::string::npos && equals > 0, "--set {}: NAME=VALUE was expected", set);
    const std::string key = set.substr(0, equals);
    const std::vector<std::string> texts = split_values("--set " + key, set.substr(equals + 1));
    const std::size_t dot = key.find('.');
    const std::string owner = key.substr(0, dot);
    if (dot != std::string::npos && std::ranges::find(kSections, owner) != kSections.end()) {
      Json list = Json::array();
      for (const std::string& text : texts) list.push_back(plain_value(text));
      request.sections[owner][key.substr(dot + 1)] = texts.size() == 1 ? list.front() : list;
      return;
    }
    const bool of_kernel = dot != std::string::npos && owner == "kernel";
    const std::string parameter = of_kernel ? key.substr(dot + 1) : key;
    if (dot == std::string::npos || of_kernel) {
      if (vary_parameter(parameter, texts, request.kernels)) return;
      require(!of_kernel, "--set {}: none of the kernels has this parameter", key);
    }
    RequestedAxis& axis = request.axes.emplace_back(RequestedAxis{key, {}});
    for (const std::string& text : texts) axis.values.push_back(plain_value(text));
  }

  /// "kernel=a,b,n=32": parts without a '=' of their own are further values of the one before.
  static RequestedSkip read_skip(const std::string& text) {
    RequestedSkip skip;
    std::string axis;
    for (const std::string& part : split_values("--skip", text)) {
      const std::size_t equals = part.find('=');
      const bool is_condition = equals != std::string::npos && equals < part.find('(');
      if (is_condition) axis = part.substr(0, equals);
      require(!axis.empty(), "--skip {}: AXIS=VALUE was expected, as in kernel=csr_spmm", text);
      skip[axis].push_back(plain_value(is_condition ? part.substr(equals + 1) : part));
    }
    return skip;
  }

  std::string baseline_label(const SweepRequest& request) const {
    if (baseline_.empty()) return "";
    std::vector<std::string> labels, of_name;
    for (const RequestedKernel& kernel : request.kernels) {
      labels.push_back(kernel.label());
      if (kernel.name == baseline_) of_name.push_back(kernel.label());
    }
    if (std::ranges::find(labels, baseline_) != labels.end()) return baseline_;
    require(of_name.size() < 2, "--baseline {}: there are several: {}", baseline_,
            fmt::join(of_name, "; "));
    require(of_name.size() == 1, "--baseline: {}",
            unknown_name_message("kernel of this sweep", baseline_, labels));
    return of_name.front();
  }

  // The results

  int tell_plan(const Plan& plan) const {
    const RunSummary now = plan_status(plan, options_.out);
    std::map<std::string, int> points;
    for (const PlanEntry& entry : plan.entries) ++points[entry.matrix];
    for (const auto& [matrix, count] : points) fmt::print("{:6} points  {}\n", count, matrix);
    fmt::print("{:6} points in all, {} of them without a record in {}\n", plan.entries.size(),
               now.left, options_.out);
    return kOk;
  }

  static std::vector<std::string> key_columns(const WrittenConfig& written) {
    std::vector<std::string> columns{"matrix"};
    columns.insert(columns.end(), written.settings.begin(), written.settings.end());
    return columns;
  }

  static std::vector<std::string> list_columns(const SweepRequest& request,
                                               const WrittenConfig& written) {
    std::vector<std::string> columns = key_columns(written);
    columns.push_back(written.series);
    columns.insert(columns.end(), request.measures.begin(), request.measures.end());
    columns.emplace_back("status");
    return columns;
  }

  static std::vector<std::string> csv_columns(const SweepRequest& request,
                                              const WrittenConfig& written) {
    std::vector<std::string> columns = list_columns(request, written);
    for (const char* column : {"reason", "n", "kernel", "reorder", "backend", "device", "origin",
                               "time_us", "p5_us", "p95_us", "samples", "gflops"})
      if (std::ranges::find(columns, column) == columns.end()) columns.emplace_back(column);
    return columns;
  }

  static Pivot pivot_of(const SweepRequest& request, const WrittenConfig& written,
                        const Report& report) {
    return make_pivot(report.rows, {.measure = request.measures.front(),
                                    .series = written.series,
                                    .keys = key_columns(written),
                                    .baseline = request.baseline});
  }

  static void tell(const SweepRequest& request, const WrittenConfig& written,
                   const Report& report) {
    if (request.measures.size() > 1)
      return fmt::print("{}", text_table(report.rows, list_columns(request, written)));
    const std::string& measure = request.measures.front();
    fmt::print("{}: {}; * best of its line{}\n\n", measure, meaning_of(measure),
               request.baseline.empty()
                   ? ""
                   : fmt::format("; (1.00x) speed relative to {}", request.baseline));
    fmt::print("{}", to_text(pivot_of(request, written, report)));
  }

  static std::string meaning_of(const std::string& measure) {
    const auto found = row_columns().find(measure);
    return found == row_columns().end() ? "" : found->second;
  }

  void tell_summary(const Report& report, const RunSummary& summary) const {
    std::string counts;
    for (const auto& [status, count] : summary.by_status)
      counts += fmt::format(", {} {}", count, status);
    std::string origins;
    for (const auto& [origin, count] : origins_of(report))
      origins += fmt::format("{}{} {}", origins.empty() ? "" : ", ", count, origin);
    fmt::print(stderr, "{} run now{}{}{}; records and config in {}\n", summary.ran, counts,
               summary.left > 0 ? fmt::format(", {} left", summary.left) : "",
               origins.empty() ? "" : "; " + origins, options_.out);
    for (const SkipGroup& group : summary.skips.groups()) fmt::print(stderr, "{}\n", group.text());
  }

  static std::map<std::string, int> origins_of(const Report& report) {
    std::map<std::string, int> origins;
    for (const Row& row : report.rows)
      if (row.at("status") == "ok") ++origins[cell_text(row, "origin")];
    return origins;
  }

  Json to_json(const SweepRequest& request, const WrittenConfig& written, const Report& report,
               const RunSummary& summary) const {
    Json json = summary.to_json();
    json["id"] = written.id;
    json["records"] = options_.out;
    json["points"] = Json::array();
    std::vector<std::string> columns = csv_columns(request, written);
    for (const Row& row : report.rows) {
      Json point = Json::object();
      for (const std::string& column : columns)
        if (row.contains(column)) point[column] = row.at(column);
      json["points"].push_back(std::move(point));
    }
    if (request.measures.size() == 1)
      json["table"] = tessera::to_json(pivot_of(request, written, report));
    return json;
  }

  /// Draws into the folder of the records, and copies the pictures to the name that was asked for:
  /// the only figure as it is, of several each with what it is of behind the name.
  void draw(const Report& report) const {
    const fs::path to(figure_);
    DrawOptions options;
    options.formats = {to.extension().string().substr(1)};
    std::vector<DrawnFigure> figures = make_figures(report, options.only);
    draw_figures(report.config, figures, options_.out, options);
    for (const DrawnFigure& figure : figures) {
      const fs::path from(figure.paths.front());
      const std::string part = from.stem().string().substr(std::string("sweep").size());
      fs::path copy = to;
      copy.replace_filename(to.stem().string() + part + to.extension().string());
      if (copy.has_parent_path()) fs::create_directories(copy.parent_path());
      fs::copy_file(from, copy, fs::copy_options::overwrite_existing);
      fmt::print(stderr, "{}\n", copy.string());
    }
  }

  static int code_of(const RunSummary& summary) {
    const auto any = [&](const char* status) { return summary.by_status.contains(status); };
    if (any("wrong")) return kWrong;
    if (any("failed") || any("timeout") || any("oom")) return kFailed;
    return summary.all_skipped() ? kNothingRan : kOk;
  }

  std::vector<std::string> matrices_, kernels_, right_, reorder_, format_, values_, backends_,
      device_, model_, sets_, skips_, measures_;
  std::string n_, baseline_, out_, save_, figure_, csv_;
  RunOptions options_;
  bool dry_run_ = false;
  bool json_ = false;
};

const Register<Verb> entry{{
    .name = "sweep",
    .summary = "products from the command line: matrices x orders x widths x kernels",
    .make = [](const Params&) { return std::make_unique<SweepVerb>(); },
}};

}  // namespace
}  // namespace tessera
