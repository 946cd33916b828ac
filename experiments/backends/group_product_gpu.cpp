// The product over NCCL, a thread for each GPU. C is poisoned before a first run, which is the one
// that is checked, and before a last one behind the timed runs, whose bits have to be the same.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <mutex>

#include "experiments/backends/group_product.hpp"
#include "experiments/backends/poisoned_output.hpp"
#include "experiments/backends/time_summary.hpp"
#include "experiments/machine/gpu_info.hpp"
#include "formats/base/device_memory.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spmm/distributed/distributed_plan.hpp"
#include "kernels/spmm/distributed/group_timer.hpp"
#include "kernels/spmm/distributed/nccl_library.hpp"
#include "kernels/tensor_core/gpu_generation.hpp"

namespace tessera {
namespace {

double median(const std::vector<double>& samples) { return summarise(samples, 1).median; }

/// What one rank finds.
struct RankResult {
  LaunchOutput first;
  std::string fault = {};
  std::vector<double> samples = {};  // of the whole product, us
  GroupMember member = {};
};

RankResult run_rank(const GroupMultiplication& m, DeviceCommunicator& comm) {
  const std::int64_t n = m.b.cols;
  DistributedSpmmPlan plan(m.a, n, m.kernel.options(), m.distribution, comm);
  const PartOfProduct& part = plan.part();
  const DeviceArray<std::byte> b = upload_as(plan.storage().b, own_rows(m.b, part).values);
  PoisonedOutput output(plan.storage().c, part.rows.size() * static_cast<std::size_t>(n));
  void* c = output.data();
  const auto fresh = [&] {
    output.poison();
    cuda_check(cudaDeviceSynchronize(), "poisoning C");
    plan.run(b.data(), c);
    comm.wait(nullptr);
    return output.read(std::ssize(part.rows), n);
  };

  RankResult result{.first = fresh()};
  const GroupTiming timing{.warming = static_cast<int>(m.measure.warmup),
                           .samples = static_cast<int>(m.measure.min_samples),
                           .sample_us = 1e3};
  result.samples = time_together(
      comm, [&] { plan.run(b.data(), c); }, timing);
  const BitComparison again = compare_bits(fresh().c, result.first.c);
  if (again.different > 0)
    result.fault = fmt::format("rank {}: {} elements of a later product have other bits",
                               comm.rank(), again.different);

  GroupMember& member = result.member;
  member.gpu = gpu_description();
  member.rows = std::ssize(part.rows);
  for (const std::int32_t row : part.rows) member.nonzeros += m.a.row_length(row);
  const int rank = comm.rank();
  member.sent_bytes = m.distribution.travelling.sent(rank) * m.distribution.row_bytes;
  member.received_bytes = m.distribution.travelling.received(rank) * m.distribution.row_bytes;
  const auto time = [&](const std::function<void()>& work) {
    return median(time_together(comm, work, timing));
  };
  member.own_us = time([&] { plan.multiply_own(b.data(), c, {}, nullptr); });
  member.received_us = time([&] { plan.add_received(c, 1, nullptr); });
  // Waiting for an exchange is part of the product of what it brings.
  member.exchange_us = std::max(time([&] {
                                  plan.start_exchange(b.data(), nullptr);
                                  plan.add_received(c, 1, nullptr);
                                }) - member.received_us,
                                0.0);
  return result;
}

class NcclProduct final : public GroupProduct {
 public:
  GroupResult multiply(const GroupMultiplication& m) const override {
    const int parts = m.distribution.partition.parts;
    const auto rows_of = members_of(m.distribution.partition.of_row, parts);
    GroupResult result{.c = DenseMatrix(m.a.rows, m.b.cols),
                       .generation = gpu_generation(),
                       .library = "NCCL " + nccl::Library::instance().version(),
                       .members = std::vector<GroupMember>(static_cast<std::size_t>(parts))};
    std::vector<double> slowest;
    std::mutex mutex;
    run_on_devices(first_devices(parts), [&](DeviceCommunicator& comm) {
      RankResult of_rank = run_rank(m, comm);
      const std::lock_guard lock(mutex);
      const auto rank = static_cast<std::size_t>(comm.rank());
      for (std::size_t i = 0; i < rows_of[rank].size(); ++i)
        std::ranges::copy(of_rank.first.c.row(static_cast<std::int64_t>(i)),
                          result.c.row(rows_of[rank][i]).begin());
      result.unwritten += of_rank.first.unwritten;
      result.guards_intact = result.guards_intact && of_rank.first.guards_intact;
      if (result.fault.empty()) result.fault = of_rank.fault;
      slowest.resize(of_rank.samples.size());
      for (std::size_t i = 0; i < slowest.size(); ++i)
        slowest[i] = std::max(slowest[i], of_rank.samples[i]);
      result.members[rank] = std::move(of_rank.member);
    });
    result.time = summarise(slowest, 1);
    return result;
  }
};

const Register<GroupProduct> entry{{
    .name = "nccl",
    .summary = "a thread for each GPU of this host, connected by NCCL",
    .make = [](const Params&) { return std::make_unique<NcclProduct>(); },
}};

}  // namespace
}  // namespace tessera
