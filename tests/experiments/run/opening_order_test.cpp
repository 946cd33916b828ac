// The order in which the processes of a run open their devices.
#include "experiments/run/opening_order.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

namespace tessera {
namespace {

using namespace std::chrono_literals;

/// What processes tell, in the order in which they do.
class Pipe {
 public:
  Pipe() { REQUIRE(pipe(ends_) == 0); }
  ~Pipe() { close(ends_[0]), close(ends_[1]); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  void tell(char what) const { (void)!write(ends_[1], &what, 1); }
  std::string hear(std::size_t count) const {
    std::string text;
    for (char one = 0; text.size() < count && read(ends_[0], &one, 1) == 1;) text += one;
    return text;
  }

 private:
  int ends_[2];
};

pid_t start(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  REQUIRE(child > 0);
  return child;
}

TEST_CASE("one process at a time opens its device") {
  constexpr int kProcesses = 4;
  const OpeningOrder order;
  const Pipe told;
  for (int i = 0; i < kProcesses; ++i)
    start([&] {
      const OpeningOrder::Held alone(order);
      told.tell('(');
      std::this_thread::sleep_for(20ms);
      told.tell(')');
    });

  CHECK(told.hear(2 * kProcesses) == "()()()()");

  while (wait(nullptr) > 0) {
  }
}

TEST_CASE("a process that dies while it opens its device, or takes too long, stops no other one") {
  const OpeningOrder order;
  const Pipe told;
  const pid_t holds = start([&] {
    const OpeningOrder::Held alone(order);
    told.tell('a');
    pause();
  });
  REQUIRE(told.hear(1) == "a");
  const auto began = std::chrono::steady_clock::now();
  { const OpeningOrder::Held impatient(order, 50ms); }
  CHECK(std::chrono::steady_clock::now() - began >= 50ms);

  const pid_t waits = start([&] {
    const OpeningOrder::Held alone(order, 1min);
    told.tell('b');
  });
  std::this_thread::sleep_for(50ms);
  told.tell('k');
  kill(holds, SIGKILL);

  CHECK(told.hear(2) == "kb");
  waitpid(holds, nullptr, 0);
  waitpid(waits, nullptr, 0);
}

}  // namespace
}  // namespace tessera
