// tessera point: one point, one record. What a cluster scheduler calls.

#include <fstream>
#include <iostream>
#include <iterator>

#include "experiments/machine/machine.hpp"
#include "experiments/records/point_text.hpp"
#include "experiments/records/record_set.hpp"
#include "experiments/run/run_point.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/check.hpp"
#include "formats/base/escaped.hpp"
#include "formats/base/registry.hpp"

#include <filesystem>

namespace tessera {
namespace {

class PointVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option(
           "--json", json_,
           "the point as JSON: a line of `tessera plan --json`, a record, or a point itself; or a "
           "file with one of these; or - for stdin")
        ->required();
    app.add_option(
        "--out", out_,
        "record file (.jsonl) to append to; a point with a record there does not run again");
    app.add_flag("--no-environment", no_environment_,
                 "leave out the machine's description: the record has no env_id and cannot join a "
                 "record file")
        ->excludes("--out");
    app.add_flag("--fresh-orders", fresh_orders_,
                 "compute the order, and do not take it from the cache");
    app.example("tessera plan quickstart --json | head -1 | tessera point --json -",
                "the first point of an experiment");
  }

  int run() override {
    const Point point = point_from_text(text());
    PointRunner runner({.fresh_orders = fresh_orders_});
    if (!out_.empty() && std::filesystem::exists(out_)) {
      const std::string id = runner.point_id(point);
      for (const Json& record : read_records(out_).points) {
        if (record.at("point_id") != id || record.value("status", "") == "skipped") continue;
        fmt::print("{}\n", record.dump());
        return code_of(record);
      }
    }
    // First: a process that has used the GPU cannot ask another one about it.
    const Json environment = no_environment_ ? Json::object() : environment_record();
    Json record = runner.run(point).record;
    if (!no_environment_) record["env_id"] = environment.at("env_id");
    if (!out_.empty()) {
      const bool known = std::filesystem::exists(out_) &&
                         read_records(out_).environments.contains(environment.at("env_id"));
      RecordWriter writer(out_);
      if (!known) writer.append(environment);
      writer.append(record);
    }
    fmt::print("{}\n", record.dump());
    return code_of(record);
  }

 private:
  std::string text() const {
    if (json_ == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
    if (json_.starts_with("{")) return json_;
    require(!std::filesystem::is_directory(json_), "--json {}: a folder, a file was expected",
            json_);
    std::ifstream file(json_);
    require(file.good(), "{}: cannot be read", json_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  static int code_of(const Json& record) {
    const std::string status = record.at("status");
    if (status == "ok") return kOk;
    if (status == "skipped") {
      fmt::print(stderr, "skipped: {}\n", escaped(record.value("reason", "")));
      return kNothingRan;
    }
    return status == "wrong" ? kWrong : kFailed;
  }

  std::string json_;
  std::string out_;
  bool fresh_orders_ = false;
  bool no_environment_ = false;
};

const Register<Verb> entry{{
    .name = "point",
    .summary = "run one resolved point and print its record",
    .make = [](const Params&) { return std::make_unique<PointVerb>(); },
}};

}  // namespace
}  // namespace tessera
