// How much memory a piece of work takes at its most, beyond what the process held before.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tessera {

/// Begins when it is made. Counts resident pages of the whole process, so nothing else should run;
/// the kernel's own count may be off by some hundred kilobytes.
class PeakMemory {
 public:
  PeakMemory();

  /// Bytes at the most since then; nothing where the system does not tell (see problem()).
  std::optional<std::int64_t> bytes() const;

  /// Why there are none; empty when there are.
  const std::string& problem() const { return problem_; }

 private:
  std::int64_t before_ = 0;
  std::string problem_;
};

}  // namespace tessera
