// Handles Ctrl-C for work that can end early and in order.
#pragma once

#include <csignal>

namespace tessera {

/// Takes SIGINT and SIGTERM while it lives; one at a time. A second signal of the same kind ends
/// the process, as it would without a guard.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// True when a signal has arrived since the last guard was made.
  static bool interrupted();

 private:
  struct sigaction before_int_ = {};
  struct sigaction before_term_ = {};
};

}  // namespace tessera
