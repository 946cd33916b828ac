// What a checked point costs on the CPU: packing, emulating a kernel bit by bit, the fp64 oracle.

#include <benchmark/benchmark.h>

#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/source.hpp"
#include "kernels/spmm_kernel.hpp"
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

void pack(benchmark::State& state, const char* format) {
  const auto packer = Registry<Format>::instance().make(format);
  for (auto _ : state) benchmark::DoNotOptimize(packer->pack(sample()));
  state.SetItemsProcessed(state.iterations() * sample().nnz());
}
BENCHMARK_CAPTURE(pack, bit_tcf, "bit_tcf")->UseRealTime();

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

void check_against_fp64(benchmark::State& state) {
  const CsrMatrix& a = sample();
  const DenseMatrix b = random_dense(a.cols, kCols, 1);
  const DenseMatrix c(a.rows, kCols);
  const auto rows = static_cast<std::size_t>(a.rows);
  const ErrorBound bound{std::vector<double>(rows, 1), std::vector<double>(rows, 1)};
  for (auto _ : state) benchmark::DoNotOptimize(compare_spmm(a, b, c, bound));
  state.counters["products/s"] =
      benchmark::Counter(multiplications(state), benchmark::Counter::kIsRate);
}
BENCHMARK(check_against_fp64)->UseRealTime();

}  // namespace
}  // namespace tessera
