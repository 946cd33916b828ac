// tessera as a library: one sparse A, many dense B. The program plans a product, runs it with two
// matrices B, captures it into a CUDA graph, and compares C with the emulation on the CPU, bit for
// bit.
//
// The only argument is the number of rows and columns of A (default 100000). The exit status is 1
// when the values differ, 2 for an error, 5 without a GPU.

#include <cstdio>
#include <cstdlib>

#include "formats/base/device_memory.hpp"
#include "formats/base/random.hpp"
#include "kernels/spmm/plan/spmm_plan.hpp"

using namespace tessera;

namespace {

/// A band matrix with 16 nonzeros in each row, in the place of a user's matrix.
CsrMatrix band(std::int32_t size) {
  std::vector<std::int64_t> row_offsets{0};
  std::vector<std::int32_t> col_indices;
  std::vector<float> values;
  for (std::int32_t row = 0; row < size; ++row) {
    const std::int32_t first = std::max(0, std::min(row - 8, size - 16));
    for (std::int32_t col = first; col < std::min(first + 16, size); ++col) {
      col_indices.push_back(col);
      values.push_back(random_signed(1, values.size()));
    }
    row_offsets.push_back(static_cast<std::int64_t>(values.size()));
  }
  return {size, size, row_offsets, col_indices, values};
}

DenseMatrix draw(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  DenseMatrix dense(rows, cols);
  for (std::size_t i = 0; i < dense.values.size(); ++i) dense.values[i] = random_signed(seed, i);
  return dense;
}

/// True when the GPU's C equals the emulated A b, bit for bit.
bool check(const char* what, const SpmmPlan& plan, const DenseMatrix& b, DeviceArray<float>& c) {
  const bool right = c.download() == plan.emulate(b).values;
  std::printf("%s: %s\n", what, right ? "the emulation's bits" : "WRONG");
  return right;
}

int run(std::int32_t size) {
  constexpr std::int64_t kN = 128;
  const CsrMatrix a = band(size);
  const DenseMatrix first = draw(size, kN, 2), second = draw(size, kN, 3);

  // The plan packs A, times both kernels on this GPU and keeps the faster one.
  SpmmPlan plan(a, kN, {.candidates = {{"acc_spmm"}, {"csr_spmm"}}});
  for (const SpmmTiming& timing : plan.timings())
    std::printf("%s: %.1f us %s\n", timing.candidate.kernel.c_str(), timing.us,
                timing.problem.c_str());

  DeviceArray<float> b(first.values), c(first.values.size());
  plan.run(b.data(), c.data());
  bool right = check("C = A B", plan, first, c);
  b.upload(second.values);
  plan.run(b.data(), c.data());
  right &= check("another B", plan, second, c);

  // The same product as a CUDA graph, which multiplies the values that B holds at replay.
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t product = nullptr;
  cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
  cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capturing");
  plan.run(b.data(), c.data(), {}, stream);
  cuda_check(cudaStreamEndCapture(stream, &graph), "capturing");
  cuda_check(cudaGraphInstantiate(&product, graph, 0), "creating a graph");
  b.upload(first.values);
  cuda_check(cudaDeviceSynchronize(), "copying B");
  cuda_check(cudaGraphLaunch(product, stream), "replaying");
  cuda_check(cudaStreamSynchronize(stream), "replaying");
  right &= check("a replayed graph", plan, first, c);
  cudaGraphExecDestroy(product);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "spmm_plan: there is no usable GPU\n");
    return 5;
  }
  try {
    return run(argc > 1 ? std::atoi(argv[1]) : 100000);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "spmm_plan: %s\n", error.what());
    return 2;
  }
}
