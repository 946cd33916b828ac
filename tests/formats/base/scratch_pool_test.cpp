// Scratch objects of parallel loops.
#include "formats/base/scratch_pool.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "formats/base/parallel.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

struct Scratch {
  std::atomic<bool> in_use = false;
  std::int64_t uses = 0;
};

TEST_CASE("no two calls use a scratch object at a time, and few threads make few of them") {
  constexpr std::int64_t kCalls = 20'000;
  for (const int threads : {1, 2, 7}) {
    CAPTURE(threads);
    const ThreadCount count(threads);
    ScratchPool<Scratch> pool;
    std::atomic<int> shared = 0;
    for (int loop = 0; loop < 3; ++loop)  // each by threads of its own
      parallel_for(kCalls, 1, [&](std::int64_t, std::int64_t) {
        pool.use([&](Scratch& scratch) {
          shared += scratch.in_use.exchange(true);
          ++scratch.uses;
          scratch.in_use = false;
        });
      });
    std::int64_t uses = 0;
    for (const Scratch& scratch : pool.all()) uses += scratch.uses;

    CHECK(shared == 0);
    CHECK(uses == 3 * kCalls);
    CHECK(std::ssize(pool.all()) <= 3 * threads);
  }
}

TEST_CASE("scratch objects of more threads than a pool has places are all used again") {
  constexpr int kThreads = 300;
  ScratchPool<Scratch> pool;
  const auto all_at_once = [&] {
    std::atomic<int> inside = 0;
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i)
      threads.emplace_back([&] {
        pool.use([&](Scratch& scratch) {
          ++scratch.uses;
          ++inside;
          while (inside < kThreads) std::this_thread::yield();
        });
      });
  };
  all_at_once();
  all_at_once();

  CHECK(pool.all().size() == kThreads);
  for (const Scratch& scratch : pool.all()) CHECK(scratch.uses == 2);
}

TEST_CASE("a pool without calls has made nothing") {
  const ScratchPool<Scratch> pool;
  CHECK(pool.all().empty());
}

}  // namespace
}  // namespace tessera
