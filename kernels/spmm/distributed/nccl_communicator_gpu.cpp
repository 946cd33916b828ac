// Communicators over NCCL. Blocks of all peers are one group, so that they travel at a time and in
// any order; a communicator is ended by its own thread alone.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "formats/base/check.hpp"
#include "formats/base/device_memory.hpp"
#include "kernels/spmm/distributed/nccl_communicator.hpp"
#include "kernels/spmm/distributed/nccl_library.hpp"
#include "kernels/spmm/distributed/thread_communicator.hpp"

namespace tessera {
namespace {

using nccl::check;
using nccl::Library;

constexpr std::chrono::microseconds kPollInterval{20};
constexpr int kConnectedAtOnce = 16;  // ranks; each pair takes some megabytes of memory

/// Calls of NCCL that become one operation. It is closed even when one of them throws.
class Group {
 public:
  Group() { check(Library::instance().group_start(), "opening a group"); }
  ~Group() {
    if (is_open_) Library::instance().group_end();
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  void end(nccl::Comm comm) {
    is_open_ = false;
    check(Library::instance().group_end(), "starting an exchange", comm);
  }

 private:
  bool is_open_ = true;
};

class NcclCommunicator final : public DeviceCommunicator {
 public:
  NcclCommunicator(const nccl::UniqueId& id, int size, int rank,
                   std::shared_ptr<std::atomic<bool>> has_ended)
      : rank_(rank), size_(size), has_ended_(std::move(has_ended)) {
    check(library_.init_rank(&comm_, size, id, rank), "connecting GPUs");
    if (size <= kConnectedAtOnce) connect_peers();
  }
  ~NcclCommunicator() override {
    if (comm_ == nullptr) return;
    if (*has_ended_)
      library_.abort(comm_);
    else
      library_.destroy(comm_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void exchange(std::span<const OutgoingBlock> sends, std::span<const IncomingBlock> receives,
                CUstream_st* stream) override {
    require_other_ranks(rank_, size_, sends, receives);
    require_alive();
    Group group;
    for (const OutgoingBlock& block : sends)
      check(library_.send(block.data, static_cast<std::size_t>(block.bytes), nccl::kBytes, block.to,
                          comm_, stream),
            "sending", comm_);
    for (const IncomingBlock& block : receives)
      check(library_.receive(block.data, static_cast<std::size_t>(block.bytes), nccl::kBytes,
                             block.from, comm_, stream),
            "receiving", comm_);
    group.end(comm_);
  }

  /// Blocks may differ in size, which ncclAllGather does not take: each is broadcast.
  void all_gather(std::span<const std::int64_t> bytes, void* all, CUstream_st* stream) override {
    require(std::ssize(bytes) == size_, "{} blocks are gathered of {} ranks", bytes.size(), size_);
    require_alive();
    Group group;
    auto* block = static_cast<std::byte*>(all);
    for (int root = 0; root < size_; ++root) {
      const auto size = static_cast<std::size_t>(bytes[static_cast<std::size_t>(root)]);
      if (size > 0)
        check(library_.broadcast(block, block, size, nccl::kBytes, root, comm_, stream),
              "broadcasting", comm_);
      block += size;
    }
    group.end(comm_);
  }

  void wait(CUstream_st* stream) override {
    for (;;) {
      const cudaError_t state = cudaStreamQuery(stream);
      if (state != cudaErrorNotReady) return cuda_check(state, "waiting for an exchange");
      // Nobody else ends what the GPU waits for; memory could not even be freed before.
      if (*has_ended_) library_.abort(std::exchange(comm_, nullptr));
      require_alive();
      nccl::Result result = nccl::kSuccess;
      check(library_.async_error(comm_, &result), "asking for errors", comm_);
      check(result, "exchanging", comm_);
      std::this_thread::sleep_for(kPollInterval);
    }
  }

  void give_up() noexcept override { *has_ended_ = true; }

 private:
  /// NCCL connects a pair of ranks at its first exchange, and a rank that has failed by then would
  /// let the other one wait in it: so all pairs exchange a byte first.
  void connect_peers() {
    DeviceArray<std::byte> bytes(2 * static_cast<std::size_t>(size_));
    std::vector<OutgoingBlock> sends;
    std::vector<IncomingBlock> receives;
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      sends.push_back({peer, bytes.data() + 2 * peer, 1});
      receives.push_back({peer, bytes.data() + 2 * peer + 1, 1});
    }
    exchange(sends, receives, nullptr);
    wait(nullptr);
  }

  void require_alive() const {
    if (*has_ended_) throw std::runtime_error("another rank gave up");
  }

  const Library& library_ = Library::instance();
  int rank_, size_;
  std::shared_ptr<std::atomic<bool>> has_ended_;  // of all ranks of this process
  nccl::Comm comm_ = nullptr;
};

nccl::UniqueId new_id() {
  nccl::UniqueId id;
  check(Library::instance().get_unique_id(&id), "making an id");
  return id;
}

int number_of_devices() {
  int count = 0;
  cuda_check(cudaGetDeviceCount(&count), "counting devices");
  return count;
}

}  // namespace

void run_on_devices(const std::vector<int>& devices,
                    const std::function<void(DeviceCommunicator&)>& body) {
  const int there = number_of_devices();
  require(!devices.empty(), "no device is named; a product needs at least one");
  for (std::size_t i = 0; i < devices.size(); ++i) {
    require(devices[i] >= 0 && devices[i] < there,
            "device {} is not there: this machine has {} GPUs", devices[i], there);
    require(std::find(devices.begin() + static_cast<std::ptrdiff_t>(i) + 1, devices.end(),
                      devices[i]) == devices.end(),
            "device {} occurs twice; a rank needs one of its own", devices[i]);
  }
  const auto size = static_cast<int>(devices.size());
  const nccl::UniqueId id = new_id();
  const auto has_ended = std::make_shared<std::atomic<bool>>(false);
  std::mutex mutex;
  std::exception_ptr first;  // others may leave sooner, since this one ends its communicator first
  const auto run = [&](int rank) {
    cuda_check(cudaSetDevice(devices[static_cast<std::size_t>(rank)]), "choosing a device");
    NcclCommunicator comm(id, size, rank, has_ended);
    try {
      body(comm);
    } catch (...) {
      {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
      comm.give_up();
      throw;
    }
  };
  try {
    run_ranks(size, run, [](int) {});
  } catch (...) {
    if (!first) throw;
  }
  if (first) std::rethrow_exception(first);
}

std::vector<int> first_devices(int count) {
  const int there = number_of_devices();
  require<Unsupported>(count <= there, "{} GPUs are asked for; this machine has {}", count, there);
  std::vector<int> devices(static_cast<std::size_t>(count));
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

std::unique_ptr<DeviceCommunicator> connect_processes(const World& world) {
  nccl::UniqueId id{};
  if (world.rank == 0) id = new_id();
  std::vector<char> bytes(sizeof id);
  std::memcpy(bytes.data(), &id, sizeof id);
  share(world, bytes);
  std::memcpy(&id, bytes.data(), sizeof id);
  return std::make_unique<NcclCommunicator>(id, world.size, world.rank,
                                            std::make_shared<std::atomic<bool>>(false));
}

}  // namespace tessera
