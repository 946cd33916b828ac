// Packing: nonzeros per second, of every registered format. Per core with one thread
// ($TESSERA_THREADS=1). Beside condense(), which all condensed formats begin with, is the way of
// TC-GNN's sparse graph translation (Wang et al., ATC 2023): sort the columns of a row window, drop
// repeated ones, and look up the column of every nonzero.
#include "tests/bench/pack_bench.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "formats/condense.hpp"
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

constexpr int kHeight = 16;

void condense_by_marks(benchmark::State& state, bool mesh) {
  const CsrMatrix& matrix = sample(mesh);
  for (auto _ : state) benchmark::DoNotOptimize(condense(matrix, kHeight));
  state.SetItemsProcessed(state.iterations() * matrix.nnz());
}

/// The place of every nonzero's column in its row window. [nnz]
std::vector<std::int32_t> places_by_sorting(const CsrMatrix& matrix) {
  std::vector<std::int32_t> places(static_cast<std::size_t>(matrix.nnz()));
  const std::int64_t windows = (std::int64_t{matrix.rows} + kHeight - 1) / kHeight;
  parallel_for(windows, kWindowGrain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int32_t> cols;
    for (std::int64_t window = begin; window < end; ++window) {
      const std::int64_t last_row = std::min<std::int64_t>((window + 1) * kHeight, matrix.rows);
      const std::int64_t first = matrix.row_offsets[window * kHeight];
      const std::int64_t last = matrix.row_offsets[last_row];
      cols.assign(matrix.col_indices.begin() + first, matrix.col_indices.begin() + last);
      std::ranges::sort(cols);
      cols.erase(std::unique(cols.begin(), cols.end()), cols.end());
      for (std::int64_t k = first; k < last; ++k)
        places[k] = static_cast<std::int32_t>(
            std::ranges::lower_bound(cols, matrix.col_indices[k]) - cols.begin());
    }
  });
  return places;
}

void condense_by_sorting(benchmark::State& state, bool mesh) {
  const CsrMatrix& matrix = sample(mesh);
  if (places_by_sorting(matrix) != condense(matrix, kHeight).places)
    return state.SkipWithError("the places are others than those of condense()");
  for (auto _ : state) benchmark::DoNotOptimize(places_by_sorting(matrix));
  state.SetItemsProcessed(state.iterations() * matrix.nnz());
}

}  // namespace

void register_pack_benchmarks() {
  for (const bool mesh : {true, false}) {
    const char* const name = mesh ? "mesh" : "graph";
    benchmark::RegisterBenchmark(fmt::format("condense/marks/{}", name).c_str(), condense_by_marks,
                                 mesh)
        ->UseRealTime();
    benchmark::RegisterBenchmark(fmt::format("condense/sorting/{}", name).c_str(),
                                 condense_by_sorting, mesh)
        ->UseRealTime();
  }
  for (const std::string& format : Registry<Format>::instance().names())
    for (const bool mesh : {true, false})
      benchmark::RegisterBenchmark(
          fmt::format("pack/{}/{}", format, mesh ? "mesh" : "graph").c_str(), pack, format, mesh)
          ->UseRealTime();
}

}  // namespace tessera
