// A description of this machine: found by probes, printed by `tessera doctor`, kept in env records.
#pragma once

#include <cstdint>
#include <string>

#include "experiments/points/point.hpp"

namespace tessera {

/// Looks at one part of the machine. Registered by name; a build without CUDA has no "gpu" probe.
class Probe {
 public:
  static constexpr const char* kKind = "probe";
  virtual ~Probe() = default;

  /// Facts as JSON, with "available" and, when false, "reason" and "disables".
  virtual Json look() const = 0;

  /// How many of it this process can use.
  virtual int count() const { return 0; }

  /// True where it is known sooner than by a look that there is one.
  virtual bool is_sure() const { return false; }
};

/// What the probes see. For a process of its own, since one that has looked at the GPU cannot be
/// forked any more; so is count_gpus().
Json look_at_machine();

/// What the probe of the GPU sees, for a process that uses it anyway; null where there is none.
Json look_at_gpu();

/// What all probes see, of which the GPU's has looked elsewhere. Uses no GPU.
Json look_with(const Json& gpu);

/// The GPUs that this process can use.
Json count_gpus();

/// True where it is known, without the start of the driver, that it can use one. Likewise.
bool surely_has_gpu();

/// The env record of a run, from what look_at_machine() has seen: build, CPU, host, GPU. env_id is
/// a hash of what does not change between two runs on one machine.
Json environment_record(const Json& seen);

/// The same, seen now by a process of its own.
Json environment_record();

/// Commit of the sources with "+dirty" when they were changed, compiler, flags, version.
Json build_description();

/// The memory of this machine.
std::int64_t memory_bytes();

/// "2026-11-21T09:30:00Z"
std::string utc_now();

}  // namespace tessera
