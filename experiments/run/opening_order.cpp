// The lock is one of POSIX: it belongs to a process, is not inherited, and ends with its process.
#include "experiments/run/opening_order.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

namespace tessera {
namespace {

constexpr std::chrono::milliseconds kPollInterval{1};

/// True unless another process has the lock. A system without such locks refuses nobody.
bool set_lock(int fd, short type) {
  struct flock whole {};
  whole.l_type = type;
  whole.l_whence = SEEK_SET;
  return fcntl(fd, F_SETLK, &whole) == 0 || (errno != EAGAIN && errno != EACCES);
}

}  // namespace

OpeningOrder::OpeningOrder() : fd_(memfd_create("opening", MFD_CLOEXEC)) {}

OpeningOrder::~OpeningOrder() {
  if (fd_ >= 0) close(fd_);
}

OpeningOrder::Held::Held(const OpeningOrder& order, std::chrono::milliseconds longest)
    : fd_(order.fd_) {
  if (fd_ < 0) return;
  const auto end = std::chrono::steady_clock::now() + longest;
  while (!set_lock(fd_, F_WRLCK) && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(kPollInterval);
}

OpeningOrder::Held::~Held() {
  if (fd_ >= 0) set_lock(fd_, F_UNLCK);
}

}  // namespace tessera
