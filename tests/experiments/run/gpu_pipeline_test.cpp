// Places of workers that share GPUs, and the turn in which they measure.
#include "experiments/run/gpu_pipeline.hpp"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <numeric>
#include <set>

#include "experiments/run/shared_turn.hpp"
#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

std::vector<int> cores(int count) {
  std::vector<int> list(count);
  std::iota(list.begin(), list.end(), 3);
  return list;
}

TEST_CASE("every GPU has several workers, and no core is two workers' own") {
  for (const int gpus : {1, 2, 3, 8}) {
    for (const int count : {1, 2, 7, 16, 96, 256}) {
      for (const bool checked : {false, true}) {
        CAPTURE(gpus);
        CAPTURE(count);
        CAPTURE(checked);
        const std::vector<WorkerPlace> places = places_of_gpus(gpus, cores(count), checked);
        std::vector<int> workers(gpus);
        std::vector<std::set<int>> cores_of(gpus);
        std::set<int> taken;
        for (const WorkerPlace& place : places) {
          ++workers.at(place.gpu);
          cores_of[place.gpu].insert(place.cores.begin(), place.cores.end());
          for (const int core : place.cores) CHECK(taken.insert(core).second);
        }
        for (const int of_gpu : workers) CHECK((of_gpu >= 2 && of_gpu <= (checked ? 8 : 4)));
        CHECK(std::ranges::includes(cores(count), taken));
        // The cores of a GPU follow each other: those of two GPUs are not mixed.
        for (const std::set<int>& own : cores_of)
          if (!own.empty()) CHECK(*own.rbegin() - *own.begin() + 1 == static_cast<int>(own.size()));
        const bool enough = count >= static_cast<int>(places.size());
        for (const WorkerPlace& place : places) CHECK(place.cores.empty() == !enough);
      }
    }
  }
  CHECK(places_of_gpus(2, cores(32), true).size() == 16);
  CHECK(places_of_gpus(2, cores(32), false).size() == 8);
}

TEST_CASE("a worker's GPU is one of those that the run sees") {
  CHECK(visible_device("", 3) == "3");
  CHECK(visible_device("5,7", 0) == "5");
  CHECK(visible_device("5,7", 1) == "7");
  CHECK(visible_device("GPU-8a,MIG-2", 1) == "MIG-2");
  CHECK_THROWS_WITH_AS(visible_device("5,7", 2), "CUDA_VISIBLE_DEVICES = '5,7' has no 3 GPUs",
                       Error);
}

TEST_CASE("a worker runs on its cores alone, with as many threads, and sees its GPU alone") {
  const Outcome outcome = in_child([] {
    const std::vector<int> own{own_cores().front()};
    unsetenv("CUDA_VISIBLE_DEVICES");
    go_to({2, own});
    const bool good = own_cores() == own && num_threads() == 1 &&
                      std::string(getenv("CUDA_VISIBLE_DEVICES")) == "2";
    _exit(good ? 0 : 1);
  });

  CHECK(outcome.exit_code == 0);
}

TEST_CASE("one process at a time has a turn, and that of a killed process is free again") {
  constexpr int kProcesses = 4, kTurns = 200;
  void* memory = mmap(nullptr, sizeof(std::atomic<int>[3]), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  auto* counts = new (memory) std::atomic<int>[3] {};
  std::atomic<int>&inside = counts[0], &turns = counts[1], &together = counts[2];
  SharedTurn turn;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = fork();
    if (child == 0) {
      for (int i = 0; i < kTurns; ++i) {
        const SharedTurn::Held held(turn);
        if (inside.fetch_add(1) > 0) ++together;
        sched_yield();
        ++turns;
        if (process == 0 && i == kTurns / 2) {
          --inside;
          std::raise(SIGKILL);
        }
        --inside;
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) waitpid(child, nullptr, 0);

  CHECK(together == 0);
  CHECK(turns == (kProcesses - 1) * kTurns + kTurns / 2 + 1);
  munmap(memory, sizeof(std::atomic<int>[3]));
}

}  // namespace
}  // namespace tessera
