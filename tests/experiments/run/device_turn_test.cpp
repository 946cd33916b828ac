// The turn in which the threads of a process use its device.
#include "experiments/run/device_turn.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support.hpp"

namespace tessera {
namespace {

TEST_CASE("one thread at a time has the device's turn, and all get theirs") {
  constexpr int kThreads = 4, kTurns = 500;
  DeviceTurn turn;
  std::atomic<int> inside = 0, together = 0, turns = 0, misnamed = 0;
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kTurns; ++i) {
        const DeviceTurn::Held held(turn, thread);
        if (inside.fetch_add(1) > 0) ++together;
        std::this_thread::yield();
        if (turn.user() != thread) ++misnamed;
        ++turns;
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  CHECK(together == 0);
  CHECK(misnamed == 0);
  CHECK(turns == kThreads * kTurns);
  CHECK_FALSE(turn.user());
}

TEST_CASE("threads get the turn in the order in which they ask") {
  constexpr int kThreads = 6;
  DeviceTurn turn;
  std::vector<int> order;
  std::vector<std::thread> threads;
  {
    const DeviceTurn::Held held(turn, 99);
    for (int thread = 0; thread < kThreads; ++thread) {
      std::atomic<bool> asks = false;
      threads.emplace_back([&turn, &order, &asks, thread] {
        asks = true;
        const DeviceTurn::Held own(turn, static_cast<std::size_t>(thread));
        order.push_back(thread);
      });
      while (!asks) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it asks right after
    }
    CHECK(order.empty());
  }
  for (std::thread& thread : threads) thread.join();

  CHECK(order == std::vector<int>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("the device is open before the first turn, and its opening waits for nobody") {
  DeviceTurn turn;
  std::atomic<bool> may_end = false, is_open = false;
  turn.open([&] {
    while (!may_end) std::this_thread::yield();
    is_open = true;
  });
  bool was_open = false, other_was_open = false;
  double waited_s = 0;
  std::thread lane([&] {
    const DeviceTurn::Held held(turn, 0);
    was_open = is_open;
    waited_s = held.waited_s();
  });
  std::thread other([&] {
    turn.wait_until_open();
    other_was_open = is_open;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK_FALSE(turn.is_open());
  may_end = true;
  lane.join();
  other.join();

  CHECK(turn.is_open());
  CHECK(was_open);
  CHECK(other_was_open);
  CHECK(waited_s > 0.001);
}

TEST_CASE("a device that nobody opens is open") {
  const DeviceTurn turn;
  turn.wait_until_open();
  CHECK(turn.is_open());
}

TEST_CASE("a turn that was closed is nobody's any more") {
  const Outcome outcome = in_child([] {
    auto* turn = new DeviceTurn;  // its waiting thread ends with the process
    std::atomic<bool> asks = false, has = false;
    {
      const DeviceTurn::Held held(*turn, 0);
      std::thread([&] {
        asks = true;
        const DeviceTurn::Held own(*turn, 1);
        has = true;
      }).detach();
      while (!asks) std::this_thread::yield();
      turn->close();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    _exit(has ? 1 : 0);
  });

  CHECK(outcome.exit_code == 0);
}

}  // namespace
}  // namespace tessera
