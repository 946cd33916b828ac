#include "kernels/spmm/distributed/distributed_plan.hpp"

#include <numeric>
#include <vector>

#include "formats/base/check.hpp"
#include "formats/base/device_memory.hpp"
#include "formats/base/extents.hpp"
#include "kernels/device/median_time.hpp"
#include "kernels/device/restore_rows.hpp"
#include "kernels/spmm/distributed/exchange_stream.hpp"
#include "kernels/spmm/distributed/uploaded_part.hpp"

namespace tessera {

struct DistributedSpmmPlan::State {
  DeviceCommunicator& comm;
  int device = current_device();
  std::int64_t n;
  Exchange exchange;
  std::int64_t row_bytes;  // of B
  PartOfProduct part;
  Storage storage = {};
  UploadedPart own, received = {};
  std::string algorithm;
  DeviceArray<std::int32_t> remote_rows, sent_rows;
  std::vector<std::int64_t> in_place;     // of each send: its first row of B; -1: gathered
  DeviceArray<std::byte> gathered;        // [rows to gather x row_bytes]
  DeviceArray<std::byte> arrived;         // [received rows x row_bytes], or all of B
  std::vector<std::int64_t> block_bytes;  // of each rank's rows of B
  ExchangeStream stream = {};

  State(const CsrMatrix& a, std::int64_t columns, const DistributedOptions& options,
        const Distribution& distribution, DeviceCommunicator& communicator)
      : comm(communicator),
        n(columns),
        exchange(distribution.exchange),
        row_bytes(distribution.row_bytes),
        part(part_of(a, distribution, communicator.rank())) {
    const DistributedSpmm kernel(options, n);
    storage = kernel.arithmetic().storage;
    own = upload_part(kernel.options().kernel, kernel.params(), *kernel.pack(part.local), n);
    algorithm = choose_algorithm(own, part.local.rows, part.local.cols, n, storage);
    if (part.remote.rows > 0) {
      received =
          upload_part(kernel.options().kernel, kernel.params(), *kernel.pack(part.remote), n);
      received.gpu->prepare(0, {nullptr, nullptr}, nullptr);
      remote_rows = DeviceArray<std::int32_t>(part.remote_rows);
      require<Unsupported>(received.gpu->place_rows(remote_rows.data()),
                           "{} does not add to some rows of C only; it needs the exchange gathered",
                           options.kernel);
    }
    allocate_buffers(distribution.partition);
    part.local = {}, part.remote = {};  // they are on the device
    cuda_check(cudaDeviceSynchronize(), "uploading a part");
  }

  void allocate_buffers(const RowPartition& partition) {
    for (const auto& rows : members_of(partition.of_col, partition.parts))
      block_bytes.push_back(std::ssize(rows) * row_bytes);
    if (exchange == Exchange::kGathered) {
      arrived =
          DeviceArray<std::byte>(partition.of_col.size() * static_cast<std::size_t>(row_bytes));
      return;
    }
    std::int64_t to_gather = 0;
    for (const PeerRows& block : part.sends) {
      in_place.push_back(first_if_contiguous(part.sent_rows, block));
      if (in_place.back() < 0) to_gather += block.count;
    }
    gathered = DeviceArray<std::byte>(static_cast<std::size_t>(to_gather * row_bytes));
    if (to_gather > 0) sent_rows = DeviceArray<std::int32_t>(part.sent_rows);
    arrived = DeviceArray<std::byte>(static_cast<std::size_t>(part.remote.cols * row_bytes));
    load_restore_rows();
  }

  void require_device() const {
    const int current = current_device();
    require(current == device, "the plan belongs to device {}, but the current device is {}",
            device, current);
  }

  /// The rows that each peer is sent, gathered where they do not follow each other.
  std::vector<OutgoingBlock> outgoing(const std::byte* b) {
    std::vector<OutgoingBlock> blocks;
    std::byte* next = gathered.data();
    for (std::size_t i = 0; i < part.sends.size(); ++i) {
      const PeerRows& block = part.sends[i];
      const std::byte* rows = b + in_place[i] * row_bytes;
      if (in_place[i] < 0) {
        gather_rows(b, sent_rows.data() + block.first, static_cast<std::int32_t>(block.count),
                    row_bytes, next, stream.get());
        rows = next;
        next += block.count * row_bytes;
      }
      blocks.push_back({block.peer, rows, block.count * row_bytes});
    }
    return blocks;
  }

  void gather_all(const void* b) {
    const auto before = block_bytes.begin() + comm.rank();
    std::byte* all = arrived.data();
    cuda_check(
        cudaMemcpyAsync(all + std::accumulate(block_bytes.begin(), before, std::int64_t{0}), b,
                        static_cast<std::size_t>(*before), cudaMemcpyDeviceToDevice, stream.get()),
        "copying rows of B");
    comm.all_gather(block_bytes, all, stream.get());
  }
};

DistributedSpmmPlan::DistributedSpmmPlan(const CsrMatrix& a, std::int64_t n,
                                         const DistributedOptions& options,
                                         const Distribution& distribution,
                                         DeviceCommunicator& comm) {
  validate(a);
  require(n >= 1, "B has {} columns; it needs at least one", n);
  element_count(std::max(a.rows, a.cols), n);
  require(distribution.partition.parts == comm.size(), "A is in {} parts for {} ranks",
          distribution.partition.parts, comm.size());
  state_ = std::make_unique<State>(a, n, options, distribution, comm);
}
DistributedSpmmPlan::~DistributedSpmmPlan() = default;
DistributedSpmmPlan::DistributedSpmmPlan(DistributedSpmmPlan&&) noexcept = default;
DistributedSpmmPlan& DistributedSpmmPlan::operator=(DistributedSpmmPlan&&) noexcept = default;

void DistributedSpmmPlan::run(const void* b, void* c, Scaling scaling, cudaStream_t stream) {
  start_exchange(b, stream);
  multiply_own(b, c, scaling, stream);
  add_received(c, scaling.alpha, stream);
}

void DistributedSpmmPlan::start_exchange(const void* b, cudaStream_t stream) {
  State& s = *state_;
  s.require_device();
  require(b != nullptr || s.part.b_rows.empty(), "B is a null pointer");
  s.stream.follow(stream);
  if (s.exchange == Exchange::kGathered) {
    s.gather_all(b);
  } else if (!s.part.sends.empty() || !s.part.receives.empty()) {
    std::vector<IncomingBlock> receives;
    for (const PeerRows& block : s.part.receives)
      receives.push_back(
          {block.peer, s.arrived.data() + block.first * s.row_bytes, block.count * s.row_bytes});
    s.comm.exchange(s.outgoing(static_cast<const std::byte*>(b)), receives, s.stream.get());
  }
  s.stream.end();
}

void DistributedSpmmPlan::multiply_own(const void* b, void* c, Scaling scaling,
                                       cudaStream_t stream) {
  State& s = *state_;
  s.require_device();
  require(c != nullptr || s.part.rows.empty(), "C is a null pointer");
  if (s.exchange == Exchange::kGathered) s.stream.wait(stream);
  const void* rows = s.exchange == Exchange::kGathered ? s.arrived.data() : b;
  s.own.gpu->launch(s.own.algorithm, {rows, c, scaling}, stream);
}

void DistributedSpmmPlan::add_received(void* c, float alpha, cudaStream_t stream) {
  State& s = *state_;
  s.require_device();
  s.stream.wait(stream);
  if (s.received.gpu) s.received.gpu->launch(0, {s.arrived.data(), c, {alpha, 1}}, stream);
}

const PartOfProduct& DistributedSpmmPlan::part() const { return state_->part; }
std::int64_t DistributedSpmmPlan::n() const { return state_->n; }
const Storage& DistributedSpmmPlan::storage() const { return state_->storage; }
const std::string& DistributedSpmmPlan::algorithm() const { return state_->algorithm; }
std::int64_t DistributedSpmmPlan::packed_bytes() const {
  return state_->own.bytes + state_->received.bytes;
}
std::int64_t DistributedSpmmPlan::buffer_bytes() const {
  return static_cast<std::int64_t>(state_->gathered.size() + state_->arrived.size());
}

}  // namespace tessera
