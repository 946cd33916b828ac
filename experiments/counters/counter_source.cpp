#include "experiments/counters/counter_source.hpp"

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

CounterChoice named(const std::string& name) {
  const auto& registry = Registry<CounterSource>::instance();
  if (!registry.contains(name))
    return {name, nullptr, "this build was made without the headers of CUPTI and CUDA"};
  auto source = registry.make(name);
  std::string missing = source->unavailable();
  return {name, std::move(source), std::move(missing)};
}

}  // namespace

const std::vector<std::string>& default_metrics() {
  static const std::vector<std::string> metrics{
      "gpu__time_duration.sum",
      "sm__inst_executed.sum",
      "sm__inst_executed_pipe_tensor.sum",
      "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
      "sm__warps_active.avg.pct_of_peak_sustained_active",
      "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
      "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
      "l1tex__t_sector_hit_rate.pct",
      "lts__t_sectors_srcunit_tex_op_read.sum",
      "lts__t_sectors_op_read.sum",
      "lts__t_sectors_op_write.sum",
      "lts__t_sector_hit_rate.pct",
      "dram__bytes_read.sum",
      "dram__bytes_write.sum"};
  return metrics;
}

CounterChoice find_counter_source(const std::string& name) {
  if (name != "auto") return named(name);
  std::string reasons;
  for (const std::string& candidate : auto_counter_sources()) {
    CounterChoice choice = named(candidate);
    if (choice.missing.empty()) return choice;
    reasons += (reasons.empty() ? "" : "; ") + choice.name + ": " + choice.missing;
  }
  return {name, nullptr, reasons};
}

}  // namespace tessera
