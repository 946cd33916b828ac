// Communicators over NCCL, for memory on GPUs: one for each GPU, in one process or in many.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "kernels/spmm/distributed/communicator.hpp"
#include "kernels/spmm/distributed/rendezvous.hpp"

namespace tessera {

/// An exchange between GPUs, each with its rank. Blocks are on the device of the rank; functions
/// are called with that device current. Destroying one waits for what it has enqueued.
class DeviceCommunicator : public Communicator {
 public:
  /// Lets what was enqueued on the stream end, or throws std::runtime_error where NCCL reports a
  /// broken connection, or another rank gave up, while it waits.
  virtual void wait(CUstream_st* stream) = 0;
};

/// Calls body(comm) for each of the devices on a thread of its own, with that device current and
/// its rank in the order of the list, and waits for all of them. Where a body throws, the others
/// are told to give up, and its exception is rethrown. Throws Unsupported without NCCL, an Error
/// for no device, one that is not there or one that occurs twice, std::runtime_error for an error
/// of NCCL.
void run_on_devices(const std::vector<int>& devices,
                    const std::function<void(DeviceCommunicator&)>& body);

/// The devices [0, count). Throws Unsupported when this machine has fewer.
std::vector<int> first_devices(int count);

/// That of this process, on its current device, among the processes of `world`; every one of them
/// calls it. Throws Unsupported without NCCL, and as share() does.
std::unique_ptr<DeviceCommunicator> connect_processes(const World& world);

}  // namespace tessera
