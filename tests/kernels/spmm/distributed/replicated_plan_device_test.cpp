// The 1.5D product and chains of products on the GPUs of this machine: every rank's C has the
// emulation's bits. With one GPU there is one part.
#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <bit>
#include <mutex>

#include "experiments/backends/check_result.hpp"
#include "formats/base/device_memory.hpp"
#include "formats/csr.hpp"
#include "formats/io/source.hpp"
#include "kernels/device/stored_values.hpp"
#include "kernels/spmm/distributed/chain_plan.hpp"
#include "kernels/spmm/distributed/replicated_plan.hpp"
#include "kernels/spmm/distributed/stored_rows.hpp"
#include "kernels/spmm/distributed/sum_copies.hpp"
#include "kernels/tensor_core/gpu_generation.hpp"
#include "tests/kernels/spmm/distributed/gpus.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

/// What went wrong, from all ranks.
class Faults {
 public:
  void add(const std::string& fault) {
    const std::lock_guard lock(mutex_);
    faults_.push_back(fault);
  }
  void count() {
    const std::lock_guard lock(mutex_);
    ++checked_;
  }
  std::string text() const { return fmt::format("{}", fmt::join(faults_, "\n")); }
  int checked() const { return checked_; }

 private:
  std::mutex mutex_;
  std::vector<std::string> faults_;
  int checked_ = 0;
};

std::vector<std::int32_t> rows_in(const RowRange& range) {
  std::vector<std::int32_t> rows;
  for (std::int64_t i = 0; i < range.count; ++i)
    rows.push_back(static_cast<std::int32_t>(range.first + i));
  return rows;
}

TEST_CASE("every GPU's rows of a 1.5D product have the emulation's bits") {
  const std::vector<int> gpus = devices();
  if (gpus.empty()) return;
  const int parts = static_cast<int>(gpus.size());
  Faults faults;
  run_on_devices(gpus, [&](DeviceCommunicator& comm) {
    for (const char* matrix :
         {"poisson3d(nx=24)", "rmat(scale=11, edge_factor=8)", "uniform(rows=700, cols=2100)"})
      for (const std::int64_t n : {128, 17})
        for (const char* kernel : {"rows_spmm", "tessera_spmm"})
          for (const int copies : {1, parts}) {
            const CsrMatrix a = load_matrix(matrix, false).matrix;
            const DenseMatrix b = random_dense(a.cols, n, 4);
            const ReplicatedOptions options{.parts = parts, .copies = copies, .kernel = kernel};
            ReplicatedSpmmPlan plan(a, n, options, comm);
            const RowRange &rows = plan.layout().rows(comm.rank()),
                           &of_b = plan.layout().b_rows(comm.rank());
            const DeviceArray<float> own(rows_of(b, rows_in(of_b)).values);
            const DenseMatrix expected = rows_of(
                ReplicatedSpmm(options).emulate(CsrPacked(a), b, find_generation(gpu_generation())),
                rows_in(rows));
            for (int i = 0; i < 3; ++i) {
              DeviceArray<float> c(std::vector<float>(static_cast<std::size_t>(rows.count * n),
                                                      std::bit_cast<float>(kPoison)));
              plan.run(own.data(), c.data());
              comm.wait(nullptr);
              DenseMatrix found(rows.count, n);
              found.values = c.download();
              const auto different = compare_bits(found, expected).different;
              if (different > 0)
                faults.add(fmt::format("{} n={} {} copies={} rank {}: {} elements", matrix, n,
                                       kernel, copies, comm.rank(), different));
            }
            faults.count();
          }
  });
  CHECK(faults.checked() == 24 * parts);
  CHECK(faults.text() == "");
}

TEST_CASE("a GPU adds copies in their order, wherever its own is") {
  if (no_gpu()) return;
  constexpr std::int64_t kRows = 37, kCols = 19, kElements = kRows * kCols, kGuard = 32;
  for (const int copies : {1, 2, 3, 5})
    for (int own = 0; own < copies; ++own) {
      CAPTURE(copies);
      CAPTURE(own);
      std::vector<float> expected(kElements), mine, others;
      for (int copy = 0; copy < copies; ++copy) {
        const DenseMatrix sums = random_dense(kRows, kCols, 50 + copy);
        for (std::int64_t i = 0; i < kElements; ++i)
          expected[i] = copy == 0 ? sums.values[i] : expected[i] + sums.values[i];
        std::vector<float>& to = copy == own ? mine : others;
        to.insert(to.end(), sums.values.begin(), sums.values.end());
      }
      mine.resize(kElements + kGuard, std::bit_cast<float>(kPoison));
      DeviceArray<float> c(mine);
      const DeviceArray<float> of_others(others);
      sum_copies(c.data(), of_others.data(), kElements, own, copies, nullptr);
      const std::vector<float> found = c.download();
      for (std::int64_t i = 0; i < kElements; ++i) REQUIRE(found[i] == expected[i]);
      for (std::int64_t i = kElements; i < kElements + kGuard; ++i)
        REQUIRE(std::bit_cast<std::uint32_t>(found[i]) == kPoison);
    }
}

TEST_CASE("every GPU's rows of a chain of products have the emulation's bits") {
  const std::vector<int> gpus = devices();
  if (gpus.empty()) return;
  const int parts = static_cast<int>(gpus.size());
  constexpr int kProducts = 4;
  Faults faults;
  run_on_devices(gpus, [&](DeviceCommunicator& comm) {
    for (const char* matrix : {"poisson3d(nx=24)", "rmat(scale=11, edge_factor=8)"})
      for (const std::int64_t n : {128, 17})
        for (const Ours& ours : kOurs)
          for (const int pieces : {1, 4}) {
            const CsrMatrix a = load_matrix(matrix, false).matrix;
            const DistributedOptions options{.parts = parts,
                                             .kernel = ours.kernel,
                                             .params = {{"storage", std::string(ours.storage)}}};
            const ChainSpmm chain(options, n, pieces);
            const ElementType type = chain.arithmetic().storage.b;
            DenseMatrix x = stored_as(type, random_dense(a.cols, n, 4));
            ChainSpmmPlan plan(a, n, options, comm, pieces);
            const DeviceArray<std::byte> own = upload_as(type, rows_of(x, plan.part().rows).values);
            const DenseMatrix not_read(a.rows, n);
            plan.start(own.data());
            for (int product = 0; product < kProducts; ++product) {
              plan.multiply(0.0625f);
              x = emulate_scaling({0.0625f, 0},
                                  chain.emulate(CsrPacked(a), x, find_generation(gpu_generation())),
                                  not_read, type);
            }
            comm.wait(nullptr);
            const DenseMatrix expected = rows_of(x, plan.part().rows);
            std::vector<std::byte> bytes(expected.values.size() * bytes_of(type));
            cuda_check(cudaMemcpy(bytes.data(), plan.rows(), bytes.size(), cudaMemcpyDeviceToHost),
                       "copying rows of X");
            DenseMatrix found(expected.rows, n);
            found.values = widened(type, bytes);
            const auto different = compare_bits(found, expected).different;
            if (different > 0)
              faults.add(fmt::format("{} n={} {} {} pieces={} rank {}: {} elements", matrix, n,
                                     ours.kernel, ours.storage, pieces, comm.rank(), different));
            faults.count();
          }
  });
  CHECK(faults.checked() == 32 * parts);
  CHECK(faults.text() == "");
}

}  // namespace
}  // namespace tessera
