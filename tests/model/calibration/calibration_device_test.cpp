// The micro-benchmarks: which there are, and that all of them work on this GPU.
#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "experiments/machine/gpu_info.hpp"
#include "experiments/run/calibration.hpp"
#include "formats/base/check.hpp"
#include "model/calibration/physical_limits.hpp"

namespace tessera {
namespace {

TEST_CASE("every family of micro-benchmarks is registered, a misspelt one is an error") {
  const Registry<Microbenchmark>& known = Registry<Microbenchmark>::instance();

  CHECK(known.names() == std::vector<std::string>{"async_copies", "atomics", "bulk_copies", "clock",
                                                  "fences", "gathers", "latency", "launches",
                                                  "limits", "loads", "pipelines", "streams",
                                                  "tensor_cores"});
  CHECK_THROWS_WITH_AS(known.find("latnecy"), doctest::Contains("did you mean 'latency'"), Error);
}

TEST_CASE("micro-benchmarks measure possible numbers of all their quantities") {
  if (const std::string missing = gpu_unavailable(); !missing.empty()) {
    MESSAGE("skipped: ", missing);
    return;
  }
  const Json gpu = gpu_description();
  Device device =
      device_to_calibrate("", gpu.at("name"), gpu.at("tensor_cores"), gpu.at("compute_capability"));
  std::set<std::string> found;
  for (const std::string& name : Registry<Microbenchmark>::instance().names()) {
    CAPTURE(name);
    Findings findings;
    try {
      findings = Registry<Microbenchmark>::instance().make(name)->run({3, true});
    } catch (const Unsupported& error) {
      MESSAGE("without ", name, ": ", error.what());
    }

    CHECK(take_numbers(device, findings.numbers, "by test") == std::vector<std::string>{});
    for (const Finding& number : findings.numbers) {
      CHECK(found.insert(number.quantity).second);
      CHECK(number.how != "");
    }
    for (const Curve& curve : findings.curves) {
      CAPTURE(curve.name);
      CHECK_FALSE(curve.rows.empty());
      CHECK(curve_csv(curve).find("nan") == std::string::npos);
      for (const std::vector<double>& row : curve.rows)
        for (const double cell : row) CHECK((std::isfinite(cell) && cell > 0));
    }
  }
  // Quantities that only datasheets state, that need several GPUs, that counters and probes outside
  // of the micro-benchmarks have told, or that some GPUs lack.
  std::set<std::string> expected;
  for (const QuantitySpec& spec : quantity_specs()) expected.insert(spec.name);
  for (const char* quantity :
       {"tf32", "fp16", "int8", "dram_capacity", "l1_capacity", "tensor_clock", "link_bandwidth",
        "link_latency", "network_bandwidth", "gpus_per_host", "l2_lookup_bandwidth",
        "l2_fabric_bandwidth", "thread_block_gap"})
    expected.erase(quantity);
  for (const char* quantity :
       {"l2_far_latency", "atomic_vector", "async_copy_interval", "async_copy_latency"}) {
    expected.erase(quantity);
    found.erase(quantity);
  }
  for (const std::string& quantity : expected) {
    CAPTURE(quantity);
    CHECK(found.contains(quantity));
  }
  for (const std::string& quantity : found) {
    CAPTURE(quantity);
    CHECK(expected.contains(quantity));
  }
}

}  // namespace
}  // namespace tessera
