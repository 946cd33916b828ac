// The container that the program runs in, and what it or its host lacks for a GPU.
#pragma once

#include <string>

namespace tessera {

struct Container {
  std::string kind;      // "docker", "podman", "apptainer"; empty outside of any
  bool driver = false;   // the host's kernel has NVIDIA's driver
  bool devices = false;  // the container sees a GPU of the host
  bool library = false;  // and the driver's library, which has to be the host's
};

/// Looks at `root`, the file system, and at the environment.
Container find_container(const std::string& root = "/");

/// What keeps a container from its host's GPU, and the option that mends it; empty where nothing
/// does, and outside of containers.
std::string lack_of(const Container& container);

}  // namespace tessera
