#include "experiments/machine/container.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "formats/base/check.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string kind_of(const fs::path& root) {
  for (const char* name : {"APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"})
    if (std::getenv(name) != nullptr) return "apptainer";
  if (fs::exists(root / ".singularity.d")) return "apptainer";
  if (fs::exists(root / "run/.containerenv")) return "podman";
  return fs::exists(root / ".dockerenv") ? "docker" : "";
}

}  // namespace

Container find_container(const std::string& root) {
  Container found{kind_of(root)};
  found.driver = fs::exists(fs::path(root) / "proc/driver/nvidia/version");
  found.devices = fs::exists(fs::path(root) / "dev/nvidiactl");
  void* const library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  found.library = library != nullptr;
  if (library != nullptr) dlclose(library);
  return found;
}

std::string lack_of(const Container& container) {
  if (container.kind.empty()) return "";
  if (!container.driver) return "the host has no NVIDIA driver loaded, so no GPU can be used";
  const char* const option = container.kind == "apptainer" ? "--nv"
                             : container.kind == "podman"  ? "--device nvidia.com/gpu=all"
                                                           : "--gpus all";
  if (!container.devices)
    return fmt::format("the host has a driver, and the container sees no GPU: start it with {}",
                       option);
  if (!container.library)
    return fmt::format("the container lacks the library of the host's driver: start it with {}",
                       option);
  return "";
}

}  // namespace tessera
