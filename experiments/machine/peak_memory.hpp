// The peak memory of a piece of work, beyond what the process held before.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tessera {

/// Threads of this process do other work from now on: no PeakMemory of it has a peak any more,
/// since it would be that of all of them.
void share_process_memory();

/// Starts counting when it is made. Counts resident pages of the whole process, so nothing else
/// should run; the kernel's own count may be off by some hundred kilobytes.
class PeakMemory {
 public:
  PeakMemory();

  /// The peak in bytes since then; nothing where the system does not report it (see problem()).
  std::optional<std::int64_t> bytes() const;

  /// The reason why there is no peak; empty when there is one.
  const std::string& problem() const { return problem_; }

 private:
  std::int64_t before_ = 0;
  std::string problem_;
};

}  // namespace tessera
