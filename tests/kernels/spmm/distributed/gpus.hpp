// The GPUs of this machine, for tests of products on several.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "formats/base/check.hpp"
#include "kernels/spmm/distributed/nccl_communicator.hpp"
#include "tests/gpu_child.hpp"

namespace tessera {

/// The GPUs of this machine, at most four; empty, with a message, without NCCL.
inline std::vector<int> devices() {
  int count = 0;
  if (no_gpu() || cudaGetDeviceCount(&count) != cudaSuccess) return {};
  const std::vector<int> first = first_devices(std::min(count, 4));
  try {
    run_on_devices({0}, [](DeviceCommunicator&) {});
  } catch (const Unsupported& error) {
    MESSAGE("skipped: " << error.what());
    return {};
  }
  return first;
}

}  // namespace tessera
