// Threads that stay between parallel loops.
#pragma once

#include <memory>

namespace tessera {

class Team;

/// Keeps the threads of the calling thread's parallel loops from one loop to the next, until the
/// end of the scope. For many short loops: a loop then costs a few microseconds instead of some
/// tens for each thread. Between two loops a thread looks for work for some tenths of a
/// millisecond, then sleeps. Scopes may be nested; the outermost one has the threads.
class KeptThreads {
 public:
  KeptThreads();
  ~KeptThreads();
  KeptThreads(const KeptThreads&) = delete;
  KeptThreads& operator=(const KeptThreads&) = delete;

 private:
  std::unique_ptr<Team> team_;  // null inside another scope
};

}  // namespace tessera
