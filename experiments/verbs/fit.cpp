// tessera fit: SMaT's linear model of the time of a product, fitted to records.
//
// A series is one kernel with its parameters on one device, for one N and of one origin; its
// points are matrices. The records of predicted products say how many blocks a matrix has, and so
// the measured ones of the same matrix in the same order are known too.

#include <algorithm>
#include <map>
#include <tuple>

#include "experiments/records/record_set.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/amounts.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "model/line_fit.hpp"

namespace tessera {
namespace {

constexpr int kLinePieces = 32;  // straight pieces of the line that figures draw

/// kernel, device, N, origin.
using SeriesKey = std::tuple<std::string, std::string, std::int64_t, std::string>;

struct Series {
  std::vector<std::string> matrices;
  std::vector<double> blocks;    // n_e
  std::vector<double> times_us;  // of the products
};

/// The matrix and its order, which is what blocks are counted of.
std::string counted_part(const Json& record) {
  return record.at("params").at("matrix").dump() + record["params"].at("reorder").dump();
}

std::map<std::string, double> blocks_by_matrix(const RecordSet& records) {
  std::map<std::string, double> blocks;
  const Json::json_pointer counted("/analysis/smat_blocks");
  for (const Json& record : records.points)
    if (record.contains(counted)) blocks[counted_part(record)] = record[counted];
  return blocks;
}

/// Measured or predicted; 0 where there is none.
double time_us(const Json& record) {
  for (const char* place : {"/time/median_us", "/prediction/time_us"})
    if (const Json::json_pointer at(place); record.contains(at)) return record[at];
  return 0;
}

std::string kernel_text(const Json& kernel) {
  std::string text;
  for (const auto& [name, value] : kernel.items())
    if (name != "name")
      text += (text.empty() ? "" : ", ") + name + "=" +
              (value.is_string() ? value.get<std::string>() : value.dump());
  const std::string name = kernel.at("name");
  return text.empty() ? name : name + "(" + text + ")";
}

/// The described device, or the GPU measured on.
std::string device_of(const Json& record, const RecordSet& records) {
  const Json::json_pointer gpu("/gpu/name");
  if (record["params"].contains("device")) return record["params"]["device"];
  const auto found = records.environments.find(record.value("env_id", ""));
  return found != records.environments.end() && found->second.contains(gpu)
             ? found->second[gpu].get<std::string>()
             : "";
}

std::map<SeriesKey, Series> read_series(const RecordSet& records) {
  const auto blocks = blocks_by_matrix(records);
  std::map<SeriesKey, Series> all;
  for (const Json& record : records.points) {
    if (record.value("status", "") != "ok" || !record.at("params").contains("kernel")) continue;
    const auto counted = blocks.find(counted_part(record));
    const double time = time_us(record);
    if (counted == blocks.end() || time <= 0) continue;
    Series& series = all[{kernel_text(record["params"]["kernel"]), device_of(record, records),
                          record["params"].at("n"), record.at("origin")}];
    series.matrices.push_back(record["params"]["matrix"]);
    series.blocks.push_back(counted->second);
    series.times_us.push_back(time);
  }
  return all;
}

Json interval_json(double value, const Interval& interval) {
  return {{"value", value}, {"low", interval.low}, {"high", interval.high}};
}

Json line_json(const LineFit& fit, double most_blocks) {
  Json line = Json::array();
  for (int i = 0; i <= kLinePieces; ++i) {
    const double blocks = most_blocks * i / kLinePieces;
    const Interval mean = fit.line_interval(blocks), one = fit.prediction_interval(blocks);
    line.push_back({{"blocks", blocks},
                    {"time_us", fit.at(blocks)},
                    {"low", mean.low},
                    {"high", mean.high},
                    {"one_more_low", one.low},
                    {"one_more_high", one.high}});
  }
  return line;
}

class FitVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option("RECORDS", records_, "record file, or a folder of them")->required();
    app.add_option("--confidence", confidence_,
                   "confidence level of the intervals, between 0 and 1");
    app.add_flag("--json", json_, "print JSON with the points and the line");
    app.example("tessera fit out/smat_fit", "ns a block and us to start, for each kernel");
  }

  int run() override {
    require(confidence_ > 0 && confidence_ < 1, "confidence is {}, it lies between 0 and 1",
            confidence_);
    Json fits = Json::array();
    const auto all = read_series(read_records(records_));
    require(!all.empty(),
            "{} has no product with a time and a number of blocks: predicted products (backend "
            "model) tell the blocks",
            records_);
    for (const auto& [key, series] : all) fits.push_back(fit(key, series));
    if (json_)
      print_json(fits);
    else
      tell(fits);
    return kOk;
  }

 private:
  Json fit(const SeriesKey& key, const Series& series) const {
    const auto& [kernel, device, n, origin] = key;
    Json json{{"kernel", kernel},
              {"device", device},
              {"n", n},
              {"origin", origin},
              {"points", Json::array()}};
    for (std::size_t i = 0; i < series.blocks.size(); ++i)
      json["points"].push_back({{"matrix", series.matrices[i]},
                                {"blocks", series.blocks[i]},
                                {"time_us", series.times_us[i]}});
    try {
      const LineFit found = fit_line(series.blocks, series.times_us, confidence_);
      json["time_per_block_us"] = interval_json(found.slope, found.slope_interval);
      json["init_us"] = interval_json(found.intercept, found.intercept_interval);
      json["r_squared"] = found.r_squared;
      json["residual_std_us"] = found.residual_std;
      json["confidence"] = found.confidence;
      json["line"] = line_json(found, std::ranges::max(series.blocks));
    } catch (const Error& error) {
      json["reason"] = error.what();
    }
    return json;
  }

  static void tell(const Json& fits) {
    for (const Json& fit : fits) {
      fmt::print("{} on {}, N = {}, {}, {}\n", fit["kernel"].get<std::string>(),
                 fit["device"].get<std::string>(), fit["n"].get<std::int64_t>(),
                 fit["origin"].get<std::string>(), counted(std::ssize(fit["points"]), "point"));
      if (fit.contains("reason")) {
        fmt::print("  no fit: {}\n", fit["reason"].get<std::string>());
        continue;
      }
      const auto line = [&](const char* name, const Json& found, double scale, const char* unit) {
        fmt::print("  {:8} {:.5g} {} ({:.5g} to {:.5g})\n", name,
                   scale * found["value"].get<double>(), unit, scale * found["low"].get<double>(),
                   scale * found["high"].get<double>());
      };
      line("T_e", fit["time_per_block_us"], 1e3, "ns a block");
      line("T_init", fit["init_us"], 1, "us");
      fmt::print("  {:8} {:.5f}, scatter {:.3g} us; intervals hold with {} %\n", "R^2",
                 fit["r_squared"].get<double>(), fit["residual_std_us"].get<double>(),
                 100 * fit["confidence"].get<double>());
    }
  }

  std::string records_;
  double confidence_ = 0.95;
  bool json_ = false;
};

const Register<Verb> entry{{
    .name = "fit",
    .summary = "fit SMaT's T = T_e n_e + T_init to records",
    .make = [](const Params&) { return std::make_unique<FitVerb>(); },
}};

}  // namespace
}  // namespace tessera
