// Ends a long call of the library early: a flag that its caller sets from another thread or a
// signal handler. Every parallel loop looks at it before each chunk.
#pragma once

#include <cstdint>
#include <exception>

namespace tessera {

/// Thrown where the flag of the running call is set. It is no Error: nobody handles it but the
/// function that began the call.
class Stopped : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped by the caller"; }
};

using StopFlag = const volatile std::int32_t*;

/// The flag that ends calls of this thread when it is not 0; null, as at first, for none. The loops
/// of parallel_for() hand it to their threads.
StopFlag stop_flag();
void set_stop_flag(StopFlag flag);

/// Another flag for the calls of this thread, until the end of a scope.
class StopFlagScope {
 public:
  explicit StopFlagScope(StopFlag flag) : before_(stop_flag()) { set_stop_flag(flag); }
  ~StopFlagScope() { set_stop_flag(before_); }
  StopFlagScope(const StopFlagScope&) = delete;
  StopFlagScope& operator=(const StopFlagScope&) = delete;

 private:
  StopFlag before_;
};

bool stop_requested();

/// Throws Stopped when the flag is set.
void throw_if_stopped();

}  // namespace tessera
