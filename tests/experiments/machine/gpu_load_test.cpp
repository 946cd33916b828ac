// What lowers the clocks of a GPU, and who else is on it.
#include "experiments/machine/gpu_load.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace tessera {
namespace {

using Texts = std::vector<std::string>;

GpuLoad load_of(unsigned sm_mhz, unsigned long long reasons) {
  return {{sm_mhz, {}, reasons}, {}, {}};
}

TEST_CASE("clocks count as lowered by power, heat and hardware, not by idling or on request") {
  const auto causes = [](unsigned long long reasons) {
    return lowered_clocks(load_of(1980, 0), load_of(1980, reasons));
  };

  CHECK(causes(0).empty());
  CHECK(causes(0x1 | 0x2 | 0x10 | 0x100).empty());
  CHECK(causes(0x4) == Texts{"the clocks were lowered: power"});
  CHECK(causes(0x20 | 0x40) == Texts{"the clocks were lowered: heat"});
  CHECK(causes(0x8 | 0x80) == Texts{"the clocks were lowered: hardware, power brake"});
}

TEST_CASE("clocks count as lowered when the driver has counted time of it") {
  GpuLoad before, after;
  before.held_back_ns = {{"power", 10}, {"heat", 5}};
  after.held_back_ns = {{"power", 10}, {"heat", 6}, {"board", 3}};

  CHECK(lowered_clocks(before, after) == Texts{"the clocks were lowered: heat"});
  CHECK(lowered_clocks(after, after).empty());
}

TEST_CASE("a clock that falls by more than a twentieth was lowered") {
  CHECK(lowered_clocks(load_of(1980, 0), load_of(1890, 0)).empty());
  CHECK(lowered_clocks(load_of(1200, 0), load_of(1980, 0)).empty());
  CHECK(lowered_clocks(load_of(1980, 0), load_of(1500, 0)) ==
        Texts{"the SM clock fell from 1980 to 1500 MHz"});
  CHECK(lowered_clocks({}, load_of(1500, 0)).empty());
}

TEST_CASE("processes on a GPU count as others unless they are workers of the same run") {
  const auto parent_of = [](int pid) { return pid < 10 ? 1 : 50; };

  CHECK(count_others({5}, 5, 0, parent_of) == 0);
  CHECK(count_others({5, 6, 11}, 5, 0, parent_of) == 2);
  CHECK(count_others({5, 6, 11}, 5, 1, parent_of) == 1);
  CHECK(count_others({5, 6}, 5, 1, parent_of) == 0);
}

TEST_CASE("where the driver numbers processes otherwise, one of them is this one") {
  const auto parent_of = [](int) { return 0; };

  CHECK(count_others({4001}, 5, 0, parent_of) == 0);
  CHECK(count_others({4001, 4002}, 5, 0, parent_of) == 1);
  CHECK_FALSE(count_others({4001, 4002}, 5, 1, parent_of));
  CHECK_FALSE(count_others({}, 5, 0, parent_of));
}

TEST_CASE("children of the process that shares the GPU are no others") {
  const pid_t child = fork();
  if (child == 0)
    for (;;) pause();
  const std::vector<int> pids{getpid(), child};

  CHECK(count_others(pids) == 1);
  share_gpu_with_children_of(getpid());
  CHECK(count_others(pids) == 0);

  share_gpu_with_children_of(0);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_CASE("others on the GPU are counted before and after") {
  GpuLoad alone, shared;
  alone.other_processes = 0;
  shared.other_processes = 1;

  CHECK(others_on_gpu(alone, alone) == "");
  CHECK(others_on_gpu({}, {}) == "");
  CHECK(others_on_gpu(alone, shared) == "another process is on the GPU");
  shared.other_processes = 3;
  CHECK(others_on_gpu(shared, alone) == "3 other processes are on the GPU");
}

}  // namespace
}  // namespace tessera
