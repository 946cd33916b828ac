// Products on the GPUs of this machine, connected by NCCL: every part's C has the emulation's bits,
// however rows of B travel; with one GPU there is one part, and nothing travels.
#include "kernels/spmm/distributed/distributed_plan.hpp"

#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <bit>
#include <mutex>
#include <stdexcept>

#include "experiments/backends/check_result.hpp"
#include "formats/base/device_memory.hpp"
#include "formats/csr.hpp"
#include "formats/io/source.hpp"
#include "kernels/device/stored_values.hpp"
#include "kernels/spmm/distributed/stored_rows.hpp"
#include "kernels/tensor_core/gpu_generation.hpp"
#include "tests/kernels/spmm/distributed/gpus.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

constexpr std::size_t kGuard = 64;

/// The rows of B that a part multiplies first, and those that reach it.
std::pair<DenseMatrix, DenseMatrix> operands_of(const Distribution& distribution,
                                                const PartOfProduct& part, const DenseMatrix& b) {
  std::vector<std::int32_t> received, all;
  for (const PeerRows& block : part.receives) {
    const auto& rows = distribution.travelling.rows(part.part, block.peer);
    received.insert(received.end(), rows.begin(), rows.end());
  }
  for (const auto& rows : members_of(distribution.partition.of_col, distribution.partition.parts))
    all.insert(all.end(), rows.begin(), rows.end());
  const bool is_gathered = distribution.exchange == Exchange::kGathered;
  return {rows_of(b, is_gathered ? all : part.b_rows), rows_of(b, received)};
}

/// Three runs of a rank with C poisoned before each: the number of elements that are not as
/// emulated, and of those beside C that were written.
std::int64_t wrong_elements(const CsrMatrix& a, const DenseMatrix& b,
                            const DistributedOptions& options, const Scaling& scaling,
                            DeviceCommunicator& comm) {
  const Distribution distribution = distribute(a, b.cols, options);
  DistributedSpmmPlan plan(a, b.cols, options, distribution, comm);
  const PartOfProduct part = part_of(a, distribution, comm.rank());
  const auto [multiplied, received] = operands_of(distribution, part, b);
  const DenseMatrix old_c = random_dense(std::ssize(part.rows), b.cols, 9);
  const DenseMatrix expected = DistributedSpmm(options, b.cols)
                                   .emulate_part(part, multiplied, received,
                                                 find_generation(gpu_generation()), scaling, old_c);
  const Storage& storage = plan.storage();
  const DeviceArray<std::byte> own = upload_as(storage.b, own_rows(b, part).values);
  std::int64_t wrong = 0;
  for (int i = 0; i < 3; ++i) {
    std::vector<float> memory(old_c.values.size() + 2 * kGuard, std::bit_cast<float>(kPoison));
    if (scaling.beta != 0) std::ranges::copy(old_c.values, memory.begin() + kGuard);
    DeviceArray<std::byte> c = upload_as(storage.c, memory);
    plan.run(own.data(), c.data() + kGuard * bytes_of(storage.c), scaling);
    comm.wait(nullptr);
    const LaunchOutput output =
        read_output(download_as(storage.c, c), kGuard, std::ssize(part.rows), b.cols);
    wrong += output.unwritten + !output.guards_intact + compare_bits(output.c, expected).different;
  }
  return wrong;
}

}  // namespace

TEST_CASE("every GPU's rows of C have the emulation's bits, however rows of B travel") {
  const std::vector<int> gpus = devices();
  if (gpus.empty()) return;
  std::vector<std::string> wrong;
  std::mutex mutex;
  int checked = 0;
  // One group for all cases: connecting GPUs takes longer than most of them.
  run_on_devices(gpus, [&](DeviceCommunicator& comm) {
    for (const char* matrix : {"poisson3d(nx=24)", "rmat(scale=11, edge_factor=8)",
                               "uniform(rows=700, cols=2100, per_row=9)"})
      for (const std::int64_t n : {128, 40, 1})
        for (const Ours& ours : kOurs)
          for (const Exchange exchange :
               {Exchange::kNeeded, Exchange::kReplicated, Exchange::kGathered})
            for (const Scaling& scaling : {Scaling{}, Scaling{-0.5f, 2}}) {
              const CsrMatrix a = load_matrix(matrix, false).matrix;
              const DenseMatrix b = random_dense(a.cols, n, 4);
              const DistributedOptions options{.parts = comm.size(),
                                               .kernel = ours.kernel,
                                               .params = {{"storage", std::string(ours.storage)}},
                                               .exchange = exchange};
              const std::int64_t elements = wrong_elements(a, b, options, scaling, comm);
              const std::lock_guard lock(mutex);
              ++checked;
              if (elements > 0)
                wrong.push_back(fmt::format("{} n={} {} {} {} beta={} rank {}: {} elements", matrix,
                                            n, ours.kernel, ours.storage, name_of(exchange),
                                            scaling.beta, comm.rank(), elements));
            }
  });
  CHECK(checked == 54 * std::ssize(kOurs) * std::ssize(gpus));
  CHECK(fmt::format("{}", fmt::join(wrong, "\n")) == "");
}

TEST_CASE("cuSPARSE multiplies all of B on every GPU, and no part of it") {
  const std::vector<int> gpus = devices();
  if (gpus.empty()) return;
  const CsrMatrix a = load_matrix("rmat(scale=10, edge_factor=8)").matrix;
  const DenseMatrix b = random_dense(a.cols, 32, 4);
  DistributedOptions options{.parts = static_cast<int>(gpus.size()),
                             .kernel = "cusparse",
                             .exchange = Exchange::kGathered};
  run_on_devices(gpus, [&](DeviceCommunicator& comm) {
    const Distribution distribution = distribute(a, 32, options);
    DistributedSpmmPlan plan(a, 32, options, distribution, comm);
    const DeviceArray<float> own(own_rows(b, plan.part()).values);
    DeviceArray<float> c(plan.part().rows.size() * 32);
    plan.run(own.data(), c.data());
    comm.wait(nullptr);
    const DenseMatrix all = DistributedSpmm({.parts = options.parts, .kernel = "csr_spmm"}, 32)
                                .emulate(CsrPacked(a), b, find_generation(gpu_generation()));
    const DenseMatrix expected = rows_of(all, plan.part().rows);
    const std::vector<float> found = c.download();
    for (std::size_t i = 0; i < found.size(); ++i)
      if (std::abs(found[i] - expected.values[i]) > 1e-4f)
        throw std::runtime_error(
            fmt::format("element {} is {}, not {}", i, found[i], expected.values[i]));
  });
  if (gpus.size() < 2) return;
  options.exchange = Exchange::kNeeded;
  CHECK_THROWS_AS(run_on_devices(gpus,
                                 [&](DeviceCommunicator& comm) {
                                   const Distribution one = distribute(a, 32, options);
                                   const DistributedSpmmPlan plan(a, 32, options, one, comm);
                                 }),
                  Unsupported);
}

TEST_CASE("a rank that fails ends the others that wait for its rows") {
  const std::vector<int> gpus = devices();
  if (gpus.size() < 2) return;
  const CsrMatrix a = load_matrix("rmat(scale=9, edge_factor=8)").matrix;
  const DistributedOptions options{.parts = static_cast<int>(gpus.size())};
  CHECK_THROWS_WITH_AS(
      run_on_devices(gpus,
                     [&](DeviceCommunicator& comm) {
                       const Distribution distribution = distribute(a, 16, options);
                       DistributedSpmmPlan plan(a, 16, options, distribution, comm);
                       DeviceArray<float> b(plan.part().b_rows.size() * 16);
                       DeviceArray<float> c(plan.part().rows.size() * 16);
                       if (comm.rank() == 0) throw std::runtime_error("rank 0 fails");
                       plan.run(b.data(), c.data());
                       comm.wait(nullptr);
                     }),
      "rank 0 fails", std::runtime_error);
}

TEST_CASE("devices that are not there, or occur twice, are refused") {
  if (devices().empty()) return;
  CHECK_THROWS_AS(run_on_devices({0, 0}, [](DeviceCommunicator&) {}), Error);
  CHECK_THROWS_AS(run_on_devices({999}, [](DeviceCommunicator&) {}), Error);
  CHECK_THROWS_AS(run_on_devices({}, [](DeviceCommunicator&) {}), Error);
  CHECK_THROWS_AS(first_devices(999), Unsupported);
}

}  // namespace tessera
