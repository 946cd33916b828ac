// The exchange runs on a stream of its own with the highest priority: its thread blocks are few,
// and find room as soon as blocks of the product end.
#include "kernels/spmm/distributed/distributed_plan.hpp"

#include <numeric>
#include <vector>

#include "formats/base/check.hpp"
#include "formats/base/device_memory.hpp"
#include "formats/base/extents.hpp"
#include "formats/base/registry.hpp"
#include "formats/format.hpp"
#include "kernels/device/median_time.hpp"
#include "kernels/device/restore_rows.hpp"
#include "kernels/gpu_spmm.hpp"

namespace tessera {
namespace {

/// A stream of the highest priority, and an event of its own.
class ExchangeStream {
 public:
  ExchangeStream() {
    int least = 0, greatest = 0;
    cuda_check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities");
    cuda_check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest),
               "creating a stream");
    for (cudaEvent_t* event : {&ready_, &arrived_})
      cuda_check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "creating an event");
  }
  ~ExchangeStream() {
    cudaEventDestroy(ready_);
    cudaEventDestroy(arrived_);
    cudaStreamDestroy(stream_);
  }
  ExchangeStream(const ExchangeStream&) = delete;
  ExchangeStream& operator=(const ExchangeStream&) = delete;

  /// Its work from now on runs after what is on `stream`.
  void follow(cudaStream_t stream) {
    cuda_check(cudaEventRecord(ready_, stream), "starting an exchange");
    cuda_check(cudaStreamWaitEvent(stream_, ready_), "starting an exchange");
  }
  /// What was enqueued since is what wait() waits for.
  void end() { cuda_check(cudaEventRecord(arrived_, stream_), "ending an exchange"); }
  /// Work that is added to `stream` later runs after the exchange.
  void wait(cudaStream_t stream) {
    cuda_check(cudaStreamWaitEvent(stream, arrived_), "waiting for an exchange");
  }
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t ready_ = nullptr, arrived_ = nullptr;
};

/// A packed matrix on the device, with the algorithm that multiplies it.
struct Uploaded {
  std::unique_ptr<GpuMultiplication> gpu;
  std::int64_t bytes = 0;
  int algorithm = 0;
};

Uploaded upload(const DistributedSpmm& kernel, const CsrMatrix& matrix, std::int64_t n) {
  const auto& halves = Registry<GpuSpmm>::instance();
  const std::string& name = kernel.options().kernel;
  require<Unsupported>(halves.contains(name), "{} has no device half", name);
  const auto packed = kernel.pack(matrix);
  return {halves.make(name, kernel.params())->upload(*packed, n), stats(*packed).bytes};
}

/// Prepares the fastest of a library's algorithms, in products of memory that is freed afterwards;
/// the only one of a kernel is prepared without a product.
std::string choose_algorithm(Uploaded& uploaded, std::int64_t rows, std::int64_t cols,
                             std::int64_t n) {
  const std::vector<std::string> names = uploaded.gpu->candidates();
  if (names.size() == 1) {
    uploaded.gpu->prepare(0, {nullptr, nullptr}, nullptr);
    return names[0];
  }
  const DeviceArray<float> b(static_cast<std::size_t>(cols * n));
  DeviceArray<float> c(static_cast<std::size_t>(rows * n));
  cuda_check(cudaMemset(const_cast<float*>(b.data()), 0x3c, b.size() * sizeof(float)), "filling B");
  const Operands operands{b.data(), c.data()};
  int best = -1;
  double best_us = 0;
  for (int i = 0; i < static_cast<int>(names.size()); ++i) try {
      uploaded.gpu->prepare(i, operands, nullptr);
      const double us = median_us([&] { uploaded.gpu->launch(i, operands, nullptr); });
      if (best < 0 || us < best_us) best = i, best_us = us;
    } catch (const Unsupported&) {
    }
  require<Unsupported>(best >= 0, "none of the library's algorithms takes this case");
  uploaded.gpu->prepare(best, operands, nullptr);
  uploaded.algorithm = best;
  return names[static_cast<std::size_t>(best)];
}

}  // namespace

struct DistributedSpmmPlan::State {
  DeviceCommunicator& comm;
  int device = current_device();
  std::int64_t n;
  Exchange exchange;
  PartOfProduct part;
  Uploaded own, received = {};
  std::string algorithm;
  DeviceArray<std::int32_t> remote_rows, sent_rows;
  std::vector<std::int64_t> in_place;     // of each send: its first row of B; -1: gathered
  DeviceArray<float> gathered;            // [rows to gather x n]
  DeviceArray<float> arrived;             // [received rows x n], or all of B
  std::vector<std::int64_t> block_bytes;  // of each rank's rows of B
  ExchangeStream stream = {};

  State(const CsrMatrix& a, std::int64_t columns, const DistributedOptions& options,
        const Distribution& distribution, DeviceCommunicator& communicator)
      : comm(communicator),
        n(columns),
        exchange(distribution.exchange),
        part(part_of(a, distribution, communicator.rank())) {
    const DistributedSpmm kernel(options, n);
    own = upload(kernel, part.local, n);
    algorithm = choose_algorithm(own, part.local.rows, part.local.cols, n);
    if (part.remote.rows > 0) {
      received = upload(kernel, part.remote, n);
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
      block_bytes.push_back(std::ssize(rows) * n * static_cast<std::int64_t>(sizeof(float)));
    if (exchange == Exchange::kGathered) {
      arrived = DeviceArray<float>(partition.of_col.size() * static_cast<std::size_t>(n));
      return;
    }
    std::int64_t to_gather = 0;
    for (const PeerRows& block : part.sends) {
      in_place.push_back(first_if_contiguous(part, block));
      if (in_place.back() < 0) to_gather += block.count;
    }
    gathered = DeviceArray<float>(static_cast<std::size_t>(to_gather * n));
    if (to_gather > 0) sent_rows = DeviceArray<std::int32_t>(part.sent_rows);
    arrived = DeviceArray<float>(static_cast<std::size_t>(part.remote.cols * n));
    load_restore_rows();
  }

  void require_device() const {
    const int current = current_device();
    require(current == device, "the plan belongs to device {}, but the current device is {}",
            device, current);
  }

  std::int64_t bytes_of(std::int64_t rows) const {
    return rows * n * static_cast<std::int64_t>(sizeof(float));
  }

  /// The rows that each peer is sent, gathered where they do not follow each other.
  std::vector<OutgoingBlock> outgoing(const float* b) {
    std::vector<OutgoingBlock> blocks;
    float* next = gathered.data();
    for (std::size_t i = 0; i < part.sends.size(); ++i) {
      const PeerRows& block = part.sends[i];
      const float* rows = b + in_place[i] * n;
      if (in_place[i] < 0) {
        restore_rows(b, sent_rows.data() + block.first, static_cast<std::int32_t>(block.count), n,
                     next, stream.get());
        rows = next;
        next += block.count * n;
      }
      blocks.push_back({block.peer, rows, bytes_of(block.count)});
    }
    return blocks;
  }

  void gather_all(const float* b) {
    const auto before = block_bytes.begin() + comm.rank();
    auto* all = reinterpret_cast<std::byte*>(arrived.data());
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

void DistributedSpmmPlan::run(const float* b, float* c, Scaling scaling, cudaStream_t stream) {
  start_exchange(b, stream);
  multiply_own(b, c, scaling, stream);
  add_received(c, scaling.alpha, stream);
}

void DistributedSpmmPlan::start_exchange(const float* b, cudaStream_t stream) {
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
          {block.peer, s.arrived.data() + block.first * s.n, s.bytes_of(block.count)});
    s.comm.exchange(s.outgoing(b), receives, s.stream.get());
  }
  s.stream.end();
}

void DistributedSpmmPlan::multiply_own(const float* b, float* c, Scaling scaling,
                                       cudaStream_t stream) {
  State& s = *state_;
  s.require_device();
  require(c != nullptr || s.part.rows.empty(), "C is a null pointer");
  if (s.exchange == Exchange::kGathered) s.stream.wait(stream);
  const float* rows = s.exchange == Exchange::kGathered ? s.arrived.data() : b;
  s.own.gpu->launch(s.own.algorithm, {rows, c, scaling}, stream);
}

void DistributedSpmmPlan::add_received(float* c, float alpha, cudaStream_t stream) {
  State& s = *state_;
  s.require_device();
  s.stream.wait(stream);
  if (s.received.gpu) s.received.gpu->launch(0, {s.arrived.data(), c, {alpha, 1}}, stream);
}

const PartOfProduct& DistributedSpmmPlan::part() const { return state_->part; }
std::int64_t DistributedSpmmPlan::n() const { return state_->n; }
const std::string& DistributedSpmmPlan::algorithm() const { return state_->algorithm; }
std::int64_t DistributedSpmmPlan::packed_bytes() const {
  return state_->own.bytes + state_->received.bytes;
}
std::int64_t DistributedSpmmPlan::buffer_bytes() const {
  return static_cast<std::int64_t>((state_->gathered.size() + state_->arrived.size()) *
                                   sizeof(float));
}

}  // namespace tessera
