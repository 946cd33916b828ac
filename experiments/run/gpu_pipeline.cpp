#include "experiments/run/gpu_pipeline.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdlib>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"

namespace tessera {
namespace {

constexpr int kCoresOfWorker = 2;  // where there are as many
// Each has a CUDA context, which takes time, and memory of the GPU.
constexpr int kMostWorkersOfGpu = 8, kMostWithoutChecks = 4;

}  // namespace

std::vector<WorkerPlace> places_of_gpus(int gpus, const std::vector<int>& cores, bool checked) {
  const int have = static_cast<int>(cores.size());
  const int workers =
      std::clamp(have / gpus / kCoresOfWorker, 2, checked ? kMostWorkersOfGpu : kMostWithoutChecks);
  const int each = have / (gpus * workers);
  std::vector<WorkerPlace> places;
  for (int worker = 0; worker < workers; ++worker) {
    for (int gpu = 0; gpu < gpus; ++gpu) {
      const auto first = cores.begin() + each * (gpu * workers + worker);
      places.push_back({gpu, {first, first + each}});
    }
  }
  return places;
}

std::vector<int> own_cores() {
  cpu_set_t allowed;
  std::vector<int> cores;
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
  if (place.cores.empty()) return;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (const int core : place.cores) CPU_SET(core, &cores);
  // Where it is refused, timings are less quiet, and right all the same.
  if (sched_setaffinity(0, sizeof cores, &cores) == 0)
    set_num_threads(static_cast<int>(place.cores.size()));
}

}  // namespace tessera
