// B and C of more than 2^31 elements each, and A of more than 2^31 nonzeros: every kernel that a
// plan is made of addresses them to the last one. Values are small multiples of 1/8, so that every
// product and sum is exact in any precision here; B comes from a hash of its place, and what C has
// to be from the same hash, by a plain kernel on the device that reads no B.

#include <doctest/doctest.h>

#include <memory>
#include <span>
#include <vector>

#include "experiments/machine/gpu_info.hpp"
#include "formats/base/device_memory.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/random.hpp"
#include "kernels/spmm/plan/spmm_plan.hpp"

namespace tessera {
namespace {

/// A has `per_row` nonzeros a row beside the diagonal, one of every `stride` columns: blocks of any
/// format find some together. B has n columns.
struct Shape {
  std::int32_t rows;
  int per_row, stride;
  std::int64_t n;

  __host__ __device__ constexpr std::int32_t cols() const { return rows + stride * (per_row + 1); }
  __host__ __device__ constexpr std::int64_t nnz() const { return std::int64_t{rows} * per_row; }
  __host__ __device__ constexpr std::int64_t elements_of_b() const { return cols() * n; }
  __host__ __device__ constexpr std::int64_t elements_of_c() const { return rows * n; }
};

constexpr Shape kLargeC{17'000'000, 3, 8, 128}, kManyNonzeros{17'000'000, 128, 2, 8};

/// -7/8 to 7/8, never 0.
__host__ __device__ inline float eighths(std::uint64_t bits) {
  const int magnitude = static_cast<int>(bits % 7) + 1;
  return static_cast<float>((bits >> 8 & 1) != 0 ? magnitude : -magnitude) / 8;
}
__host__ __device__ inline std::int32_t col_of(const Shape& shape, std::int64_t row, int i) {
  return static_cast<std::int32_t>(row + shape.stride * i +
                                   random_bits(1, 128 * row + i) % shape.stride);
}
__host__ __device__ inline float value_of_a(std::int64_t row, int i) {
  return eighths(random_bits(2, 128 * row + i));
}
__host__ __device__ inline float value_of_b(const Shape& shape, std::int64_t row,
                                            std::int64_t col) {
  return eighths(random_bits(3, row * shape.n + col));
}

/// An array that is not cleared before it is filled.
template <class T, class ValueAt>
Array<T> array_of(const Shape& shape, ValueAt value_at) {
  const std::shared_ptr<T[]> memory =
      std::make_shared_for_overwrite<T[]>(static_cast<std::size_t>(shape.nnz()));
  parallel_for(shape.rows, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (int i = 0; i < shape.per_row; ++i) memory[shape.per_row * row + i] = value_at(row, i);
  });
  return {std::span<const T>(memory.get(), static_cast<std::size_t>(shape.nnz())), memory};
}

CsrMatrix band(const Shape& shape) {
  std::vector<std::int64_t> row_offsets;
  for (std::int64_t row = 0; row <= shape.rows; ++row) row_offsets.push_back(shape.per_row * row);
  return {
      shape.rows, shape.cols(), std::move(row_offsets),
      array_of<std::int32_t>(shape, [&](std::int64_t row, int i) { return col_of(shape, row, i); }),
      array_of<float>(shape, value_of_a)};
}

__global__ void fill(Shape shape, float* b, std::int64_t row_stride, std::int64_t col_stride) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       at < shape.elements_of_b(); at += step) {
    const std::int64_t row = at / shape.n, col = at % shape.n;
    b[row * row_stride + col * col_stride] = value_of_b(shape, row, col);
  }
}

struct Found {
  unsigned long long wrong;
  unsigned long long first;  // wrong element, in row order
};

__global__ void compare(Shape shape, const float* c, std::int64_t row_stride,
                        std::int64_t col_stride, Found* found) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       at < shape.elements_of_c(); at += step) {
    const std::int64_t row = at / shape.n, col = at % shape.n;
    float expected = 0;
    for (int i = 0; i < shape.per_row; ++i)
      expected += value_of_a(row, i) * value_of_b(shape, col_of(shape, row, i), col);
    if (c[row * row_stride + col * col_stride] == expected) continue;
    atomicAdd(&found->wrong, 1ull);
    atomicMin(&found->first, static_cast<unsigned long long>(at));
  }
}

constexpr int kBlocks = 132 * 16, kThreads = 256;

/// Runs the plan in one order of B and C and compares all of C.
Found run(SpmmPlan& plan, const Shape& shape, Order order, DeviceArray<float>& b,
          DeviceArray<float>& c) {
  const bool by_rows = order == Order::kRowMajor;
  fill<<<kBlocks, kThreads>>>(shape, b.data(), by_rows ? shape.n : 1, by_rows ? 1 : shape.cols());
  cuda_check(cudaMemset(c.data(), 0xff, c.size() * sizeof(float)), "poisoning C");

  plan.run({b.data(), order}, {c.data(), order});

  DeviceArray<Found> found(std::vector<Found>{{0, ~0ull}});
  compare<<<kBlocks, kThreads>>>(shape, c.data(), by_rows ? shape.n : 1, by_rows ? 1 : shape.rows,
                                 found.data());
  cuda_check(cudaDeviceSynchronize(), "comparing");
  return found.download().front();
}

/// B and C of a shape, and the verdict on a kernel that multiplies A by this B.
struct Product {
  explicit Product(const Shape& of)
      : shape(of),
        b(static_cast<std::size_t>(of.elements_of_b())),
        c(static_cast<std::size_t>(of.elements_of_c())) {}

  void check(const CsrMatrix& a, const char* kernel) {
    CAPTURE(kernel);
    SpmmPlanOptions options;
    options.candidates = {{kernel}};
    SpmmPlan plan(a, shape.n, options);

    const Found found = run(plan, shape, Order::kRowMajor, b, c);

    CAPTURE(found.first);
    CHECK(found.wrong == 0);
  }

  Shape shape;
  DeviceArray<float> b, c;
};

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
  static_assert(kLargeC.elements_of_c() > std::int64_t{1} << 31);
  if (!fits(30e9)) return;
  const CsrMatrix a = band(kLargeC);
  Product product(kLargeC);
  for (const char* kernel : {"acc_spmm", "cutespmm", "smat", "tca_spmm", "dtc_spmm", "tessera_spmm",
                             "tcgnn", "csr_spmm", "rows_spmm"})
    product.check(a, kernel);
  // The comparison sees the last element alone.
  DeviceArray<float>& c = product.c;
  cuda_check(cudaMemset(c.data() + c.size() - 1, 0xff, sizeof(float)), "spoiling C");
  DeviceArray<Found> found(std::vector<Found>{{0, ~0ull}});
  compare<<<kBlocks, kThreads>>>(kLargeC, c.data(), kLargeC.n, 1, found.data());
  const Found spoiled = found.download().front();
  CHECK(spoiled.wrong == 1);
  CHECK(spoiled.first == c.size() - 1);
}

// On the host it takes 60 GB and, with 16 cores, a minute.
TEST_CASE("kernels are right to the last of more than 2^31 nonzeros of A, or refuse them") {
  static_assert(kManyNonzeros.nnz() > std::int64_t{1} << 31);
  if (!fits(50e9)) return;
  const CsrMatrix a = band(kManyNonzeros);
  Product product(kManyNonzeros);
  for (const char* kernel : {"csr_spmm", "rows_spmm", "merge_spmm", "tessera_spmm", "acc_spmm"})
    product.check(a, kernel);
  for (const char* kernel : {"cusparse", "tcgnn"}) {
    SpmmPlanOptions options;
    options.candidates = {{kernel}};
    CHECK_THROWS_AS(SpmmPlan(a, kManyNonzeros.n, options), Unsupported);
  }
}

TEST_CASE("column order is brought to row order and back beyond 2^31 elements") {
  if (!fits(45e9)) return;
  SpmmPlanOptions options;
  options.candidates = {{"acc_spmm"}};
  options.converts_b = options.converts_c = true;
  SpmmPlan plan(band(kLargeC), kLargeC.n, options);
  Product product(kLargeC);

  const Found found = run(plan, kLargeC, Order::kColumnMajor, product.b, product.c);

  CAPTURE(found.first);
  CHECK(found.wrong == 0);
}

}  // namespace
}  // namespace tessera
