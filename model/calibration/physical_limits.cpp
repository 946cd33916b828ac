#include "model/calibration/physical_limits.hpp"

#include <fmt/format.h>

#include <cmath>

namespace tessera {
namespace {

constexpr double kTolerance = 0.1;
constexpr double kSubCores = 4;
constexpr double kBytesPerCycle = 128;  // of an SM, from L1 or shared memory

/// The least cycles of one sub-core per m16n8k<depth> at the datasheet's rate; 0 without a rate.
double least_interval(const Device& device, const char* rate, double depth) {
  if (!device.datasheet.contains(rate)) return 0;
  const double fma_per_cycle = 1e6 * device.value(rate, Ceilings::kDatasheet) /
                               (2 * device.value("sm_count", Ceilings::kDatasheet) *
                                device.value("clock", Ceilings::kDatasheet));
  return 16 * 8 * depth * kSubCores / fma_per_cycle;
}

void limit_arithmetic(const Device& device, std::vector<PhysicalLimit>& limits) {
  const struct {
    const char* quantity;
    const char* rate;
  } rates[] = {{"fp32", "fp32"}, {"tf32_mma", "tf32"}, {"fp16_mma", "fp16"}};
  for (const auto& [quantity, rate] : rates)
    if (device.datasheet.contains(rate))
      limits.push_back({.quantity = quantity,
                        .most = device.value(rate, Ceilings::kDatasheet),
                        .why = "the datasheet's peak"});
  const struct {
    const char* quantity;
    const char* rate;
    double depth;
  } shapes[] = {{"tf32_m16n8k4_interval", "tf32", 4},
                {"tf32_m16n8k8_interval", "tf32", 8},
                {"fp16_m16n8k8_interval", "fp16", 8},
                {"fp16_m16n8k16_interval", "fp16", 16}};
  for (const auto& [quantity, rate, depth] : shapes)
    limits.push_back({.quantity = quantity,
                      .least = least_interval(device, rate, depth),
                      .why = "the datasheet's peak"});
  limits.push_back({.quantity = "issue_rate",
                    .most = kSubCores,
                    .why = "one warp instruction per sub-core and cycle"});
}

void limit_memory(const Device& device, std::vector<PhysicalLimit>& limits) {
  if (device.datasheet.contains("dram_bandwidth"))
    for (const char* quantity : {"dram_bandwidth", "dram_write_bandwidth", "dram_copy_bandwidth"})
      limits.push_back({.quantity = quantity,
                        .most = device.value("dram_bandwidth", Ceilings::kDatasheet),
                        .why = "the datasheet's bandwidth"});
  for (const char* quantity : {"l1_bandwidth", "shared_bandwidth", "l2_sm_bandwidth"})
    limits.push_back(
        {.quantity = quantity, .most = kBytesPerCycle, .why = "128 bytes a cycle of an SM"});
  const struct {
    const char* quantity;
    double bytes;
  } loads[] = {{"load_interval", 128}, {"load_wide_interval", 512}, {"async_copy_interval", 512}};
  for (const auto& [quantity, bytes] : loads)
    limits.push_back({.quantity = quantity,
                      .least = bytes / kBytesPerCycle,
                      .why = "128 bytes a cycle of an SM"});
  if (device.has("sm_count") && device.has("clock"))
    limits.push_back(
        {.quantity = "l2_bandwidth",
         .most = 1e-3 * device.value("sm_count") * device.value("clock") * kBytesPerCycle,
         .why = "128 bytes a cycle of every SM"});
}

/// Limits latencies: a farther level of memory takes longer.
void limit_latencies(const Device& device, std::vector<PhysicalLimit>& limits) {
  const struct {
    const char* nearer;
    const char* farther;
  } pairs[] = {{"l1_latency", "l2_latency"},
               {"l2_latency", "l2_far_latency"},
               {"l2_latency", "dram_latency"},
               {"l2_far_latency", "dram_latency"}};
  for (const auto& [nearer, farther] : pairs)
    if (device.measured.contains(nearer))
      limits.push_back({.quantity = farther,
                        .least = device.value(nearer),
                        .why = fmt::format("the {}", nearer)});
}

}  // namespace

std::vector<PhysicalLimit> physical_limits(const Device& device) {
  std::vector<PhysicalLimit> limits;
  limit_arithmetic(device, limits);
  limit_memory(device, limits);
  limit_latencies(device, limits);
  return limits;
}

std::string physical_problem(const Device& device, const std::string& quantity, double value) {
  if (!std::isfinite(value) || value <= 0)
    return fmt::format("{} = {} is not positive and finite", quantity, value);
  for (const PhysicalLimit& limit : physical_limits(device)) {
    if (limit.quantity != quantity) continue;
    if (value > limit.most * (1 + kTolerance))
      return fmt::format("{} = {:.5g} is above {:.5g}, {}", quantity, value, limit.most, limit.why);
    if (value < limit.least / (1 + kTolerance))
      return fmt::format("{} = {:.5g} is below {:.5g}, {}", quantity, value, limit.least,
                         limit.why);
  }
  return "";
}

}  // namespace tessera
