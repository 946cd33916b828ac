// Backend "pack": the time to build the packed A on the CPU, with all threads of the process.
//
// The median of several whole packings, each from the CSR matrix to the last array, its input
// checked and its memory fresh; the memory of the packing before is released outside the time.

#include <chrono>

#include "experiments/backends/backend.hpp"
#include "experiments/backends/time_summary.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLeastRuns = 5;
constexpr std::size_t kMostRuns = 25;
constexpr double kMostSeconds = 1;   // after which no further run begins, once there are so many,
constexpr double kLongSeconds = 20;  // or after these in any case

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

class PackBackend final : public Backend {
 public:
  std::string origin() const override { return "measured"; }

  PackingResult pack(const PackingInput& p) const override {
    PackingResult result;
    std::vector<double> samples_us;
    const auto began = Clock::now();
    const auto another = [&] {
      const std::size_t runs = samples_us.size();
      const double us = us_since(began);
      if (runs < kLeastRuns) return runs == 0 || us < 1e6 * kLongSeconds;
      return runs < kMostRuns && us < 1e6 * kMostSeconds;
    };
    while (another()) {
      result.packed.reset();
      const auto start = Clock::now();
      result.packed = p.format.pack(p.matrix);
      samples_us.push_back(us_since(start));
    }
    const TimeSummary time = summarise(std::move(samples_us), 1);
    result.time_us = time.median;
    result.findings.time = {.summary = time, .threads = num_threads()};
    return result;
  }
};

constexpr const char* kSummary = "building the packed A on the CPU, timed; no product";
const RegisterTraits<BackendTraits> traits{"pack", kSummary, {.activity = Activity::kPack}};
const Register<Backend> entry{{
    .name = "pack",
    .summary = kSummary,
    .make = [](const Params&) { return std::make_unique<PackBackend>(); },
}};

}  // namespace
}  // namespace tessera
