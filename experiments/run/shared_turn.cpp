// A robust mutex of POSIX: the system says when the process that had it is gone.
#include "experiments/run/shared_turn.hpp"

#include <pthread.h>
#include <sys/mman.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>

#include "formats/base/check.hpp"

namespace tessera {

struct SharedTurn::Lock {
  pthread_mutex_t mutex;
};

SharedTurn::SharedTurn() {
  void* memory =
      mmap(nullptr, sizeof(Lock), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED, "no memory for processes to share: {}", std::strerror(errno));
  lock_ = new (memory) Lock{};
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
  pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
  const int failed = pthread_mutex_init(&lock_->mutex, &kind);
  pthread_mutexattr_destroy(&kind);
  require(failed == 0, "a lock of several processes cannot be made: {}", std::strerror(failed));
}

// The mutex is not destroyed: a process that was killed may have had it.
SharedTurn::~SharedTurn() { munmap(lock_, sizeof(Lock)); }

SharedTurn::Held::Held(SharedTurn& turn) : turn_(turn) {
  const auto began = std::chrono::steady_clock::now();
  const int state = pthread_mutex_lock(&turn_.lock_->mutex);
  if (state == EOWNERDEAD) pthread_mutex_consistent(&turn_.lock_->mutex);
  require(state == 0 || state == EOWNERDEAD, "waiting for a turn: {}", std::strerror(state));
  waited_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

SharedTurn::Held::~Held() { pthread_mutex_unlock(&turn_.lock_->mutex); }

}  // namespace tessera
