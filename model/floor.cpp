#include "model/floor.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "formats/base/check.hpp"

namespace tessera::floor_model {
namespace {

constexpr double kResultBytes = 4;  // an element of C

/// Microseconds for an amount of bytes or operations at a rate in 1e9 per second; 0 where the rate
/// is unknown.
double microseconds(double amount, double giga_per_s) {
  return giga_per_s > 0 ? amount / (1e3 * giga_per_s) : 0;
}

}  // namespace

Rates rates(const Device& device, double element_bytes) {
  const auto known = [&](const char* quantity) {
    return device.has(quantity) ? device.value(quantity) : 0;
  };
  const std::string type = element_bytes > 2 ? "tf32" : "fp16";
  const bool through_mma = device.has(type + "_mma");
  return {.dram_gbps = device.value("dram_bandwidth"),
          .l2_gbps = known("l2_bandwidth"),
          .gather_gbps = known("l2_bandwidth"),
          .mma_tflops = device.value(through_mma ? type + "_mma" : type),
          .launch_us = known("launch_overhead"),
          .l2_bytes = known("l2_capacity")};
}

double compulsory_bytes(const Product& p) {
  const auto nnz = static_cast<double>(p.nnz), rows = static_cast<double>(p.rows);
  const auto b_rows = static_cast<double>(p.b_rows), n = static_cast<double>(p.n);
  return p.element_bytes * (nnz + b_rows * n) + p.index_bytes + kResultBytes * rows * n;
}

Floor strict_floor(const Product& p, std::span<const Windows> windows, const Rates& rates) {
  require(p.n > 0, "B has {} columns", p.n);
  Floor floor;
  floor.launch_us = rates.launch_us;
  const double bytes = compulsory_bytes(p);
  floor.in_l2 = bytes <= rates.l2_bytes;
  floor.compulsory_us = microseconds(bytes, floor.in_l2 ? rates.l2_gbps : rates.dram_gbps);

  const double whatever_height = std::max(floor.compulsory_us, floor.launch_us);
  for (const Windows& w : windows) {
    const double elements = static_cast<double>(w.active_cols) * static_cast<double>(p.n);
    const double gather = microseconds(elements * p.element_bytes, rates.gather_gbps);
    const double mma = microseconds(2.0 * elements * w.height, 1e3 * rates.mma_tflops);
    const double time = std::max({whatever_height, gather, mma});
    if (floor.height != 0 && time >= floor.time_us) continue;
    floor.height = w.height;
    floor.gather_us = gather;
    floor.mma_us = mma;
    floor.time_us = time;
  }
  const std::array<std::pair<double, const char*>, 4> parts{{{floor.compulsory_us, "memory"},
                                                             {floor.gather_us, "gather"},
                                                             {floor.mma_us, "tensor cores"},
                                                             {floor.launch_us, "launch"}}};
  const auto& slowest =
      *std::ranges::max_element(parts, {}, &std::pair<double, const char*>::first);
  floor.time_us = slowest.first;
  floor.bound_by = slowest.second;
  return floor;
}

}  // namespace tessera::floor_model
