// The container that the program runs in, and what it lacks of its host.
#include "experiments/machine/container.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include "tests/support.hpp"

namespace tessera {
namespace {

TEST_CASE("a container says what keeps it from its host's GPU, and the option that mends it") {
  CHECK(lack_of({.kind = "", .driver = false}).empty());
  CHECK(lack_of({.kind = "docker", .driver = true, .devices = true, .library = true}).empty());
  CHECK(lack_of({.kind = "docker", .driver = false, .devices = true}) ==
        "the host has no NVIDIA driver loaded, so no GPU can be used");
  CHECK(lack_of({.kind = "docker", .driver = true}).ends_with("start it with --gpus all"));
  CHECK(lack_of({.kind = "apptainer", .driver = true}) ==
        "the host has a driver, and the container sees no GPU: start it with --nv");
  CHECK(lack_of({.kind = "podman", .driver = true, .devices = true})
            .starts_with("the container lacks the library of the host's driver"));
}

TEST_CASE("a container, the driver and its devices are found by the files they leave") {
  const TemporaryFolder root;
  const auto put = [&](const std::string& name) {
    std::filesystem::create_directories(std::filesystem::path(root / name).parent_path());
    write_text(root / name, "1");
  };
  CHECK(find_container(root.path()).kind.empty());
  put(".dockerenv");
  CHECK(find_container(root.path()).kind == "docker");
  CHECK_FALSE(find_container(root.path()).driver);
  put("proc/driver/nvidia/version");
  put("dev/nvidiactl");
  CHECK(find_container(root.path()).driver);
  CHECK(find_container(root.path()).devices);
  put("run/.containerenv");
  CHECK(find_container(root.path()).kind == "podman");
  put(".singularity.d/labels.json");
  CHECK(find_container(root.path()).kind == "apptainer");
}

}  // namespace
}  // namespace tessera
