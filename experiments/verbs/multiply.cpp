// tessera multiply: one product, checked against the oracle.

#include <algorithm>
#include <optional>

#include "experiments/config/plan.hpp"
#include "experiments/config/read_sweep.hpp"
#include "experiments/counters/counter_source.hpp"
#include "experiments/machine/terminal.hpp"
#include "experiments/points/any_kernel.hpp"
#include "experiments/run/run_on_gpus.hpp"
#include "experiments/run/run_point.hpp"
#include "experiments/verbs/tell_gpus.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/amounts.hpp"
#include "formats/base/check.hpp"
#include "formats/base/escaped.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/npy.hpp"
#include "formats/io/source.hpp"
#include "model/simulator/sampling.hpp"

namespace tessera {
namespace {

class MultiplyVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option("MATRIX", matrix_, "A: a file, a generator or a name")->required();
    app.add_option("--kernel", kernel_,
                   "kernel (`tessera list kernels`); auto: the one for a dense B that a simulation "
                   "on the described device expects to be fastest");
    app.add_option("--n", n_, "columns of a dense B, or of the X and Y of an SDDMM (default 128)")
        ->check(CLI::PositiveNumber);
    app.add_option("--right", right_, "sparse B: self (default), transpose, or a matrix");
    app.add_option("--mask", mask_,
                   "the cells of a sparse C: those of self, A, or of a matrix (default: of A B)");
    app.add_option("--format", format_, "format of A (default: the kernel's)");
    app.add_option("--reorder", reorder_,
                   "reordering applied to A first (`tessera list reorderings`)");
    app.add_option("--backend", backend_, "emulate, model, simulate or gpu");
    app.add_option("--device", device_, "described device, for every backend but gpu");
    app.add_option("--values", values_, "value family of A and B (`tessera list values`)");
    app.add_option("--counters", counters_,
                   "source of hardware counters on backend gpu: auto, cupti, ncu or external");
    app.add_option("--metrics", metrics_,
                   "metrics to count (default: those the simulator predicts)")
        ->delimiter(',')
        ->takes("METRIC");
    app.add_option(
        "--sample", sample_,
        "sampling on backend simulate: off (default), auto (only launches that would take "
        "minutes), or the number of stretches to simulate");
    app.add_option("--seed", seed_, "seed of drawn values");
    app.add_option("--set", sets_, "parameter of a variant, as in precision=tf32_raw")
        ->allow_extra_args(false)
        ->takes("NAME=VALUE");
    app.add_option("--b", b_file_, "read B from this .npy file, whose width becomes n")
        ->takes("FILE");
    app.add_option("--out", c_file_, "write C to this .npy file")->takes("FILE");
    app.add_option("--gpus", gpus_,
                   "GPUs that share the product, by rows of A; rows of B that others own are "
                   "exchanged (kernel auto: tessera_spmm)")
        ->check(CLI::PositiveNumber);
    app.add_option("--partition", partition_,
                   "with --gpus, rows alike in expected time or nonzeros, or the parts of METIS")
        ->check(CLI::IsMember(partition_choices()));
    app.add_option("--exchange", exchange_,
                   "with --gpus, the rows of B that travel: auto, needed, replicated (all, while "
                   "its own are multiplied) or gathered (all, before one product)")
        ->check(CLI::IsMember({"auto", "needed", "replicated", "gathered"}));
    app.add_flag("--json", json_, "print the record, with every digit");
    app.example("tessera multiply 'rmat(scale=12)' --n 64",
                "chooses a kernel by simulation, emulates it, and checks all of C");
    app.example("tessera multiply 'rmat(scale=12)' --n 64 --kernel acc_spmm --backend simulate",
                "predicts time and hardware counters on an H200");
    app.example("tessera multiply 'rmat(scale=12)' --kernel mixed_spgemm --mask self",
                "squares A at A's own cells alone, as counting triangles does");
    app.example("tessera multiply 'rmat(scale=12)' --n 64 --kernel tessera_sddmm",
                "multiplies two dense matrices at A's nonzeros (SDDMM): S = X Y^T");
    app.example("tessera multiply 'poisson3d(nx=32)' --gpus 8 --backend simulate",
                "predicts the time on eight GPUs, and the bytes that they exchange");
  }

  int run() override {
    refuse_unfit();
    std::optional<DenseMatrix> b;
    if (!b_file_.empty()) {
      b = read_npy(b_file_);
      n_ = b->cols;
    }
    const Json record = gpus_ > 0 ? run_on_several(std::move(b)) : run_on_one(std::move(b));
    if (json_) {
      print_json(record);
    } else {
      tell(record);
      tell_gpus(record);
    }
    const std::string status = record.at("status");
    if (status == "skipped") return kMissing;
    return status == "ok" ? kOk : (status == "wrong" ? kWrong : kFailed);
  }

 private:
  Json run_on_one(std::optional<DenseMatrix> b) const {
    PointRunner runner;
    if (b) runner.use_b(std::move(*b));
    Json record = runner.run(resolve()).record;
    write(runner.last_c());
    return record;
  }

  Json run_on_several(std::optional<DenseMatrix> b) {
    if (kernel_ == kAuto) kernel_ = kOfSeveral;
    GpusRequest request{.gpus = static_cast<int>(gpus_), .partition = partition_};
    for (const Exchange way : {Exchange::kNeeded, Exchange::kReplicated, Exchange::kGathered})
      if (exchange_ == name_of(way)) request.exchange = way;
    GpusAttempt attempt = run_on_gpus(resolve(), request, std::move(b));
    write(attempt.c);
    return std::move(attempt.record);
  }

  void write(const DenseMatrix& c) const {
    if (!c_file_.empty() && c.cols > 0) write_npy(c_file_, c);
  }

  /// Throws an Error for options of the other kind of product.
  void refuse_unfit() const {
    require(gpus_ > 0 || (partition_ == "time" && exchange_ == "auto"),
            "--partition and --exchange are of a product on several GPUs (--gpus)");
    require(gpus_ == 0 || (!is_sparse_product(kernel_) && !is_sampled_product(kernel_)),
            "--gpus is of a dense B; kernel {} makes another product", kernel_);
    require(gpus_ == 0 || (counters_.empty() && metrics_.empty()),
            "counters are of products on one GPU");
    const bool by_sparse = is_sparse_product(kernel_);
    require(!by_sparse || !n_, "--n is of a dense B; kernel {} takes a sparse one (--right)",
            kernel_);
    require(!by_sparse || (b_file_.empty() && c_file_.empty()),
            "--b and --out are of a dense B; kernel {} takes a sparse one", kernel_);
    const bool sampled = is_sampled_product(kernel_);
    require(!sampled || (b_file_.empty() && c_file_.empty()),
            "--b and --out are of C = A B; kernel {} computes S = X Y^T at the nonzeros of A",
            kernel_);
    require((!by_sparse && !sampled) || (counters_.empty() && metrics_.empty()),
            "counters are of products with a dense B; kernel {} makes another", kernel_);
    require(by_sparse || right_.empty(),
            "--right is of a sparse B; kernel {} takes dense operands (--n)", kernel_);
    require(by_sparse || mask_.empty(), "--mask is of a sparse C; kernel {} makes a dense one",
            kernel_);
  }

  /// Resolves the options as a config with one combination of settings.
  Point resolve() const {
    Config config;
    config.path = "multiply";
    config.seed = seed_;
    config.backends = {backend_};
    config.counters = counters();
    config.sample = sample();
    std::vector<std::pair<std::string, Json>> settings{{"matrix", find_matrix(matrix_).canonical},
                                                       {"kernel", kernel_},
                                                       {"reorder", reorder_},
                                                       {"device", device_}};
    if (is_sparse_product(kernel_))
      settings.emplace_back("right", right_.empty() ? kSelf : right_);
    else
      settings.emplace_back("n", n_.value_or(kUsualN));
    if (!mask_.empty()) settings.emplace_back("mask", mask_);
    if (!format_.empty()) settings.emplace_back("format", format_);
    for (const auto& [name, part] : take_apart("values", {values_, "multiply"}))
      settings.emplace_back(name, part.value);
    for (const auto& [name, value] : given_params(sets_))
      settings.emplace_back(name, std::get<std::string>(value));
    return plan_point(std::move(config), settings);
  }

  /// Prints the kernel picked for "auto" and why, in one line.
  static void tell_advice(const Json& advice, auto line) {
    // Without parameters, and the first of the reasons: `tessera advise` has all.
    const auto first = [](const Json& text, char end) {
      const auto whole = text.get<std::string>();
      return whole.substr(0, whole.find(end));
    };
    std::string why =
        fmt::format("{}, {} predicted on {}: {}", first(advice["kernel"], '('),
                    time_text(advice["time_us"].get<double>()), advice["device"].get<std::string>(),
                    first(advice["reason"], ';'));
    if (const Json& second = advice["runner_up"]; !second.is_null())
      why += fmt::format("; runner-up {}, {}{}", first(second["kernel"], '('),
                         time_text(second["time_us"].get<double>()),
                         advice["tie"].get<bool>() ? ", a tie" : "");
    if (advice.contains("remark")) why += "; " + advice["remark"].get<std::string>();
    line("kernel", why);
  }

  CounterRule counters() const {
    if (counters_.empty() && metrics_.empty()) return {};
    require(backend_traits(backend_).counts, "counters are of backend gpu; backend is {}",
            backend_);
    const CounterRule rule{counters_.empty() ? "auto" : counters_,
                           metrics_.empty() ? default_metrics() : metrics_};
    if (rule.source == "none") return {};
    validate(rule);
    return rule;
  }

  std::string sample() const {
    if (simulator::sampling_of(sample_).stretches == 0) return "";
    require(backend_traits(backend_).simulates, "sampling is of backend simulate; backend is {}",
            backend_);
    return sample_;
  }

  /// Prints the simulated share and the sampling errors.
  static void tell_sampling(const Json& simulation, auto line) {
    if (!simulation.contains("counter_errors")) return;
    const auto number = [&](const char* name) { return simulation[name].get<double>(); };
    line("sampled",
         fmt::format("{:.3g} % of the thread blocks; 95 % intervals: time +-{:.2g} %, L2 "
                     "reads +-{:.2g} %, DRAM reads +-{:.2g} %, writes +-{:.2g} %",
                     100 * number("sampled_share"), number("time_error_pct"),
                     number("l2_read_error_pct"), number("dram_read_error_pct"),
                     number("dram_write_error_pct")));
  }

  /// A counter with the unit that its name tells.
  static std::string metric_text(const std::string& metric, double value) {
    const auto has = [&](const char* part) { return metric.find(part) != metric.npos; };
    if (has(".pct")) return fmt::format("{:.3g} %", value);
    if (has("time_duration")) return time_text(1e-3 * value);
    return has("__bytes") && !has("per_second") ? bytes_text(value) : number_text(value);
  }

  static void tell_counters(const Json& record) {
    if (record.contains("counters_missing"))
      fmt::print("{:16} none: {}\n", "counters", record["counters_missing"].get<std::string>());
    if (!record.contains("counters")) return;
    fmt::print("{:16} {}\n", "counters",
               record.contains("counters_source")
                   ? fmt::format("by {}, L2 {}", record["counters_source"].get<std::string>(),
                                 record["counters_l2"].get<std::string>())
                   : record.value("origin", ""));
    for (const auto& [metric, value] : record["counters"].items())
      fmt::print("{:16} {:64} {}\n", "", metric, metric_text(metric, value.get<double>()));
  }

  /// Prints the parts that only sparse products have.
  static void tell_sparse_product(const Json& record, auto line, auto number) {
    if (record.contains("right"))
      line("B", fmt::format("{}, {} nonzeros", record["right"]["name"].get<std::string>(),
                            record["right"]["nnz"].get<std::int64_t>()));
    if (record.contains("time_again"))
      line("repeated", fmt::format("{} us", number("/time_again/median_us")));
    if (record.contains("time_pool"))
      line("with a pool", fmt::format("{} us", number("/time_pool/median_us")));
    for (const Json& stage : record.value("stages", Json::array()))
      line("", fmt::format("{:14} {:>10}", stage["name"].get<std::string>(),
                           time_text(stage["us"].get<double>())));
    if (record.contains("memory"))
      line("memory", bytes_text(record["memory"]["peak_bytes"].get<double>()));
    line("products", record["products"].dump());
    if (record.contains("nnz_c")) line("nonzeros of C", record["nnz_c"].dump());
    if (record.contains("compression")) line("compression", number("/compression"));
  }

  static void tell(const Json& record) {
    const auto line = [](const char* name, const std::string& text) {
      fmt::print("{:16} {}\n", name, text);
    };
    const auto number = [&](const char* pointer) {
      const Json::json_pointer at(pointer);
      return record.contains(at) ? fmt::format("{:.4g}", record[at].get<double>()) : "";
    };
    line(
        "status",
        verdict_text(record.at("status").get<std::string>()) +
            (record.value("reason", "").empty() ? "" : ": " + escaped(record.value("reason", ""))));
    if (record.contains("matrix"))
      line("A", fmt::format("{}, {} x {}, {} nonzeros, {} values",
                            record["matrix"]["name"].get<std::string>(),
                            record["matrix"]["rows"].get<std::int64_t>(),
                            record["matrix"]["cols"].get<std::int64_t>(),
                            record["matrix"]["nnz"].get<std::int64_t>(),
                            record["matrix"]["values"].get<std::string>()));
    if (record.contains("advice")) tell_advice(record["advice"], line);
    line("origin", record.value("origin", ""));
    if (record.contains("time"))
      line("time", fmt::format("{} us (5 % to 95 %: {} to {} us)", number("/time/median_us"),
                               number("/time/p5_us"), number("/time/p95_us")));
    if (record.contains("products")) tell_sparse_product(record, line, number);
    if (record.contains("winner")) line("algorithm", record["winner"]);
    if (record.contains("prediction")) {
      line("predicted time",
           fmt::format("{}, bound by {}", time_text(record["prediction"]["time_us"].get<double>()),
                       record["prediction"]["bound_by"].get<std::string>()));
      if (record.contains("simulation")) tell_sampling(record["simulation"], line);
      const char* told_by = record.contains("simulation") ? "simulation" : "prediction";
      for (const Json& part : record[told_by]["parts"])
        line("", fmt::format("{:14} {:>10}  {}", part["name"].get<std::string>(),
                             time_text(part["time_us"].get<double>()),
                             part["reason"].get<std::string>()));
    }
    if (record.contains("gflops")) line("GFLOP/s", number("/gflops"));
    tell_counters(record);
    if (record.contains("bits"))
      line("bits", fmt::format("{} of {} elements differ from the emulation",
                               record["bits"]["different"].get<std::int64_t>(),
                               record["bits"]["compared"].get<std::int64_t>()));
    if (!record.contains("check")) return;
    line("SMAPE", number("/check/smape_pct") + " %");
    line("backward error", number("/check/backward_error"));
    line("error / bound", number("/check/bound_ratio"));
    if (record["check"].contains("worst")) {
      const Json& worst = record["check"]["worst"];
      line("worst element",
           fmt::format("C[{}][{}] = {}, truth {:.9g}, {}", worst["row"].get<std::int64_t>(),
                       worst["col"].get<std::int64_t>(), worst["computed"].dump(),
                       worst["expected"].get<double>(), worst["tile"].get<std::string>()));
    }
  }

  static constexpr std::int64_t kUsualN = 128;
  static constexpr const char* kOfSeveral = "tessera_spmm";

  std::string matrix_, kernel_ = kAuto, format_, reorder_ = "none", right_, mask_;
  std::string backend_ = "emulate", device_ = "h200", values_ = "auto";
  std::string b_file_, c_file_, counters_, sample_, partition_ = "time", exchange_ = "auto";
  std::int64_t gpus_ = 0;          // 0: one, without parts
  std::optional<std::int64_t> n_;  // of a dense B
  std::uint64_t seed_ = 42;
  std::vector<std::string> sets_, metrics_;
  bool json_ = false;
};

const Register<Verb> entry{{
    .name = "multiply",
    .summary = "run one product and check it against the oracle",
    .make = [](const Params&) { return std::make_unique<MultiplyVerb>(); },
}};

}  // namespace
}  // namespace tessera
