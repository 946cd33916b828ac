// Rank 0 listens and sends its message to each process that names its rank and the size of its
// launch; a connection that says something else, such as a port scanner's, is closed.
#include "kernels/spmm/distributed/rendezvous.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>
#include <utility>

#include "formats/base/check.hpp"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kMagic = 0x74657331;  // "tes1"
constexpr std::chrono::milliseconds kRetryInterval{50};
constexpr int kPatienceMs = 2000;  // with a connection that says nothing

/// What a process says first.
struct Hello {
  std::uint32_t magic = kMagic;
  std::int32_t rank = 0;
  std::int32_t size = 0;
};

std::optional<int> number_of(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return {};
  int number = 0;
  const char* end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, number);
  require(error == std::errc() && at == end && number >= 0, "${} is '{}', not a number from 0 on",
          name, text);
  return number;
}

int required_number(const char* name, const char* beside) {
  const std::optional<int> number = number_of(name);
  require(number.has_value(), "${} is set, but ${} is not", beside, name);
  return *number;
}

struct Names {
  const char *rank, *size, *local_rank;
};

constexpr Names kLaunchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
};

class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  ~Socket() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  bool is_open() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }

  /// True when something can be read, or a connection accepted, within this time.
  bool is_ready(int milliseconds) const {
    pollfd asked{descriptor_, POLLIN, 0};
    return poll(&asked, 1, milliseconds) > 0;
  }
  bool send_all(const void* data, std::size_t bytes) const {
    for (const char* at = static_cast<const char*>(data); bytes > 0;) {
      const ssize_t sent = send(descriptor_, at, bytes, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      at += sent, bytes -= static_cast<std::size_t>(sent);
    }
    return true;
  }
  bool receive_all(void* data, std::size_t bytes, int patience_ms) const {
    for (char* at = static_cast<char*>(data); bytes > 0;) {
      if (!is_ready(patience_ms)) return false;
      const ssize_t got = recv(descriptor_, at, bytes, 0);
      if (got <= 0) return false;
      at += got, bytes -= static_cast<std::size_t>(got);
    }
    return true;
  }

 private:
  int descriptor_;
};

/// The addresses that a name has.
class Addresses {
 public:
  Addresses(const World& world, int flags) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags;
    const int failed =
        getaddrinfo(world.address.c_str(), std::to_string(world.port).c_str(), &hints, &first_);
    require(failed == 0, "{}:{} is no address: {}", world.address, world.port,
            gai_strerror(failed));
  }
  ~Addresses() { freeaddrinfo(first_); }
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;

  const addrinfo* first() const { return first_; }

 private:
  addrinfo* first_ = nullptr;
};

Socket open_socket(const addrinfo& address) {
  return Socket(socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, address.ai_protocol));
}

Socket listening(const World& world) {
  const Addresses addresses(world, AI_PASSIVE);
  std::string why;
  for (const addrinfo* one = addresses.first(); one != nullptr; one = one->ai_next) {
    Socket made = open_socket(*one);
    const int yes = 1;
    if (made.is_open()) setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (made.is_open() && bind(made.get(), one->ai_addr, one->ai_addrlen) == 0 &&
        listen(made.get(), world.size) == 0)
      return made;
    why = std::strerror(errno);
  }
  throw Error(fmt::format("rank 0 cannot listen on {}:{}: {}", world.address, world.port, why));
}

Socket connected(const World& world) {
  const Addresses addresses(world, 0);
  for (const addrinfo* one = addresses.first(); one != nullptr; one = one->ai_next) {
    Socket made = open_socket(*one);
    if (made.is_open() && connect(made.get(), one->ai_addr, one->ai_addrlen) == 0) return made;
  }
  return Socket();
}

int milliseconds_until(Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
}

void send_to_all(const World& world, const std::vector<char>& message, Clock::time_point end) {
  const Socket listener = listening(world);
  std::set<int> served;
  while (static_cast<int>(served.size()) < world.size - 1) {
    require(listener.is_ready(milliseconds_until(end)), "{} of {} processes came to {}:{} in time",
            served.size() + 1, world.size, world.address, world.port);
    const Socket one(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    Hello hello;
    if (!one.is_open() || !one.receive_all(&hello, sizeof hello, kPatienceMs) ||
        hello.magic != kMagic)
      continue;
    require(hello.size == world.size, "a process of {} came to {}:{}, where {} are expected",
            hello.size, world.address, world.port, world.size);
    if (hello.rank <= 0 || hello.rank >= world.size) continue;
    if (one.send_all(message.data(), message.size())) served.insert(hello.rank);
  }
}

void receive(const World& world, std::vector<char>& message, Clock::time_point end) {
  const Hello hello{.rank = world.rank, .size = world.size};
  while (Clock::now() < end) {
    const Socket to_first = connected(world);
    if (to_first.is_open() && to_first.send_all(&hello, sizeof hello) &&
        to_first.receive_all(message.data(), message.size(), milliseconds_until(end)))
      return;
    std::this_thread::sleep_for(kRetryInterval);
  }
  throw Error(fmt::format("rank {} of {} heard nothing from rank 0 at {}:{}", world.rank,
                          world.size, world.address, world.port));
}

}  // namespace

std::optional<World> world_from_environment() {
  for (const Names& names : kLaunchers) {
    const std::optional<int> rank = number_of(names.rank);
    if (!rank) continue;
    World world;
    world.rank = *rank;
    world.size = required_number(names.size, names.rank);
    world.local_rank = required_number(names.local_rank, names.rank);
    require(world.rank < world.size, "${} is {}, but ${} is {}", names.rank, world.rank, names.size,
            world.size);
    if (world.size == 1) return {};
    const char* address = std::getenv("MASTER_ADDR");
    const std::optional<int> nodes = number_of("SLURM_NNODES");
    require(address != nullptr || !nodes || *nodes == 1,
            "{} hosts need $MASTER_ADDR, the address of the one with rank 0", nodes.value_or(1));
    if (address != nullptr) world.address = address;
    if (const std::optional<int> port = number_of("TESSERA_PORT"))
      world.port = *port;
    else if (const std::optional<int> taken = number_of("MASTER_PORT"))
      world.port = *taken + 1;
    require(world.port > 0 && world.port < 65536, "port {} is not in [1, 65535]", world.port);
    return world;
  }
  return {};
}

void share(const World& world, std::vector<char>& message, std::chrono::seconds limit) {
  if (world.size == 1) return;
  const Clock::time_point end = Clock::now() + limit;
  if (world.rank == 0)
    send_to_all(world, message, end);
  else
    receive(world, message, end);
}

}  // namespace tessera
