// C = A B on several GPUs: each has its rows of A, B and C, and the rows of B that a GPU needs of
// another one travel while it multiplies those that it has. Every GPU's C is compared with the
// emulation of its part on the CPU, bit for bit.
//
//   spmm_distributed [SIZE]                                    one process, all GPUs of this host
//   torchrun --no-python --nproc-per-node 2 spmm_distributed   a process for each GPU;
//   srun --ntasks 2 --gpus 2 spmm_distributed                  srun and mpirun likewise
//
// SIZE is the number of rows and columns of A (default 100000). The exit status is 1 when values
// differ, 2 for an error, 5 without a GPU.

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "formats/base/device_memory.hpp"
#include "formats/base/random.hpp"
#include "kernels/spmm/distributed/distributed_plan.hpp"
#include "kernels/tensor_core/gpu_generation.hpp"

using namespace tessera;

namespace {

constexpr std::int64_t kN = 128;

/// A matrix with 16 nonzeros in each row, half of them near the diagonal and half of them anywhere,
/// in the place of a user's matrix.
CsrMatrix band_and_links(std::int32_t size) {
  std::vector<std::int64_t> row_offsets{0};
  std::vector<std::int32_t> col_indices;
  std::vector<float> values;
  for (std::int32_t row = 0; row < size; ++row) {
    std::vector<std::int32_t> cols;
    for (std::int32_t k = 0; k < 8; ++k) {
      cols.push_back(std::min(row + k, size - 1));
      const auto drawn = random_bits(1, static_cast<std::uint64_t>(row) * 8 + k);
      cols.push_back(static_cast<std::int32_t>(drawn % static_cast<std::uint64_t>(size)));
    }
    std::sort(cols.begin(), cols.end());
    cols.erase(std::unique(cols.begin(), cols.end()), cols.end());
    for (const std::int32_t col : cols) {
      col_indices.push_back(col);
      values.push_back(random_signed(2, values.size()));
    }
    row_offsets.push_back(static_cast<std::int64_t>(values.size()));
  }
  return {size, size, row_offsets, col_indices, values};
}

/// Rows of a B that every rank could draw.
DenseMatrix drawn_rows(const std::vector<std::int32_t>& rows, std::uint64_t seed) {
  DenseMatrix b(static_cast<std::int64_t>(rows.size()), kN);
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::int64_t j = 0; j < kN; ++j)
      b.at(static_cast<std::int64_t>(i), j) =
          random_signed(seed, static_cast<std::uint64_t>(rows[i] * kN + j));
  return b;
}

/// One rank; true when its C has the emulation's bits.
bool multiply(const CsrMatrix& a, DeviceCommunicator& comm) {
  const DistributedOptions options{.parts = comm.size()};
  const Distribution distribution = distribute(a, kN, options);
  DistributedSpmmPlan plan(a, kN, options, distribution, comm);

  const PartOfProduct part = part_of(a, distribution, comm.rank());
  std::vector<std::int32_t> received;
  for (const PeerRows& block : part.receives) {
    const auto& rows = distribution.travelling.rows(comm.rank(), block.peer);
    received.insert(received.end(), rows.begin(), rows.end());
  }
  const DistributedSpmm kernel(options, kN);
  DeviceArray<float> b(part.b_rows.size() * kN), c(part.rows.size() * kN);
  bool is_right = true;
  for (const std::uint64_t seed : {3, 4}) {  // two B
    const DenseMatrix own = drawn_rows(part.b_rows, seed);
    b.upload(own.values);
    plan.run(b.data(), c.data());
    comm.wait(nullptr);
    const DenseMatrix expected = kernel.emulate_part(
        part, own, drawn_rows(received, seed), find_generation(gpu_generation()), {},
        DenseMatrix(static_cast<std::int64_t>(part.rows.size()), kN));
    is_right &= c.download() == expected.values;
  }
  std::printf("rank %d of %d: %zu rows, receives %lld rows of B (%s): %s\n", comm.rank(),
              comm.size(), part.rows.size(), static_cast<long long>(received.size()),
              name_of(distribution.exchange), is_right ? "the emulation's bits" : "WRONG");
  return is_right;
}

int run(std::int32_t size, int devices) {
  const CsrMatrix a = band_and_links(size);
  if (const auto world = world_from_environment()) {
    // A launcher may show each process its own GPU alone.
    cuda_check(cudaSetDevice(world->local_rank % devices), "choosing a device");
    return multiply(a, *connect_processes(*world)) ? 0 : 1;
  }
  std::atomic<bool> is_right = true;
  run_on_devices(first_devices(devices), [&](DeviceCommunicator& comm) {
    if (!multiply(a, comm)) is_right = false;
  });
  return is_right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "spmm_distributed: there is no usable GPU\n");
    return 5;
  }
  try {
    return run(argc > 1 ? std::atoi(argv[1]) : 100000, devices);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "spmm_distributed: %s\n", error.what());
    return 2;
  }
}
