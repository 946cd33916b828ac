// Metric names against what CUPTI knows of each chip; no GPU is needed for that.
#include "experiments/counters/metric_catalog.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "experiments/counters/counter_source.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spmm_kernel.hpp"
#include "model/simulator/counters.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

/// Empty, with a message that the test is skipped, where metrics cannot be looked up.
std::unique_ptr<MetricCatalog> catalog() {
  try {
    return find_metric_catalog();
  } catch (const Unsupported& missing) {
    MESSAGE("skipped: " << std::string(missing.what()));
    return nullptr;
  }
}

TEST_CASE("the usual metrics exist on the chips of every described GPU, and take two passes") {
  const auto known = catalog();
  if (!known) return;

  for (const char* chip : {"GA100", "AD102", "GH100"}) {
    CAPTURE(chip);
    const auto metrics = known->open(chip);
    for (const std::string& metric : default_metrics())
      CHECK(metric_fault(chip, *metrics, metric) == "");
    CHECK(metrics->passes(default_metrics()) == 2);
  }
}

TEST_CASE("a misspelt metric is an error with the nearest names") {
  const auto known = catalog();
  if (!known) return;
  const auto metrics = known->open("GH100");

  CHECK(metric_fault("GH100", *metrics, "lts__t_sectors_op_raed.sum")
            .find("no metric lts__t_sectors_op_raed.sum; nearest: lts__t_sectors_op_read.sum") !=
        std::string::npos);
  CHECK(metric_fault("GH100", *metrics, "lts__t_sectors_op_read.smu")
            .find("lts__t_sectors_op_read.sum") != std::string::npos);
  CHECK(metric_fault("GH100", *metrics, "lts__t_sectors_op_read")  // an ending is missing
            .find("lts__t_sectors_op_read.sum") != std::string::npos);
  CHECK(metric_fault("GH100", *metrics, "nonsense") != "");
  CHECK(metric_fault("GH100", *metrics, "") != "");
  CHECK_THROWS_AS(metrics->passes({"lts__t_sectors_op_raed.sum"}), Error);
  CHECK_THROWS_WITH_AS(known->open("GH10"), doctest::Contains("did you mean 'GH100'"), Error);
}

TEST_CASE(
    "every metric name of a chip that is listed can be described and has endings that exist") {
  const auto known = catalog();
  if (!known) return;
  const auto metrics = known->open("GA100");
  const auto names = metrics->names();

  REQUIRE(names.size() > 1000);
  CHECK(std::ranges::is_sorted(names));
  for (std::size_t i = 0; i < names.size(); i += 97) {
    CAPTURE(names[i]);
    CHECK(metrics->describe(names[i]).name == names[i]);
    const auto endings = metrics->endings(names[i]);
    REQUIRE_FALSE(endings.empty());
    CHECK(metrics->has(names[i] + endings.back()));
    CHECK_FALSE(metrics->has(names[i]));
  }
  CHECK_THROWS_AS(metrics->describe("nonsense"), Error);
}

TEST_CASE("what the simulator predicts is what is counted unless a config says otherwise") {
  const CsrMatrix a = random_sparse(64, 64, 0.1, 1);
  const auto kernel = Registry<SpmmKernel>::instance().make("csr_spmm");
  const auto packed = Registry<Format>::instance().make("csr")->pack(a);
  const auto predicted =
      simulator::counters(simulator::simulate(kernel->work(*packed, 32), find_device("h200")));

  std::vector<std::string> names;
  for (const auto& [name, value] : predicted) names.push_back(name);
  std::vector<std::string> counted = default_metrics();
  std::ranges::sort(counted);
  CHECK(counted == names);
}

}  // namespace
}  // namespace tessera
