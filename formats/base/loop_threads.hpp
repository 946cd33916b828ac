// The number of threads of the parallel loops of one thread alone (parallel.hpp).
#pragma once

namespace tessera {

/// Gives the loops of this thread, and num_threads() on it, another number of threads than the
/// process has, as long as it lives. 0 changes nothing.
class ThreadsOfLoops {
 public:
  explicit ThreadsOfLoops(int threads);
  ~ThreadsOfLoops();
  ThreadsOfLoops(const ThreadsOfLoops&) = delete;
  ThreadsOfLoops& operator=(const ThreadsOfLoops&) = delete;

 private:
  int before_;
};

}  // namespace tessera
