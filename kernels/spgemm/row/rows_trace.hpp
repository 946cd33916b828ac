// What row_spgemm's launches over rows, and over tasks of all classes, do: for the simulator.
#pragma once

#include <memory>

#include "kernels/spgemm/row/groups_trace.hpp"
#include "kernels/spgemm/shared/scan_trace.hpp"

namespace tessera::row_spgemm::tracing {

using spgemm::Scan;
using spgemm::trace_scan;

constexpr int kThreads = 256;  // as on the device

/// Lanes that take a row each: about as many as it has nonzeros.
constexpr int lanes_for(std::int64_t nonzeros, std::int64_t rows) {
  for (const int lanes : {4, 8, 16})
    if (nonzeros <= lanes * rows) return lanes;
  return 32;
}

std::shared_ptr<const LaunchTrace> trace_description(std::shared_ptr<const Product> product,
                                                     const Addresses& at);
/// The same without words.
std::shared_ptr<const LaunchTrace> trace_measure(std::shared_ptr<const Product> product,
                                                 const Addresses& at);
std::shared_ptr<const LaunchTrace> trace_analysis(std::shared_ptr<const Product> product,
                                                  const Addresses& at);
std::shared_ptr<const LaunchTrace> trace_cut(std::shared_ptr<const Product> product,
                                             const Addresses& at);
/// By the classes of marks; or of sums, all but the small ones. places [tasks]
std::shared_ptr<const LaunchTrace> trace_sort(std::shared_ptr<const Product> product, bool is_sum,
                                              std::vector<std::int64_t> places,
                                              const Addresses& at);
std::shared_ptr<const LaunchTrace> trace_gather(std::shared_ptr<const Product> product,
                                                const Addresses& at);

}  // namespace tessera::row_spgemm::tracing
