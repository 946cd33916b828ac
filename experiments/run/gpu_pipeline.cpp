#include "experiments/run/gpu_pipeline.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdlib>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"

namespace tessera {
namespace {

constexpr int kCoresOfLane = 2;  // where there are as many
constexpr int kMostLanes = 8;    // each has a matrix, its packed form and its operands

}  // namespace

std::vector<WorkerPlace> places_of_gpus(int gpus, const Cores& cores) {
  const int have = static_cast<int>(cores.size());
  const int lanes = std::clamp(have / gpus / kCoresOfLane, 2, kMostLanes);
  const int each = have / (gpus * lanes);
  std::vector<WorkerPlace> places;
  auto first = cores.begin();
  for (int gpu = 0; gpu < gpus; ++gpu) {
    WorkerPlace& place = places.emplace_back(WorkerPlace{gpu, {}});
    for (int lane = 0; lane < lanes; ++lane, first += each)
      place.lanes.emplace_back(first, first + each);
  }
  return places;
}

Cores own_cores() {
  cpu_set_t allowed;
  Cores cores;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  return cores;
}

std::string visible_device(const std::string& visible, int gpu) {
  std::size_t begin = 0;
  for (int before = 0; before < gpu; ++before) {
    begin = visible.find(',', begin);
    if (begin == std::string::npos) break;
    ++begin;
  }
  if (visible.empty()) return std::to_string(gpu);
  require(begin != std::string::npos, "CUDA_VISIBLE_DEVICES = '{}' has no {} GPUs", visible,
          gpu + 1);
  return visible.substr(begin, visible.find(',', begin) - begin);
}

void go_to(const WorkerPlace& place) {
  if (place.gpu >= 0) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    const std::string device = visible_device(visible == nullptr ? "" : visible, place.gpu);
    ::setenv("CUDA_VISIBLE_DEVICES", device.c_str(), 1);
  }
  Cores all;
  for (const Cores& of_lane : place.lanes) all.insert(all.end(), of_lane.begin(), of_lane.end());
  stay_on(all);
  set_num_threads(static_cast<int>(place.lanes.front().size()));
}

void stay_on(const Cores& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  // Where it is refused, timings are less quiet, and right all the same.
  sched_setaffinity(0, sizeof set, &set);
}

}  // namespace tessera
