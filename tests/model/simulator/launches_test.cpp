// Launches that run at a time, launches behind waits of the host, and the room on an SM.

#include <doctest/doctest.h>

#include "model/simulator/room.hpp"
#include "model/simulator/simulator.hpp"
#include "tests/model/simulator/toy.hpp"

namespace tessera::simulator {
namespace {

TEST_CASE("launches at a time share the SMs, in their order") {
  // 100 cycles a warp. An SM holds eight thread blocks of the one and two of the other launch.
  Machine machine = toy_machine();
  machine.launch_overhead_us = 0.05;
  const Toy::Next pause = [](std::int64_t, int, WarpCursor&, WarpTrace& trace) {
    trace.pause(100);
    return false;
  };
  const auto times = [&](bool is_beside) {
    WorkDescription work = toy_work(8, 8, pause);
    work.launches.push_back(work.launches.front());
    work.launches.back().threads_per_block = 1024;
    work.launches.back().is_beside = is_beside;
    work.thread_blocks.resize(16);
    return simulate(work, machine, {.warm = false});
  };
  // The second launch needs half of the SM for each of its thread blocks: four waves, each after
  // the delay of its thread blocks.
  const Result after = times(false);
  REQUIRE(after.launches.size() == 2);
  CHECK(after.launches[0].cycles == doctest::Approx(100));
  CHECK(after.launches[1].cycles == doctest::Approx(4 * 100 + 3 * 100));
  CHECK(after.time_us == doctest::Approx(0.1 + 1 + 0.7 + 1));
  const Result beside = times(true);
  REQUIRE(beside.launches.size() == 1);
  CHECK(beside.launches[0].name == "toy, toy");
  CHECK(beside.launches[0].cycles == doctest::Approx(5 * 100 + 4 * 100));
  CHECK(beside.launches[0].spans.size() == 16);
  CHECK(beside.launches[0].spans[7].end == doctest::Approx(100));
  CHECK(beside.launches[0].spans[8].start == doctest::Approx(200));
  CHECK(beside.time_us == doctest::Approx(0.9 + 1));
}

TEST_CASE("a launch beside others starts where they leave room, after the host has launched it") {
  Machine machine = toy_machine();
  machine.launch_overhead_us = 0.25;  // 250 cycles
  WorkDescription work = toy_work(1, 8, [](std::int64_t, int, WarpCursor&, WarpTrace& trace) {
    trace.pause(1000);
    return false;
  });
  work.launches.push_back(work.launches.front());
  work.launches.back().is_beside = true;
  work.thread_blocks.resize(2);
  const Result result = simulate(work, machine, {.warm = false});
  // Thread blocks start at the ends of time steps, which are as long as the latency of the L2.
  CHECK(result.launches[0].spans[0].start == 0);
  CHECK(result.launches[0].spans[1].start == doctest::Approx(400));
  CHECK(result.cycles() == doctest::Approx(1400));
}

TEST_CASE("a product takes the time of the host where that waits for the device") {
  Machine machine = toy_machine();
  machine.launch_overhead_us = 3, machine.launch_start_us = 2, machine.allocation_us = 0.5;
  machine.report_us = 1.5, machine.synchronisation_us = 4, machine.fork_us = 10;
  WorkDescription work = toy_work(1, 1, [](std::int64_t, int, WarpCursor&, WarpTrace& trace) {
    trace.pause(20'000);
    return false;
  });
  for (int i = 0; i < 2; ++i) work.launches.push_back(work.launches.front());
  work.thread_blocks.resize(3);
  const auto us = [&] { return simulate(work, machine).time_us; };
  CHECK(us() == doctest::Approx(3 * 21));  // no waits: one launch behind another
  // Launched and started, 20 us, a gap and 20 us, seen, launched and started, 20 us, the end seen.
  work.launches[2].waits = true;
  CHECK(us() == doctest::Approx(5 + 20 + 1 + 20 + 1.5 + 5 + 20 + 4));
  work.launches[2].allocations = 2;
  CHECK(us() == doctest::Approx(5 + 20 + 1 + 20 + 1.5 + 1 + 5 + 20 + 4));
  // The host waits for the first launch alone; the last one runs behind the second.
  work.launches[1].hides_wait = true;
  CHECK(us() == doctest::Approx(5 + 20 + 1 + 20 + 1 + 20 + 4));
  work.launches[1].hides_wait = false;
  work.launches[1].is_beside = true;
  CHECK(us() == doctest::Approx(10 + 5 + 23 + 1.5 + 1 + 5 + 20 + 4));
}

TEST_CASE("room on an SM dates from what became free last of what a thread block needs") {
  const GpuLimits limits{.thread_blocks = 4, .warps = 64, .registers = 65536, .shared_bytes = 100};
  Room room(limits);
  const SmShare half{1, 32, 0, 0}, most{1, 48, 0, 0}, shared{1, 1, 0, 60};
  CHECK(room.since(half) == 0);
  room.take(half);
  CHECK(room.fits(half));
  CHECK(!room.fits(most));
  room.take(half);
  CHECK(!room.fits(half));
  room.give(half, 7);
  CHECK(room.since(half) == 7);
  CHECK(!room.fits(most));
  room.give(half, 9);
  CHECK(room.since(half) == 7);
  CHECK(room.since(most) == 9);
  room.take(most);
  CHECK(room.since(shared) == 9);  // the warps that are left
  room.take(shared);
  CHECK(!room.fits(shared));
}

}  // namespace
}  // namespace tessera::simulator
