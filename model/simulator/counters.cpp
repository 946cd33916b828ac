#include "model/simulator/counters.hpp"

namespace tessera::simulator {

std::map<std::string, double> counters(const Result& result) {
  const SmCounts sm = result.sm();
  const MemoryCounts memory = result.memory();
  const Machine& machine = result.machine;
  const double cycles = result.cycles();
  const auto number = [](auto count) { return static_cast<double>(count); };
  const auto percent = [](double part, double whole) { return whole > 0 ? 100 * part / whole : 0; };
  const double l1_sectors = number(sm.load_sectors + sm.store_sectors);
  const double near = number(memory.sm_read + memory.sm_write);
  const double far = number(memory.far_read + memory.far_write);
  const double tensor_cores = static_cast<double>(machine.limits.sms * machine.schedulers);

  return {
      {"gpu__time_duration.sum", 1e3 * cycles / machine.clock_mhz},
      {"sm__inst_executed.sum", number(sm.instructions)},
      {"sm__inst_executed_pipe_tensor.sum", number(sm.mma)},
      {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
       percent(sm.tensor_busy, cycles * tensor_cores)},
      {"sm__warps_active.avg.pct_of_peak_sustained_active",
       percent(sm.warp_cycles, sm.active_cycles * static_cast<double>(machine.limits.warps))},
      {"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", number(sm.load_sectors)},
      {"l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum", number(sm.load_hits)},
      {"l1tex__t_sector_hit_rate.pct", percent(number(sm.load_hits + sm.store_hits), l1_sectors)},
      {"lts__t_sectors_srcunit_tex_op_read.sum", number(memory.sm_read)},
      {"lts__t_sectors_op_read.sum", number(memory.sm_read + memory.far_read)},
      {"lts__t_sectors_op_write.sum", number(memory.sm_write + memory.far_write)},
      {"lts__t_sector_hit_rate.pct", percent(number(memory.sm_hits + memory.far_hits), near + far)},
      {"dram__bytes_read.sum", number(memory.dram_read) * kSectorBytes},
      {"dram__bytes_write.sum", number(memory.dram_write) * kSectorBytes},
  };
}

}  // namespace tessera::simulator
