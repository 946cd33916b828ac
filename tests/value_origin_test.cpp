// Where a value in a figure comes from, whatever backend made its row.
#include <doctest/doctest.h>

#include "experiments/figure_data.hpp"

namespace tessera {
namespace {

TEST_CASE("what is counted or timed on the host is not called a prediction") {
  const Row row{{"origin", "modelled"}};

  for (const char* column : {"nnz", "rows", "mean_nnz_tc", "footprint_bytes", "tiles", "mma"})
    CHECK(value_origin(row, column) == "counted");
  for (const char* column : {"load_s", "reorder_s", "pack_s"})
    CHECK(value_origin(row, column) == "measured");
  for (const char* column : {"time_us", "gflops", "smape_pct", "emulate_s", "some_derived_column"})
    CHECK(value_origin(row, column) == "modelled");
}

TEST_CASE("a figure's provenance names the runs that its records are from, and no other") {
  RecordSet records;
  const auto env = [](const char* cpu) {
    return Json{{"host", {{"cpu", cpu}}},
                {"started_at", "2026-11-21T07:49:55Z"},
                {"build", {{"commit", "0123abc"}, {"dirty", false}}}};
  };
  records.environments = {{"a", env("CPU A")}, {"b", env("CPU B")}};
  records.points = {Json{{"env_id", "a"}}};

  CHECK(provenance_text(records) == "CPU A, 2026-11-21, commit 0123abc");

  records.points.push_back(Json{{"env_id", "b"}});
  CHECK(provenance_text(records) ==
        "CPU A, 2026-11-21, commit 0123abc; CPU B, 2026-11-21, commit 0123abc");
}

}  // namespace
}  // namespace tessera
