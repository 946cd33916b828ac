// Linux keeps the high-water mark of a process's resident pages (VmHWM of /proc/self/status) and
// sets it back to what is resident now when 5 is written to /proc/self/clear_refs (proc(5)).
#include "experiments/machine/peak_memory.hpp"

#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "formats/base/check.hpp"

namespace tessera {
namespace {

std::atomic<bool> is_shared = false;

/// -1 when there is none.
std::int64_t high_water_mark() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return 1024 * std::stoll(line.substr(6));
  return -1;
}

}  // namespace

void share_process_memory() { is_shared = true; }

PeakMemory::PeakMemory() {
  if (is_shared) {
    problem_ = "other points use the memory of this process at the same time";
    return;
  }
  // Freed memory that the allocator keeps would be reused without being counted.
  malloc_trim(0);
  std::ofstream reset("/proc/self/clear_refs");
  reset << "5" << std::flush;
  if (!reset.good()) {
    problem_ = fmt::format("/proc/self/clear_refs cannot be written: {}", std::strerror(errno));
    return;
  }
  before_ = high_water_mark();
  if (before_ < 0) problem_ = "/proc/self/status has no VmHWM";
}

std::optional<std::int64_t> PeakMemory::bytes() const {
  if (!problem_.empty()) return std::nullopt;
  return high_water_mark() - before_;
}

}  // namespace tessera
