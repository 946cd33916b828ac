// A lock of POSIX on a file in memory: the system frees it when the process that had it is gone.
#include "experiments/run/shared_turn.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "formats/base/check.hpp"

namespace tessera {
namespace {

/// Waits for a change of the lock: to F_WRLCK or F_UNLCK.
void lock(int file, short kind) {
  struct flock request {};
  request.l_type = kind;
  request.l_whence = SEEK_SET;
  while (fcntl(file, F_SETLKW, &request) != 0)
    require(errno == EINTR, "waiting for a turn: {}", std::strerror(errno));
}

}  // namespace

SharedTurn::SharedTurn() : file_(memfd_create("turn", MFD_CLOEXEC)) {
  require(file_ >= 0, "a turn of several processes cannot be made: {}", std::strerror(errno));
}

SharedTurn::~SharedTurn() { close(file_); }

SharedTurn::Held::Held(SharedTurn& turn) : turn_(turn) {
  const auto began = std::chrono::steady_clock::now();
  lock(turn_.file_, F_WRLCK);
  waited_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

SharedTurn::Held::~Held() { lock(turn_.file_, F_UNLCK); }

}  // namespace tessera
