// Machines that give a process fewer threads than it asks for.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <fstream>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "model/simulator/grid.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

/// Leaves this process 4 MiB of address space, half of what the stack of a thread takes.
void leave_no_room_for_threads() {
  std::ifstream file("/proc/self/statm");
  std::int64_t pages = 0;
  file >> pages;
  const rlim_t bytes = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + (rlim_t{4} << 20);
  const rlimit limit{bytes, bytes};
  require(setrlimit(RLIMIT_AS, &limit) == 0, "the address space cannot be limited");
}

TEST_CASE("parallel loops go on with the threads that there are") {
  const Outcome outcome = in_child([] {
    const ThreadCount many(64);
    leave_no_room_for_threads();
    std::atomic<std::int64_t> sum = 0;
    parallel_for(1000, 10, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) sum += i;
    });
    _exit(sum == 999 * 1000 / 2 ? 0 : 1);
  });
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("a simulation whose threads the system refuses is an error of memory") {
  const Outcome outcome = in_child([] {
    leave_no_room_for_threads();
    simulator::Team team(64);  // glibc keeps the stacks of a few that have ended
    try {
      team.run([&](int) {
        while (team.meet()) continue;
      });
    } catch (const OutOfMemory& error) {
      fmt::print("{}", error.what());
      std::fflush(stdout);
      _exit(7);
    }
    _exit(0);
  });
  CHECK(outcome.exit_code == 7);
  CHECK(outcome.output.find(" of 64: ") != std::string::npos);
}

}  // namespace
}  // namespace tessera
