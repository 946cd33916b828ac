// Packing: nonzeros per second, of every registered format. Per core with one thread
// ($TESSERA_THREADS=1).
#include "tests/bench/pack_bench.hpp"

#include <benchmark/benchmark.h>

#include "formats/base/registry.hpp"
#include "formats/format.hpp"
#include "formats/io/source.hpp"

namespace tessera {
namespace {

/// A mesh, whose tiles are well filled, and a graph, whose tiles are nearly empty.
const CsrMatrix& sample(bool mesh) {
  if (mesh) {
    static const CsrMatrix matrix = load_matrix("elasticity3d(nx=24)", false).matrix;
    return matrix;
  }
  static const CsrMatrix matrix = load_matrix("rmat(scale=16)", false).matrix;
  return matrix;
}

/// Padded to gigabytes, a format says nothing about packing, only about memory.
constexpr PackLimits kLimits{.bytes = std::int64_t{1} << 30};

void pack(benchmark::State& state, const std::string& format, bool mesh) try {
  const CsrMatrix& matrix = sample(mesh);
  const auto packer = Registry<Format>::instance().make(format);
  for (auto _ : state) benchmark::DoNotOptimize(packer->pack(matrix, kLimits));
  state.SetItemsProcessed(state.iterations() * matrix.nnz());
  state.counters["padding"] = stats(*packer->pack(matrix, kLimits)).padding_ratio;
} catch (const Unsupported& reason) {
  state.SkipWithError(reason.what());
}

}  // namespace

void register_pack_benchmarks() {
  for (const std::string& format : Registry<Format>::instance().names())
    for (const bool mesh : {true, false})
      benchmark::RegisterBenchmark(
          fmt::format("pack/{}/{}", format, mesh ? "mesh" : "graph").c_str(), pack, format, mesh)
          ->UseRealTime();
}

}  // namespace tessera
