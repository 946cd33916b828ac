// Backend "simulate": the performance simulator on a described device. Its counters stand in the
// record under the names of the hardware's.

#include <chrono>

#include "experiments/backends/predicting_backend.hpp"
#include "formats/base/registry.hpp"
#include "formats/base/stop.hpp"
#include "model/simulator/counters.hpp"
#include "model/simulator/report.hpp"

namespace tessera {
namespace {

SimulationPart part_of(const simulator::Report& report, double seconds) {
  return {.parts = report.parts,
          .warp_time = report.warp_time,
          .waves = report.waves,
          .resident_thread_blocks = report.resident_thread_blocks,
          .occupancy_limit = report.occupancy_limit,
          .sm_balance = report.sm_balance,
          .longest_thread_block_us = report.longest_thread_block_us,
          .seconds = seconds};
}

/// Adds the share that was simulated, and half the 95 % intervals that sampling leaves: of the
/// summed counters in percent; of every counter in its unit.
void add_sampling(const simulator::Result& simulated, SimulationPart& part) {
  const auto counters = simulator::counters(simulated);
  const auto percent = [&](const char* counter) {
    const auto error = simulated.counter_errors.find(counter);
    const double value = counters.at(counter);
    return error == simulated.counter_errors.end() || value == 0 ? 0 : 100 * error->second / value;
  };
  part.sampled_share = simulated.sampled_share();
  part.time_error_pct = 100 * simulated.time_error;
  part.l2_read_error_pct = percent("lts__t_sectors_op_read.sum");
  part.dram_read_error_pct = percent("dram__bytes_read.sum");
  part.dram_write_error_pct = percent("dram__bytes_write.sum");
  if (!simulated.counter_errors.empty()) part.counter_errors = simulated.counter_errors;
}

class SimulateBackend final : public PredictingBackend {
 public:
  std::string origin() const override { return "simulated"; }

 private:
  double predict(const Point& point, const WorkDescription& work,
                 BackendFindings& findings) const override {
    const auto began = std::chrono::steady_clock::now();
    const simulator::Result simulated =
        simulator::simulate(work, find_device(point.device),
                            {.warm = point.measure.l2 == "warm",
                             .sampling = simulator::sampling_of(point.sample),
                             .progress = [](double) { throw_if_stopped(); }});
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;

    const simulator::Report report = simulator::report(simulated);
    findings.prediction = {simulated.time_us, report.bound_by, {}};
    findings.simulation = part_of(report, took.count());
    add_sampling(simulated, *findings.simulation);
    findings.counters = simulator::counters(simulated);
    return simulated.time_us;
  }
};

constexpr const char* kSummary =
    "time and traffic on a described device, thread block by thread block";
const RegisterTraits<BackendTraits> traits{
    "simulate", kSummary, {.needs_device = true, .simulates = true}};
const Register<Backend> entry{{
    .name = "simulate",
    .summary = kSummary,
    .make = [](const Params&) { return std::make_unique<SimulateBackend>(); },
}};

}  // namespace
}  // namespace tessera
