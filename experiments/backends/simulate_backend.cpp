// Backend "simulate": the performance simulator on a described device. Its counters stand in the
// record under the names of the hardware's.

#include <chrono>

#include "experiments/backends/backend.hpp"
#include "formats/base/registry.hpp"
#include "model/simulator/counters.hpp"
#include "model/simulator/report.hpp"

namespace tessera {
namespace {

Json to_json(const simulator::Report& report) {
  Json parts = Json::array();
  for (const PredictedPart& part : report.parts)
    parts.push_back({{"name", part.name}, {"time_us", part.time_us}, {"reason", part.reason}});
  Json waits = Json::object();
  for (const auto& [name, share] : report.warp_time) waits[name] = share;
  return {{"parts", parts},
          {"warp_time", waits},
          {"waves", report.waves},
          {"resident_thread_blocks", report.resident_thread_blocks},
          {"occupancy_limit", report.occupancy_limit},
          {"sm_balance", report.sm_balance},
          {"longest_thread_block_us", report.longest_thread_block_us}};
}

/// How much was simulated, and half the 95 % intervals that this leaves: of what is summed up, in
/// percent; of every counter, in its unit.
Json sampling_json(const simulator::Result& simulated) {
  const auto counters = simulator::counters(simulated);
  const auto percent = [&](const char* counter) {
    const auto error = simulated.counter_errors.find(counter);
    const double value = counters.at(counter);
    return error == simulated.counter_errors.end() || value == 0 ? 0 : 100 * error->second / value;
  };
  Json json{{"sampled_share", simulated.sampled_share()},
            {"time_error_pct", 100 * simulated.time_error},
            {"l2_read_error_pct", percent("lts__t_sectors_op_read.sum")},
            {"dram_read_error_pct", percent("dram__bytes_read.sum")},
            {"dram_write_error_pct", percent("dram__bytes_write.sum")}};
  if (!simulated.counter_errors.empty()) json["counter_errors"] = simulated.counter_errors;
  return json;
}

class SimulateBackend final : public Backend {
 public:
  std::string origin() const override { return "simulated"; }

  BackendResult run(const Multiplication& m) const override {
    BackendResult result;
    result.time_us = simulate(m.point, m.kernel.work(m.a, m.b.cols), result.fields);
    return result;
  }

  SparseProductResult multiply(const SparseMultiplication& m) const override {
    SparseProductResult result;
    result.time_us = simulate(m.point, m.kernel.work(m.a, m.b), result.fields);
    return result;
  }

 private:
  static double simulate(const Point& point, const WorkDescription& work, Json& fields) {
    const auto began = std::chrono::steady_clock::now();
    const simulator::Result simulated = simulator::simulate(
        work, find_device(point.device),
        {.warm = point.measure.l2 == "warm", .sampling = simulator::sampling_of(point.sample)});
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;

    const simulator::Report report = simulator::report(simulated);
    fields["prediction"] = {{"time_us", simulated.time_us}, {"bound_by", report.bound_by}};
    fields["simulation"] = to_json(report);
    fields["simulation"]["seconds"] = took.count();
    fields["simulation"].update(sampling_json(simulated));
    for (const auto& [name, value] : simulator::counters(simulated))
      fields["counters"][name] = value;
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
