// Backend "reorder": the time to find an order on the CPU, with all threads of the process.
//
// The median of a few runs where one is short, and never an order from the cache. Every run has to
// give the same order: a reordering promises that, at any number of threads, unless it was cut
// short.

#include <algorithm>

#include "experiments/backends/backend.hpp"
#include "experiments/backends/time_summary.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

constexpr std::size_t kMostRuns = 5;
constexpr double kMostSeconds = 1;  // after which no further run begins

bool same(const Order& a, const Order& b) { return a.rows == b.rows && a.cols == b.cols; }

class ReorderBackend final : public Backend {
 public:
  std::string origin() const override { return "measured"; }

  OrderingResult reorder(const OrderingInput& o) const override {
    OrderingResult result{compute_order(o.reordering, o.matrix, o.watch), 0, "", {}};
    std::vector<double> samples_us{1e6 * result.found.seconds};
    double seconds = result.found.seconds;
    while (!result.found.cut_short && samples_us.size() < kMostRuns && seconds < kMostSeconds) {
      const FoundOrder again = compute_order(o.reordering, o.matrix, o.watch);
      if (again.cut_short) break;
      if (!same(again.order, result.found.order))
        result.fault = fmt::format("run {} gave another order", samples_us.size() + 1);
      if (again.peak_bytes)
        result.found.peak_bytes = std::max(*again.peak_bytes, result.found.peak_bytes.value_or(0));
      samples_us.push_back(1e6 * again.seconds);
      seconds += again.seconds;
    }
    const TimeSummary time = summarise(std::move(samples_us), 1);
    result.found.seconds = 1e-6 * time.median;
    result.time_us = time.median;
    result.findings.time = {.summary = time, .threads = result.found.threads};
    return result;
  }
};

constexpr const char* kSummary =
    "finding the order of A on the CPU, timed; no product and nothing packed";
const RegisterTraits<BackendTraits> traits{"reorder", kSummary, {.activity = Activity::kReorder}};
const Register<Backend> entry{{
    .name = "reorder",
    .summary = kSummary,
    .make = [](const Params&) { return std::make_unique<ReorderBackend>(); },
}};

}  // namespace
}  // namespace tessera
