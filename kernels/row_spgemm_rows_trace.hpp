// What row_spgemm's launches over rows, and over tasks of all classes, do: for the simulator.
#pragma once

#include <memory>

#include "kernels/row_spgemm_groups_trace.hpp"

namespace tessera::row_spgemm::tracing {

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

/// How CUB (of CUDA 13.0) scans numbers of 32 bits into sums of 32 or 64 bits.
struct Scan {
  std::int64_t count;
  bool is_wide;
  std::uint64_t from, to;

  int threads() const { return is_wide ? 224 : 128; }
  int items() const { return is_wide ? 12 : 24; }  // of a thread
  int registers() const { return is_wide ? 56 : 64; }
  std::int64_t shared_bytes() const { return is_wide ? 21520 : 12304; }
  std::int64_t thread_blocks() const { return parts(count, std::int64_t{threads()} * items()); }
  static constexpr std::int64_t kBarriers = 3;  // of a warp
};
std::shared_ptr<const LaunchTrace> trace_scan(const Scan& scan);

}  // namespace tessera::row_spgemm::tracing
