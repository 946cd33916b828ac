// Traces held against the counters of the hardware: what the device tests of SpMM and SpGEMM share.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "experiments/counters/counter_source.hpp"
#include "kernels/tensor_core/gpu_generation.hpp"
#include "kernels/work.hpp"
#include "model/simulator/counters.hpp"
#include "tests/trace_counts.hpp"

namespace tessera {

/// Says why where nothing can be compared: instructions are those of the code for sm_90a.
inline bool cannot_compare_traces() {
  std::string why = find_counter_source("cupti").missing;
  if (why.empty() && gpu_generation() != "hopper")
    why = "the traces count the instructions of the code for sm_90a";
  if (!why.empty()) MESSAGE("skipped: " << why);
  return !why.empty();
}

/// Counts all kernels that `launch` starts and waits for. The compiler moves constants with
/// HFMA2.MMA, which runs on the tensor pipe and is no MMA.
inline TraceCounts hardware_counts(std::function<void()> launch) {
  const std::string pipe = "sm__inst_executed_pipe_tensor_op_";
  const std::vector<std::string> metrics{"sm__inst_executed.sum",
                                         pipe + "hmma.sum",
                                         pipe + "hmma_type_hfma2.sum",
                                         pipe + "imma.sum",
                                         "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
                                         "lts__t_sectors_srcunit_tex_op_read.sum"};
  const Point point;
  const CounterValues values =
      find_counter_source("cupti").source->collect(metrics, {point, "", 1, {}, std::move(launch)});
  return {values.at(metrics[0]),
          values.at(metrics[1]) - values.at(metrics[2]) + values.at(metrics[3]),
          values.at(metrics[4]), values.at(metrics[5])};
}

}  // namespace tessera
