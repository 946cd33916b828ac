// Places of the workers that measure on GPUs.
#include "experiments/run/gpu_pipeline.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>
#include <thread>

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

TEST_CASE("every GPU has a worker of several lanes, and no core is two lanes' own") {
  for (const int gpus : {1, 2, 3, 8}) {
    for (const int count : {1, 2, 7, 16, 96, 256}) {
      CAPTURE(gpus);
      CAPTURE(count);
      const std::vector<WorkerPlace> places = places_of_gpus(gpus, cores(count));
      REQUIRE(static_cast<int>(places.size()) == gpus);
      const std::size_t lanes = places[0].lanes.size();
      CHECK((lanes >= 2 && lanes <= 8));
      const bool enough = count >= gpus * static_cast<int>(lanes);
      std::set<int> taken;
      for (int gpu = 0; gpu < gpus; ++gpu) {
        CHECK(places[gpu].gpu == gpu);
        CHECK(places[gpu].lanes.size() == lanes);
        std::set<int> own;
        for (const Cores& of_lane : places[gpu].lanes) {
          CHECK(of_lane.empty() == !enough);
          CHECK(of_lane.size() == places[0].lanes[0].size());
          for (const int core : of_lane) CHECK(taken.insert(core).second);
          own.insert(of_lane.begin(), of_lane.end());
        }
        // The cores of a GPU follow each other: those of two GPUs are not mixed.
        if (!own.empty()) CHECK(*own.rbegin() - *own.begin() + 1 == static_cast<int>(own.size()));
      }
      CHECK(std::ranges::includes(cores(count), taken));
    }
  }
  CHECK(places_of_gpus(1, cores(16))[0].lanes.size() == 8);
  CHECK(places_of_gpus(2, cores(32))[1].lanes.size() == 8);
}

TEST_CASE("a worker's GPU is one of those that the run sees") {
  CHECK(visible_device("", 3) == "3");
  CHECK(visible_device("5,7", 0) == "5");
  CHECK(visible_device("5,7", 1) == "7");
  CHECK(visible_device("GPU-8a,MIG-2", 1) == "MIG-2");
  CHECK_THROWS_WITH_AS(visible_device("5,7", 2), "CUDA_VISIBLE_DEVICES = '5,7' has no 3 GPUs",
                       Error);
}

TEST_CASE(
    "a worker runs on its lanes' cores, with as many threads as one, and sees its GPU alone") {
  const Outcome outcome = in_child([] {
    const Cores own{own_cores().front()};
    unsetenv("CUDA_VISIBLE_DEVICES");
    go_to({2, {own, own}});
    const bool good = own_cores() == own && num_threads() == 1 &&
                      std::string(getenv("CUDA_VISIBLE_DEVICES")) == "2";
    _exit(good ? 0 : 1);
  });

  CHECK(outcome.exit_code == 0);
}

TEST_CASE("a thread and those that it starts stay on their cores, and others do not") {
  const Cores all = own_cores(), own{all.back()};
  Cores here, below;
  std::thread lane([&] {
    stay_on(own);
    here = own_cores();
    std::thread([&] { below = own_cores(); }).join();
  });
  lane.join();

  CHECK(here == own);
  CHECK(below == own);
  CHECK(own_cores() == all);
}

}  // namespace
}  // namespace tessera
