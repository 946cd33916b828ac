#include "experiments/machine/gpu_load.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace tessera {
namespace {

/// NVML's bits for clocks that are lower than asked for (nvml.h, nvmlClocksThrottleReason...). Idle
/// (0x1) and clocks that somebody set (0x2, 0x10, 0x100) are none of them.
struct Reason {
  unsigned long long bit;
  const char* cause;
};
constexpr Reason kReasons[] = {
    {0x04, "power"}, {0x08, "hardware"}, {0x20, "heat"}, {0x40, "heat"}, {0x80, "power brake"}};

/// A clock below this share of the one before has been lowered.
constexpr double kLeastClock = 0.95;

int parent_of_workers = 0;

/// The parent of a process; 0 for one that is not seen here.
int parent_in_proc(int pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("PPid:")) return std::stoi(line.substr(5));
  return 0;
}

}  // namespace

std::vector<std::string> lowered_clocks(const GpuLoad& before, const GpuLoad& after) {
  std::vector<std::string> causes;
  const auto add = [&](const std::string& cause) {
    if (std::ranges::find(causes, cause) == causes.end()) causes.push_back(cause);
  };
  for (const auto& [cause, ns] : after.held_back_ns)
    if (const auto old = before.held_back_ns.find(cause);
        old != before.held_back_ns.end() && ns > old->second)
      add(cause);
  for (const Reason& reason : kReasons)
    if ((after.clocks.throttle_reasons.value_or(0) & reason.bit) != 0) add(reason.cause);

  std::vector<std::string> found;
  if (!causes.empty())
    found.push_back(fmt::format("the clocks were lowered: {}", fmt::join(causes, ", ")));
  const auto &mhz = before.clocks.sm_mhz, &later = after.clocks.sm_mhz;
  if (mhz && later && *later < kLeastClock * *mhz)
    found.push_back(fmt::format("the SM clock fell from {} to {} MHz", *mhz, *later));
  return found;
}

std::string others_on_gpu(const GpuLoad& before, const GpuLoad& after) {
  const std::int64_t others =
      std::max(before.other_processes.value_or(0), after.other_processes.value_or(0));
  if (others == 0) return "";
  return others == 1 ? "another process is on the GPU"
                     : fmt::format("{} other processes are on the GPU", others);
}

std::optional<std::int64_t> count_others(const std::vector<int>& pids, int self, int parent,
                                         const std::function<int(int)>& parent_of) {
  const auto count = static_cast<std::int64_t>(pids.size());
  if (std::ranges::find(pids, self) == pids.end()) {
    // One of them is this process, under another number, unless the driver lists none.
    if (parent > 0 || count == 0) return std::nullopt;
    return count - 1;
  }
  return std::ranges::count_if(
      pids, [&](int pid) { return pid != self && (parent <= 0 || parent_of(pid) != parent); });
}

std::optional<std::int64_t> count_others(const std::vector<int>& pids) {
  return count_others(pids, getpid(), parent_of_workers, parent_in_proc);
}

void share_gpu_with_children_of(int process) { parent_of_workers = process; }

}  // namespace tessera
