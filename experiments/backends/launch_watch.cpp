#include "experiments/backends/launch_watch.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <utility>

#include "formats/base/check.hpp"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook{50};  // time between two looks at the clock
constexpr int kExitCode = 3;                    // of a failed point

double limit_s = 60;
std::function<void(const std::string&)> give_up = [](const std::string& reason) {
  fmt::print(stderr, "error: {}\n", reason);
  std::fflush(nullptr);
  // No destructors: they would wait for the kernel.
  _exit(kExitCode);
};

/// The time at which the present launch is given up, as a count of the clock; 0 without a launch.
std::atomic<Clock::rep> deadline{0};

/// The process whose thread watches; a child has none of its parent's threads.
pid_t watching = 0;

void watch() {
  for (;;) {
    std::this_thread::sleep_for(kLook);
    Clock::rep until = deadline.load();
    if (until == 0 || Clock::now().time_since_epoch().count() < until) continue;
    if (!deadline.compare_exchange_strong(until, 0)) continue;
    give_up(fmt::format("a launch has not ended after {} s (launch_timeout_s)", limit_s));
    return;
  }
}

}  // namespace

void watch_launches(double limit, std::function<void(const std::string&)> handler) {
  require(limit > 0, "a launch takes more than {} s", limit);
  limit_s = limit;
  give_up = std::move(handler);
}

WatchedLaunch::WatchedLaunch() {
  if (watching != getpid()) {
    watching = getpid();
    std::thread(watch).detach();
  }
  const auto limit =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_s));
  deadline = (Clock::now() + limit).time_since_epoch().count();
}

WatchedLaunch::~WatchedLaunch() {
  // Where the watch has given up already, the process is about to end.
  if (deadline.exchange(0) == 0)
    for (;;) pause();
}

}  // namespace tessera
