// Every SDDMM kernel's device half: values inside the bound of the oracle, bits equal to the
// emulation, all of S written and nothing outside it.

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "experiments/backends/backend.hpp"
#include "experiments/backends/check_result.hpp"
#include "experiments/machine/gpu_info.hpp"
#include "formats/base/check.hpp"
#include "kernels/device/stored_values.hpp"
#include "kernels/gpu_sddmm.hpp"
#include "kernels/tensor_core/gpu_generation.hpp"
#include "tests/sddmm_choices.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

bool no_gpu() {
  const std::string why = gpu_unavailable();
  if (!why.empty()) MESSAGE("skipped: " << why);
  return !why.empty();
}

std::unique_ptr<GpuSampledProduct> upload(const SddmmChoice& choice, const PackedMatrix& packed,
                                          std::int64_t k) {
  const Params params = Registry<SddmmKernel>::instance().resolve(choice.kernel, choice.params);
  return Registry<GpuSddmm>::instance().make(choice.kernel, params)->upload(packed, k);
}

/// Elements before an operand, so that it begins `offset` elements behind a multiple of 16 bytes,
/// and NaNs around it.
class PlacedOperand {
 public:
  PlacedOperand(ElementType type, const DenseMatrix& values, std::size_t offset)
      : type_(type), offset_(kAround + offset), memory_(upload_as(type, surrounded(values))) {}

  const void* data() const { return memory_.data() + offset_ * bytes_of(type_); }

 private:
  static constexpr std::size_t kAround = 64;
  std::vector<float> surrounded(const DenseMatrix& values) const {
    std::vector<float> all(values.values.size() + offset_ + kAround,
                           std::numeric_limits<float>::quiet_NaN());
    std::ranges::copy(values.values, all.begin() + static_cast<std::ptrdiff_t>(offset_));
    return all;
  }

  ElementType type_;
  std::size_t offset_;
  DeviceArray<std::byte> memory_;
};

/// S as one launch left it, between guards of poison.
LaunchOutput launch(const SddmmChoice& choice, const PackedMatrix& packed, const DenseMatrix& x,
                    const DenseMatrix& y, std::size_t offset) {
  constexpr std::size_t kGuard = 64;
  const Storage storage = choice.make()->arithmetic().storage;
  const auto gpu = upload(choice, packed, x.cols);
  const PlacedOperand of_x(storage.b, x, offset), of_y(storage.b, y, offset);
  const std::vector<float> poison(static_cast<std::size_t>(packed.nnz()) + 2 * kGuard,
                                  std::bit_cast<float>(kPoison));
  DeviceArray<std::byte> s = upload_as(storage.c, poison);
  const SddmmOperands operands{of_x.data(), of_y.data(), s.data() + kGuard * bytes_of(storage.c)};
  gpu->prepare(operands, nullptr);
  gpu->launch(operands, nullptr);
  cuda_check(cudaDeviceSynchronize(), "running an SDDMM");
  return read_output(download_as(storage.c, s), kGuard, 1, packed.nnz());
}

void check(const SddmmChoice& choice, const CsrMatrix& a, const DenseMatrix& x,
           const DenseMatrix& y, std::size_t offset = 0, bool compares_values = true) {
  if (choice.is_library() && (offset != 0 || a.nnz() == 0)) return;
  CAPTURE(choice.text());
  CAPTURE(a.rows);
  CAPTURE(a.cols);
  CAPTURE(x.cols);
  CAPTURE(offset);
  const auto kernel = choice.make();
  const auto packed = pack_for(*kernel, a);
  LaunchOutput output;
  try {
    output = launch(choice, *packed, x, y, offset);
  } catch (const Unsupported& refused) {
    CAPTURE(refused.what());
    CHECK(choice.is_library());
    return;
  }
  CHECK(output.unwritten == 0);
  CHECK(output.guards_intact);
  const std::string generation = gpu_generation();
  const CsrMatrix s = with_values(a, output.c.values);
  if (compares_values)
    CHECK(check_result(SampledComputation{*kernel, a, x, y, generation}, s).reason == "");
  if (choice.is_library()) return;
  const CsrMatrix expected =
      with_values(a, kernel->emulate(*packed, x, y, find_generation(generation)));
  const BitComparison bits = compare_bits(s, expected);
  CHECK(bits.compared == a.nnz());
  CHECK(bits.different == 0);
}

TEST_CASE("every SDDMM kernel is right for awkward widths of X and Y") {
  if (no_gpu()) return;
  const CsrMatrix a = random_sparse(203, 157, 0.07, 1);
  for (const std::int64_t k : {1,  2,  3,  4,  7,   8,   15,  16,  17,  31,  32,  33,  48,
                               63, 64, 65, 96, 100, 127, 128, 129, 200, 256, 260, 512, 515}) {
    const auto seed = static_cast<std::uint64_t>(k);
    const DenseMatrix x = random_dense(a.rows, k, 100 + seed),
                      y = random_dense(a.cols, k, 900 + seed);
    for (const SddmmChoice& choice : sddmm_choices()) check(choice, a, x, y);
  }
}

TEST_CASE("SDDMM kernels take operands at any alignment of an element") {
  if (no_gpu()) return;
  const CsrMatrix a = random_sparse(150, 120, 0.08, 2);
  for (const std::int64_t k : {1, 3, 17, 64, 100, 300}) {
    const DenseMatrix x = random_dense(a.rows, k, 3), y = random_dense(a.cols, k, 4);
    for (const std::size_t offset : {1, 2, 3, 4})
      for (const SddmmChoice& choice : sddmm_choices()) check(choice, a, x, y, offset);
  }
}

TEST_CASE("every SDDMM kernel is right for awkward shapes of A") {
  if (no_gpu()) return;
  struct Shape {
    std::int32_t rows, cols;
    double density;
  };
  for (const Shape& shape :
       {Shape{1, 1, 1.0}, Shape{1, 5000, 0.5}, Shape{7, 3, 0.6}, Shape{8, 8, 1.0},
        Shape{17, 64, 0.5}, Shape{5000, 1, 0.3}, Shape{1000, 33, 0.001}, Shape{640, 700, 0.02},
        Shape{33, 3000, 0.9}, Shape{40, 50, 0.0}, Shape{300, 300, 0.001}}) {
    const CsrMatrix a = random_sparse(shape.rows, shape.cols, shape.density, 7);
    for (const std::int64_t k : {3, 32, 100, 256}) {
      const DenseMatrix x = random_dense(a.rows, k, 8), y = random_dense(a.cols, k, 9);
      for (const SddmmChoice& choice : sddmm_choices()) check(choice, a, x, y);
    }
  }
}

// A subcase for each kernel: tests/sanitize_gpu runs them one by one.
TEST_CASE("each choice of an SDDMM kernel is right on a small matrix") {
  std::set<std::string> names;
  for (const SddmmChoice& choice : sddmm_choices()) names.insert(choice.kernel);
  for (const std::string& name : names) {
    SUBCASE(name.c_str()) {
      if (no_gpu()) return;
      const CsrMatrix a = random_sparse(83, 157, 0.08, 11);
      for (const std::int64_t k : {5, 64, 132}) {
        const DenseMatrix x = random_dense(a.rows, k, 12), y = random_dense(a.cols, k, 13);
        for (const SddmmChoice& choice : sddmm_choices())
          if (choice.kernel == name) check(choice, a, x, y);
      }
    }
  }
}

TEST_CASE("NaN, infinities and vanishing values go through SDDMM kernels as through emulations") {
  if (no_gpu()) return;
  const CsrMatrix a = random_sparse(64, 60, 0.2, 21);
  for (const std::int64_t k : {5, 64, 129}) {
    DenseMatrix x = random_dense(64, k, 22), y = random_dense(60, k, 23);
    x.at(3, k - 1) = std::numeric_limits<float>::quiet_NaN();
    y.at(5, 0) = std::numeric_limits<float>::infinity();
    x.at(17, k / 2) = -std::numeric_limits<float>::infinity();
    for (std::int64_t i = 0; i < k; ++i) {
      x.at(20, i) *= 0x1p-126f;
      y.at(21, i) = std::copysign(0x1p-149f, y.at(21, i));
      x.at(22, i) = 0;
    }
    for (const SddmmChoice& choice : sddmm_choices())
      if (!choice.is_library()) check(choice, a, x, y, 0, false);
  }
}

TEST_CASE("long windows and many short ones are right at the size of a GPU") {
  if (no_gpu()) return;
  for (const CsrMatrix& a :
       {random_sparse(20000, 300, 0.03, 31), random_sparse(30000, 200, 0.004, 32)})
    for (const std::int64_t k : {32, 200}) {
      const DenseMatrix x = random_dense(a.rows, k, 33), y = random_dense(a.cols, k, 34);
      for (const SddmmChoice& choice : sddmm_choices()) check(choice, a, x, y);
    }
}

TEST_CASE(
    "an uploaded SDDMM runs again in a CUDA graph, with other operands and other values of A") {
  if (no_gpu()) return;
  CsrMatrix a = random_sparse(200, 180, 0.1, 41);
  const DenseMatrix x = random_dense(200, 48, 42), y = random_dense(180, 48, 43);
  for (const char* name : {"tessera_sddmm", "rows_sddmm"}) {
    CAPTURE(name);
    const SddmmChoice choice{name, {{"factor", std::string("values")}}};
    const auto kernel = choice.make();
    const auto gpu = upload(choice, *pack_for(*kernel, a), x.cols);
    const DeviceArray<float> of_x(x.values), of_y(y.values);
    DeviceArray<float> s(static_cast<std::size_t>(a.nnz()));
    std::vector<float> others(a.values.begin(), a.values.end());
    for (float& value : others) value = 1 - value;
    const DeviceArray<float> values(others);

    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t made = nullptr;
    cuda_check(cudaStreamCreate(&stream), "creating a stream");
    cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing");
    gpu->set_values(values.data(), stream);
    gpu->launch({of_x.data(), of_y.data(), s.data()}, stream);
    cuda_check(cudaStreamEndCapture(stream, &graph), "capturing");
    cuda_check(cudaGraphInstantiate(&made, graph, 0), "making a graph");
    cuda_check(cudaGraphLaunch(made, stream), "running a graph");
    cuda_check(cudaStreamSynchronize(stream), "running a graph");
    cudaGraphExecDestroy(made);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);

    const CsrMatrix changed = with_values(a, others);
    const CsrMatrix expected = with_values(
        a, kernel->emulate(*pack_for(*kernel, changed), x, y, find_generation(gpu_generation())));
    CHECK(compare_bits(with_values(a, s.download()), expected).different == 0);
  }
}

TEST_CASE("work descriptions of SDDMM say how many registers the compiled kernels take") {
  if (no_gpu()) return;
  cudaDeviceProp device;
  REQUIRE(cudaGetDeviceProperties(&device, 0) == cudaSuccess);
  if (device.major != 9) {
    MESSAGE("skipped: they are those of compute capability 9.0");
    return;
  }
  const CsrMatrix a = random_sparse(30, 30, 0.2, 51);
  for (const SddmmChoice& choice : sddmm_choices())
    for (const std::int64_t k : {32, 64, 128, 512}) {
      if (choice.is_library()) continue;
      CAPTURE(choice.text());
      CAPTURE(k);
      const auto kernel = choice.make();
      const auto packed = pack_for(*kernel, a);
      const std::vector<int> registers = upload(choice, *packed, k)->registers();
      const WorkDescription work = kernel->work(*packed, k);
      REQUIRE(registers.size() == work.launches.size());
      CHECK((registers[0] + 7) / 8 * 8 == work.launches[0].registers_per_thread);
    }
}

}  // namespace
}  // namespace tessera
