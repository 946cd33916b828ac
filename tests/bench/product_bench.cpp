// The time of a checked point on the CPU: emulating a kernel bit by bit, and the fp64 oracle.

#include <benchmark/benchmark.h>

#include <algorithm>

#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/source.hpp"
#include "kernels/spmm_kernel.hpp"
#include "oracle/spgemm_oracle.hpp"
#include "oracle/spmm_oracle.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kCols = 64;  // of B

const CsrMatrix& sample() {
  static const CsrMatrix matrix = load_matrix("poisson3d(nx=40, ny=40, nz=40)", false).matrix;
  return matrix;
}

double multiplications(const benchmark::State& state) {
  return static_cast<double>(state.iterations()) * static_cast<double>(sample().nnz() * kCols);
}

void emulate(benchmark::State& state, const char* name) {
  const auto kernel = Registry<SpmmKernel>::instance().make(name);
  const auto packed = Registry<Format>::instance().make(kernel->format())->pack(sample());
  const DenseMatrix b = random_dense(sample().cols, kCols, 1);
  for (auto _ : state)
    benchmark::DoNotOptimize(kernel->emulate(*packed, b, find_generation("hopper")));
  state.counters["products/s"] =
      benchmark::Counter(multiplications(state), benchmark::Counter::kIsRate);
}
BENCHMARK_CAPTURE(emulate, csr_spmm, "csr_spmm")->UseRealTime();
BENCHMARK_CAPTURE(emulate, acc_spmm, "acc_spmm")->UseRealTime();

/// Two floating-point operations a product, per second of CPU time.
void count_flops(benchmark::State& state, double products) {
  state.counters["flop/s"] = benchmark::Counter(
      2 * products * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

/// The whole check: truth, all measures and the bound of every element. Per core: use one thread
/// ($TESSERA_THREADS) and its time on the CPU.
void check_against_fp64(benchmark::State& state, const char* matrix, bool against_fp32) {
  const CsrMatrix a = load_matrix(matrix, false).matrix;
  const DenseMatrix b = random_dense(a.cols, kCols, 1);
  const DenseMatrix c = spmm_fp32(a, b);
  const auto rows = static_cast<std::size_t>(a.rows);
  const ErrorBound bound{std::vector<double>(rows, 1), std::vector<double>(rows, 1)};
  for (auto _ : state) benchmark::DoNotOptimize(compare_spmm(a, b, c, bound, against_fp32));
  count_flops(state, static_cast<double>(a.nnz() * kCols));
}
constexpr const char* kShortRows = "poisson3d(nx=40, ny=40, nz=40)";  // 7 nonzeros in a row
constexpr const char* kLongRows = "uniform(rows=20000, cols=20000, per_row=60)";
BENCHMARK_CAPTURE(check_against_fp64, short_rows, kShortRows, false);
BENCHMARK_CAPTURE(check_against_fp64, long_rows, kLongRows, false);
BENCHMARK_CAPTURE(check_against_fp64, long_rows_and_fp32, kLongRows, true);

void truth_in_fp64(benchmark::State& state, const char* matrix) {
  const CsrMatrix a = load_matrix(matrix, false).matrix;
  const DenseMatrix b = random_dense(a.cols, kCols, 1);
  for (auto _ : state)
    for (std::int64_t i = 0; i < a.rows; i += 16)
      benchmark::DoNotOptimize(spmm_fp64(a, b, i, std::min<std::int64_t>(i + 16, a.rows)));
  count_flops(state, static_cast<double>(a.nnz() * kCols));
}
BENCHMARK_CAPTURE(truth_in_fp64, short_rows, kShortRows);
BENCHMARK_CAPTURE(truth_in_fp64, long_rows, kLongRows);

double products_of_square(const CsrMatrix& a) {
  double products = 0;
  for (const std::int32_t k : a.col_indices) products += static_cast<double>(a.row_length(k));
  return products;
}

/// A A alone, put into compressed sparse rows.
void sparse_truth_in_fp64(benchmark::State& state, const char* matrix) {
  const CsrMatrix a = load_matrix(matrix, false).matrix;
  for (auto _ : state) benchmark::DoNotOptimize(spgemm_fp64(a, a));
  count_flops(state, products_of_square(a));
}
constexpr const char* kDenseTiles = "elasticity3d(nx=14, ny=14, nz=14)";
BENCHMARK_CAPTURE(sparse_truth_in_fp64, short_rows, kShortRows);
BENCHMARK_CAPTURE(sparse_truth_in_fp64, long_rows, kLongRows);
BENCHMARK_CAPTURE(sparse_truth_in_fp64, dense_tiles, kDenseTiles);

void check_sparse_against_fp64(benchmark::State& state, const char* matrix) {
  const CsrMatrix a = load_matrix(matrix, false).matrix;
  const CsrMatrix c = spgemm_fp32(a, a);
  const auto rows = static_cast<std::size_t>(a.rows);
  const ErrorBound bound{std::vector<double>(rows, 1), std::vector<double>(rows, 1)};
  for (auto _ : state) benchmark::DoNotOptimize(compare_spgemm(a, a, c, bound));
  count_flops(state, products_of_square(a));
}
BENCHMARK_CAPTURE(check_sparse_against_fp64, short_rows, kShortRows);
BENCHMARK_CAPTURE(check_sparse_against_fp64, long_rows, kLongRows);
BENCHMARK_CAPTURE(check_sparse_against_fp64, dense_tiles, kDenseTiles);

}  // namespace
}  // namespace tessera
