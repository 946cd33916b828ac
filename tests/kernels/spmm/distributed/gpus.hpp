// The GPUs of this machine and our kernels, for tests of products on several GPUs.
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

/// A kernel of ours, and the type of its B and C.
struct Ours {
  const char *kernel, *storage;
};
inline constexpr Ours kOurs[] = {{"tessera_spmm", "fp32"},
                                 {"rows_spmm", "fp32"},
                                 {"tessera_spmm", "fp16"},
                                 {"rows_spmm", "bf16"}};

}  // namespace tessera
