// An experiment whose records are made up, so that what is made of them can be worked out by hand.
#pragma once

#include <functional>
#include <regex>
#include <string>
#include <vector>

#include "experiments/config/config.hpp"
#include "experiments/config/plan.hpp"
#include "experiments/records/record_set.hpp"
#include "experiments/tables/rows.hpp"
#include "formats/base/check.hpp"
#include "tests/support.hpp"

namespace tessera {

struct PlantedExperiment {
  Config config;
  Plan plan;
  RecordSet records;
  std::vector<Row> rows;
};

/// One made-up record: absent_a has 100 nonzeros, absent_b 300. A prediction is n us, three times
/// that for csr_spmm, twice that for absent_b; an emulation has an error and no time.
inline Json planted_record(const PlanEntry& entry) {
  const Point& p = entry.point;
  const bool is_b = p.matrix == "absent_b", is_model = p.backend == "model";
  Json record{{"schema", 1},
              {"type", "point"},
              {"point_id", "result of " + entry.hash},
              {"params_hash", entry.hash},
              {"params", to_json(p)},
              {"status", "ok"},
              {"finished_at", "2026-01-01T00:00:00Z"},
              {"origin", is_model ? "modelled" : "emulated"},
              {"matrix", {{"name", entry.matrix}, {"nnz", is_b ? 300 : 100}}}};
  if (is_model)
    record["prediction"]["time_us"] = static_cast<double>(dense_product(p).n) *
                                      (dense_product(p).kernel.name == "csr_spmm" ? 3 : 1) *
                                      (is_b ? 2 : 1);
  else
    record["check"]["smape_pct"] = 0.25;
  return record;
}

/// Two matrices x two kernels x (emulate, model), n = 16; `rest` of the config starts in line 11.
inline PlantedExperiment planted_experiment(const std::string& rest) {
  const TemporaryFolder folder;
  write_text(folder / "c.toml",
             "schema = 1\n[experiment]\nid = \"c\"\nbackends = [\"emulate\", \"model\"]\n\n"
             "[grid]\nmatrix = [\"absent_a\", \"absent_b\"]\n"
             "kernel = [\"csr_spmm\", \"acc_spmm\"]\nn = 16\n\n" +
                 rest);
  PlantedExperiment found{load_config(folder / "c.toml"), {}, {}, {}};
  found.plan = make_plan(found.config);
  for (const PlanEntry& entry : found.plan.entries)
    found.records.points.push_back(planted_record(entry));
  found.rows = make_rows(found.plan, found.records, found.config);
  return found;
}

/// The message of the Error that `body` throws, without the folder of the config.
inline std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return std::regex_replace(error.what(), std::regex("[^ ]*/c\\.toml"), "c.toml");
  }
  return "no error";
}

}  // namespace tessera
