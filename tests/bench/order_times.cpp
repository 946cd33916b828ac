// Where an order found on the GPU takes its time, a line of a table for each matrix and phase: the
// whole search, its enqueuing on the host, and the search with A packed as mosaic in its order
// first. Phases are timed in searches of their own, since the events between them take time as
// well. The first order and the last one are compared with that of the host, row by row.
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
#include "formats/gpu/gpu_permute.hpp"
#include "formats/io/source.hpp"
#include "formats/mosaic.hpp"
#include "reorder/gpu_reordering.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

constexpr int kSearches = 15;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::vector<std::int32_t> on_host(const StreamBuffer& found, std::int32_t rows) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(rows));
  cuda_check(cudaMemcpy(order.data(), found.as<void>(), 4 * order.size(), cudaMemcpyDeviceToHost),
             "copying an order from the device");
  return order;
}

void print_times(const std::string& order, const std::string& name) {
  const CsrMatrix a = load_matrix(name, false).matrix;
  const auto reordering = Registry<GpuReordering>::instance().make(order);
  const auto builder = Registry<GpuFormat>::instance().make(Mosaic::kFormat);
  const DeviceArray<std::int64_t> row_offsets(a.row_offsets);
  const DeviceArray<std::int32_t> col_indices(a.col_indices);
  const DeviceArray<float> values(a.values);
  const DeviceCsr matrix{a.rows,       a.cols, a.nnz(), row_offsets.data(), col_indices.data(),
                         values.data()};
  const DevicePattern pattern{a.rows, a.cols, a.nnz(), row_offsets.data(), col_indices.data()};

  std::map<std::string, std::vector<double>> us;
  const auto time = [&](const std::string& what, const auto& work) {
    cuda_check(cudaDeviceSynchronize(), "finding an order");
    DeviceEvent begin, end;
    begin.record();
    work();
    end.record();
    us[what].push_back(end.us_since(begin));
  };
  const auto host = Registry<Reordering>::instance().make(order)->order(a);
  const auto is_right = [&] {
    return std::ranges::equal(on_host(reordering->order(pattern, nullptr), a.rows),
                              host.rows.old_of_new());
  };
  const bool begins_right = is_right();
  for (int i = 0; i < kSearches; ++i) {
    time("whole search", [&] {
      const auto start = std::chrono::steady_clock::now();
      reordering->order(pattern, nullptr);
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - start;
      us["enqueuing on the host"].push_back(took.count());
    });
    time("search and packing", [&] {
      const StreamBuffer rows = reordering->order(pattern, nullptr);
      const GpuPermuted in_order(matrix, rows.as<std::int32_t>(), nullptr);
      builder->build(in_order.view(), {}, nullptr);
    });
    PhaseTimes times;
    reordering->order(pattern, nullptr, &times);
    for (const auto& [phase, took] : times.us()) us["phase: " + phase].push_back(took);
  }
  const bool right = begins_right && is_right();
  for (const auto& [what, all] : us)
    fmt::print("{},{},{},{:.1f},{}\n", name, a.nnz(), what, median(all), right ? "right" : "WRONG");
  std::fflush(stdout);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  try {
    tessera::require(argc >= 3, "usage: tessera_order_times ORDER MATRIX...");
    tessera::keep_pooled_memory(std::uint64_t{1} << 36);
    fmt::print("matrix,nnz,time,us,order\n");
    for (int i = 2; i < argc; ++i) tessera::print_times(argv[1], argv[i]);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tessera_order_times: {}\n", error.what());
    return 1;
  }
}
