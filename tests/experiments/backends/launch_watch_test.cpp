// A launch that hangs ends its process, and says why.
#include "experiments/backends/launch_watch.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "formats/base/check.hpp"

namespace tessera {
namespace {

/// What a process writes to a pipe and its exit code. `work` gets the pipe's end, and has to end
/// the process or return.
template <class Work>
std::pair<std::string, int> outcome_of(Work work) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    close(ends[0]);
    work(ends[1]);
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char bytes[256];
  for (ssize_t got; (got = read(ends[0], bytes, sizeof bytes)) > 0;)
    text.append(bytes, static_cast<std::size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return {text, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

void tell_and_exit(int fd, const std::string& reason) {
  if (write(fd, reason.data(), reason.size()) < 0) _exit(8);
  _exit(7);
}

TEST_CASE("a launch that hangs is given up after its limit, by another thread") {
  const auto began = std::chrono::steady_clock::now();

  const auto [reason, code] = outcome_of([](int fd) {
    watch_launches(0.2, [fd](const std::string& why) { tell_and_exit(fd, why); });
    const WatchedLaunch watched;
    for (;;) pause();
  });

  CHECK(code == 7);
  CHECK(reason == "a launch has not ended after 0.2 s (launch_timeout_s)");
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(5));
}

TEST_CASE("launches that end within the limit are not given up, however many there are") {
  const auto [reason, code] = outcome_of([](int fd) {
    watch_launches(0.3, [fd](const std::string& why) { tell_and_exit(fd, why); });
    for (int i = 0; i < 8; ++i) {
      const WatchedLaunch watched;
      std::this_thread::sleep_for(std::chrono::milliseconds(80));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
  });

  CHECK(code == 0);
  CHECK(reason == "");
}

TEST_CASE("the limit of a launch is more than nothing") {
  CHECK_THROWS_AS(watch_launches(0, [](const std::string&) {}), Error);
}

}  // namespace
}  // namespace tessera
