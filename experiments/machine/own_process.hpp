// A computation in a process of its own.
//
// CUDA cannot be used in a child of a process that has used it, and every worker is such a child:
// the process that starts workers asks about GPUs through here only. The driver's start takes a
// part of a second, in which the process that asks can do something else.
#pragma once

#include <sys/types.h>

#include <functional>

#include "experiments/points/point.hpp"

namespace tessera {

/// A process that computes something. Ctrl-C is for the one that asks alone.
class OwnProcess {
 public:
  explicit OwnProcess(const std::function<Json()>& compute);
  ~OwnProcess();  // kills it when it was not asked for its answer
  OwnProcess(const OwnProcess&) = delete;
  OwnProcess& operator=(const OwnProcess&) = delete;

  /// Waits for the result, which can be taken once. Throws an Error with the message that `compute`
  /// threw, or with the way the process died.
  Json answer();

 private:
  int end();  // of the process; its status

  pid_t child_ = -1;
  int fd_ = -1;
};

/// The answer of such a process.
Json in_own_process(const std::function<Json()>& compute);

}  // namespace tessera
