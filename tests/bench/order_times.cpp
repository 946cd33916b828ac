// Where an order found on the GPU takes its time, a line of a table for each matrix and phase: the
// whole search and its enqueuing on the host first. Phases are timed in searches of their own,
// since the events between them take time as well.
//
//     tessera_order_times ORDER MATRIX...

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "formats/base/registry.hpp"
#include "formats/io/source.hpp"
#include "reorder/gpu_reordering.hpp"

namespace tessera {
namespace {

constexpr int kSearches = 15;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void print_times(const GpuReordering& reordering, const std::string& name) {
  const CsrMatrix a = load_matrix(name, false).matrix;
  const DeviceArray<std::int64_t> row_offsets(a.row_offsets);
  const DeviceArray<std::int32_t> col_indices(a.col_indices);
  const DevicePattern pattern{a.rows, a.cols, a.nnz(), row_offsets.data(), col_indices.data()};
  const auto print = [&](const std::string& phase, const std::vector<double>& us) {
    fmt::print("{},{},{},{:.1f}\n", name, a.nnz(), phase, median(us));
  };

  std::vector<double> whole, enqueuing;
  std::map<std::string, std::vector<double>> phases;
  StreamBuffer warm_up = reordering.order(pattern, nullptr);
  for (int i = 0; i < kSearches; ++i) {
    using Clock = std::chrono::steady_clock;
    cuda_check(cudaDeviceSynchronize(), "finding an order");
    DeviceEvent begin, end;
    const auto start = Clock::now();
    begin.record();
    const StreamBuffer found = reordering.order(pattern, nullptr);
    end.record();
    enqueuing.push_back(1e-3 * std::chrono::nanoseconds(Clock::now() - start).count());
    whole.push_back(end.us_since(begin));
  }
  for (int i = 0; i < kSearches; ++i) {
    PhaseTimes times;
    const StreamBuffer found = reordering.order(pattern, nullptr, &times);
    for (const auto& [phase, us] : times.us()) phases[phase].push_back(us);
  }
  print("whole search", whole);
  print("enqueuing on the host", enqueuing);
  for (const auto& [phase, us] : phases) print(phase, us);
  std::fflush(stdout);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  try {
    tessera::require(argc >= 3, "usage: tessera_order_times ORDER MATRIX...");
    tessera::keep_pooled_memory(std::uint64_t{1} << 36);
    const auto reordering = tessera::Registry<tessera::GpuReordering>::instance().make(argv[1]);
    fmt::print("matrix,nnz,phase,us\n");
    for (int i = 2; i < argc; ++i) tessera::print_times(*reordering, argv[i]);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tessera_order_times: {}\n", error.what());
    return 1;
  }
}
