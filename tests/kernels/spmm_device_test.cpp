// Every kernel's device half through the backend that experiments use: values inside the bound of
// the oracle, bits equal to the emulation, all of C written and nothing outside it.

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "experiments/backends/backend.hpp"
#include "experiments/backends/check_result.hpp"
#include "experiments/backends/later_product.hpp"
#include "experiments/machine/gpu_info.hpp"
#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "kernels/gpu_spmm.hpp"
#include "tests/gpu_launch.hpp"
#include "tests/kernel_choices.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

bool no_gpu() {
  const std::string why = gpu_unavailable();
  if (!why.empty()) MESSAGE("skipped: " << why);
  return !why.empty();
}

/// The findings of the checks, for a test to compare.
struct Verdict {
  std::string reason;  // beyond the bound, or not to be trusted; empty when right
  std::int64_t unwritten = 0;
  bool guards_intact = false;
  std::int64_t compared = 0, different = 0;  // bits
};

BackendResult multiply(const Choice& choice, const SpmmKernel& kernel, const PackedMatrix& packed,
                       const DenseMatrix& b) {
  Point point;
  point.backend = "gpu";
  point.task = DenseProduct{
      {},
      b.cols,
      {},
      {choice.kernel, Registry<SpmmKernel>::instance().resolve(choice.kernel, choice.params)}};
  point.measure.warmup = 0;
  point.measure.min_samples = point.measure.max_samples = 1;
  BackendResult result = find_backend("gpu").backend->run(
      Multiplication{point, kernel, packed, b, Permutation::identity(packed.rows())});
  result.finish();
  return result;
}

Verdict run(const Choice& choice, const CsrMatrix& a, const DenseMatrix& b) {
  const auto kernel = Registry<SpmmKernel>::instance().make(choice.kernel, choice.params);
  const auto packed = Registry<Format>::instance().make(kernel->format(), choice.format)->pack(a);
  const Permutation rows = Permutation::identity(a.rows);
  const BackendResult result = multiply(choice, *kernel, *packed, b);

  Verdict verdict;
  verdict.unwritten = result.unwritten;
  verdict.guards_intact = result.guards_intact;
  const auto reason_of = [&](const DenseMatrix& c) {
    return check_result(a, b, c, {*kernel, *packed, rows, result.generation}).reason;
  };
  verdict.reason = result.fault;
  add_reason(reason_of(*result.c), verdict.reason);
  add_reason(later_product_fault(*result.c, *result.c_of_negated, reason_of), verdict.reason);
  if (choice.emulated) {
    const Json bits =
        compare_bits(*result.c, emulate_c(*kernel, *packed, b, find_generation(result.generation)));
    verdict.compared = bits["compared"];
    verdict.different = bits["different"];
  }
  return verdict;
}

/// A closed library takes what it takes, but for CSR, which it takes in any case.
bool may_refuse(const Choice& choice, std::int64_t n) {
  // A narrow product has few bytes of B to save: none of those kernels scales its sums.
  if (choice.kernel == "rows_spmm" && choice.params.contains("precision")) return n <= 16;
  return choice.kernel == "cusparse" && choice.params.contains("format") &&
         choice.params.at("format") != ParamValue(std::string("csr"));
}

void check(const Choice& choice, const CsrMatrix& a, const DenseMatrix& b) {
  if (b.cols > choice.most_cols) return;
  CAPTURE(choice.kernel);
  const std::string chosen = text_of(choice.params) + text_of(choice.format);
  CAPTURE(chosen);
  CAPTURE(a.rows);
  CAPTURE(a.cols);
  CAPTURE(b.cols);
  Verdict verdict;
  try {
    verdict = run(choice, a, b);
  } catch (const Unsupported& refused) {
    CAPTURE(refused.what());
    CHECK(may_refuse(choice, b.cols));
    return;
  }

  CHECK(verdict.reason == "");
  CHECK(verdict.unwritten == 0);
  CHECK(verdict.guards_intact);
  if (choice.emulated) CHECK(verdict.compared == a.rows * b.cols);
  CHECK(verdict.different == 0);
}

TEST_CASE("every kernel is right for awkward widths of B") {
  if (no_gpu()) return;
  const CsrMatrix a = random_sparse(203, 157, 0.07, 1);

  for (const std::int64_t n : {1,  2,  3,  4,  5,   7,   8,   9,   15,  17,  31, 32,
                               33, 36, 63, 65, 100, 127, 128, 130, 257, 512, 515}) {
    const DenseMatrix b = random_dense(a.cols, n, 100 + static_cast<std::uint64_t>(n));
    for (const Choice& choice : kernel_choices()) check(choice, a, b);
  }
}

TEST_CASE("rows_spmm is right for few columns of B, short rows, long ones and a hub") {
  if (no_gpu()) return;
  const std::vector<CsrMatrix> matrices{random_sparse(900, 700, 0.005, 51),
                                        random_sparse(300, 900, 0.05, 52),
                                        random_sparse(2, 9000, 0.9, 53)};
  for (const CsrMatrix& a : matrices)
    for (const std::int64_t n : {1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17, 20}) {
      const DenseMatrix b = random_dense(a.cols, n, 54);
      for (const std::int64_t piece : {0, 1, 16, 50})
        check({"rows_spmm", {{"piece", piece}}}, a, b);
    }
}

TEST_CASE("every kernel is right for awkward shapes of A") {
  if (no_gpu()) return;
  struct Shape {
    std::int32_t rows, cols;
    double density;
  };
  for (const Shape& shape :
       {Shape{1, 1, 1.0}, Shape{1, 5000, 0.5}, Shape{7, 3, 0.6}, Shape{8, 8, 1.0},
        Shape{9, 64, 0.5}, Shape{5000, 1, 0.3}, Shape{1000, 33, 0.001}, Shape{640, 700, 0.02}}) {
    const CsrMatrix a = random_sparse(shape.rows, shape.cols, shape.density, 7);
    for (const std::int64_t n : {3, 32, 100}) {
      const DenseMatrix b = random_dense(a.cols, n, 8);
      for (const Choice& choice : kernel_choices()) check(choice, a, b);
    }
  }
}

TEST_CASE("rows without nonzeros are written, and so is a matrix without any") {
  if (no_gpu()) return;
  const CsrMatrix sparse = random_sparse(300, 300, 0.001, 3);
  const CsrMatrix empty = random_sparse(40, 50, 0.0, 4);

  for (const CsrMatrix* a : {&sparse, &empty})
    for (const Choice& choice : kernel_choices())
      for (const std::int64_t n : {5, 17})
        if (a->nnz() > 0 || choice.emulated) check(choice, *a, random_dense(a->cols, n, 5));
}

TEST_CASE(
    "NaN, infinities and vanishing values go through the kernels as through their emulation") {
  if (no_gpu()) return;
  const CsrMatrix a = random_sparse(64, 60, 0.2, 21);
  DenseMatrix b = random_dense(60, 40, 22), narrow(60, 8);
  b.at(3, 2) = std::numeric_limits<float>::quiet_NaN();
  b.at(5, 4) = std::numeric_limits<float>::infinity();
  b.at(17, 4) = -std::numeric_limits<float>::infinity();
  for (std::int64_t k = 0; k < b.rows; ++k) b.at(k, 7) *= 0x1p-126f;
  for (std::int64_t k = 0; k < b.rows; ++k) b.at(k, 8) = std::copysign(0x1p-149f, b.at(k, 8));
  for (std::int64_t k = 0; k < b.rows; ++k)
    std::ranges::copy(b.row(k).subspan(1, 8), narrow.row(k).begin());

  for (const Choice& choice : kernel_choices()) {
    if (!choice.emulated) continue;
    CAPTURE(choice.kernel);
    const DenseMatrix& given = b.cols > choice.most_cols ? narrow : b;
    const Verdict verdict = run(choice, a, given);
    CHECK(verdict.unwritten == 0);
    CHECK(verdict.guards_intact);
    CHECK(verdict.compared == a.rows * given.cols);
    CHECK(verdict.different == 0);
  }
}

/// Multiples of 1/8, which every kernel multiplies and adds up without an error.
std::vector<float> in_eighths(std::span<const float> values) {
  std::vector<float> eighths;
  for (const float value : values) eighths.push_back(std::round(8 * value) / 8);
  return eighths;
}

/// C before, A B and the sum of the absolute products, for every element.
struct ScalingCase {
  CsrMatrix a;
  DenseMatrix b, c, product, magnitude;

  ScalingCase(std::int64_t n, std::uint64_t seed)
      : a(random_sparse(203, 157, 0.07, seed)),
        b(random_dense(a.cols, n, seed + 1)),
        c(random_dense(a.rows, n, seed + 2)),
        product(a.rows, n),
        magnitude(a.rows, n) {
    a.values = in_eighths({a.values.data(), a.values.size()});
    b.values = in_eighths(b.values);
    for (std::int32_t row = 0; row < a.rows; ++row) {
      for (std::int64_t k = a.row_offsets[row]; k < a.row_offsets[row + 1]; ++k) {
        for (std::int64_t col = 0; col < n; ++col) {
          const float term = a.values[k] * b.at(a.col_indices[k], col);
          product.at(row, col) += term;
          magnitude.at(row, col) += std::abs(term);
        }
      }
    }
  }
};

LaunchOutput run_scaled(const Choice& choice, const ScalingCase& given, Scaling scaling) {
  const auto host = Registry<SpmmKernel>::instance().make(choice.kernel, choice.params);
  const auto packed =
      Registry<Format>::instance().make(host->format(), choice.format)->pack(given.a);
  return launch_scaled(choice, *packed, given.b, given.c, scaling);
}

Storage storage_of(const Choice& choice) {
  return Registry<SpmmKernel>::instance().make(choice.kernel, choice.params)->arithmetic().storage;
}

/// A B as a kernel in INT8 has it, to which eighths are not exact; empty for other kernels.
std::optional<DenseMatrix> quantised_product(const Choice& choice, const ScalingCase& given) {
  const auto kernel = Registry<SpmmKernel>::instance().make(choice.kernel, choice.params);
  if (kernel->arithmetic().sum != Arithmetic::Sum::kInteger) return {};
  const auto packed =
      Registry<Format>::instance().make(kernel->format(), choice.format)->pack(given.a);
  return kernel->emulate(*packed, given.b, find_generation("hopper"));  // any: it sums integers
}

/// The largest error in units of 2^-24 of what was added up.
double worst_error(const DenseMatrix& found, const ScalingCase& given, Scaling scaling) {
  double worst = 0;
  for (std::size_t i = 0; i < found.values.size(); ++i) {
    const double old = scaling.beta == 0 ? 0 : double{scaling.beta} * given.c.values[i];
    const double expected = double{scaling.alpha} * given.product.values[i] + old;
    const double scale =
        std::abs(double{scaling.alpha}) * given.magnitude.values[i] + std::abs(old);
    const double error = std::abs(found.values[i] - expected);
    const double units = error == 0 ? 0 : error / (0x1p-24 * scale);
    worst = std::isnan(units) ? std::numeric_limits<double>::infinity() : std::max(worst, units);
  }
  return worst;
}

TEST_CASE("every kernel scales what it writes, and reads C only where beta asks for it") {
  if (no_gpu()) return;
  for (const std::int64_t n : {7, 17, 132}) {
    const ScalingCase given(n, 50 + static_cast<std::uint64_t>(n));
    for (const Scaling scaling : {Scaling{-1.7f, 0}, Scaling{-1.7f, 0.3f}, Scaling{1, 1}}) {
      for (const Choice& choice : kernel_choices()) {
        if (n > choice.most_cols) continue;
        CAPTURE(choice.kernel);
        const std::string chosen = text_of(choice.params) + text_of(choice.format);
        CAPTURE(chosen);
        CAPTURE(n);
        CAPTURE(scaling.beta);

        std::optional<LaunchOutput> ran;
        try {
          ran = run_scaled(choice, given, scaling);
        } catch (const Unsupported&) {
          CHECK(may_refuse(choice, n));
          continue;
        }
        const LaunchOutput& output = *ran;

        CHECK(output.guards_intact);
        CHECK(output.unwritten == 0);
        // Where sums are added to beta C one after another, they are rounded on the way.
        const bool exact = choice.emulated && choice.kernel != "shares_spmm";
        const DenseMatrix product = quantised_product(choice, given).value_or(given.product);
        const ElementType stored = storage_of(choice).c;
        if (exact)
          CHECK(compare_bits(output.c, emulate_scaling(scaling, product, given.c, stored))
                    .different == 0);
        // With C in 16 bits, three roundings count: of the old value, the new one and, in a library
        // that scales later, of the sum.
        const double of_storage = 3 * rounding_error(stored) / 0x1p-24;
        if (!exact) CHECK(worst_error(output.c, given, scaling) <= 64 + of_storage);
      }
    }
  }
}

TEST_CASE("work descriptions say how many registers the compiled kernels take") {
  if (no_gpu()) return;
  cudaDeviceProp device;
  REQUIRE(cudaGetDeviceProperties(&device, 0) == cudaSuccess);
  if (device.major != 9) {
    MESSAGE("skipped: they are those of compute capability 9.0");
    return;
  }
  const CsrMatrix a = random_sparse(30, 30, 0.2, 41);
  int launches = 0;
  for (const std::string& name : Registry<GpuSpmm>::instance().names()) {
    CAPTURE(name);
    const auto params = Registry<SpmmKernel>::instance().resolve(name, {});
    const auto kernel = Registry<SpmmKernel>::instance().make(name);
    const auto packed = Registry<Format>::instance().make(kernel->format())->pack(a);
    const auto gpu = Registry<GpuSpmm>::instance().make(name, params);
    const std::int64_t n = name == "dasp" ? 8 : 32;
    const std::vector<int> registers = gpu->upload(*packed, n)->registers();
    if (registers.empty()) continue;
    const WorkDescription work = kernel->work(*packed, n);
    REQUIRE(registers.size() == work.launches.size());
    for (std::size_t i = 0; i < registers.size(); ++i, ++launches) {
      CAPTURE(work.launches[i].name);
      CHECK((registers[i] + 7) / 8 * 8 == work.launches[i].registers_per_thread);
    }
  }
  CHECK(launches >= 4);
}

TEST_CASE("products of whole numbers in INT8 are exact") {
  if (no_gpu()) return;
  CsrMatrix a = random_sparse(203, 317, 0.08, 51);
  const auto whole = [](float uniform) {
    return std::nearbyint(uniform * 126) + (uniform < 0 ? -1.0f : 1.0f);
  };
  std::vector<float> values(a.values.begin(), a.values.end());
  for (float& value : values) value = whole(value);
  values[3] = 127;  // the scale is 1

  for (const std::int64_t n : {1, 31, 100, 128, 300}) {
    DenseMatrix b = random_dense(a.cols, n, 52);
    for (float& value : b.values) value = whole(value);
    b.values[5] = -127;
    a.values = std::vector<float>(values);
    for (const std::int64_t height : {2, 4, 8}) {
      const Choice choice = cube("int8", height);
      const auto kernel = Registry<SpmmKernel>::instance().make("magicube", choice.params);
      const auto packed =
          Registry<Format>::instance().make(kernel->format(), choice.format)->pack(a);
      const BackendResult result = multiply(choice, *kernel, *packed, b);
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < a.rows; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          std::int64_t sum = 0;
          for (std::int64_t k = a.row_offsets[i]; k < a.row_offsets[i + 1]; ++k)
            sum += static_cast<std::int64_t>(a.values[k]) *
                   static_cast<std::int64_t>(b.at(a.col_indices[k], j));
          wrong += result.c->at(i, j) != static_cast<float>(sum);
        }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("a grid of many thread blocks is as right as one") {
  if (no_gpu()) return;
  const CsrMatrix a = random_sparse(20000, 20000, 0.0005, 31);

  for (const std::int64_t n : {8, 32, 128})
    for (const Choice& choice : kernel_choices()) check(choice, a, random_dense(a.cols, n, 32));
}

}  // namespace
}  // namespace tessera
