// B and C of more than 2^31 elements each: every kernel that a plan is made of addresses them to
// the last one. Values are small multiples of 1/8, so that every product and sum is exact in any
// precision here; B comes from a hash of its place, and what C has to be from the same hash, by a
// plain kernel on the device that reads no B.

#include <doctest/doctest.h>

#include <vector>

#include "experiments/machine/gpu_info.hpp"
#include "formats/base/device_memory.hpp"
#include "formats/base/random.hpp"
#include "kernels/spmm/plan/spmm_plan.hpp"

namespace tessera {
namespace {

constexpr std::int32_t kRows = 17'000'000, kCols = kRows + 32;
constexpr std::int64_t kN = 128;
constexpr int kPerRow = 3;
static_assert(kRows * kN > std::int64_t{1} << 31);

/// -7/8 to 7/8, never 0.
__host__ __device__ inline float eighths(std::uint64_t bits) {
  const int magnitude = static_cast<int>(bits % 7) + 1;
  return static_cast<float>((bits >> 8 & 1) != 0 ? magnitude : -magnitude) / 8;
}
__host__ __device__ inline std::int32_t col_of(std::int64_t row, int i) {
  return static_cast<std::int32_t>(row + 8 * i + random_bits(1, 4 * row + i) % 8);
}
__host__ __device__ inline float value_of_a(std::int64_t row, int i) {
  return eighths(random_bits(2, 4 * row + i));
}
__host__ __device__ inline float value_of_b(std::int64_t row, std::int64_t col) {
  return eighths(random_bits(3, row * kN + col));
}

/// Three nonzeros a row beside the diagonal: blocks of any format find some together.
CsrMatrix band() {
  std::vector<std::int64_t> row_offsets(kRows + 1);
  std::vector<std::int32_t> col_indices(std::size_t{kPerRow} * kRows);
  std::vector<float> values(col_indices.size());
  for (std::int64_t row = 0; row < kRows; ++row) {
    row_offsets[row + 1] = kPerRow * (row + 1);
    for (int i = 0; i < kPerRow; ++i) {
      col_indices[kPerRow * row + i] = col_of(row, i);
      values[kPerRow * row + i] = value_of_a(row, i);
    }
  }
  return {kRows, kCols, std::move(row_offsets), std::move(col_indices), std::move(values)};
}

__global__ void fill(float* b, std::int64_t row_stride, std::int64_t col_stride) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < kCols * kN;
       at += step)
    b[at / kN * row_stride + at % kN * col_stride] = value_of_b(at / kN, at % kN);
}

struct Found {
  unsigned long long wrong;
  unsigned long long first;  // wrong element, in row order
};

__global__ void compare(const float* c, std::int64_t row_stride, std::int64_t col_stride,
                        Found* found) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < kRows * kN;
       at += step) {
    const std::int64_t row = at / kN, col = at % kN;
    float expected = 0;
    for (int i = 0; i < kPerRow; ++i)
      expected += value_of_a(row, i) * value_of_b(col_of(row, i), col);
    if (c[row * row_stride + col * col_stride] == expected) continue;
    atomicAdd(&found->wrong, 1ull);
    atomicMin(&found->first, static_cast<unsigned long long>(at));
  }
}

constexpr int kBlocks = 132 * 16, kThreads = 256;

/// Runs the plan in one order of B and C and compares all of C.
Found run(SpmmPlan& plan, Order order, DeviceArray<float>& b, DeviceArray<float>& c) {
  const bool by_rows = order == Order::kRowMajor;
  fill<<<kBlocks, kThreads>>>(b.data(), by_rows ? kN : 1, by_rows ? 1 : kCols);
  cuda_check(cudaMemset(c.data(), 0xff, c.size() * sizeof(float)), "poisoning C");

  plan.run({b.data(), order}, {c.data(), order});

  DeviceArray<Found> found(std::vector<Found>{{0, ~0ull}});
  compare<<<kBlocks, kThreads>>>(c.data(), by_rows ? kN : 1, by_rows ? 1 : kRows, found.data());
  cuda_check(cudaDeviceSynchronize(), "comparing");
  return found.download().front();
}

bool fits(double bytes) {
  const std::string why = gpu_unavailable();
  if (!why.empty()) {
    MESSAGE("skipped: " << why);
    return false;
  }
  std::size_t free = 0, total = 0;
  cuda_check(cudaMemGetInfo(&free, &total), "asking for free memory");
  if (static_cast<double>(free) >= bytes) return true;
  MESSAGE("skipped: this takes " << bytes << " bytes of device memory, and " << free
                                 << " are free");
  return false;
}

TEST_CASE("kernels are right to the last of more than 2^31 elements of B and C") {
  if (!fits(30e9)) return;
  const CsrMatrix a = band();
  DeviceArray<float> b(static_cast<std::size_t>(kCols * kN)),
      c(static_cast<std::size_t>(kRows * kN));
  for (const char* kernel : {"acc_spmm", "cutespmm", "smat", "tca_spmm", "dtc_spmm", "tessera_spmm",
                             "tcgnn", "csr_spmm", "rows_spmm"}) {
    CAPTURE(kernel);
    SpmmPlanOptions options;
    options.candidates = {{kernel}};
    SpmmPlan plan(a, kN, options);

    const Found found = run(plan, Order::kRowMajor, b, c);

    CAPTURE(found.first);
    CHECK(found.wrong == 0);
  }
  // The comparison sees the last element alone.
  cuda_check(cudaMemset(c.data() + c.size() - 1, 0xff, sizeof(float)), "spoiling C");
  DeviceArray<Found> found(std::vector<Found>{{0, ~0ull}});
  compare<<<kBlocks, kThreads>>>(c.data(), kN, 1, found.data());
  const Found spoiled = found.download().front();
  CHECK(spoiled.wrong == 1);
  CHECK(spoiled.first == c.size() - 1);
}

TEST_CASE("column order is brought to row order and back beyond 2^31 elements") {
  if (!fits(45e9)) return;
  SpmmPlanOptions options;
  options.candidates = {{"acc_spmm"}};
  options.converts_b = options.converts_c = true;
  SpmmPlan plan(band(), kN, options);
  DeviceArray<float> b(static_cast<std::size_t>(kCols * kN)),
      c(static_cast<std::size_t>(kRows * kN));

  const Found found = run(plan, Order::kColumnMajor, b, c);

  CAPTURE(found.first);
  CHECK(found.wrong == 0);
}

}  // namespace
}  // namespace tessera
