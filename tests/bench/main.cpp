// Google Benchmark's main; the benchmarks of formats are registered here, once all formats are.
#include <benchmark/benchmark.h>

#include "tests/bench/pack_bench.hpp"

int main(int argc, char** argv) {
  tessera::register_pack_benchmarks();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
